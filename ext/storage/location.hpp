//===----------------------------------------------------------------------===//
// storage/location.hpp: openduck://NAME?..., a database in a store, or one of its files
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/common/file_opener.hpp"

namespace openduck {
using namespace duckdb; // NOLINT: every name here is DuckDB's or ours

//! openduck://NAME[/FILE][?data_dir=DIR][&snapshot=ID | &state=sealed | &state=synced][&lease_ms=N][&secret=NAME][&blob_url=URL][&metadata=sqlite]. Values are percent-encoded.
//! DuckDB makes the names of a database's other files from the path that CanonicalizePath gave it, by a suffix before the '?': that path
//! has the file's name and the directory, so that all files of one ATTACH are looked for in one place.
struct StorageLocation {
	static constexpr const char *SCHEME = "openduck://";
	static constexpr const char *MAIN_FILE = "database.duckdb";

	string database;
	string file = MAIN_FILE;
	//! Empty until it is resolved, then absolute.
	string data_dir;
	string snapshot;
	//! "sqlite", in the directory, or "postgres-N": a number, since a path is shown and a URL may hold a password. Empty until it is
	//! resolved.
	string metadata;
	//! Where copies of layers are: what the path says until it is resolved, then the number of a FarPlace, 0 for none.
	string blob_url;
	idx_t far = 0;
	//! A name of a secret, until it is resolved.
	string secret;
	//! For readers: "sealed" is the newest snapshot; "synced" is the last synced state, as it is without any, but of another path than
	//! the writer's, so that DuckDB attaches both in one process.
	string state;
	//! 0: the library's default.
	uint32_t lease_ms = 0;

	static bool IsOne(const string &path);
	//! BinderException if it is none, or has a part that is not known.
	static StorageLocation Parse(const string &path);
	//! Parse, and what the path leaves open is taken from a secret, the environment, or the home directory, in this order.
	static StorageLocation Resolve(const string &path, optional_ptr<FileOpener> opener);
	static StorageLocation Resolve(StorageLocation location, optional_ptr<FileOpener> opener);

	bool IsMain() const {
		return file == MAIN_FILE;
	}
	//! True for the database file and its logs, which are all that lives in a volume.
	bool MayBeMade() const;
	bool IsReadOnly() const {
		return !state.empty() || !snapshot.empty();
	}
	//! For DuckDB: Parse of it gives the same location, in this process.
	string Path() const;
	//! The same for all files of a database.
	string VolumePath() const;
	//! The URL of a PostgreSQL; empty: SQLite.
	string PostgresUrl() const;
	//! For messages.
	string Name() const;
};

} // namespace openduck

//===----------------------------------------------------------------------===//
// openduck/objects.hpp: what a remote database holds besides tables, views and types
//===----------------------------------------------------------------------===//
#pragma once

#include "openduck/snapshot.hpp"

namespace openduck {

//! Sequences, macros and indexes, as the server lists them at one moment: they are shown and copied, but never found by a
//! name, as only the server can use them. A sequence changes without a new version of the catalog, so a list serves one
//! statement. Thread: any.
class CatalogObjects {
public:
	//! One request, run in TXN; null: by itself. What belongs to no schema of SNAPSHOT, which must live as long, is left out.
	//! Throws the server's error.
	static unique_ptr<CatalogObjects> Load(ClientContext &context, const od_remote_txn *txn, CatalogSnapshot &snapshot);

	//! Those of TYPE in SCHEMA, in the order in which they were made.
	void Scan(const string &schema, CatalogType type, const std::function<void(CatalogEntry &)> &callback);
	//! The names of the types in SCHEMA.
	vector<string> TypeNames(const string &schema);

private:
	vector<unique_ptr<CatalogEntry>> entries;
	case_insensitive_map_t<vector<string>> types;
};

} // namespace openduck

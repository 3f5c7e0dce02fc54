//===----------------------------------------------------------------------===//
// storage/far_place.hpp: where copies of a store's layers are
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"

#include "openduck/storage.h"

namespace openduck {
using namespace duckdb; // NOLINT: every name here is DuckDB's or ours

//! A bucket or a directory, and how it is reached; what is empty is the library's default.
struct FarPlace {
	//! "s3://BUCKET/PREFIX", or a directory; empty: there are no copies.
	string url;
	//! Layers are sent after each seal.
	bool tier = false;
	uint64_t keep_bytes = 0;
	string endpoint;
	string region;
	string key_id;
	string secret;
	string session_token;
	bool virtual_host = false;

	bool operator==(const FarPlace &other) const;
	//! Takes what is not given from OPENDUCK_BLOB_URL and, if no key is given, the variables of AWS.
	void AddEnvironment();
	//! OPTIONS borrow the texts.
	void Fill(od_storage_options &options) const;
	//! A number that stands for it in paths of this process, which are shown, and so may hold no secret. 0 is none.
	idx_t Number() const;
	//! False: no place has that number.
	static bool Find(idx_t number, FarPlace &result);
};

} // namespace openduck

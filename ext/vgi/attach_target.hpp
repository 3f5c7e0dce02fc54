//===----------------------------------------------------------------------===//
// vgi/attach_target.hpp: what an ATTACH of a VGI catalog says
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/main/attached_database.hpp"

namespace vgi {
using namespace duckdb; // NOLINT: every name here is DuckDB's or ours

//! The catalog's name at its worker, where the worker is, and what the user lets it do. Of 'NAME?location=...&option=value' an
//! explicit option of the statement wins over the one in the path.
struct AttachTarget {
	AttachTarget(const string &path, const AttachOptions &options);

	//! Empty: to be asked for.
	string name;
	string location;
	string bearer_token;
	bool attach_companions = true;
	bool attach_companion_secrets = false;
	bool companions_read_only = false;
	bool worker_secrets = false;
	bool secrets = true;
	string data_version_spec;
	string implementation_version;
	//! Those that the worker has to know.
	unordered_map<string, Value> others;

private:
	void Read(const string &key, const Value &value);
	void ReadQuery(const string &query, case_insensitive_map_t<Value> &values);
};

} // namespace vgi

//===----------------------------------------------------------------------===//
// openduck/remote_type.hpp: types as the server writes them
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"

namespace openduck {
using namespace duckdb; // NOLINT: every name here is DuckDB's or ours

//! The type that TEXT means at a server: only built-in types and those of extensions are known, never a user's type that
//! has the same name here. Throws if it is not known.
LogicalType ParseRemoteType(ClientContext &context, const string &text);
//! As above, of a type that the parser has read.
LogicalType BindRemoteType(ClientContext &context, const LogicalType &parsed);

//! ParseRemoteType with a memory, for the many columns of a catalog. One thread at a time.
class RemoteTypes {
public:
	explicit RemoteTypes(ClientContext &context) : context(context) {
	}

	ClientContext &context;

	LogicalType Parse(const string &text);

private:
	unordered_map<string, LogicalType> known;
};

} // namespace openduck

//===----------------------------------------------------------------------===//
// openduck/parameters.hpp: rows that a remote statement brings along, as values of its parameters
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"

extern "C" {
#include "base/buf.h"
}

namespace openduck {
using namespace duckdb; // NOLINT: every name here is DuckDB's or ours

//! The values of parameters "1", "2", ..., each a NATIVE payload that the statement reads with openduck_rows($1).
class RowParameters {
public:
	//! All together; a request may take 64 MiB.
	static constexpr idx_t MAX_BYTES = idx_t(48) << 20;

	RowParameters() = default;
	~RowParameters();
	RowParameters(const RowParameters &) = delete;

	//! Takes PAYLOAD as the value of the next parameter. False: it would be too much.
	bool Add(od_msg *payload);
	idx_t Count() const {
		return values.size();
	}
	//! What takes the place of a table in SQL.
	static string FromItem(idx_t parameter) {
		return "openduck_rows($" + to_string(parameter) + ")";
	}
	//! After the last Add. See od_remote_query.parameters; valid as long as this is.
	od_slice Slice();

private:
	vector<Value> values;
	idx_t bytes = 0;
	od_msg *message = nullptr;
};

} // namespace openduck

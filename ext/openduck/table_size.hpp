//===----------------------------------------------------------------------===//
// openduck/table_size.hpp: how many rows the tables of a plan have, once something has been written
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/common/case_insensitive_map.hpp"
#include "duckdb/planner/logical_operator.hpp"

namespace openduck {
using namespace duckdb; // NOLINT: every name here is DuckDB's or ours

//! Sizes that were asked for after a write, by the table's name at the server. Thread: any.
class TableSizes {
public:
	//! The size of RELATION, asked for after the WRITES-th write or later.
	optional_idx Find(const string &relation, idx_t writes);
	void Put(const string &relation, idx_t writes, idx_t rows);

private:
	struct Size {
		idx_t writes;
		idx_t rows;
	};
	mutex lock; // guards sizes
	unordered_map<string, Size> sizes;
};

//! A catalog's sizes are as old as its snapshot, and a write does not make a new one. Which side of a join is kept in memory, or
//! which algorithm joins, hangs on them: where a plan joins, those that are old are asked for, in one question to each server.
void RefreshTableSizes(ClientContext &context, LogicalOperator &plan);

} // namespace openduck

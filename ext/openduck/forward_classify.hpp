//===----------------------------------------------------------------------===//
// openduck/forward_classify.hpp: may a bound statement be the server's?
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/planner/bound_statement.hpp"
#include "duckdb/planner/logical_operator.hpp"
#include "duckdb/planner/planner.hpp"

namespace openduck {
using namespace duckdb; // NOLINT: every name here is DuckDB's or ours

//! The write in PLAN, below what only shows or returns it: an INSERT, UPDATE, DELETE, MERGE, or a change of a catalog. Null if
//! there is none.
optional_ptr<LogicalOperator> WriteOf(LogicalOperator &plan);

//! True if WRITE changes a remote database, and nothing in its plan needs this side: all it reads is remote or made up of
//! constants, and its expressions mean the same there. What the names in its text mean is another question.
bool MayForward(ClientContext &context, const StatementProperties &properties, LogicalOperator &write);

//! True if the expressions in PLAN mean the same at the server as they do in this session.
bool MeansTheSame(ClientContext &context, LogicalOperator &plan);

} // namespace openduck

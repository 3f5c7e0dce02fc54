//===----------------------------------------------------------------------===//
// openduck/server_value.hpp: expressions of the catalog that only the server can evaluate
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/execution/physical_operator.hpp"
#include "duckdb/parser/parsed_expression.hpp"

namespace openduck {
using namespace duckdb; // NOLINT

//! EXPRESSION as it is shown; bound here, where its functions and sequences may not be known, it is a call of a function
//! that fails when it is run. What writes looks for it and leaves the value to the server.
unique_ptr<ParsedExpression> ServerValue(const ParsedExpression &expression);
//! True if EXPRESSION is the same wherever it is evaluated: a constant.
bool IsSameEverywhere(const ParsedExpression &expression);

//! True if all rows of column COLUMN of PLAN are the server's value; the plan then gives NULL instead. Throws a
//! NotImplementedException if only some are.
bool TakeServerValue(PhysicalOperator &plan, idx_t column);

void RegisterServerValue(ExtensionLoader &loader);

} // namespace openduck

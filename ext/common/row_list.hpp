//===----------------------------------------------------------------------===//
// common/row_list.hpp: a table function that gives a few rows
//===----------------------------------------------------------------------===//
#pragma once

#include "common/throw.hpp"

#include "duckdb/function/table_function.hpp"

namespace openduck {

using row_list_t = std::function<vector<vector<Value>>(ClientContext &context)>;

//! NAME(), with the columns NAMES of TYPES. LIST makes the rows whenever it is run.
TableFunction RowListFunction(const string &name, vector<string> names, vector<LogicalType> types, row_list_t list);

} // namespace openduck

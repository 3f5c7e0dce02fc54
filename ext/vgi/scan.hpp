//===----------------------------------------------------------------------===//
// vgi/scan.hpp: rows of a worker's table function
//===----------------------------------------------------------------------===//
#pragma once

#include "vgi/bound.hpp"
#include "vgi/estimates.hpp"

#include "duckdb/planner/operator/logical_get.hpp"

namespace vgi {

//! Binds CALL's table function at the worker. ROWS: how many it will give, if that is known.
unique_ptr<LogicalGet> BindWorkerScan(ClientContext &context, const FunctionCall &call, idx_t table_index,
                                      optional_idx rows);

//! The same for SQL that calls a function; its info is a WorkerTableInfo.
TableFunction DirectScanFunction(const string &name, vector<LogicalType> parameters);

//! If GET scans a worker's function: what the worker says of the columns' values is of use.
void WantEstimates(LogicalGet &get);
//! Of GET, which scans a worker's function: SOURCE says it. NAMES: what each of the columns is called there; "": it is not there.
void ReplaceEstimates(LogicalGet &get, std::function<NamedEstimates(ClientContext &)> source, vector<string> names);

//! If GET scans a worker's function: it is told that nobody reads more than ROWS rows.
void SendLimit(LogicalGet &get, idx_t rows);

} // namespace vgi

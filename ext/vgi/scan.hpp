//===----------------------------------------------------------------------===//
// vgi/scan.hpp: rows of a worker's table function
//===----------------------------------------------------------------------===//
#pragma once

#include "vgi/table.hpp"

#include "duckdb/planner/operator/logical_get.hpp"

namespace vgi {

//! Binds FUNCTION with ARGUMENTS, which are taken out, at the worker. ROWS: how many it will give, if that is known.
unique_ptr<LogicalGet> BindWorkerScan(ClientContext &context, VgiCatalog &catalog, const od_vgi_function &function,
                                      const string &schema, od_vgi_values &arguments, idx_t table_index,
                                      optional_idx rows);

//! If GET scans a worker's function: it is told that nobody reads more than ROWS rows.
void SendLimit(LogicalGet &get, idx_t rows);

} // namespace vgi

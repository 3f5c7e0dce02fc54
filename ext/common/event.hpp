//===----------------------------------------------------------------------===//
// common/event.hpp: what happens, in DuckDB's log
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"

namespace openduck {
using namespace duckdb; // NOLINT: every name here is DuckDB's or ours

//! The log's type of all events: CALL enable_logging('VGI'). Nothing if another extension has registered it.
void RegisterEvents(DatabaseInstance &db);

//! Writes EVENT, which holds no secret, to DuckDB's log, and to stderr if the environment's VGI_STDERR_LOG is 1. CONTEXT
//! null: there is no statement that it belongs to.
void LogEvent(DatabaseInstance &db, optional_ptr<ClientContext> context, const string &event,
              const vector<std::pair<string, string>> &fields);

} // namespace openduck

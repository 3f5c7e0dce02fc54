//===----------------------------------------------------------------------===//
// openduck/status.hpp: openduck_status, openduck_workers, openduck_queries
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"

namespace openduck {

//! Of one attached database, or of all of them: what their servers say of themselves.
void RegisterStatusFunctions(duckdb::ExtensionLoader &loader);

} // namespace openduck

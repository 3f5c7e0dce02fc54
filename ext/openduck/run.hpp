//===----------------------------------------------------------------------===//
// openduck/run.hpp: openduck_run(where, query), a query that runs here or at an attached database's server
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/main/extension/extension_loader.hpp"

namespace openduck {

void RegisterRun(duckdb::ExtensionLoader &loader);

} // namespace openduck

//===----------------------------------------------------------------------===//
// storage/register.hpp: openduck:// for a DuckDB instance: its file system, its secrets, its functions
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/main/extension/extension_loader.hpp"

namespace openduck {

void RegisterStorage(duckdb::ExtensionLoader &loader);

} // namespace openduck

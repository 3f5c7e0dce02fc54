//===----------------------------------------------------------------------===//
// storage/functions.hpp: openduck_seal, openduck_snapshots and the like
//===----------------------------------------------------------------------===//
#pragma once

#include "storage/file_system.hpp"

#include "duckdb/main/extension/extension_loader.hpp"

namespace openduck {

void RegisterStorageFunctions(ExtensionLoader &loader, shared_ptr<StorageState> state);

} // namespace openduck

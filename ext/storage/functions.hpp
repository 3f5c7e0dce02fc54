//===----------------------------------------------------------------------===//
// storage/functions.hpp: openduck_seal, openduck_snapshots and the like
//===----------------------------------------------------------------------===//
#pragma once

#include "storage/file_system.hpp"

#include "duckdb/main/extension/extension_loader.hpp"

namespace openduck {

//! openduck_seal, of an attached database.
void RegisterSeal(ExtensionLoader &loader, shared_ptr<StorageState> state);
//! Those that take a store, and reach what SQL names.
void RegisterStoreFunctions(ExtensionLoader &loader, shared_ptr<StorageState> state);

} // namespace openduck

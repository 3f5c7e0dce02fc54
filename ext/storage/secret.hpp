//===----------------------------------------------------------------------===//
// storage/secret.hpp: secrets of type openduck_storage
//===----------------------------------------------------------------------===//
#pragma once

#include "storage/location.hpp"

#include "duckdb/main/extension/extension_loader.hpp"

namespace openduck {

void RegisterStorageSecret(ExtensionLoader &loader);
//! The directory that the secret of LOCATION gives: of the one it names, or of the one whose scope fits best. Empty: there is none.
string DataDirOfSecret(const StorageLocation &location, optional_ptr<FileOpener> opener);

} // namespace openduck

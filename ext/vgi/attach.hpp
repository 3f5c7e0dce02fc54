//===----------------------------------------------------------------------===//
// vgi/attach.hpp: ATTACH ... (TYPE vgi)
//===----------------------------------------------------------------------===//
#pragma once

#include "vgi/storage_info.hpp"

namespace vgi {

//! Registers the storage extension.
void RegisterAttach(DatabaseInstance &db, shared_ptr<VgiStorageInfo> info);

} // namespace vgi

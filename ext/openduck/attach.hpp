//===----------------------------------------------------------------------===//
// openduck/attach.hpp: ATTACH 'openduck:...', and where endpoint and token come from
//===----------------------------------------------------------------------===//
#pragma once

#include "openduck/catalog.hpp"

namespace openduck {

//! Registers the storage extension as "openduck" and "od".
void RegisterAttach(DatabaseInstance &db, shared_ptr<OpenDuckStorageInfo> info);

} // namespace openduck

//===----------------------------------------------------------------------===//
// openduck/refresh.hpp: statements are bound against what is cached, and bound again if that was out of date
//===----------------------------------------------------------------------===//
#pragma once

#include "openduck/catalog.hpp"

namespace openduck {

//! Gives every connection of the instance, open or yet to be opened, the state that watches over its statements.
void RegisterRefresh(DatabaseInstance &db, shared_ptr<OpenDuckStorageInfo> info);

} // namespace openduck

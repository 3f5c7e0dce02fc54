//===----------------------------------------------------------------------===//
// openduck/refresh.hpp: statements are bound against what is cached, and bound again if that was out of date
//===----------------------------------------------------------------------===//
#pragma once

#include "openduck/catalog.hpp"

namespace openduck {

//! Gives every connection of the instance, open or yet to be opened, the state that watches over its statements.
void RegisterRefresh(DatabaseInstance &db, shared_ptr<OpenDuckStorageInfo> info);

//! Whether the statement that CONTEXT runs lists what all databases hold (duckdb_tables() and the like): it must fail where
//! one of them cannot tell. False while it is still being bound.
bool ListsDatabases(ClientContext &context);

} // namespace openduck

//===----------------------------------------------------------------------===//
// openduck/default_database.hpp: SET openduck_default_database = 'cloud': where new connections begin
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/main/extension/extension_loader.hpp"

namespace openduck {
using namespace duckdb; // NOLINT: every name here is DuckDB's or ours

//! USE is a connection's own, and a cursor or a pool opens further ones: this setting is USE for those.
void RegisterDefaultDatabase(ExtensionLoader &loader);

//! What the setting asks for, done to a connection that has just been opened. Takes no lock of the instance and asks no server.
void BeginInDefaultDatabase(ClientContext &context);

} // namespace openduck

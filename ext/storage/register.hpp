//===----------------------------------------------------------------------===//
// storage/register.hpp: openduck:// for a DuckDB instance: its file system, its secrets, its functions
//===----------------------------------------------------------------------===//
#pragma once

#include "storage/volume.hpp"

#include "duckdb/main/extension/extension_loader.hpp"

namespace openduck {

void RegisterStorage(duckdb::ExtensionLoader &loader);
//! For an instance whose SQL comes from others: ATTACH, and openduck_seal of what is attached, but nothing that takes a store's place.
void RegisterServedStorage(duckdb::DatabaseInstance &db, const StorageObserver &observer);
//! After RegisterServedStorage: the path that ATTACHes the snapshot ID, a UUID in lower case, of the attached database NAME. Empty if it has
//! none of that id; another database of the store may.
duckdb::string PathOfServedSnapshot(duckdb::ClientContext &context, const duckdb::string &name,
                                    const duckdb::string &id);

} // namespace openduck

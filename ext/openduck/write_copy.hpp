//===----------------------------------------------------------------------===//
// openduck/write_copy.hpp: COPY FROM DATABASE ... TO an attached remote database: its definitions
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"

namespace openduck {
using namespace duckdb; // NOLINT

//! Makes DuckDB tell what it has bound. What DuckDB does to copy definitions works on its own tables only.
void RegisterCopyDatabase(DatabaseInstance &db);

} // namespace openduck

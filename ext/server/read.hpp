// server/read.hpp: what DuckDB's parser says of a statement.
#pragma once

#include <cstddef>

namespace openduck {

//! As od_engine_host.read_statement
bool ReadStatement(const char *sql, size_t len,
                   void (*table)(void *arg, const char *catalog, const char *schema, const char *name), void *arg,
                   bool *only_reads);

} // namespace openduck

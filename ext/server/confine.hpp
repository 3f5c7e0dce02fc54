// server/confine.hpp: DuckDB's extensions for SQLite, PostgreSQL and MySQL reach files and hosts by themselves, whatever
// enable_external_access says. A lake needs them; SQL of clients is kept from them.
#pragma once

#include "duckdb.hpp"

namespace openduck {

//! Nothing can be attached through these extensions any more, and contexts that are marked cannot use their functions.
void Confine(duckdb::ClientContext &context);
void MarkConfined(duckdb::ClientContext &context);

} // namespace openduck

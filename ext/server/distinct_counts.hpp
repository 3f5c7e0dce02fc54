// server/distinct_counts.hpp: how many values the columns of a database have, as the table function openduck_distinct_counts.
#pragma once

#include "duckdb.hpp"

namespace openduck {

//! openduck_distinct_counts() lists the columns of the current database's tables, openduck_distinct_counts(SCHEMA, TABLE) those of one
//! table, of which DuckDB keeps an estimate. Nothing is read for it.
void InstallDistinctCounts(duckdb::ClientContext &context);

} // namespace openduck

// server/column_statistics.hpp: what DuckDB keeps of the values of a database's columns, as the table function openduck_column_statistics.
#pragma once

#include "duckdb.hpp"

namespace openduck {

//! openduck_column_statistics() lists the columns of the current database's tables, openduck_distinct_counts(SCHEMA, TABLE) those of one
//! table, of which DuckDB keeps something: about how many values they have, and between which they lie. Nothing is read for it.
void InstallColumnStatistics(duckdb::ClientContext &context);

} // namespace openduck

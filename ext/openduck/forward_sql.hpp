//===----------------------------------------------------------------------===//
// openduck/forward_sql.hpp: a parsed statement as text
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/parser/sql_statement.hpp"
#include "duckdb/parser/statement/insert_statement.hpp"

namespace openduck {
using namespace duckdb; // NOLINT: every name here is DuckDB's or ours

//! A text that parses to STATEMENT again. DuckDB's own ToString, but for the statements of which it loses a part.
string StatementToSql(const SQLStatement &statement);
//! " ON CONFLICT ..." of an INSERT; INFO is not an OR REPLACE.
string OnConflictToSql(const OnConflictInfo &info);

} // namespace openduck

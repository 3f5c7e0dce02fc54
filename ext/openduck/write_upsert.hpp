//===----------------------------------------------------------------------===//
// openduck/write_upsert.hpp: INSERT ... ON CONFLICT whose rows are computed here
//===----------------------------------------------------------------------===//
#pragma once

#include "openduck/forward_parameters.hpp"

#include "duckdb/parser/statement/insert_statement.hpp"
#include "duckdb/planner/binder.hpp"
#include "duckdb/planner/operator/logical_insert.hpp"

namespace openduck {

//! What the server does with rows that are there already, in its words.
struct ConflictClause {
	//! INSERT OR REPLACE
	bool replace = false;
	//! What the statement calls the table; empty: by its name.
	string alias;
	//! " ON CONFLICT ..."; empty with REPLACE.
	string sql;
	//! The parameters in SQL.
	forward_parameters_t parameters;
};

//! An INSERT, and what becomes of rows that are there already.
class LogicalUpsert : public LogicalInsert {
public:
	//! Takes all of INSERT.
	LogicalUpsert(LogicalInsert &insert, ConflictClause conflict);

	ConflictClause conflict;

	bool SupportSerialization() const override {
		return false;
	}
};

//! True if WRITE may be what DuckDB makes of an INSERT ... ON CONFLICT into a remote table: a MERGE, which reads all of it.
bool LooksLikeUpsert(const LogicalOperator &write);

//! A plan that does what MERGE, DuckDB's plan of STATEMENT below what shows it, does, without reading the table. Null if
//! only this side can tell what becomes of rows that are there. Notes in BINDER what it needs.
unique_ptr<LogicalOperator> PlanUpsert(ClientContext &context, Binder &binder, const InsertStatement &statement,
                                       LogicalOperator &merge);

} // namespace openduck

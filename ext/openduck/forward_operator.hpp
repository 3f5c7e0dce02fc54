//===----------------------------------------------------------------------===//
// openduck/forward_operator.hpp: a statement that the server runs as a whole, as a part of a plan
//===----------------------------------------------------------------------===//
#pragma once

#include "openduck/catalog.hpp"
#include "openduck/forward_parameters.hpp"

#include "duckdb/parser/sql_statement.hpp"
#include "duckdb/planner/operator/logical_extension_operator.hpp"

namespace openduck {

class OpenDuckTransaction;

//! What is sent, and what comes back.
struct ForwardedStatement {
	//! As the user wrote it, to write it anew should the catalog have changed;
	unique_ptr<SQLStatement> original;
	//! and the text that is sent, with the server's names.
	string sql;
	//! The attached catalog's name, and its database.
	string catalog;
	shared_ptr<Remote> remote;
	//! The version of the catalog that SQL is written for; 0: any.
	uint64_t catalog_version = 0;
	vector<string> names;
	vector<LogicalType> types;
	StatementReturnType return_type = StatementReturnType::QUERY_RESULT;
	bool writes = false;
	bool changes_catalog = false;
	//! SQL holds values of one moment of this session.
	bool for_one_execution = false;
	//! The parameters; DuckDB fills in their values before each execution.
	forward_parameters_t parameters;
	//! What DuckDB said here before the server was asked; none if it understood the statement.
	ErrorData local_error;

	//! False if a parameter's type is not known yet: the statement is planned again when its value is.
	bool HasAllValues() const;
	//! Asks the server which columns come back, and notes the version that told. Throws the server's error.
	void Describe(ClientContext &context, OpenDuckTransaction &transaction);
};

//! The plan of FORWARDED, a source of its rows.
unique_ptr<LogicalOperator> PlanForwarded(shared_ptr<ForwardedStatement> forwarded);

//! True if PLAN runs a forwarded statement at REMOTE: that finds out by itself whether it is out of date.
bool RunsForwarded(const PhysicalOperator &plan, const Remote &remote);

} // namespace openduck

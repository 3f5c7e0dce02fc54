//===----------------------------------------------------------------------===//
// openduck/run_text.hpp: the tables and the openduck_run calls of a query
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/parser/query_node.hpp"
#include "duckdb/parser/statement/select_statement.hpp"
#include "duckdb/parser/tableref/basetableref.hpp"
#include "duckdb/parser/tableref/table_function_ref.hpp"

namespace openduck {
using namespace duckdb; // NOLINT

static constexpr const char *RUN_FUNCTION = "openduck_run";

enum class RunPlace : uint8_t { LOCAL, REMOTE, AUTO };

//! What a call says.
struct RunCall {
	RunPlace place;
	string query;
	//! Of an attached database; empty: not told
	string database;
};

RunPlace ParseRunPlace(const string &text);
//! The one query that QUERY is; a BinderException for anything else.
unique_ptr<SelectStatement> ParseRunQuery(const string &query);
bool IsRunCall(const TableRef &ref);
RunCall ReadRunCall(const TableFunctionRef &ref);

//! Visits what a query reads: tables by name, but for the names of WITH, and calls of openduck_run, which may be replaced.
class RunVisitor {
public:
	virtual ~RunVisitor() = default;
	void Visit(SelectStatement &statement) {
		Query(*statement.node);
	}

protected:
	virtual void Table(BaseTableRef &ref) = 0;
	virtual void Call(unique_ptr<TableRef> &ref) = 0;

private:
	void Query(QueryNode &node);
	void Body(QueryNode &node);
	void With(CommonTableExpressionMap &map);
	void From(unique_ptr<TableRef> &ref);
	void Expr(unique_ptr<ParsedExpression> &expr);
	void Exprs(vector<unique_ptr<ParsedExpression>> &list);

	//! Names of WITH that are seen here
	vector<string> common;
};

} // namespace openduck

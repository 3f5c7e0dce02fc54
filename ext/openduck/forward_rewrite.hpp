//===----------------------------------------------------------------------===//
// openduck/forward_rewrite.hpp: a statement as this session means it, in the words of the server
//===----------------------------------------------------------------------===//
#pragma once

#include "openduck/forward_names.hpp"

#include "duckdb/parser/parsed_data/alter_info.hpp"
#include "duckdb/parser/parsed_data/create_info.hpp"
#include "duckdb/parser/expression/list.hpp"
#include "duckdb/parser/query_node/list.hpp"
#include "duckdb/parser/statement/list.hpp"
#include "duckdb/parser/tableref/list.hpp"

namespace openduck {

//! Thrown by the rewriter, caught by who called it: why the server cannot run the statement as a whole.
class NotForwardable : public std::exception {
public:
	//! REFUSED: nobody else can run it either.
	explicit NotForwardable(string reason, bool refused = false) : refused(refused), reason(std::move(reason)) {
	}
	const char *what() const noexcept override {
		return reason.c_str();
	}

	const bool refused;

private:
	string reason;
};

//! Walks a statement and replaces, in place, the names of one remote database by the server's. What depends on this session
//! (the clock, settings, variables) becomes its value, unless it is stored (a view's query, a default): the server computes
//! that when it is used.
class ForwardRewriter {
public:
	explicit ForwardRewriter(ClientContext &context) : context(context), names(context) {
	}

	//! Throws NotForwardable if STATEMENT needs something that only this side has; it is half rewritten then.
	void Rewrite(SQLStatement &statement);

	//! Valid after Rewrite; null if no name is remote.
	optional_ptr<OpenDuckCatalog> Target() const {
		return names.Target();
	}
	//! A name is known to the server at most.
	bool NeedsServer() const {
		return needs_server;
	}
	const case_insensitive_set_t &Parameters() const {
		return parameters;
	}
	//! The text holds values of this session, so it is good for one execution.
	bool HoldsValues() const {
		return holds_values;
	}

private:
	// ---- forward_rewrite_statement.cpp ----
	//! Refuses a statement that writes to such a table, or changes it, if it has branches.
	void RefuseBranches(const string &catalog, const string &schema, const string &name);
	//! As Table, of what is written to.
	void Target(TableRef &ref);
	void Insert(InsertStatement &statement);
	void Update(UpdateStatement &statement);
	void Delete(DeleteStatement &statement);
	void Merge(MergeIntoStatement &statement);
	void Create(CreateInfo &info);
	void Drop(DropInfo &info);
	void Alter(AlterInfo &info);
	void SetInfo(UpdateSetInfo &info);
	void Columns(ColumnList &columns);
	void Constraints(vector<unique_ptr<Constraint>> &constraints);
	void Macro(CreateInfo &info);
	void AlterTable(AlterInfo &info);
	//! The object that a statement makes or changes: it must be the remote database's.
	void Place(string &catalog, string &schema);
	//! As Place, of an existing TYPE called NAME.
	void PlaceExisting(CatalogType type, string &catalog, string &schema, const string &name);

	// ---- forward_rewrite_query.cpp ----
	void Query(QueryNode &node);
	void Select(SelectNode &node);
	void Modifiers(QueryNode &node);
	//! Puts the names of MAP in scope, until the CTE scope is cut back to what it was.
	void CommonTables(CommonTableExpressionMap &map);
	void Table(TableRef &ref);
	void BaseTable(BaseTableRef &ref);
	void Pivot(PivotRef &ref);
	bool IsCommonTable(const string &name) const;

	// ---- forward_rewrite_expression.cpp ----
	void Expr(unique_ptr<ParsedExpression> &expr);
	void Exprs(vector<unique_ptr<ParsedExpression>> &list);
	void OptionalExpr(unique_ptr<ParsedExpression> &expr);
	//! Expressions that name the columns of a result: what they are called stays.
	void NamedExprs(vector<unique_ptr<ParsedExpression>> &list);
	void ColumnRef(unique_ptr<ParsedExpression> &expr);
	void Constant(unique_ptr<ParsedExpression> &expr);
	void Function(unique_ptr<ParsedExpression> &expr);
	void TableFunction(unique_ptr<ParsedExpression> &expr);
	void FunctionName(CatalogType type, string &catalog, string &schema, const string &name);
	void Star(StarExpression &expr);
	void Type(LogicalType &type);
	void SequenceArgument(ParsedExpression &argument);
	//! EXPR, a call without columns, becomes its value.
	void Evaluate(unique_ptr<ParsedExpression> &expr);

	ClientContext &context;
	RemoteNames names;
	//! Names of common table expressions that are in scope.
	vector<string> common_tables;
	//! What is visited is stored at the server, and not run now.
	bool stored = false;
	bool holds_values = false;
	bool needs_server = false;
	//! An expression, read from its text, would be called by another name.
	bool reads_otherwise = false;
	case_insensitive_set_t parameters;
};

} // namespace openduck

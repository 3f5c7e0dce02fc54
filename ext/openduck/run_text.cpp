#include "openduck/run_text.hpp"

#include "duckdb/parser/expression/constant_expression.hpp"
#include "duckdb/parser/expression/function_expression.hpp"
#include "duckdb/parser/expression/subquery_expression.hpp"
#include "duckdb/parser/parsed_expression_iterator.hpp"
#include "duckdb/parser/parser.hpp"
#include "duckdb/parser/query_node/list.hpp"
#include "duckdb/parser/tableref/list.hpp"
#include "duckdb/parser/tableref/showref.hpp"

namespace openduck {

//===--------------------------------------------------------------------===//
// Calls
//===--------------------------------------------------------------------===//
RunPlace ParseRunPlace(const string &text) {
	if (StringUtil::CIEquals(text, "LOCAL")) {
		return RunPlace::LOCAL;
	}
	if (StringUtil::CIEquals(text, "REMOTE")) {
		return RunPlace::REMOTE;
	}
	if (StringUtil::CIEquals(text, "AUTO")) {
		return RunPlace::AUTO;
	}
	throw BinderException("openduck_run runs a query 'LOCAL', 'REMOTE' or 'AUTO', not '%s'", text);
}

unique_ptr<SelectStatement> ParseRunQuery(const string &query) {
	Parser parser;
	parser.ParseQuery(query);
	if (parser.statements.size() != 1 || parser.statements[0]->type != StatementType::SELECT_STATEMENT) {
		throw BinderException("openduck_run takes one query, which gives rows for FROM");
	}
	return unique_ptr_cast<SQLStatement, SelectStatement>(std::move(parser.statements[0]));
}

bool IsRunCall(const TableRef &ref) {
	if (ref.type != TableReferenceType::TABLE_FUNCTION) {
		return false;
	}
	auto &function = *ref.Cast<TableFunctionRef>().function;
	return function.GetExpressionClass() == ExpressionClass::FUNCTION &&
	       StringUtil::CIEquals(function.Cast<FunctionExpression>().function_name, RUN_FUNCTION);
}

static string TextOf(const ParsedExpression &expr) {
	if (expr.GetExpressionClass() == ExpressionClass::CONSTANT) {
		auto &value = expr.Cast<ConstantExpression>().value;
		if (!value.IsNull() && value.type().id() == LogicalTypeId::VARCHAR) {
			return StringValue::Get(value);
		}
	}
	throw BinderException("openduck_run takes string literals: where ('LOCAL', 'REMOTE' or 'AUTO') and a query");
}

RunCall ReadRunCall(const TableFunctionRef &ref) {
	RunCall call;
	vector<string> texts;
	for (auto &child : ref.function->Cast<FunctionExpression>().children) {
		if (!child->HasAlias()) {
			texts.push_back(TextOf(*child));
		} else if (StringUtil::CIEquals(child->GetAlias(), "database")) {
			call.database = TextOf(*child);
		}
	}
	if (texts.size() != 2) {
		throw BinderException("openduck_run takes string literals: where ('LOCAL', 'REMOTE' or 'AUTO') and a query");
	}
	call.place = ParseRunPlace(texts[0]);
	call.query = texts[1];
	return call;
}

//===--------------------------------------------------------------------===//
// Queries
//===--------------------------------------------------------------------===//
void RunVisitor::With(CommonTableExpressionMap &map) {
	for (auto &entry : map.map) {
		auto &node = *entry.second->query->node;
		// In its own query the name is another table's, unless it is recursive.
		bool recursive = node.type == QueryNodeType::RECURSIVE_CTE_NODE;
		if (recursive) {
			common.push_back(entry.first);
		}
		Query(node);
		if (!recursive) {
			common.push_back(entry.first);
		}
	}
}

void RunVisitor::Body(QueryNode &node) {
	switch (node.type) {
	case QueryNodeType::SELECT_NODE: {
		auto &select = node.Cast<SelectNode>();
		From(select.from_table);
		Exprs(select.select_list);
		Exprs(select.groups.group_expressions);
		Expr(select.where_clause);
		Expr(select.having);
		Expr(select.qualify);
		break;
	}
	case QueryNodeType::SET_OPERATION_NODE:
		for (auto &child : node.Cast<SetOperationNode>().children) {
			Query(*child);
		}
		break;
	case QueryNodeType::RECURSIVE_CTE_NODE:
		Query(*node.Cast<RecursiveCTENode>().left);
		Query(*node.Cast<RecursiveCTENode>().right);
		break;
	default:
		break;
	}
}

void RunVisitor::Query(QueryNode &node) {
	auto outer = common.size();
	With(node.cte_map);
	Body(node);
	ParsedExpressionIterator::EnumerateQueryNodeModifiers(node,
	                                                      [&](unique_ptr<ParsedExpression> &expr) { Expr(expr); });
	common.resize(outer);
}

void RunVisitor::From(unique_ptr<TableRef> &ref) {
	if (!ref) {
		return;
	}
	if (IsRunCall(*ref)) {
		Call(ref);
		return;
	}
	switch (ref->type) {
	case TableReferenceType::BASE_TABLE: {
		auto &table = ref->Cast<BaseTableRef>();
		for (auto &name : common) {
			if (table.catalog_name.empty() && table.schema_name.empty() &&
			    StringUtil::CIEquals(name, table.table_name)) {
				return;
			}
		}
		Table(table);
		break;
	}
	case TableReferenceType::SUBQUERY:
		Query(*ref->Cast<SubqueryRef>().subquery->node);
		break;
	case TableReferenceType::JOIN: {
		auto &join = ref->Cast<JoinRef>();
		From(join.left);
		From(join.right);
		Expr(join.condition);
		break;
	}
	case TableReferenceType::TABLE_FUNCTION: {
		auto &function = ref->Cast<TableFunctionRef>();
		if (function.subquery) {
			Query(*function.subquery->node);
		}
		Expr(function.function);
		break;
	}
	case TableReferenceType::EXPRESSION_LIST:
		for (auto &row : ref->Cast<ExpressionListRef>().values) {
			Exprs(row);
		}
		break;
	case TableReferenceType::PIVOT:
		From(ref->Cast<PivotRef>().source);
		break;
	case TableReferenceType::SHOW_REF:
		if (ref->Cast<ShowRef>().query) {
			Query(*ref->Cast<ShowRef>().query);
		}
		break;
	default:
		break;
	}
}

void RunVisitor::Exprs(vector<unique_ptr<ParsedExpression>> &list) {
	for (auto &expr : list) {
		Expr(expr);
	}
}

void RunVisitor::Expr(unique_ptr<ParsedExpression> &expr) {
	if (!expr) {
		return;
	}
	if (expr->GetExpressionClass() == ExpressionClass::SUBQUERY) {
		Query(*expr->Cast<SubqueryExpression>().subquery->node);
	}
	ParsedExpressionIterator::EnumerateChildren(*expr, [&](unique_ptr<ParsedExpression> &child) { Expr(child); });
}

} // namespace openduck

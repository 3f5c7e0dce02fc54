#include "vgi/branches.hpp"

#include "duckdb/parser/expression/columnref_expression.hpp"
#include "duckdb/parser/parsed_expression_iterator.hpp"
#include "duckdb/parser/parser.hpp"
#include "duckdb/planner/expression_binder/where_binder.hpp"
#include "duckdb/planner/expression_iterator.hpp"

namespace vgi {

//! Throws for what reaches beyond the row, before it is bound.
static void CheckParsed(const ParsedExpression &expression, const string &shown) {
	switch (expression.GetExpressionClass()) {
	case ExpressionClass::SUBQUERY:
		throw BinderException("VGI branch_filter must not hold a subquery %s", shown);
	case ExpressionClass::WINDOW:
		throw BinderException("VGI branch_filter must not hold a window function %s", shown);
	case ExpressionClass::PARAMETER:
		throw BinderException("VGI branch_filter must not hold a parameter %s", shown);
	case ExpressionClass::STAR:
		throw BinderException("VGI branch_filter must not hold a star %s", shown);
	default:
		break;
	}
	ParsedExpressionIterator::EnumerateChildren(expression,
	                                            [&](const ParsedExpression &child) { CheckParsed(child, shown); });
}

unique_ptr<ParsedExpression> ParseBranchFilter(ClientContext &context, const string &filter, const string &table) {
	auto shown = "[table: " + table + ", filter: " + filter + "]";
	vector<unique_ptr<ParsedExpression>> parsed;
	try {
		parsed = Parser::ParseExpressionList(filter, context.GetParserOptions());
	} catch (std::exception &ex) {
		throw BinderException("VGI branch_filter parse error %s: %s", shown, ErrorData(ex).RawMessage());
	}
	if (parsed.size() != 1) {
		throw BinderException("VGI branch_filter must be one condition, not %d %s", parsed.size(), shown);
	}
	CheckParsed(*parsed[0], shown);
	return std::move(parsed[0]);
}

unique_ptr<Expression> BindBranchFilter(ClientContext &context, Binder &binder, const string &filter,
                                        const string &table) {
	auto shown = "[table: " + table + ", filter: " + filter + "]";
	auto parsed = ParseBranchFilter(context, filter, table);
	unique_ptr<Expression> result;
	try {
		WhereBinder where(binder, context);
		where.target_type = LogicalType::BOOLEAN;
		result = where.Bind(parsed);
	} catch (std::exception &ex) {
		throw BinderException("VGI branch_filter cannot be bound %s: %s", shown, ErrorData(ex).RawMessage());
	}
	if (result->IsVolatile()) {
		throw BinderException("VGI branch_filter must have the same value each time %s", shown);
	}
	return result;
}

} // namespace vgi

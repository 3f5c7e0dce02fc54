#include "common/branches.hpp"

#include "duckdb/parser/expression/columnref_expression.hpp"
#include "duckdb/parser/parsed_expression_iterator.hpp"
#include "duckdb/parser/parser.hpp"
#include "duckdb/planner/expression_binder/where_binder.hpp"
#include "duckdb/planner/expression_iterator.hpp"

namespace openduck {

static string Shown(const BranchedName &table, const string &filter) {
	return "[table: " + table.Dotted() + ", filter: " + filter + "]";
}

//! Throws for what reaches beyond the row, before it is bound.
static void CheckParsed(const ParsedExpression &expression, const string &family, const string &shown) {
	switch (expression.GetExpressionClass()) {
	case ExpressionClass::SUBQUERY:
		throw BinderException("%s branch_filter must not hold a subquery %s", family, shown);
	case ExpressionClass::WINDOW:
		throw BinderException("%s branch_filter must not hold a window function %s", family, shown);
	case ExpressionClass::PARAMETER:
		throw BinderException("%s branch_filter must not hold a parameter %s", family, shown);
	case ExpressionClass::STAR:
		throw BinderException("%s branch_filter must not hold a star %s", family, shown);
	default:
		break;
	}
	ParsedExpressionIterator::EnumerateChildren(
	    expression, [&](const ParsedExpression &child) { CheckParsed(child, family, shown); });
}

unique_ptr<ParsedExpression> ParseBranchFilter(ClientContext &context, const string &filter,
                                               const BranchedName &table) {
	auto shown = Shown(table, filter);
	vector<unique_ptr<ParsedExpression>> parsed;
	try {
		parsed = Parser::ParseExpressionList(filter, context.GetParserOptions());
	} catch (std::exception &ex) {
		throw BinderException("%s branch_filter parse error %s: %s", table.family, shown, ErrorData(ex).RawMessage());
	}
	if (parsed.size() != 1) {
		throw BinderException("%s branch_filter must be one condition, not %d %s", table.family, parsed.size(), shown);
	}
	CheckParsed(*parsed[0], table.family, shown);
	return std::move(parsed[0]);
}

unique_ptr<Expression> BindBranchFilter(ClientContext &context, Binder &binder, const string &filter,
                                        const BranchedName &table) {
	auto shown = Shown(table, filter);
	auto parsed = ParseBranchFilter(context, filter, table);
	unique_ptr<Expression> result;
	try {
		WhereBinder where(binder, context);
		where.target_type = LogicalType::BOOLEAN;
		result = where.Bind(parsed);
	} catch (std::exception &ex) {
		throw BinderException("%s branch_filter cannot be bound %s: %s", table.family, shown,
		                      ErrorData(ex).RawMessage());
	}
	if (result->IsVolatile()) {
		throw BinderException("%s branch_filter must have the same value each time %s", table.family, shown);
	}
	return result;
}

} // namespace openduck

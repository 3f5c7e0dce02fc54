//===----------------------------------------------------------------------===//
// openduck/subplan_scalar.cpp: scalar subqueries, of which DuckDB looks whether they have more than one row
//===----------------------------------------------------------------------===//
#include "openduck/subplan.hpp"

#include "openduck/pushdown_function.hpp"

#include "duckdb/planner/expression/list.hpp"

namespace openduck {

ScalarSubquery ScalarSubqueryKind(const LogicalOperator &op) {
	if (op.type != LogicalOperatorType::LOGICAL_AGGREGATE_AND_GROUP_BY) {
		return ScalarSubquery::NONE;
	}
	auto &aggregate = op.Cast<LogicalAggregate>();
	if (!aggregate.groups.empty() || aggregate.grouping_sets.size() > 1 || aggregate.expressions.empty() ||
	    aggregate.expressions.size() > 2) {
		return ScalarSubquery::NONE;
	}
	auto &first = aggregate.expressions[0]->Cast<BoundAggregateExpression>();
	if (first.function.name != "first" || first.children.size() != 1 || first.filter || first.order_bys) {
		return ScalarSubquery::NONE;
	}
	auto counted = aggregate.expressions.size() == 2;
	if (counted && aggregate.expressions[1]->Cast<BoundAggregateExpression>().function.name != "count_star") {
		return ScalarSubquery::NONE;
	}
	reference<LogicalOperator> child = *aggregate.children[0];
	while (child.get().type == LogicalOperatorType::LOGICAL_PROJECTION) {
		child = *child.get().children[0];
	}
	if (child.get().type == LogicalOperatorType::LOGICAL_AGGREGATE_AND_GROUP_BY &&
	    child.get().Cast<LogicalAggregate>().groups.empty() &&
	    child.get().Cast<LogicalAggregate>().grouping_sets.size() <= 1) {
		return ScalarSubquery::ONE_ROW;
	}
	return counted ? ScalarSubquery::COUNTED : ScalarSubquery::NONE;
}

optional_ptr<const BoundCaseExpression> AsRowCheck(const Expression &expression) {
	if (expression.GetExpressionClass() != ExpressionClass::BOUND_CASE) {
		return nullptr;
	}
	auto &check = expression.Cast<BoundCaseExpression>();
	if (check.case_checks.size() != 1 ||
	    check.case_checks[0].then_expr->GetExpressionClass() != ExpressionClass::BOUND_FUNCTION) {
		return nullptr;
	}
	auto &error = check.case_checks[0].then_expr->Cast<BoundFunctionExpression>();
	return error.function.name == "error" && error.children.size() == 1 ? &check : nullptr;
}

bool SubplanWriter::WriteRowCheck(const BoundCaseExpression &check, const SubplanBlock &block, string &sql) {
	auto &error = check.case_checks[0].then_expr->Cast<BoundFunctionExpression>();
	string many, text, value;
	if (!WriteExpression(*check.case_checks[0].when_expr, block, many) ||
	    !WriteExpression(*error.children[0], block, text) || !WriteExpression(*check.else_expr, block, value)) {
		return false;
	}
	sql = "CASE WHEN " + many + " THEN " + SystemFunctionSql("error") + "(" + text + ") ELSE " + value + " END";
	return true;
}

bool SubplanWriter::WriteCounted(LogicalAggregate &aggregate, SubplanBlock &block) {
	auto &first = aggregate.expressions[0]->Cast<BoundAggregateExpression>();
	string value;
	if (TypeToSql(first.return_type).empty() || !WriteInput(*aggregate.children[0], block) ||
	    !WriteExpression(*first.children[0], block, value)) {
		return false;
	}
	block.columns = {
	    {ColumnBinding(aggregate.aggregate_index, 0), first.return_type, SystemFunctionSql("first") + "(" + value + ")",
	     false},
	    {ColumnBinding(aggregate.aggregate_index, 1), LogicalType::BIGINT, SystemFunctionSql("count") + "(*)", false}};
	block.closed = true;
	block.qualified = false;
	block.single = false;
	return true;
}

bool SubplanWriter::WriteScalar(LogicalAggregate &aggregate, SubplanBlock &block) {
	if (!WriteInput(*aggregate.children[0], block)) {
		return false;
	}
	auto &first = aggregate.expressions[0]->Cast<BoundAggregateExpression>();
	SubplanColumn value {ColumnBinding(aggregate.aggregate_index, 0), first.return_type, string(), false};
	if (!WriteExpression(*first.children[0], block, value.sql)) {
		return false;
	}
	block.columns = {std::move(value)};
	if (aggregate.expressions.size() > 1) {
		block.columns.push_back(
		    {ColumnBinding(aggregate.aggregate_index, 1), LogicalType::BIGINT, "CAST('1' AS BIGINT)", false});
	}
	return true;
}

} // namespace openduck

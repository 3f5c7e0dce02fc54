//===----------------------------------------------------------------------===//
// openduck/subplan_window.cpp: windows and first rows of an optimized plan as SQL
//===----------------------------------------------------------------------===//
#include "openduck/subplan.hpp"

#include "openduck/pushdown_function.hpp"

#include "duckdb/planner/expression/list.hpp"

namespace openduck {

//===--------------------------------------------------------------------===//
// Windows
//===--------------------------------------------------------------------===//
//! An end of a frame that lies between rows that differ in the order, so that it does not matter how equal ones are put. Else empty.
static string BoundarySql(WindowBoundary boundary) {
	switch (boundary) {
	case WindowBoundary::UNBOUNDED_PRECEDING:
		return "UNBOUNDED PRECEDING";
	case WindowBoundary::UNBOUNDED_FOLLOWING:
		return "UNBOUNDED FOLLOWING";
	case WindowBoundary::CURRENT_ROW_RANGE:
		return "CURRENT ROW";
	default:
		return string();
	}
}

//! What WINDOW calls, if its result hangs on no more than frames and the order of rows that differ in it.
static string WindowFunction(const BoundWindowExpression &window) {
	switch (window.GetExpressionType()) {
	case ExpressionType::WINDOW_RANK:
		return "rank";
	case ExpressionType::WINDOW_RANK_DENSE:
		return "dense_rank";
	case ExpressionType::WINDOW_AGGREGATE: {
		auto &catalog = window.aggregate->catalog_name;
		return IsExactAggregate(*window.aggregate, window.children) && (catalog.empty() || catalog == SYSTEM_CATALOG)
		           ? window.aggregate->name
		           : string();
	}
	default:
		return string();
	}
}

bool SubplanWriter::WriteWindowExpression(const BoundWindowExpression &window, const SubplanBlock &block, string &sql) {
	auto function = WindowFunction(window);
	auto start = BoundarySql(window.start), end = BoundarySql(window.end);
	if (function.empty() || start.empty() || end.empty() || !window.arg_orders.empty() || window.ignore_nulls ||
	    window.start_expr || window.end_expr || window.exclude_clause != WindowExcludeMode::NO_OTHER ||
	    TypeToSql(window.return_type).empty()) {
		return false;
	}
	string argument, filter, partitions, orders;
	if ((!window.children.empty() && !WriteExpression(*window.children[0], block, argument)) ||
	    (window.filter_expr && !WriteExpression(*window.filter_expr, block, filter)) ||
	    !WriteOrders(window.orders, block, orders)) {
		return false;
	}
	for (auto &partition : window.partitions) {
		string key;
		if (TypeToSql(partition->return_type).empty() || !WriteExpression(*partition, block, key)) {
			return false;
		}
		partitions += (partitions.empty() ? "PARTITION BY " : ", ") + key;
	}
	auto counts_rows = function == "count_star";
	sql = SystemFunctionSql(counts_rows ? "count" : function) + "(" + (window.distinct ? "DISTINCT " : "") +
	      (counts_rows ? "*" : argument) + ")" + (filter.empty() ? "" : " FILTER (WHERE " + filter + ")") + " OVER (" +
	      partitions + orders + " RANGE BETWEEN " + start + " AND " + end + ")";
	return true;
}

bool SubplanWriter::WriteWindow(LogicalWindow &window, SubplanBlock &block) {
	if (!WriteInput(*window.children[0], block)) {
		return false;
	}
	// What the windows compute from is computed once.
	if (!block.IsPlain()) {
		Wrap(block);
	}
	vector<SubplanColumn> columns;
	for (idx_t i = 0; i < window.expressions.size(); i++) {
		auto &expression = window.expressions[i]->Cast<BoundWindowExpression>();
		SubplanColumn column {ColumnBinding(window.window_index, i), expression.return_type, string(), false};
		if (!WriteWindowExpression(expression, block, column.sql)) {
			return false;
		}
		columns.push_back(std::move(column));
	}
	block.columns.insert(block.columns.end(), columns.begin(), columns.end());
	Wrap(block);
	return true;
}

//===--------------------------------------------------------------------===//
// First rows
//===--------------------------------------------------------------------===//
//! Whether an order was asked for at or below OP.
static bool HasOrder(const LogicalOperator &op) {
	if (op.type == LogicalOperatorType::LOGICAL_ORDER_BY || op.type == LogicalOperatorType::LOGICAL_TOP_N) {
		return true;
	}
	for (auto &child : op.children) {
		if (HasOrder(*child)) {
			return true;
		}
	}
	return false;
}

//! They get a name: DuckDB 1.5.5 may leave out rows by the run-time filters of a join before a LIMIT below it counts them, but looks
//! through no name.
bool SubplanWriter::WriteRows(LogicalOperator &op, const string &rest, SubplanBlock &block) {
	if (!Restrict(op, block) || block.columns.empty()) {
		return false;
	}
	auto name = Name(Select(block) + rest);
	block = Named(name, block);
	return true;
}

bool SubplanWriter::WriteTopN(LogicalTopN &top, SubplanBlock &block) {
	string orders;
	if (!WriteInput(*top.children[0], block)) {
		return false;
	}
	Qualify(block);
	return WriteOrders(top.orders, block, orders) &&
	       WriteRows(top, orders + " LIMIT " + to_string(top.limit) + " OFFSET " + to_string(top.offset), block);
}

bool SubplanWriter::WriteLimit(LogicalLimit &limit, SubplanBlock &block) {
	auto skips = limit.offset_val.Type() == LimitNodeType::CONSTANT_VALUE;
	if (limit.limit_val.Type() != LimitNodeType::CONSTANT_VALUE ||
	    (!skips && limit.offset_val.Type() != LimitNodeType::UNSET) || HasOrder(*limit.children[0]) ||
	    !WriteInput(*limit.children[0], block)) {
		return false;
	}
	return WriteRows(limit,
	                 " LIMIT " + to_string(limit.limit_val.GetConstantValue()) + " OFFSET " +
	                     to_string(skips ? limit.offset_val.GetConstantValue() : 0),
	                 block);
}

} // namespace openduck

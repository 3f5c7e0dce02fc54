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
//! The unit of a frame that ends at BOUNDARY; empty: any.
static string UnitOf(WindowBoundary boundary) {
	switch (boundary) {
	case WindowBoundary::CURRENT_ROW_ROWS:
	case WindowBoundary::EXPR_PRECEDING_ROWS:
	case WindowBoundary::EXPR_FOLLOWING_ROWS:
		return "ROWS";
	case WindowBoundary::CURRENT_ROW_GROUPS:
	case WindowBoundary::EXPR_PRECEDING_GROUPS:
	case WindowBoundary::EXPR_FOLLOWING_GROUPS:
		return "GROUPS";
	case WindowBoundary::CURRENT_ROW_RANGE:
	case WindowBoundary::EXPR_PRECEDING_RANGE:
	case WindowBoundary::EXPR_FOLLOWING_RANGE:
		return "RANGE";
	default:
		return string();
	}
}

//! BOUNDARY, at the distance OFFSET (SQL) if it has one.
static string BoundarySql(WindowBoundary boundary, const string &offset) {
	switch (boundary) {
	case WindowBoundary::UNBOUNDED_PRECEDING:
		return "UNBOUNDED PRECEDING";
	case WindowBoundary::UNBOUNDED_FOLLOWING:
		return "UNBOUNDED FOLLOWING";
	case WindowBoundary::CURRENT_ROW_RANGE:
	case WindowBoundary::CURRENT_ROW_ROWS:
	case WindowBoundary::CURRENT_ROW_GROUPS:
		return "CURRENT ROW";
	case WindowBoundary::EXPR_PRECEDING_ROWS:
	case WindowBoundary::EXPR_PRECEDING_RANGE:
	case WindowBoundary::EXPR_PRECEDING_GROUPS:
		return offset + " PRECEDING";
	case WindowBoundary::EXPR_FOLLOWING_ROWS:
	case WindowBoundary::EXPR_FOLLOWING_RANGE:
	case WindowBoundary::EXPR_FOLLOWING_GROUPS:
		return offset + " FOLLOWING";
	default:
		return string();
	}
}

static string ExcludeSql(WindowExcludeMode mode) {
	switch (mode) {
	case WindowExcludeMode::CURRENT_ROW:
		return " EXCLUDE CURRENT ROW";
	case WindowExcludeMode::GROUP:
		return " EXCLUDE GROUP";
	case WindowExcludeMode::TIES:
		return " EXCLUDE TIES";
	default:
		return string();
	}
}

struct OrderedFunction {
	ExpressionType type;
	const char *name;
	//! Its result hangs on how rows are put that are equal in its order.
	bool ordered;
};

static const OrderedFunction WINDOW_FUNCTIONS[] = {
    {ExpressionType::WINDOW_RANK, "rank", false},
    {ExpressionType::WINDOW_RANK_DENSE, "dense_rank", false},
    {ExpressionType::WINDOW_PERCENT_RANK, "percent_rank", false},
    {ExpressionType::WINDOW_CUME_DIST, "cume_dist", false},
    {ExpressionType::WINDOW_ROW_NUMBER, "row_number", true},
    {ExpressionType::WINDOW_NTILE, "ntile", true},
    {ExpressionType::WINDOW_LEAD, "lead", true},
    {ExpressionType::WINDOW_LAG, "lag", true},
    {ExpressionType::WINDOW_FIRST_VALUE, "first_value", true},
    {ExpressionType::WINDOW_LAST_VALUE, "last_value", true},
    {ExpressionType::WINDOW_NTH_VALUE, "nth_value", true},
};

//! What WINDOW calls, if it is one that may be called there. ORDERED: as in OrderedFunction.
static string WindowFunction(const BoundWindowExpression &window, bool &ordered) {
	for (auto &function : WINDOW_FUNCTIONS) {
		if (function.type == window.GetExpressionType()) {
			ordered = function.ordered;
			return window.filter_expr || window.distinct ? string() : function.name;
		}
	}
	if (window.GetExpressionType() != ExpressionType::WINDOW_AGGREGATE || window.ignore_nulls) {
		return string();
	}
	auto &catalog = window.aggregate->catalog_name;
	ordered = UnitOf(window.start) == "ROWS" || UnitOf(window.end) == "ROWS";
	return IsExactAggregate(*window.aggregate, window.children) && (catalog.empty() || catalog == SYSTEM_CATALOG)
	           ? window.aggregate->name
	           : string();
}

//! Rows of CHILD differ in what WINDOW is ordered by, within a partition.
static bool IsTotalOrder(const BoundWindowExpression &window, LogicalOperator &child) {
	column_binding_set_t keys;
	for (auto &partition : window.partitions) {
		auto column = ColumnOf(*partition);
		if (column) {
			keys.insert(*column);
		}
	}
	for (auto &order : window.orders) {
		auto column = ColumnOf(*order.expression);
		if (column) {
			keys.insert(*column);
		}
	}
	return IsUnique(child, keys);
}

static const Expression &WithoutCasts(const Expression &expression) {
	reference<const Expression> inner = expression;
	while (inner.get().GetExpressionClass() == ExpressionClass::BOUND_CAST) {
		inner = *inner.get().Cast<BoundCastExpression>().child;
	}
	return inner;
}

//! How far from the current row a frame ends. DuckDB has made the value of the order there of a distance of RANGE.
bool SubplanWriter::WriteOffset(const BoundWindowExpression &window, WindowBoundary boundary, const Expression *offset,
                                const SubplanBlock &block, string &sql) {
	if (!offset) {
		return true;
	}
	if (UnitOf(boundary) != "RANGE") {
		return WriteExpression(*offset, block, sql);
	}
	auto &moved = WithoutCasts(*offset);
	if (window.orders.size() != 1 || moved.GetExpressionClass() != ExpressionClass::BOUND_FUNCTION) {
		return false;
	}
	auto &function = moved.Cast<BoundFunctionExpression>();
	auto &name = function.function.name;
	return (name == "+" || name == "-") && function.children.size() == 2 &&
	       WithoutCasts(*function.children[0]).Equals(WithoutCasts(*window.orders[0].expression)) &&
	       function.children[1]->GetExpressionClass() == ExpressionClass::BOUND_CONSTANT &&
	       WriteExpression(*function.children[1], block, sql);
}

bool SubplanWriter::WriteWindowArguments(const BoundWindowExpression &window, const SubplanBlock &block, string &sql) {
	vector<string> arguments;
	auto write = [&](const unique_ptr<Expression> &argument) {
		arguments.emplace_back();
		return WriteExpression(*argument, block, arguments.back());
	};
	for (auto &child : window.children) {
		if (!write(child)) {
			return false;
		}
	}
	if ((window.offset_expr && !write(window.offset_expr)) || (window.default_expr && !write(window.default_expr))) {
		return false;
	}
	sql = StringUtil::Join(arguments, ", ") + (window.ignore_nulls ? " IGNORE NULLS" : "");
	return true;
}

bool SubplanWriter::WriteWindowExpression(const BoundWindowExpression &window, LogicalOperator &child,
                                          const SubplanBlock &block, string &sql) {
	bool ordered = true;
	auto function = WindowFunction(window, ordered);
	if (function.empty() || !window.arg_orders.empty() || TypeToSql(window.return_type).empty() ||
	    (window.default_expr && !window.offset_expr) || (ordered && !IsTotalOrder(window, child))) {
		return false;
	}
	string arguments, filter, partitions, orders, start, end;
	if (!WriteWindowArguments(window, block, arguments) ||
	    (window.filter_expr && !WriteExpression(*window.filter_expr, block, filter)) ||
	    !WriteOrders(window.orders, block, orders) ||
	    !WriteOffset(window, window.start, window.start_expr.get(), block, start) ||
	    !WriteOffset(window, window.end, window.end_expr.get(), block, end)) {
		return false;
	}
	for (auto &partition : window.partitions) {
		string key;
		if (TypeToSql(partition->return_type).empty() || !WriteExpression(*partition, block, key)) {
			return false;
		}
		partitions += (partitions.empty() ? "PARTITION BY " : ", ") + key;
	}
	start = BoundarySql(window.start, start);
	end = BoundarySql(window.end, end);
	auto unit = UnitOf(window.start).empty() ? UnitOf(window.end) : UnitOf(window.start);
	if (start.empty() || end.empty()) {
		return false;
	}
	auto counts_rows = window.aggregate && window.children.empty();
	sql = SystemFunctionSql(counts_rows ? "count" : function) + "(" + (window.distinct ? "DISTINCT " : "") +
	      (counts_rows ? "*" : arguments) + ")" + (filter.empty() ? "" : " FILTER (WHERE " + filter + ")") + " OVER (" +
	      partitions + orders + " " + (unit.empty() ? "RANGE" : unit) + " BETWEEN " + start + " AND " + end +
	      ExcludeSql(window.exclude_clause) + ")";
	return true;
}

//! Some number for each row, as DuckDB gives them to the outer side of a lateral join.
static bool NumbersRows(const BoundWindowExpression &window) {
	return window.GetExpressionType() == ExpressionType::WINDOW_ROW_NUMBER && window.partitions.empty() &&
	       window.orders.empty();
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
		if (NumbersRows(expression)) {
			column.sql = SystemFunctionSql("row_number") + "() OVER ()";
			column.numbering = ++aliases;
		} else if (!WriteWindowExpression(expression, *window.children[0], block, column.sql)) {
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

#include "openduck/selectivity.hpp"

#include "openduck/scan.hpp"
#include "openduck/table.hpp"

#include "duckdb/planner/expression/list.hpp"

namespace openduck {

//! DuckDB's guess for a filter that it knows nothing of.
static constexpr double UNKNOWN_PART = 0.2;

//! Where VALUE lies among the values of its type.
static bool PlaceOf(const Value &value, double &place) {
	if (value.IsNull()) {
		return false;
	}
	switch (value.type().id()) {
	case LogicalTypeId::DATE:
		place = DateValue::Get(value).days;
		return true;
	case LogicalTypeId::TIMESTAMP:
	case LogicalTypeId::TIMESTAMP_TZ:
	case LogicalTypeId::TIMESTAMP_SEC:
	case LogicalTypeId::TIMESTAMP_MS:
	case LogicalTypeId::TIMESTAMP_NS:
	case LogicalTypeId::TIME:
		place = double(value.GetValueUnsafe<int64_t>());
		return true;
	default:
		break;
	}
	Value number;
	if (!value.type().IsNumeric() || !value.DefaultTryCastAs(LogicalType::DOUBLE, number, nullptr) || number.IsNull()) {
		return false;
	}
	place = DoubleValue::Get(number);
	return Value::DoubleIsFinite(place);
}

ColumnFigures MakeColumnFigures(idx_t distinct_count, const Value &lowest, const Value &highest,
                                const LogicalType &type) {
	ColumnFigures result;
	result.distinct_count = distinct_count;
	Value low, high;
	if (lowest.IsNull() || highest.IsNull() || !lowest.DefaultTryCastAs(type, low, nullptr) ||
	    !highest.DefaultTryCastAs(type, high, nullptr) || !PlaceOf(low, result.lowest) ||
	    !PlaceOf(high, result.highest)) {
		result.lowest = result.highest = 0;
	}
	return result;
}

bool FiguresOf(const RemoteScanBindData &bind, const LogicalGet &get, const Expression &expression, column_t &column,
               ColumnFigures &figures) {
	if (expression.GetExpressionClass() != ExpressionClass::BOUND_COLUMN_REF || !bind.source.entry) {
		return false;
	}
	auto &index = get.GetColumnIds()[expression.Cast<BoundColumnRefExpression>().binding.column_index];
	column = index.GetPrimaryIndex();
	figures = bind.source.entry->Cast<OpenDuckTableEntry>().Figures(column);
	return figures.distinct_count > 0 || figures.HasRange();
}

void Selectivity::Leave(double left) {
	part = MinValue(part, left);
}

bool Selectivity::AddBound(const Expression &expression, ExpressionType type, const Expression &bound) {
	column_t column;
	ColumnFigures figures;
	if (bound.GetExpressionClass() != ExpressionClass::BOUND_CONSTANT ||
	    !FiguresOf(bind, get, expression, column, figures)) {
		return false;
	}
	auto single = figures.distinct_count > 0 ? 1.0 / double(figures.distinct_count) : UNKNOWN_PART;
	if (type == ExpressionType::COMPARE_EQUAL) {
		Leave(single);
		return figures.distinct_count > 0;
	}
	if (type == ExpressionType::COMPARE_NOTEQUAL && figures.distinct_count > 0) {
		Leave(MaxValue(1 - single, single));
		return true;
	}
	double place;
	if (!figures.HasRange() || !PlaceOf(bound.Cast<BoundConstantExpression>().value, place)) {
		return false;
	}
	auto &range = ranges.emplace(column, Range {figures, figures.lowest, figures.highest}).first->second;
	switch (type) {
	case ExpressionType::COMPARE_LESSTHAN:
	case ExpressionType::COMPARE_LESSTHANOREQUALTO:
		range.high = MinValue(range.high, place);
		return true;
	case ExpressionType::COMPARE_GREATERTHAN:
	case ExpressionType::COMPARE_GREATERTHANOREQUALTO:
		range.low = MaxValue(range.low, place);
		return true;
	default:
		return false;
	}
}

bool Selectivity::AddComparison(const Expression &left, ExpressionType type, const Expression &right) {
	return AddBound(left, type, right) || AddBound(right, FlipComparisonExpression(type), left);
}

bool Selectivity::AddIn(const Expression &condition) {
	auto &children = condition.Cast<BoundOperatorExpression>().children;
	column_t column;
	ColumnFigures figures;
	for (idx_t i = 1; i < children.size(); i++) {
		if (children[i]->GetExpressionClass() != ExpressionClass::BOUND_CONSTANT) {
			return false;
		}
	}
	if (!FiguresOf(bind, get, *children[0], column, figures) || figures.distinct_count == 0) {
		return false;
	}
	Leave(double(children.size() - 1) / double(figures.distinct_count));
	return true;
}

void Selectivity::Add(const Expression &condition) {
	auto known = false;
	switch (condition.GetExpressionClass()) {
	case ExpressionClass::BOUND_CONJUNCTION:
		if (condition.GetExpressionType() == ExpressionType::CONJUNCTION_AND) {
			for (auto &child : condition.Cast<BoundConjunctionExpression>().children) {
				Add(*child);
			}
			return;
		}
		break;
	case ExpressionClass::BOUND_BETWEEN: {
		auto &between = condition.Cast<BoundBetweenExpression>();
		known = AddComparison(*between.input, between.LowerComparisonType(), *between.lower);
		known = AddComparison(*between.input, between.UpperComparisonType(), *between.upper) && known;
		break;
	}
	case ExpressionClass::BOUND_COMPARISON: {
		auto &comparison = condition.Cast<BoundComparisonExpression>();
		known = AddComparison(*comparison.left, comparison.GetExpressionType(), *comparison.right);
		break;
	}
	case ExpressionClass::BOUND_OPERATOR:
		known = condition.GetExpressionType() == ExpressionType::COMPARE_IN && AddIn(condition);
		break;
	default:
		break;
	}
	if (!known) {
		Leave(UNKNOWN_PART);
	}
}

double Selectivity::Part() const {
	auto result = part;
	for (auto &entry : ranges) {
		auto &range = entry.second;
		auto &figures = range.figures;
		auto single = figures.distinct_count > 0 ? 1.0 / double(figures.distinct_count) : 0;
		auto left = (range.high - range.low) / (figures.highest - figures.lowest);
		result = MinValue(result, MaxValue(left, single));
	}
	// What was written since may lie anywhere.
	constexpr double LEAST = 1e-6;
	return MaxValue(result, LEAST);
}

} // namespace openduck

#include "vgi/estimates.hpp"

#include "duckdb/planner/expression/list.hpp"

namespace vgi {

NamedEstimates ReadEstimates(const od_vgi_statistics &told) {
	NamedEstimates result;
	for (idx_t i = 0; i < told.count; i++) {
		auto &column = told.items[i];
		ColumnEstimate estimate;
		if (column.distinct_count.known && column.distinct_count.value > 0) {
			estimate.distinct = idx_t(column.distinct_count.value);
		}
		estimate.has_range = column.has_range;
		estimate.min = column.min;
		estimate.max = column.max;
		estimate.format = Text(column.format);
		result[Text(column.column)] = std::move(estimate);
	}
	return result;
}

void ScanEstimates::Replace(Source other) {
	lock_guard<mutex> guard(lock);
	source = std::move(other);
	known = false;
}

const vector<ColumnEstimate> &ScanEstimates::Get(ClientContext &context) {
	lock_guard<mutex> guard(lock);
	if (wanted && !known) {
		columns = source(context);
		known = true;
	}
	return columns;
}

unique_ptr<BaseStatistics> ToStatistics(const ColumnEstimate &estimate, const LogicalType &type, optional_idx rows) {
	if (!estimate.distinct.IsValid()) {
		return nullptr;
	}
	auto distinct = estimate.distinct.GetIndex();
	if (rows.IsValid()) {
		distinct = MaxValue<idx_t>(1, MinValue(distinct, rows.GetIndex()));
	}
	auto result = BaseStatistics::CreateUnknown(type);
	result.SetDistinctCount(distinct);
	return result.ToUnique();
}

//===--------------------------------------------------------------------===//
// Selectivity
//===--------------------------------------------------------------------===//
namespace {

//! Of a condition on a column of which nothing is known.
constexpr double UNKNOWN_SELECTIVITY = 1;

struct Estimator {
	const vector<ColumnEstimate> &columns;
	const ArrowSchema &schema;

	double Of(const Expression &filter) const;

private:
	double OfComparison(ExpressionType type, const Expression &left, const Expression &right) const;
	double OfIn(const vector<unique_ptr<Expression>> &operands) const;
	double OfEqual(const ColumnEstimate &column) const {
		return column.distinct.IsValid() ? 1.0 / double(column.distinct.GetIndex()) : UNKNOWN_SELECTIVITY;
	}
	//! Null: it is no column, or nothing is known of it.
	optional_ptr<const ColumnEstimate> Column(const Expression &expression) const {
		if (expression.GetExpressionClass() != ExpressionClass::BOUND_REF) {
			return nullptr;
		}
		auto index = expression.Cast<BoundReferenceExpression>().index;
		return index < columns.size() ? &columns[index] : nullptr;
	}
	bool HasRange(const Expression &column, const ColumnEstimate &estimate) const {
		auto index = column.Cast<BoundReferenceExpression>().index;
		return estimate.has_range && estimate.format == schema.children[index]->format && estimate.min < estimate.max;
	}
};

//! VALUE as the number that Arrow has for it; false: it is none.
bool AsNumber(const Value &value, double &out) {
	switch (value.type().id()) {
	case LogicalTypeId::DATE:
	case LogicalTypeId::TIMESTAMP:
	case LogicalTypeId::TIMESTAMP_SEC:
	case LogicalTypeId::TIMESTAMP_MS:
	case LogicalTypeId::TIMESTAMP_NS:
	case LogicalTypeId::TIMESTAMP_TZ:
		out = value.type().InternalType() == PhysicalType::INT32 ? double(value.GetValueUnsafe<int32_t>())
		                                                         : double(value.GetValueUnsafe<int64_t>());
		return true;
	case LogicalTypeId::TINYINT:
	case LogicalTypeId::SMALLINT:
	case LogicalTypeId::INTEGER:
	case LogicalTypeId::BIGINT:
	case LogicalTypeId::UTINYINT:
	case LogicalTypeId::USMALLINT:
	case LogicalTypeId::UINTEGER:
	case LogicalTypeId::UBIGINT:
	case LogicalTypeId::FLOAT:
	case LogicalTypeId::DOUBLE:
		out = value.GetValue<double>();
		return true;
	default:
		return false;
	}
}

double Estimator::OfComparison(ExpressionType type, const Expression &left, const Expression &right) const {
	if (left.GetExpressionClass() != ExpressionClass::BOUND_REF) {
		return right.GetExpressionClass() == ExpressionClass::BOUND_REF
		           ? OfComparison(FlipComparisonExpression(type), right, left)
		           : UNKNOWN_SELECTIVITY;
	}
	auto column = Column(left);
	if (!column || right.GetExpressionClass() != ExpressionClass::BOUND_CONSTANT) {
		return UNKNOWN_SELECTIVITY;
	}
	if (type == ExpressionType::COMPARE_EQUAL) {
		return OfEqual(*column);
	}
	auto &value = right.Cast<BoundConstantExpression>().value;
	double number;
	if (value.IsNull() || !HasRange(left, *column) || !AsNumber(value, number)) {
		return UNKNOWN_SELECTIVITY;
	}
	auto below = (number - column->min) / (column->max - column->min);
	below = below > 0 ? MinValue(below, 1.0) : 0; // what is no number, too
	switch (type) {
	case ExpressionType::COMPARE_LESSTHAN:
	case ExpressionType::COMPARE_LESSTHANOREQUALTO:
		return below;
	case ExpressionType::COMPARE_GREATERTHAN:
	case ExpressionType::COMPARE_GREATERTHANOREQUALTO:
		return 1 - below;
	default:
		return UNKNOWN_SELECTIVITY;
	}
}

double Estimator::OfIn(const vector<unique_ptr<Expression>> &operands) const {
	auto column = Column(*operands[0]);
	return column ? MinValue(1.0, double(operands.size() - 1) * OfEqual(*column)) : UNKNOWN_SELECTIVITY;
}

double Estimator::Of(const Expression &filter) const {
	auto type = filter.GetExpressionType();
	switch (filter.GetExpressionClass()) {
	case ExpressionClass::BOUND_COMPARISON: {
		auto &comparison = filter.Cast<BoundComparisonExpression>();
		return OfComparison(type, *comparison.left, *comparison.right);
	}
	case ExpressionClass::BOUND_BETWEEN: {
		auto &between = filter.Cast<BoundBetweenExpression>();
		// What both leave out is left out once.
		auto above = OfComparison(ExpressionType::COMPARE_GREATERTHAN, *between.input, *between.lower);
		auto below = OfComparison(ExpressionType::COMPARE_LESSTHAN, *between.input, *between.upper);
		return MaxValue(0.0, above + below - 1);
	}
	case ExpressionClass::BOUND_CONJUNCTION: {
		bool all = type == ExpressionType::CONJUNCTION_AND;
		double result = all ? 1 : 0;
		for (auto &child : filter.Cast<BoundConjunctionExpression>().children) {
			auto part = Of(*child);
			result = all ? result * part : MinValue(1.0, result + part);
		}
		return result;
	}
	case ExpressionClass::BOUND_OPERATOR:
		return type == ExpressionType::COMPARE_IN ? OfIn(filter.Cast<BoundOperatorExpression>().children)
		                                          : UNKNOWN_SELECTIVITY;
	default:
		return UNKNOWN_SELECTIVITY;
	}
}

} // namespace

double EstimateSelectivity(const Expression &filter, const vector<ColumnEstimate> &columns, const ArrowSchema &schema) {
	return Estimator {columns, schema}.Of(filter);
}

} // namespace vgi

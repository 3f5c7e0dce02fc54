//===----------------------------------------------------------------------===//
// openduck/pushdown_expression.cpp: bound expressions as SQL, if they mean the same at the server
//===----------------------------------------------------------------------===//
#include "openduck/pushdown.hpp"

#include "openduck/pushdown_function.hpp"

#include "duckdb/common/types/decimal.hpp"
#include "duckdb/main/settings.hpp"
#include "duckdb/planner/expression/list.hpp"
#include "duckdb/planner/expression_iterator.hpp"

namespace openduck {

//! A longer division is not written with what it gives for a divisor of zero.
static constexpr idx_t MAX_DIVISION = 2048;

namespace {

//! An argument of "+", "-" or "*" of DECIMALs without the cast that DuckDB has put around it.
class DecimalArgument {
public:
	explicit DecimalArgument(const Expression &expr) : source(Source(expr)) {
		auto &type = source.return_type;
		if (source.GetExpressionClass() != ExpressionClass::BOUND_CONSTANT || type.id() != LogicalTypeId::DECIMAL) {
			types.push_back(type);
			return;
		}
		// The cast is done. As what it was written, the value may tell: with all its digits, or as a whole number.
		auto digits = Literal().ToString();
		auto width = std::count_if(digits.begin(), digits.end(), StringUtil::CharacterIsDigit);
		auto scale = DecimalType::GetScale(type);
		if (Literal().IsNull() || width > DecimalType::GetWidth(type) || width <= scale) {
			types.push_back(type);
			return;
		}
		types.push_back(LogicalType::DECIMAL(uint8_t(width), scale));
		for (auto &whole : {LogicalType::INTEGER, LogicalType::BIGINT}) {
			auto number = Literal();
			if (number.DefaultTryCastAs(whole) && number.DefaultTryCastAs(type) && number == Literal()) {
				types.push_back(whole);
			}
		}
	}

	//! The constant that it is.
	const Value &Literal() const {
		return source.Cast<BoundConstantExpression>().value;
	}

	const Expression &source;
	//! What it may have been of.
	vector<LogicalType> types;

private:
	static const Expression &Source(const Expression &expr) {
		if (expr.GetExpressionClass() != ExpressionClass::BOUND_CAST || expr.Cast<BoundCastExpression>().try_cast) {
			return expr;
		}
		auto &child = *expr.Cast<BoundCastExpression>().child;
		return Holds(expr.return_type, child.return_type) ? child : expr;
	}

	//! Whether each number of TYPE is one of DECIMAL WIDER.
	static bool Holds(const LogicalType &wider, const LogicalType &type) {
		uint8_t width, scale;
		return wider.id() == LogicalTypeId::DECIMAL && (type.IsIntegral() || type.id() == LogicalTypeId::DECIMAL) &&
		       type.GetDecimalProperties(width, scale) && scale <= DecimalType::GetScale(wider) &&
		       width - scale <= DecimalType::GetWidth(wider) - DecimalType::GetScale(wider);
	}
};

//! Whether DuckDB's OPERATOR of arguments of types LEFT and RIGHT gives RESULT.
bool IsDecimalResult(const string &op, const LogicalType &left, const LogicalType &right, const LogicalType &result) {
	uint8_t widths[2], scales[2];
	if ((left.id() != LogicalTypeId::DECIMAL && right.id() != LogicalTypeId::DECIMAL) ||
	    !left.GetDecimalProperties(widths[0], scales[0]) || !right.GetDecimalProperties(widths[1], scales[1])) {
		return false;
	}
	idx_t most = MaxValue(widths[0], widths[1]), width, scale;
	if (op == "*") {
		width = idx_t(widths[0]) + widths[1];
		scale = idx_t(scales[0]) + scales[1];
	} else if (op == "+" || op == "-") {
		scale = MaxValue(scales[0], scales[1]);
		width = MaxValue(scale + MaxValue(widths[0] - scales[0], widths[1] - scales[1]), most) + 1;
	} else {
		return false;
	}
	if (width > Decimal::MAX_WIDTH_INT64 && most <= Decimal::MAX_WIDTH_INT64 &&
	    (op != "*" || scale < Decimal::MAX_WIDTH_INT64)) {
		width = Decimal::MAX_WIDTH_INT64;
	}
	width = MinValue<idx_t>(width, Decimal::MAX_WIDTH_DECIMAL);
	return scale <= width && result == LogicalType::DECIMAL(uint8_t(width), uint8_t(scale));
}

class ExpressionWriter {
public:
	ExpressionWriter(const column_writer_t &column_p, ZeroDivisor zero_divisor, bool computes)
	    : column(column_p), zero_divisor(zero_divisor), computes(computes) {
	}

	bool Write(const Expression &expr, string &sql) const {
		switch (expr.GetExpressionClass()) {
		case ExpressionClass::BOUND_COLUMN_REF:
		case ExpressionClass::BOUND_REF:
			return column(expr, sql);
		case ExpressionClass::BOUND_CONSTANT:
			return LiteralToSql(expr.Cast<BoundConstantExpression>().value, sql);
		case ExpressionClass::BOUND_COMPARISON:
			return WriteComparison(expr.Cast<BoundComparisonExpression>(), sql);
		case ExpressionClass::BOUND_CONJUNCTION:
			return WriteConjunction(expr.Cast<BoundConjunctionExpression>(), sql);
		case ExpressionClass::BOUND_BETWEEN:
			return WriteBetween(expr.Cast<BoundBetweenExpression>(), sql);
		case ExpressionClass::BOUND_OPERATOR:
			return WriteOperator(expr.Cast<BoundOperatorExpression>(), sql);
		case ExpressionClass::BOUND_CASE:
			return WriteCase(expr.Cast<BoundCaseExpression>(), sql);
		case ExpressionClass::BOUND_CAST:
			return WriteCast(expr.Cast<BoundCastExpression>(), sql);
		case ExpressionClass::BOUND_FUNCTION:
			return WriteFunction(expr.Cast<BoundFunctionExpression>(), sql);
		default:
			return false;
		}
	}

private:
	//! EXPR, that is compared with values of TYPE. DuckDB compares texts with the bytes between which all lie that fit a regular
	//! expression, which no SQL does.
	bool WriteCompared(const Expression &expr, const LogicalType &type, string &sql) const {
		if (expr.return_type.id() == type.id()) {
			return Write(expr, sql);
		}
		if (type.id() != LogicalTypeId::VARCHAR || expr.return_type.id() != LogicalTypeId::BLOB ||
		    expr.GetExpressionClass() != ExpressionClass::BOUND_CONSTANT) {
			return false;
		}
		auto &value = expr.Cast<BoundConstantExpression>().value;
		return !value.IsNull() && Value::StringIsValid(StringValue::Get(value)) &&
		       LiteralToSql(Value(StringValue::Get(value)), sql);
	}

	bool WriteComparison(const BoundComparisonExpression &expr, string &sql) const {
		string left, right;
		auto comparison = expr.GetExpressionType();
		if (!IsComparable(expr.left->return_type, comparison) || !IsComparable(expr.right->return_type, comparison) ||
		    !Write(*expr.left, left) || !WriteCompared(*expr.right, expr.left->return_type, right)) {
			return false;
		}
		switch (comparison) {
		case ExpressionType::COMPARE_EQUAL:
		case ExpressionType::COMPARE_NOTEQUAL:
		case ExpressionType::COMPARE_LESSTHAN:
		case ExpressionType::COMPARE_GREATERTHAN:
		case ExpressionType::COMPARE_LESSTHANOREQUALTO:
		case ExpressionType::COMPARE_GREATERTHANOREQUALTO:
		case ExpressionType::COMPARE_DISTINCT_FROM:
		case ExpressionType::COMPARE_NOT_DISTINCT_FROM:
			sql = "(" + left + " " + ExpressionTypeToOperator(comparison) + " " + right + ")";
			return true;
		default:
			return false;
		}
	}

	bool WriteConjunction(const BoundConjunctionExpression &expr, string &sql) const {
		auto word = expr.GetExpressionType() == ExpressionType::CONJUNCTION_AND ? " AND " : " OR ";
		string result;
		for (auto &child : expr.children) {
			string part;
			if (!Write(*child, part)) {
				return false;
			}
			result += (result.empty() ? "" : word) + part;
		}
		sql = "(" + result + ")";
		return true;
	}

	bool WriteBetween(const BoundBetweenExpression &expr, string &sql) const {
		string input, lower, upper;
		if (!IsComparable(expr.input->return_type, ExpressionType::COMPARE_BETWEEN) || !Write(*expr.input, input) ||
		    !WriteCompared(*expr.lower, expr.input->return_type, lower) ||
		    !WriteCompared(*expr.upper, expr.input->return_type, upper)) {
			return false;
		}
		sql = "(" + input + (expr.lower_inclusive ? " >= " : " > ") + lower + " AND " + input +
		      (expr.upper_inclusive ? " <= " : " < ") + upper + ")";
		return true;
	}

	bool WriteOperator(const BoundOperatorExpression &expr, string &sql) const {
		vector<string> parts;
		for (auto &child : expr.children) {
			string part;
			if (!Write(*child, part)) {
				return false;
			}
			parts.push_back(std::move(part));
		}
		switch (expr.GetExpressionType()) {
		case ExpressionType::OPERATOR_NOT:
			sql = "(NOT " + parts[0] + ")";
			return true;
		case ExpressionType::OPERATOR_IS_NULL:
			sql = "(" + parts[0] + " IS NULL)";
			return true;
		case ExpressionType::OPERATOR_IS_NOT_NULL:
			sql = "(" + parts[0] + " IS NOT NULL)";
			return true;
		case ExpressionType::OPERATOR_COALESCE:
			if (IsLongEnum(expr.return_type)) {
				return false;
			}
			sql = "coalesce(" + StringUtil::Join(parts, ", ") + ")";
			return true;
		case ExpressionType::COMPARE_IN:
		case ExpressionType::COMPARE_NOT_IN: {
			if (parts.size() < 2 || !IsComparable(expr.children[0]->return_type, ExpressionType::COMPARE_EQUAL)) {
				return false;
			}
			auto word = expr.GetExpressionType() == ExpressionType::COMPARE_IN ? " IN (" : " NOT IN (";
			auto input = parts[0];
			parts.erase(parts.begin());
			sql = "(" + input + word + StringUtil::Join(parts, ", ") + "))";
			return true;
		}
		default:
			return false;
		}
	}

	//! Its constants are texts but where they are compared.
	static bool IsLongEnum(const LogicalType &type) {
		return type.id() == LogicalTypeId::ENUM && TypeToSql(type).empty();
	}

	bool WriteCase(const BoundCaseExpression &expr, string &sql) const {
		string result = "CASE";
		if (IsLongEnum(expr.return_type)) {
			return false;
		}
		for (auto &check : expr.case_checks) {
			string when, then;
			if (!Write(*check.when_expr, when) || !Write(*check.then_expr, then)) {
				return false;
			}
			result += " WHEN " + when + " THEN " + then;
		}
		string otherwise;
		if (!Write(*expr.else_expr, otherwise)) {
			return false;
		}
		sql = "(" + result + " ELSE " + otherwise + " END)";
		return true;
	}

	bool WriteCast(const BoundCastExpression &expr, string &sql) const {
		auto type = TypeToSql(expr.return_type);
		string child;
		bool fallible = false;
		if (type.empty() || !IsPushableCast(expr.child->return_type, expr.return_type, fallible) ||
		    (fallible && !computes && !expr.try_cast) || !Write(*expr.child, child)) {
			return false;
		}
		sql = (fallible && expr.try_cast ? "TRY_CAST(" : "CAST(") + child + " AS " + type + ")";
		return true;
	}

	static bool IsExactNumber(const LogicalType &type) {
		return type.IsIntegral() || type.id() == LogicalTypeId::DECIMAL;
	}

	//! The one quotient that is no number of its type is that of the least one and -1.
	static bool CanOverflow(const string &name, const Expression &divisor) {
		if (name != "//" && name != "%") {
			return true;
		}
		if (divisor.return_type.IsUnsigned() || divisor.return_type.id() == LogicalTypeId::DECIMAL) {
			return false;
		}
		return divisor.GetExpressionClass() != ExpressionClass::BOUND_CONSTANT ||
		       divisor.Cast<BoundConstantExpression>().value == Value::Numeric(divisor.return_type, -1);
	}

	//! Of exact numbers.
	bool WriteArithmetic(const BoundFunctionExpression &expr, string &sql) const {
		auto &name = expr.function.name;
		string left, right;
		if ((name != "+" && name != "-" && name != "*" && name != "//" && name != "%") || expr.children.size() != 2 ||
		    !IsExactNumber(expr.return_type) || !IsExactNumber(expr.children[0]->return_type) ||
		    !IsExactNumber(expr.children[1]->return_type) || (!computes && CanOverflow(name, *expr.children[1]))) {
			return false;
		}
		auto decimal = expr.return_type.id() == LogicalTypeId::DECIMAL;
		if (!(decimal && WriteDecimalArguments(expr, left, right)) &&
		    (!Write(*expr.children[0], left) || !Write(*expr.children[1], right))) {
			return false;
		}
		sql = SystemCallSql(name, {left, right});
		if (decimal) {
			// For arguments that are as wide as its own, the server may give it one more digit.
			sql = "CAST(" + sql + " AS " + expr.return_type.ToString() + ")";
		}
		return true;
	}

	//! The arguments as they were before DuckDB gave them the width that the result has, if the server will do that again: else it would
	//! give the result more digits, with which it is slower to compute, and to be checked whether it fits.
	bool WriteDecimalArguments(const BoundFunctionExpression &expr, string &left, string &right) const {
		DecimalArgument one(*expr.children[0]), other(*expr.children[1]);
		for (auto &type : one.types) {
			for (auto &other_type : other.types) {
				if (IsDecimalResult(expr.function.name, type, other_type, expr.return_type)) {
					return WriteArgument(one, type, left) && WriteArgument(other, other_type, right);
				}
			}
		}
		return false;
	}

	bool WriteArgument(const DecimalArgument &argument, const LogicalType &type, string &sql) const {
		return type == argument.source.return_type ? Write(argument.source, sql)
		                                           : LiteralToSql(argument.Literal().DefaultCastAs(type), sql);
	}

	static bool IsFloatDivision(const BoundFunctionExpression &expr) {
		auto id = expr.return_type.id();
		return (expr.function.name == "/" || expr.function.name == "%") && expr.children.size() == 2 &&
		       (id == LogicalTypeId::FLOAT || id == LogicalTypeId::DOUBLE) &&
		       expr.children[0]->return_type == expr.return_type && expr.children[1]->return_type == expr.return_type;
	}

	//! "/" and "%" of FLOATs. As an operator "/" is another under integer_division, and what comes of a zero hangs on
	//! ieee_floating_point_ops: it is written as it is here.
	bool WriteFloatDivision(const BoundFunctionExpression &expr, string &sql) const {
		string left, right;
		if (!Write(*expr.children[0], left) || !Write(*expr.children[1], right) ||
		    left.size() + right.size() > MAX_DIVISION) {
			return false;
		}
		auto type = TypeToSql(expr.return_type);
		sql = SystemCallSql(expr.function.name, {left, right});
		auto &divisor = *expr.children[1];
		if (divisor.GetExpressionClass() == ExpressionClass::BOUND_CONSTANT) {
			auto &value = divisor.Cast<BoundConstantExpression>().value;
			if (value.IsNull() || value != Value::Numeric(value.type(), 0)) {
				return true;
			}
		}
		if (zero_divisor == ZeroDivisor::UNKNOWN) {
			return false;
		}
		if (zero_divisor == ZeroDivisor::GIVES_NULL) {
			sql = "(CASE WHEN " + right + " <> 0 THEN " + sql + " END)";
			return true;
		}
		// Also the sign of what is not a number is as here, which a text shows.
		auto infinity =
		    "CAST(CASE WHEN " + SystemCallSql("signbit", {right}) + " THEN '-inf' ELSE 'inf' END AS " + type + ")";
		auto otherwise = expr.function.name == "/"
		                     ? infinity
		                     : SystemCallSql("*", {"CAST('inf' AS " + type + ")", "CAST('0' AS " + type + ")"});
		sql =
		    "coalesce(" + sql + ", CASE WHEN " + right + " = 0 THEN " + SystemCallSql("*", {left, otherwise}) + " END)";
		return true;
	}

	bool WriteFunction(const BoundFunctionExpression &expr, string &sql) const {
		if (!expr.function.catalog_name.empty() && expr.function.catalog_name != SYSTEM_CATALOG) {
			return false;
		}
		if (WriteArithmetic(expr, sql)) {
			return true;
		}
		if (IsFloatDivision(expr)) {
			return WriteFloatDivision(expr, sql);
		}
		auto function = FindPushable(expr);
		if (!function || (function->fallible && !computes)) {
			return false;
		}
		vector<string> parts;
		for (auto &child : expr.children) {
			string part;
			if (!Write(*child, part)) {
				return false;
			}
			parts.push_back(std::move(part));
		}
		sql = SystemCallSql(function->name, parts);
		return true;
	}

	const column_writer_t &column;
	const ZeroDivisor zero_divisor;
	const bool computes;
};

} // namespace

bool IsComparable(const LogicalType &type, ExpressionType comparison) {
	if (type.id() != LogicalTypeId::ENUM) {
		return !TypeToSql(type).empty();
	}
	// If it is a long one, its constants are written as texts, which have another order.
	return !TypeToSql(type).empty() || comparison == ExpressionType::COMPARE_EQUAL ||
	       comparison == ExpressionType::COMPARE_NOTEQUAL || comparison == ExpressionType::COMPARE_DISTINCT_FROM ||
	       comparison == ExpressionType::COMPARE_NOT_DISTINCT_FROM;
}

ZeroDivisor CurrentZeroDivisor(ClientContext &context) {
	return Settings::Get<IeeeFloatingPointOpsSetting>(context) ? ZeroDivisor::GIVES_INFINITY : ZeroDivisor::GIVES_NULL;
}

bool ExpressionToSql(const Expression &expr, const column_writer_t &column, string &sql, ZeroDivisor zero_divisor) {
	return ExpressionWriter(column, zero_divisor, false).Write(expr, sql);
}

bool ComputationToSql(const Expression &expr, const column_writer_t &column, string &sql, ZeroDivisor zero_divisor) {
	return ExpressionWriter(column, zero_divisor, true).Write(expr, sql);
}

bool ReplaceColumns(vector<unique_ptr<Expression>> &expressions, idx_t table,
                    const vector<unique_ptr<Expression>> &sources) {
	bool known = true;
	for (auto &expression : expressions) {
		ExpressionIterator::VisitExpressionMutable<BoundColumnRefExpression>(
		    expression, [&](BoundColumnRefExpression &ref, unique_ptr<Expression> &place) {
			    if (ref.depth > 0 || ref.binding.table_index != table || ref.binding.column_index >= sources.size()) {
				    known = false;
				    return;
			    }
			    place = sources[ref.binding.column_index]->Copy();
		    });
	}
	return known;
}

} // namespace openduck

//===----------------------------------------------------------------------===//
// openduck/pushdown_expression.cpp: bound expressions as SQL, if they mean the same at the server
//===----------------------------------------------------------------------===//
#include "openduck/pushdown.hpp"

#include "duckdb/parser/keyword_helper.hpp"
#include "duckdb/planner/expression/list.hpp"
#include "duckdb/planner/expression_iterator.hpp"

namespace openduck {

namespace {

//! What a function of the list may be given.
enum class Arguments : uint8_t {
	TEXTS,        // VARCHARs
	TEXT_PATTERN, // a VARCHAR, then constants
	TEXT_NUMBERS, // a VARCHAR, then small constant integers
	FLOATS,       // FLOATs or DOUBLEs
	DATES,        // a DATE or TIMESTAMP
	COMPARED,     // an INTERVAL or TIMETZ
	STRUCT_FIELD  // a STRUCT, then a constant name
};

struct PushableFunction {
	const char *name;
	//! Written between two arguments; null: written as a call.
	const char *infix;
	Arguments arguments;
};

//! Deterministic, the same under all settings, and never failing on what their arguments may be.
const PushableFunction FUNCTIONS[] = {
    {"~~", "~~", Arguments::TEXTS},
    {"!~~", "!~~", Arguments::TEXTS},
    {"~~*", "~~*", Arguments::TEXTS},
    {"!~~*", "!~~*", Arguments::TEXTS},
    {"^@", "^@", Arguments::TEXTS},
    {"||", "||", Arguments::TEXTS},
    {"prefix", nullptr, Arguments::TEXTS},
    {"suffix", nullptr, Arguments::TEXTS},
    {"contains", nullptr, Arguments::TEXTS},
    {"starts_with", nullptr, Arguments::TEXTS},
    {"ends_with", nullptr, Arguments::TEXTS},
    {"lower", nullptr, Arguments::TEXTS},
    {"lcase", nullptr, Arguments::TEXTS},
    {"upper", nullptr, Arguments::TEXTS},
    {"ucase", nullptr, Arguments::TEXTS},
    {"length", nullptr, Arguments::TEXTS},
    {"len", nullptr, Arguments::TEXTS},
    {"char_length", nullptr, Arguments::TEXTS},
    {"character_length", nullptr, Arguments::TEXTS},
    {"strlen", nullptr, Arguments::TEXTS},
    {"trim", nullptr, Arguments::TEXTS},
    {"ltrim", nullptr, Arguments::TEXTS},
    {"rtrim", nullptr, Arguments::TEXTS},
    {"reverse", nullptr, Arguments::TEXTS},
    {"regexp_matches", nullptr, Arguments::TEXT_PATTERN},
    {"regexp_full_match", nullptr, Arguments::TEXT_PATTERN},
    {"substring", nullptr, Arguments::TEXT_NUMBERS},
    {"substr", nullptr, Arguments::TEXT_NUMBERS},
    {"left", nullptr, Arguments::TEXT_NUMBERS},
    {"right", nullptr, Arguments::TEXT_NUMBERS},
    {"+", "+", Arguments::FLOATS},
    {"-", "-", Arguments::FLOATS},
    {"*", "*", Arguments::FLOATS},
    {"abs", nullptr, Arguments::FLOATS},
    {"isnan", nullptr, Arguments::FLOATS},
    {"isinf", nullptr, Arguments::FLOATS},
    {"isfinite", nullptr, Arguments::FLOATS},
    {"year", nullptr, Arguments::DATES},
    {"month", nullptr, Arguments::DATES},
    {"day", nullptr, Arguments::DATES},
    {"dayofmonth", nullptr, Arguments::DATES},
    {"quarter", nullptr, Arguments::DATES},
    {"dayofweek", nullptr, Arguments::DATES},
    // Around the sides of a join's equality.
    {"normalized_interval", nullptr, Arguments::COMPARED},
    {"timetz_byte_comparable", nullptr, Arguments::COMPARED},
    {"struct_extract", nullptr, Arguments::STRUCT_FIELD},
};

const PushableFunction *FindFunction(const string &name) {
	for (auto &function : FUNCTIONS) {
		if (name == function.name) {
			return &function;
		}
	}
	return nullptr;
}

bool IsPlainText(const LogicalType &type) {
	return type.id() == LogicalTypeId::VARCHAR && StringType::GetCollation(type).empty();
}

bool IsConstant(const Expression &expr) {
	return expr.GetExpressionType() == ExpressionType::VALUE_CONSTANT;
}

bool IsSmallInteger(const Expression &expr) {
	if (!IsConstant(expr) || !expr.return_type.IsIntegral()) {
		return false;
	}
	auto &value = expr.Cast<BoundConstantExpression>().value;
	Value number;
	string error;
	if (value.IsNull() || !value.DefaultTryCastAs(LogicalType::BIGINT, number, &error, true)) {
		return false;
	}
	auto n = number.GetValue<int64_t>();
	return n > -1000000 && n < 1000000;
}

bool ArgumentsFit(Arguments kind, const vector<unique_ptr<Expression>> &args) {
	if (args.empty()) {
		return false;
	}
	switch (kind) {
	case Arguments::TEXTS:
		for (auto &arg : args) {
			if (!IsPlainText(arg->return_type)) {
				return false;
			}
		}
		return true;
	case Arguments::TEXT_PATTERN:
	case Arguments::TEXT_NUMBERS:
		if (!IsPlainText(args[0]->return_type) || args.size() < 2) {
			return false;
		}
		for (idx_t i = 1; i < args.size(); i++) {
			if (kind == Arguments::TEXT_PATTERN ? !IsConstant(*args[i]) || !IsPlainText(args[i]->return_type)
			                                    : !IsSmallInteger(*args[i])) {
				return false;
			}
		}
		return true;
	case Arguments::FLOATS:
		for (auto &arg : args) {
			if (arg->return_type.id() != LogicalTypeId::FLOAT && arg->return_type.id() != LogicalTypeId::DOUBLE) {
				return false;
			}
		}
		return true;
	case Arguments::DATES:
		return args.size() == 1 && (args[0]->return_type.id() == LogicalTypeId::DATE ||
		                            args[0]->return_type.id() == LogicalTypeId::TIMESTAMP);
	case Arguments::COMPARED:
		return args.size() == 1 && (args[0]->return_type.id() == LogicalTypeId::INTERVAL ||
		                            args[0]->return_type.id() == LogicalTypeId::TIME_TZ);
	default:
		return args.size() == 2 && args[0]->return_type.id() == LogicalTypeId::STRUCT && IsConstant(*args[1]);
	}
}

//! Casts that never fail and depend on no setting.
bool IsSafeCast(const LogicalType &source, const LogicalType &target) {
	auto to_text = IsPlainText(target);
	switch (source.id()) {
	case LogicalTypeId::ENUM:
	case LogicalTypeId::BOOLEAN:
	case LogicalTypeId::UUID:
	case LogicalTypeId::DATE:
		return to_text;
	case LogicalTypeId::FLOAT:
		return target.id() == LogicalTypeId::DOUBLE;
	case LogicalTypeId::DECIMAL: {
		if (target.id() != LogicalTypeId::DECIMAL) {
			return target.id() == LogicalTypeId::DOUBLE;
		}
		auto scale = DecimalType::GetScale(source), target_scale = DecimalType::GetScale(target);
		return target_scale >= scale &&
		       DecimalType::GetWidth(target) - target_scale >= DecimalType::GetWidth(source) - scale;
	}
	default:
		break;
	}
	if (!source.IsIntegral()) {
		return false;
	}
	if (to_text || target.id() == LogicalTypeId::DOUBLE || target.id() == LogicalTypeId::FLOAT) {
		return true;
	}
	if (!target.IsIntegral()) {
		return false;
	}
	auto source_size = GetTypeIdSize(source.InternalType()), target_size = GetTypeIdSize(target.InternalType());
	if (source.IsUnsigned()) {
		return target.IsUnsigned() ? target_size >= source_size : target_size > source_size;
	}
	return !target.IsUnsigned() && target_size >= source_size;
}

class ExpressionWriter {
public:
	ExpressionWriter(const column_writer_t &column_p, bool computes) : column(column_p), computes(computes) {
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
	bool WriteComparison(const BoundComparisonExpression &expr, string &sql) const {
		string left, right;
		auto comparison = expr.GetExpressionType();
		if (!IsComparable(expr.left->return_type, comparison) || !IsComparable(expr.right->return_type, comparison) ||
		    !Write(*expr.left, left) || !Write(*expr.right, right)) {
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
		    !Write(*expr.lower, lower) || !Write(*expr.upper, upper)) {
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

	bool WriteCase(const BoundCaseExpression &expr, string &sql) const {
		string result = "CASE";
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
		auto widens = computes && !expr.try_cast && expr.child->return_type.IsIntegral() &&
		              expr.return_type.id() == LogicalTypeId::DECIMAL;
		if (type.empty() || !(widens || IsSafeCast(expr.child->return_type, expr.return_type)) ||
		    !Write(*expr.child, child)) {
			return false;
		}
		sql = "CAST(" + child + " AS " + type + ")";
		return true;
	}

	static bool IsExactNumber(const LogicalType &type) {
		return type.IsIntegral() || type.id() == LogicalTypeId::DECIMAL;
	}

	//! Of exact numbers. The server would give a DECIMAL one more digit than was needed for the arguments as they were written.
	bool WriteArithmetic(const BoundFunctionExpression &expr, string &sql) const {
		auto &name = expr.function.name;
		string left, right;
		if ((name != "+" && name != "-" && name != "*") || expr.children.size() != 2 ||
		    !IsExactNumber(expr.return_type) || !IsExactNumber(expr.children[0]->return_type) ||
		    !IsExactNumber(expr.children[1]->return_type) || !Write(*expr.children[0], left) ||
		    !Write(*expr.children[1], right)) {
			return false;
		}
		sql = "(" + left + " " + name + " " + right + ")";
		if (expr.return_type.id() == LogicalTypeId::DECIMAL) {
			sql = "CAST(" + sql + " AS " + expr.return_type.ToString() + ")";
		}
		return true;
	}

	bool WriteFunction(const BoundFunctionExpression &expr, string &sql) const {
		if (computes && WriteArithmetic(expr, sql)) {
			return true;
		}
		auto function = FindFunction(expr.function.name);
		if (!function || expr.IsVolatile() || !ArgumentsFit(function->arguments, expr.children)) {
			return false;
		}
		// A function of the user may have the name of one of ours.
		if (!expr.function.catalog_name.empty() && expr.function.catalog_name != SYSTEM_CATALOG) {
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
		if (function->infix) {
			if (parts.size() != 2) {
				return false;
			}
			sql = "(" + parts[0] + " " + function->infix + " " + parts[1] + ")";
			return true;
		}
		sql = string(function->name) + "(" + StringUtil::Join(parts, ", ") + ")";
		return true;
	}

	const column_writer_t &column;
	const bool computes;
};

} // namespace

bool IsComparable(const LogicalType &type, ExpressionType comparison) {
	if (type.id() != LogicalTypeId::ENUM) {
		return !TypeToSql(type).empty();
	}
	// Its constants are written as texts, which have another order.
	return comparison == ExpressionType::COMPARE_EQUAL || comparison == ExpressionType::COMPARE_NOTEQUAL ||
	       comparison == ExpressionType::COMPARE_DISTINCT_FROM ||
	       comparison == ExpressionType::COMPARE_NOT_DISTINCT_FROM;
}

bool ExpressionToSql(const Expression &expr, const column_writer_t &column, string &sql) {
	return ExpressionWriter(column, false).Write(expr, sql);
}

bool ComputationToSql(const Expression &expr, const column_writer_t &column, string &sql) {
	return ExpressionWriter(column, true).Write(expr, sql);
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

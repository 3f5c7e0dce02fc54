//===----------------------------------------------------------------------===//
// openduck/pushdown_function.cpp: the functions and casts that mean the same at the server
//===----------------------------------------------------------------------===//
#include "openduck/pushdown_function.hpp"

#include "openduck/pushdown.hpp"

#include "duckdb/parser/keyword_helper.hpp"
#include "duckdb/planner/expression/bound_constant_expression.hpp"

namespace openduck {

namespace {

//! Not among them: what needs the mathematical library of a host (exp, ln, sin, pow), whose last digits differ; hashes, which are another
//! version's; what hangs on a time zone, on the session or on the moment.
const PushableFunction FUNCTIONS[] = {
    // Texts.
    {"~~", "tt", false},
    {"!~~", "tt", false},
    {"~~*", "tt", false},
    {"!~~*", "tt", false},
    {"~~~", "tt", false},
    {"^@", "tt", false},
    {"||", "tt|bb", false},
    {"like_escape", "ttc", true},
    {"not_like_escape", "ttc", true},
    {"ilike_escape", "ttc", true},
    {"not_ilike_escape", "ttc", true},
    {"prefix", "tt", false},
    {"suffix", "tt", false},
    {"contains", "tt|la", false},
    {"starts_with", "tt", false},
    {"ends_with", "tt", false},
    {"instr", "tt", false},
    {"strpos", "tt", false},
    {"position", "tt", false},
    {"lower", "t", false},
    {"lcase", "t", false},
    {"upper", "t", false},
    {"ucase", "t", false},
    {"length", "t|l", false},
    {"len", "t|l", false},
    {"char_length", "t|l", false},
    {"character_length", "t|l", false},
    {"length_grapheme", "t", false},
    {"strlen", "t", false},
    {"bit_length", "t", false},
    {"octet_length", "b", false},
    {"ascii", "t", false},
    {"ord", "t", false},
    {"unicode", "t", false},
    {"chr", "i", true},
    {"trim", "t|tt", false},
    {"ltrim", "t|tt", false},
    {"rtrim", "t|tt", false},
    {"lpad", "tnt", true},
    {"rpad", "tnt", true},
    {"repeat", "tn", true},
    {"reverse", "t", false},
    {"replace", "ttt", false},
    {"translate", "ttt", false},
    {"concat", "t*", false},
    {"concat_ws", "tt*", false},
    {"strip_accents", "t", false},
    {"nfc_normalize", "t", false},
    {"regexp_matches", "tc|tcc", false},
    {"regexp_full_match", "tc|tcc", false},
    {"regexp_replace", "tcc|tccc", false},
    {"regexp_extract", "tc|tcn", false},
    {"substring", "tn|tnn", false},
    {"substr", "tn|tnn", false},
    {"array_slice", "tnn", true},
    {"array_extract", "tn|ln", true},
    {"left", "tn", false},
    {"right", "tn", false},
    {"left_grapheme", "tn", false},
    {"right_grapheme", "tn", false},
    {"substring_grapheme", "tn|tnn", false},
    {"md5", "t|b", false},
    {"sha1", "t|b", false},
    {"sha256", "t|b", false},
    {"hex", "t|b|i", false},
    {"to_hex", "t|b|i", false},
    {"bin", "t|i", false},
    {"to_binary", "t|i", false},
    {"unhex", "t", true},
    {"from_hex", "t", true},
    {"encode", "t", false},
    {"decode", "b", true},
    {"base64", "b", false},
    {"to_base64", "b", false},
    {"from_base64", "t", true},
    {"url_encode", "t", false},
    {"levenshtein", "tt", false},
    {"editdist3", "tt", false},
    {"damerau_levenshtein", "tt", false},
    {"hamming", "tt", true},
    {"mismatches", "tt", true},
    // Numbers. Sums, differences, products and remainders of exact ones are written elsewhere.
    {"+", "ff|f|x", false},
    {"+", "dv|vd|hv|vv|di|id", true},
    {"-", "ff|f", false},
    {"-", "x|dd|dv|hv|vv|v|di", true},
    {"*", "ff", false},
    {"//", "ff", false},
    {"/", "vf", true},
    {"abs", "f", false},
    {"abs", "x", true},
    {"@", "f", false},
    {"@", "x", true},
    {"sign", "f|x", false},
    {"isnan", "f", false},
    {"isinf", "f|d", false},
    {"isfinite", "f|d", false},
    {"signbit", "f", false},
    {"floor", "f|m", false},
    {"ceil", "f|m", false},
    {"ceiling", "f|m", false},
    {"trunc", "f|x", false},
    {"round", "f|fp|x|xp", false},
    {"even", "f", false},
    {"sqrt", "f", true},
    {"nextafter", "ff", false},
    {"&", "ii", false},
    {"|", "ii", false},
    {"<<", "ii", true},
    {">>", "ii", true},
    {"xor", "ii", false},
    {"~", "i", false},
    {"bit_count", "i", false},
    {"gcd", "ii", true},
    {"greatest_common_divisor", "ii", true},
    {"lcm", "ii", true},
    {"least_common_multiple", "ii", true},
    {"greatest", "a*", false},
    {"least", "a*", false},
    // Days and times.
    {"year", "d", false},
    {"month", "d", false},
    {"day", "d", false},
    {"dayofmonth", "d", false},
    {"quarter", "d", false},
    {"dayofweek", "d", false},
    {"weekday", "d", false},
    {"isodow", "d", false},
    {"dayofyear", "d", false},
    {"week", "d", false},
    {"weekofyear", "d", false},
    {"isoyear", "d", false},
    {"yearweek", "d", false},
    {"decade", "d", false},
    {"century", "d", false},
    {"millennium", "d", false},
    {"era", "d", false},
    {"hour", "h", false},
    {"minute", "h", false},
    {"second", "h", false},
    {"millisecond", "h", false},
    {"microsecond", "h", false},
    {"epoch", "d", false},
    {"epoch_ms", "d", true},
    {"epoch_us", "d", true},
    {"dayname", "d", false},
    {"monthname", "d", false},
    {"last_day", "d", true},
    {"date_trunc", "cd", true},
    {"datetrunc", "cd", true},
    {"date_diff", "cdd", true},
    {"datediff", "cdd", true},
    {"date_sub", "cdd", true},
    {"datesub", "cdd", true},
    {"strftime", "dc", true},
    {"make_date", "iii", true},
    {"to_years", "i", true},
    {"to_months", "i", true},
    {"to_weeks", "i", true},
    {"to_days", "i", true},
    {"to_hours", "i", true},
    {"to_minutes", "i", true},
    // Around the sides of a join's equality.
    {"normalized_interval", "w", false},
    {"timetz_byte_comparable", "w", false},
    // Nested ones, as far as their parts are of the types above.
    {"struct_extract", "sc", false},
    {"list_extract", "ln", true},
    {"list_element", "ln", true},
    {"list_contains", "la", false},
    {"list_has", "la", false},
    {"array_contains", "la", false},
    {"array_has", "la", false},
    {"list_position", "la", false},
    {"list_indexof", "la", false},
    {"array_position", "la", false},
    {"array_indexof", "la", false},
    {"array_length", "l", false},
    {"list_value", "a*", false},
    {"list_pack", "a*", false},
    {"unpivot_list", "a*", false},
    {"range", "i|ii|iii", true},
    {"generate_series", "i|ii|iii", true},
    {"string_split", "tt", false},
    {"split", "tt", false},
    {"str_split", "tt", false},
    {"string_to_array", "tt", false},
    {"string_split_regex", "tc", true},
    {"str_split_regex", "tc", true},
    {"regexp_split_to_array", "tc", true},
};

bool IsConstant(const Expression &expr) {
	return expr.GetExpressionType() == ExpressionType::VALUE_CONSTANT;
}

bool IsIntegerBelow(const Expression &expr, int64_t limit) {
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
	return n > -limit && n < limit;
}

bool IsFloat(const LogicalType &type) {
	return type.id() == LogicalTypeId::FLOAT || type.id() == LogicalTypeId::DOUBLE;
}

//! ARG as LETTER says.
bool ArgumentFits(char letter, const Expression &arg) {
	auto &type = arg.return_type;
	switch (letter) {
	case 't':
		return IsPlainText(type);
	case 'c': // a constant text
		return IsConstant(arg) && IsPlainText(type) && !arg.Cast<BoundConstantExpression>().value.IsNull();
	case 'n': // a small constant
		return IsIntegerBelow(arg, 1000000);
	case 'p': // digits that a power of ten is exact for
		return IsIntegerBelow(arg, 16);
	case 'i':
		return type.IsIntegral();
	case 'm':
		return type.id() == LogicalTypeId::DECIMAL;
	case 'x': // an exact number
		return type.IsIntegral() || type.id() == LogicalTypeId::DECIMAL;
	case 'f':
		return IsFloat(type);
	case 'd':
		return type.id() == LogicalTypeId::DATE || type.id() == LogicalTypeId::TIMESTAMP;
	case 'h':
		return type.id() == LogicalTypeId::TIME || type.id() == LogicalTypeId::TIMESTAMP;
	case 'v':
		return type.id() == LogicalTypeId::INTERVAL;
	case 'w':
		return type.id() == LogicalTypeId::INTERVAL || type.id() == LogicalTypeId::TIME_TZ;
	case 'b':
		return type.id() == LogicalTypeId::BLOB;
	case 's':
		return type.id() == LogicalTypeId::STRUCT;
	case 'l':
		return type.id() == LogicalTypeId::LIST && !TypeToSql(ListType::GetChildType(type)).empty();
	default: // anything that is compared alike
		return !TypeToSql(type).empty();
	}
}

//! Whether ARGS are as one of the alternatives of PATTERN says; with '*' at its end what is before may be repeated.
bool ArgumentsFit(const string &pattern, const vector<unique_ptr<Expression>> &args) {
	for (auto &alternative : StringUtil::Split(pattern, '|')) {
		auto repeats = alternative.back() == '*';
		auto letters = alternative.substr(0, alternative.size() - (repeats ? 1 : 0));
		if (repeats ? args.size() < letters.size() : args.size() != letters.size()) {
			continue;
		}
		bool fits = true;
		for (idx_t i = 0; i < args.size(); i++) {
			fits &= ArgumentFits(letters[MinValue<idx_t>(i, letters.size() - 1)], *args[i]);
		}
		if (fits) {
			return true;
		}
	}
	return false;
}

} // namespace

bool IsPlainText(const LogicalType &type) {
	return type.id() == LogicalTypeId::VARCHAR && StringType::GetCollation(type).empty();
}

string SystemFunctionSql(const string &name) {
	return string(SYSTEM_CATALOG) + "." + DEFAULT_SCHEMA + "." + KeywordHelper::WriteOptionallyQuoted(name);
}

string SystemCallSql(const string &name, const vector<string> &arguments) {
	return SystemFunctionSql(name) + "(" + StringUtil::Join(arguments, ", ") + ")";
}

optional_ptr<const PushableFunction> FindPushable(const BoundFunctionExpression &expr) {
	auto &catalog = expr.function.catalog_name;
	// A function of the user may have the name of one of ours.
	if (expr.IsVolatile() || expr.children.empty() || (!catalog.empty() && catalog != SYSTEM_CATALOG)) {
		return nullptr;
	}
	for (auto &function : FUNCTIONS) {
		if (expr.function.name == function.name && ArgumentsFit(function.arguments, expr.children)) {
			return &function;
		}
	}
	return nullptr;
}

//===--------------------------------------------------------------------===//
// Casts
//===--------------------------------------------------------------------===//
static bool IsPushableIntegerCast(const LogicalType &source, const LogicalType &target, bool &fallible) {
	if (IsPlainText(target) || IsFloat(target) || target.id() == LogicalTypeId::BOOLEAN) {
		return true;
	}
	if (target.id() == LogicalTypeId::DECIMAL) {
		fallible = true;
		return true;
	}
	if (!target.IsIntegral()) {
		return false;
	}
	auto source_size = GetTypeIdSize(source.InternalType()), target_size = GetTypeIdSize(target.InternalType());
	auto widens = source.IsUnsigned() && !target.IsUnsigned() ? target_size > source_size : target_size >= source_size;
	fallible = !widens || (target.IsUnsigned() && !source.IsUnsigned());
	return true;
}

static bool IsPushableDecimalCast(const LogicalType &source, const LogicalType &target, bool &fallible) {
	if (target.id() != LogicalTypeId::DECIMAL) {
		fallible = target.IsIntegral();
		return fallible || IsFloat(target) || IsPlainText(target);
	}
	auto scale = DecimalType::GetScale(source), target_scale = DecimalType::GetScale(target);
	fallible =
	    target_scale < scale || DecimalType::GetWidth(target) - target_scale < DecimalType::GetWidth(source) - scale;
	return true;
}

//! What a text is read as without a time zone.
static bool IsReadFromText(const LogicalType &type) {
	switch (type.id()) {
	case LogicalTypeId::BOOLEAN:
	case LogicalTypeId::DECIMAL:
	case LogicalTypeId::FLOAT:
	case LogicalTypeId::DOUBLE:
	case LogicalTypeId::DATE:
	case LogicalTypeId::TIME:
	case LogicalTypeId::INTERVAL:
	case LogicalTypeId::UUID:
	case LogicalTypeId::BLOB:
		return true;
	default:
		return type.IsIntegral();
	}
}

bool IsPushableCast(const LogicalType &source, const LogicalType &target, bool &fallible) {
	auto to_text = IsPlainText(target);
	fallible = false;
	switch (source.id()) {
	case LogicalTypeId::BOOLEAN:
		return to_text || target.IsIntegral();
	case LogicalTypeId::DATE:
		fallible = target.id() == LogicalTypeId::TIMESTAMP;
		return to_text || fallible;
	case LogicalTypeId::TIMESTAMP:
		return to_text || target.id() == LogicalTypeId::DATE;
	case LogicalTypeId::ENUM:
	case LogicalTypeId::UUID:
	case LogicalTypeId::TIME:
	case LogicalTypeId::INTERVAL:
	case LogicalTypeId::BLOB:
		return to_text;
	case LogicalTypeId::FLOAT:
	case LogicalTypeId::DOUBLE:
		if (to_text || target.id() == LogicalTypeId::DOUBLE) {
			return true;
		}
		fallible = target.IsIntegral() || target.id() == LogicalTypeId::DECIMAL || target.id() == LogicalTypeId::FLOAT;
		return fallible;
	case LogicalTypeId::DECIMAL:
		return IsPushableDecimalCast(source, target, fallible);
	case LogicalTypeId::VARCHAR:
		fallible = true;
		return IsPlainText(source) && IsReadFromText(target);
	default:
		return source.IsIntegral() && IsPushableIntegerCast(source, target, fallible);
	}
}

} // namespace openduck

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
    {"~~", "tt", true, false},
    {"!~~", "tt", true, false},
    {"~~*", "tt", true, false},
    {"!~~*", "tt", true, false},
    {"~~~", "tt", true, false},
    {"^@", "tt", true, false},
    {"||", "tt|bb", true, false},
    {"like_escape", "ttc", false, true},
    {"not_like_escape", "ttc", false, true},
    {"ilike_escape", "ttc", false, true},
    {"not_ilike_escape", "ttc", false, true},
    {"prefix", "tt", false, false},
    {"suffix", "tt", false, false},
    {"contains", "tt|la", false, false},
    {"starts_with", "tt", false, false},
    {"ends_with", "tt", false, false},
    {"instr", "tt", false, false},
    {"strpos", "tt", false, false},
    {"position", "tt", false, false},
    {"lower", "t", false, false},
    {"lcase", "t", false, false},
    {"upper", "t", false, false},
    {"ucase", "t", false, false},
    {"length", "t|l", false, false},
    {"len", "t|l", false, false},
    {"char_length", "t|l", false, false},
    {"character_length", "t|l", false, false},
    {"length_grapheme", "t", false, false},
    {"strlen", "t", false, false},
    {"bit_length", "t", false, false},
    {"octet_length", "b", false, false},
    {"ascii", "t", false, false},
    {"ord", "t", false, false},
    {"unicode", "t", false, false},
    {"chr", "i", false, true},
    {"trim", "t|tt", false, false},
    {"ltrim", "t|tt", false, false},
    {"rtrim", "t|tt", false, false},
    {"lpad", "tnt", false, true},
    {"rpad", "tnt", false, true},
    {"repeat", "tn", false, true},
    {"reverse", "t", false, false},
    {"replace", "ttt", false, false},
    {"translate", "ttt", false, false},
    {"concat", "t*", false, false},
    {"concat_ws", "tt*", false, false},
    {"strip_accents", "t", false, false},
    {"nfc_normalize", "t", false, false},
    {"regexp_matches", "tc|tcc", false, false},
    {"regexp_full_match", "tc|tcc", false, false},
    {"regexp_replace", "tcc|tccc", false, false},
    {"regexp_extract", "tc|tcn", false, false},
    {"substring", "tn|tnn", false, false},
    {"substr", "tn|tnn", false, false},
    {"array_slice", "tnn", false, true},
    {"array_extract", "tn|ln", false, true},
    {"left", "tn", false, false},
    {"right", "tn", false, false},
    {"left_grapheme", "tn", false, false},
    {"right_grapheme", "tn", false, false},
    {"substring_grapheme", "tn|tnn", false, false},
    {"md5", "t|b", false, false},
    {"sha1", "t|b", false, false},
    {"sha256", "t|b", false, false},
    {"hex", "t|b|i", false, false},
    {"to_hex", "t|b|i", false, false},
    {"bin", "t|i", false, false},
    {"to_binary", "t|i", false, false},
    {"unhex", "t", false, true},
    {"from_hex", "t", false, true},
    {"encode", "t", false, false},
    {"decode", "b", false, true},
    {"base64", "b", false, false},
    {"to_base64", "b", false, false},
    {"from_base64", "t", false, true},
    {"url_encode", "t", false, false},
    {"levenshtein", "tt", false, false},
    {"editdist3", "tt", false, false},
    {"damerau_levenshtein", "tt", false, false},
    {"hamming", "tt", false, true},
    {"mismatches", "tt", false, true},
    // Numbers. Sums, differences, products and remainders of exact ones are written elsewhere.
    {"+", "ff|f|x", true, false},
    {"+", "dv|vd|hv|vv|di|id", true, true},
    {"-", "ff|f", true, false},
    {"-", "x|dd|dv|hv|vv|v|di", true, true},
    {"*", "ff", true, false},
    {"//", "ff", true, false},
    {"/", "vf", false, true},
    {"abs", "f", false, false},
    {"abs", "x", false, true},
    {"@", "f", false, false},
    {"@", "x", false, true},
    {"sign", "f|x", false, false},
    {"isnan", "f", false, false},
    {"isinf", "f|d", false, false},
    {"isfinite", "f|d", false, false},
    {"signbit", "f", false, false},
    {"floor", "f|m", false, false},
    {"ceil", "f|m", false, false},
    {"ceiling", "f|m", false, false},
    {"trunc", "f|x", false, false},
    {"round", "f|fp|x|xp", false, false},
    {"even", "f", false, false},
    {"sqrt", "f", false, true},
    {"nextafter", "ff", false, false},
    {"&", "ii", true, false},
    {"|", "ii", true, false},
    {"<<", "ii", true, true},
    {">>", "ii", true, true},
    {"xor", "ii", false, false},
    {"~", "i", false, false},
    {"bit_count", "i", false, false},
    {"gcd", "ii", false, true},
    {"greatest_common_divisor", "ii", false, true},
    {"lcm", "ii", false, true},
    {"least_common_multiple", "ii", false, true},
    {"greatest", "a*", false, false},
    {"least", "a*", false, false},
    // Days and times.
    {"year", "d", false, false},
    {"month", "d", false, false},
    {"day", "d", false, false},
    {"dayofmonth", "d", false, false},
    {"quarter", "d", false, false},
    {"dayofweek", "d", false, false},
    {"weekday", "d", false, false},
    {"isodow", "d", false, false},
    {"dayofyear", "d", false, false},
    {"week", "d", false, false},
    {"weekofyear", "d", false, false},
    {"isoyear", "d", false, false},
    {"yearweek", "d", false, false},
    {"decade", "d", false, false},
    {"century", "d", false, false},
    {"millennium", "d", false, false},
    {"era", "d", false, false},
    {"hour", "h", false, false},
    {"minute", "h", false, false},
    {"second", "h", false, false},
    {"millisecond", "h", false, false},
    {"microsecond", "h", false, false},
    {"epoch", "d", false, false},
    {"epoch_ms", "d", false, true},
    {"epoch_us", "d", false, true},
    {"dayname", "d", false, false},
    {"monthname", "d", false, false},
    {"last_day", "d", false, true},
    {"date_trunc", "cd", false, true},
    {"datetrunc", "cd", false, true},
    {"date_diff", "cdd", false, true},
    {"datediff", "cdd", false, true},
    {"date_sub", "cdd", false, true},
    {"datesub", "cdd", false, true},
    {"strftime", "dc", false, true},
    {"make_date", "iii", false, true},
    {"to_years", "i", false, true},
    {"to_months", "i", false, true},
    {"to_weeks", "i", false, true},
    {"to_days", "i", false, true},
    {"to_hours", "i", false, true},
    {"to_minutes", "i", false, true},
    // Around the sides of a join's equality.
    {"normalized_interval", "w", false, false},
    {"timetz_byte_comparable", "w", false, false},
    // Nested ones, as far as their parts are of the types above.
    {"struct_extract", "sc", false, false},
    {"list_extract", "ln", false, true},
    {"list_element", "ln", false, true},
    {"list_contains", "la", false, false},
    {"list_has", "la", false, false},
    {"array_contains", "la", false, false},
    {"array_has", "la", false, false},
    {"list_position", "la", false, false},
    {"list_indexof", "la", false, false},
    {"array_position", "la", false, false},
    {"array_indexof", "la", false, false},
    {"array_length", "l", false, false},
    {"list_value", "a*", false, false},
    {"list_pack", "a*", false, false},
    {"unpivot_list", "a*", false, false},
    {"range", "i|ii|iii", false, true},
    {"generate_series", "i|ii|iii", false, true},
    {"string_split", "tt", false, false},
    {"split", "tt", false, false},
    {"str_split", "tt", false, false},
    {"string_to_array", "tt", false, false},
    {"string_split_regex", "tc", false, true},
    {"str_split_regex", "tc", false, true},
    {"regexp_split_to_array", "tc", false, true},
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

//===----------------------------------------------------------------------===//
// openduck/pushdown_value.cpp: constants and types as SQL that any server reads as the same value
//===----------------------------------------------------------------------===//
#include "openduck/pushdown.hpp"
#include "openduck/pushdown_function.hpp"

#include "duckdb/parser/keyword_helper.hpp"
#include "utf8proc_wrapper.hpp"

#include <cmath>

namespace openduck {

//! Longer texts are not worth sending.
static constexpr idx_t MAX_LITERAL = idx_t(64) << 10;
//! Of all values of an ENUM together.
static constexpr idx_t MAX_ENUM = idx_t(4) << 10;

static string TextLiteral(const string &text);

//! An ENUM by its values, which is the same type as any other that has them. Empty if there are many.
static string EnumToSql(const LogicalType &type) {
	string values;
	auto size = EnumType::GetSize(type);
	for (idx_t i = 0; i < size && values.size() < MAX_ENUM; i++) {
		values += (i ? ", " : "") + TextLiteral(EnumType::GetString(type, i).GetString());
	}
	// A value with a NUL byte would be an expression.
	return values.size() < MAX_ENUM && values.find(SystemCallSql("chr", {"0"})) == string::npos ? "ENUM(" + values + ")"
	                                                                                            : string();
}

string TypeToSql(const LogicalType &type) {
	switch (type.id()) {
	case LogicalTypeId::BOOLEAN:
	case LogicalTypeId::TINYINT:
	case LogicalTypeId::SMALLINT:
	case LogicalTypeId::INTEGER:
	case LogicalTypeId::BIGINT:
	case LogicalTypeId::HUGEINT:
	case LogicalTypeId::UTINYINT:
	case LogicalTypeId::USMALLINT:
	case LogicalTypeId::UINTEGER:
	case LogicalTypeId::UBIGINT:
	case LogicalTypeId::UHUGEINT:
	case LogicalTypeId::FLOAT:
	case LogicalTypeId::DOUBLE:
	case LogicalTypeId::DECIMAL:
	case LogicalTypeId::DATE:
	case LogicalTypeId::TIME:
	case LogicalTypeId::TIME_TZ:
	case LogicalTypeId::TIMESTAMP:
	case LogicalTypeId::TIMESTAMP_SEC:
	case LogicalTypeId::TIMESTAMP_MS:
	case LogicalTypeId::TIMESTAMP_NS:
	case LogicalTypeId::TIMESTAMP_TZ:
	case LogicalTypeId::INTERVAL:
	case LogicalTypeId::BLOB:
	case LogicalTypeId::BIT:
	case LogicalTypeId::BIGNUM:
	case LogicalTypeId::UUID:
		// An alias would be a name that the server may not know.
		return type.HasAlias() ? string() : type.ToString();
	case LogicalTypeId::ENUM:
		return type.HasAlias() ? string() : EnumToSql(type);
	case LogicalTypeId::VARCHAR:
		return type.HasAlias() || !StringType::GetCollation(type).empty() ? string() : "VARCHAR";
	default:
		return string();
	}
}

static string TextLiteral(const string &text) {
	// The parser stops at a NUL byte.
	vector<string> parts;
	idx_t begin = 0;
	while (true) {
		auto end = text.find('\0', begin);
		parts.push_back(KeywordHelper::WriteQuoted(text.substr(begin, end == string::npos ? end : end - begin), '\''));
		if (end == string::npos) {
			break;
		}
		parts.push_back(SystemCallSql("chr", {"0"}));
		begin = end + 1;
	}
	return parts.size() == 1 ? parts[0] : SystemCallSql("concat", parts);
}

static string BlobLiteral(const string &bytes) {
	static const char DIGITS[] = "0123456789ABCDEF";
	string result = "CAST('";
	for (auto byte : bytes) {
		result += "\\x";
		result += DIGITS[uint8_t(byte) >> 4];
		result += DIGITS[uint8_t(byte) & 15];
	}
	return result + "' AS BLOB)";
}

static string FloatText(double value, int digits) {
	if (std::isnan(value)) {
		return std::signbit(value) ? string() : "nan";
	}
	if (std::isinf(value)) {
		return value < 0 ? "-inf" : "inf";
	}
	char text[64];
	snprintf(text, sizeof(text), "%.*g", digits, value);
	return text;
}

static string IntervalText(const interval_t &value) {
	return to_string(value.months) + " months " + to_string(value.days) + " days " + to_string(value.micros) +
	       " microseconds";
}

//! True if TEXT cast to VALUE's type gives VALUE, to the last bit.
static bool ReadsBack(const string &text, const Value &value) {
	Value again;
	string error;
	if (!Value(text).DefaultTryCastAs(value.type(), again, &error, true) || again.IsNull()) {
		return false;
	}
	switch (value.type().id()) {
	case LogicalTypeId::FLOAT: {
		auto a = again.GetValueUnsafe<float>(), b = value.GetValueUnsafe<float>();
		return memcmp(&a, &b, sizeof(a)) == 0 || (std::isnan(a) && std::isnan(b));
	}
	case LogicalTypeId::DOUBLE: {
		auto a = again.GetValueUnsafe<double>(), b = value.GetValueUnsafe<double>();
		return memcmp(&a, &b, sizeof(a)) == 0 || (std::isnan(a) && std::isnan(b));
	}
	case LogicalTypeId::INTERVAL: {
		auto a = again.GetValueUnsafe<interval_t>(), b = value.GetValueUnsafe<interval_t>();
		return a.months == b.months && a.days == b.days && a.micros == b.micros;
	}
	default:
		return Value::NotDistinctFrom(again, value);
	}
}

//! A list of values that can be written.
static bool ListToSql(const Value &value, string &sql) {
	auto type_sql = TypeToSql(ListType::GetChildType(value.type()));
	if (type_sql.empty()) {
		return false;
	}
	if (value.IsNull()) {
		sql = "CAST(NULL AS " + type_sql + "[])";
		return true;
	}
	string values;
	for (auto &child : ListValue::GetChildren(value)) {
		string part;
		if (!LiteralToSql(child, part) || values.size() > MAX_LITERAL) {
			return false;
		}
		values += (values.empty() ? "" : ", ") + part;
	}
	sql = "CAST(" + SystemFunctionSql("list_value") + "(" + values + ") AS " + type_sql + "[])";
	return true;
}

bool LiteralToSql(const Value &value, string &sql) {
	auto &type = value.type();
	auto id = type.id();
	if (id == LogicalTypeId::SQLNULL) {
		sql = "NULL";
		return true;
	}
	if (id == LogicalTypeId::LIST) {
		return ListToSql(value, sql);
	}
	auto type_sql = TypeToSql(type);
	if (id == LogicalTypeId::ENUM && !value.IsNull()) {
		// Compared with an ENUM, a bare text becomes one of its values.
		sql = TextLiteral(value.ToString());
		if (!type_sql.empty()) {
			sql = "CAST(" + sql + " AS " + type_sql + ")";
		}
		return sql.size() < MAX_LITERAL;
	}
	if (type_sql.empty()) {
		return false;
	}
	if (value.IsNull()) {
		sql = "CAST(NULL AS " + type_sql + ")";
		return true;
	}
	string text;
	switch (id) {
	case LogicalTypeId::BOOLEAN:
		sql = value.GetValue<bool>() ? "true" : "false";
		return true;
	case LogicalTypeId::VARCHAR: {
		auto &string_value = StringValue::Get(value);
		if (string_value.size() > MAX_LITERAL || !Utf8Proc::IsValid(string_value.data(), string_value.size())) {
			return false;
		}
		sql = "CAST(" + TextLiteral(string_value) + " AS VARCHAR)";
		return true;
	}
	case LogicalTypeId::BLOB: {
		auto &bytes = StringValue::Get(value);
		if (bytes.size() > MAX_LITERAL) {
			return false;
		}
		sql = BlobLiteral(bytes);
		return true;
	}
	case LogicalTypeId::FLOAT:
		text = FloatText(value.GetValueUnsafe<float>(), 9);
		break;
	case LogicalTypeId::DOUBLE:
		text = FloatText(value.GetValueUnsafe<double>(), 17);
		break;
	case LogicalTypeId::INTERVAL:
		text = IntervalText(value.GetValueUnsafe<interval_t>());
		break;
	default:
		// Without a context: zones are UTC.
		text = value.ToString();
		break;
	}
	if (text.empty() || text.size() > MAX_LITERAL || !ReadsBack(text, value)) {
		return false;
	}
	sql = "CAST(" + KeywordHelper::WriteQuoted(text, '\'') + " AS " + type_sql + ")";
	return true;
}

} // namespace openduck

//===----------------------------------------------------------------------===//
// openduck/scan_schema.cpp: is the stream's schema that of the columns that were bound?
//===----------------------------------------------------------------------===//
#include "openduck/scan_decode.hpp"

#include "duckdb/common/exception.hpp"
#include "openduck/remote.hpp"

namespace openduck {

//! FNV-1a over the values, each followed by a NUL byte.
static uint64_t EnumFingerprint(const LogicalType &type) {
	uint64_t hash = 0xcbf29ce484222325ULL;
	auto add = [&hash](uint8_t byte) {
		hash = (hash ^ byte) * 0x100000001b3ULL;
	};
	auto size = EnumType::GetSize(type);
	auto values = FlatVector::GetData<string_t>(EnumType::GetValuesInsertOrder(type));
	for (idx_t i = 0; i < size; i++) {
		for (idx_t k = 0; k < values[i].GetSize(); k++) {
			add(uint8_t(values[i].GetData()[k]));
		}
		add(0);
	}
	return hash;
}

string NativeSignature(const LogicalType &type) {
	switch (type.id()) {
	case LogicalTypeId::DECIMAL:
		return StringUtil::Format("DECIMAL(%d,%d)", DecimalType::GetWidth(type), DecimalType::GetScale(type));
	case LogicalTypeId::ENUM:
		return StringUtil::Format("ENUM(%llu,%s)", EnumType::GetSize(type),
		                          StringUtil::Format("%016llx", EnumFingerprint(type)));
	case LogicalTypeId::ARRAY:
		return StringUtil::Format("ARRAY(%llu)", ArrayType::GetSize(type));
	case LogicalTypeId::SQLNULL:
		return "NULL";
	default:
		return EnumUtil::ToString(type.id());
	}
}

static string IntegerFormat(PhysicalType type) {
	switch (type) {
	case PhysicalType::INT16:
		return "s";
	case PhysicalType::INT32:
		return "i";
	case PhysicalType::INT64:
		return "l";
	case PhysicalType::UINT8:
		return "C";
	case PhysicalType::UINT16:
		return "S";
	case PhysicalType::UINT32:
		return "I";
	default:
		return "w:16";
	}
}

string NativeFormat(const LogicalType &type) {
	switch (type.id()) {
	case LogicalTypeId::BOOLEAN:
	case LogicalTypeId::TINYINT:
		return "c";
	case LogicalTypeId::SMALLINT:
		return "s";
	case LogicalTypeId::INTEGER:
	case LogicalTypeId::SQLNULL:
		return "i";
	case LogicalTypeId::BIGINT:
		return "l";
	case LogicalTypeId::UTINYINT:
		return "C";
	case LogicalTypeId::USMALLINT:
		return "S";
	case LogicalTypeId::UINTEGER:
		return "I";
	case LogicalTypeId::UBIGINT:
	case LogicalTypeId::TIME_TZ:
		return "L";
	case LogicalTypeId::FLOAT:
		return "f";
	case LogicalTypeId::DOUBLE:
		return "g";
	case LogicalTypeId::HUGEINT:
	case LogicalTypeId::UHUGEINT:
	case LogicalTypeId::INTERVAL:
	case LogicalTypeId::UUID:
		return "w:16";
	case LogicalTypeId::DECIMAL:
	case LogicalTypeId::ENUM:
		return IntegerFormat(type.InternalType());
	case LogicalTypeId::DATE:
		return "tdD";
	case LogicalTypeId::TIME:
		return "ttu";
	case LogicalTypeId::TIME_NS:
		return "ttn";
	case LogicalTypeId::TIMESTAMP_SEC:
		return "tss:";
	case LogicalTypeId::TIMESTAMP_MS:
		return "tsm:";
	case LogicalTypeId::TIMESTAMP:
		return "tsu:";
	case LogicalTypeId::TIMESTAMP_NS:
		return "tsn:";
	case LogicalTypeId::TIMESTAMP_TZ:
		return "tsu:UTC";
	case LogicalTypeId::VARCHAR:
		return "u";
	case LogicalTypeId::BLOB:
	case LogicalTypeId::BIT:
	case LogicalTypeId::BIGNUM:
	case LogicalTypeId::GEOMETRY:
		return "z";
	case LogicalTypeId::LIST:
	case LogicalTypeId::MAP:
		return "+l";
	case LogicalTypeId::ARRAY:
		return "+w:" + to_string(ArrayType::GetSize(type));
	case LogicalTypeId::STRUCT:
	case LogicalTypeId::UNION:
	case LogicalTypeId::VARIANT:
		return "+s";
	default:
		return string();
	}
}

static string SignatureOf(const ArrowSchema &field) {
	auto text = od_schema_metadata(&field, "openduck:type");
	return ForeignText(const_char_ptr_cast(text.data), text.len);
}

static string Text(const char *text) {
	return text ? ForeignText(text, strlen(text)) : string();
}

[[noreturn]] static void Differs(const string &column, const string &expected, const string &got) {
	throw IOException(
	    "column '%s' of the remote result is not what was bound: expected %s, got %s (the remote schema may have "
	    "changed; run the statement again)",
	    column, expected, got);
}

static void CheckField(const ArrowSchema &field, const string &column, const LogicalType &type);

static void CheckChildren(const ArrowSchema &field, const string &column, const child_list_t<LogicalType> &children,
                          bool named) {
	if (field.n_children != int64_t(children.size())) {
		Differs(column, to_string(children.size()) + " fields", to_string(field.n_children));
	}
	for (idx_t i = 0; i < children.size(); i++) {
		auto &child = *field.children[i];
		if (named && children[i].first != Text(child.name)) {
			Differs(column, "a field '" + children[i].first + "'", "'" + Text(child.name) + "'");
		}
		CheckField(child, column + "." + children[i].first, children[i].second);
	}
}

static void CheckField(const ArrowSchema &field, const string &column, const LogicalType &type) {
	auto format = NativeFormat(type);
	if (format.empty()) {
		throw NotImplementedException("column '%s': type %s does not travel over openduck", column, type.ToString());
	}
	auto expected = NativeSignature(type);
	auto got = SignatureOf(field);
	if (expected != got) {
		Differs(column, type.ToString(), got.empty() ? "a field without its type" : got);
	}
	if (!field.format || format != field.format || field.dictionary) {
		Differs(column, expected + " as '" + format + "'", "'" + Text(field.format) + "'");
	}
	switch (type.id()) {
	case LogicalTypeId::LIST:
	case LogicalTypeId::MAP:
		return CheckChildren(field, column, {{"l", ListType::GetChildType(type)}}, false);
	case LogicalTypeId::ARRAY:
		return CheckChildren(field, column, {{"l", ArrayType::GetChildType(type)}}, false);
	case LogicalTypeId::STRUCT:
		return CheckChildren(field, column, StructType::GetChildTypes(type), !StructType::IsUnnamed(type));
	case LogicalTypeId::UNION: {
		// The tag's field has no agreed name.
		auto &children = StructType::GetChildTypes(type);
		if (field.n_children != int64_t(children.size())) {
			Differs(column, to_string(children.size()) + " fields", to_string(field.n_children));
		}
		for (idx_t i = 1; i < children.size(); i++) {
			auto &child = *field.children[i];
			if (children[i].first != Text(child.name)) {
				Differs(column, "a member '" + children[i].first + "'", "'" + Text(child.name) + "'");
			}
		}
		return CheckChildren(field, column, children, false);
	}
	case LogicalTypeId::VARIANT:
		return CheckChildren(field, column, StructType::GetChildTypes(type), true);
	default:
		if (field.n_children != 0) {
			Differs(column, "no fields", to_string(field.n_children));
		}
	}
}

void CheckNativeSchema(const ArrowSchema &schema, const vector<string> &names, const vector<LogicalType> &types) {
	if (schema.n_children != int64_t(types.size())) {
		throw IOException(
		    "the remote result is not what was bound: expected %llu columns, got %lld (the remote schema may "
		    "have changed; run the statement again)",
		    types.size(), schema.n_children);
	}
	for (idx_t i = 0; i < types.size(); i++) {
		CheckField(*schema.children[i], names[i], types[i]);
	}
}

vector<pair<string, string>> ReadDescription(od_slice payload) {
	od_ipc_reader *reader = nullptr;
	od_error err = {};
	if (od_ipc_reader_create(&reader, &err) != OD_OK) {
		ThrowError(err);
	}
	unique_ptr<od_ipc_reader, void (*)(od_ipc_reader *)> guard(reader, od_ipc_reader_free);
	if (od_ipc_reader_start(reader, payload, nullptr, &err) != OD_OK) {
		ThrowError(err);
	}
	vector<pair<string, string>> result;
	auto &schema = *od_ipc_reader_schema(reader);
	for (int64_t i = 0; i < schema.n_children; i++) {
		auto &field = *schema.children[i];
		auto type = od_schema_metadata(&field, "openduck:sql_type");
		result.emplace_back(Text(field.name), ForeignText(const_char_ptr_cast(type.data), type.len));
	}
	return result;
}

} // namespace openduck

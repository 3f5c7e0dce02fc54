//===----------------------------------------------------------------------===//
// openduck/scan_verify.cpp: foreign values are checked before DuckDB's functions, which trust them, see them
//===----------------------------------------------------------------------===//
#include "openduck/scan_decode.hpp"

#include "duckdb/common/exception.hpp"
#include "duckdb/common/types/geometry.hpp"
#include "duckdb/common/types/variant.hpp"
#include "utf8proc_wrapper.hpp"

namespace openduck {

[[noreturn]] static void Corrupt(const char *what) {
	throw IOException("the server sent a damaged result: %s", what);
}

static bool IsAscii(const uint8_t *data, idx_t size) {
	uint64_t any = 0;
	idx_t i = 0;
	for (; i + 32 <= size; i += 32) {
		uint64_t words[4];
		memcpy(words, data + i, sizeof(words));
		any |= words[0] | words[1] | words[2] | words[3];
	}
	for (; i < size; i++) {
		any |= data[i];
	}
	return (any & 0x8080808080808080ULL) == 0;
}

void VerifyUtf8(const uint8_t *bytes, const int32_t *offsets, idx_t count) {
	if (count == 0) {
		return;
	}
	auto begin = idx_t(offsets[0]);
	auto size = idx_t(offsets[count]) - begin;
	if (IsAscii(bytes + begin, size)) {
		return;
	}
	for (idx_t i = 0; i < count; i++) {
		auto length = idx_t(offsets[i + 1] - offsets[i]);
		if (length && !Utf8Proc::IsValid(const_char_ptr_cast(bytes + offsets[i]), length)) {
			Corrupt("a string is not valid UTF-8");
		}
	}
}

static void VerifyBit(const string_t &value) {
	// One byte tells how many of the next byte's upper bits are padding.
	if (value.GetSize() < 2 || const_data_ptr_cast(value.GetData())[0] > 7) {
		Corrupt("a BIT has no valid padding");
	}
}

static void VerifyBignum(const string_t &value) {
	if (value.GetSize() < 4) {
		Corrupt("a BIGNUM is too short");
	}
	auto data = const_data_ptr_cast(value.GetData());
	uint32_t header = uint32_t(data[0]) << 16 | uint32_t(data[1]) << 8 | data[2];
	bool negative = (data[0] & 0x80) == 0;
	uint32_t bytes = (negative ? ~header : header) & 0x7FFFFF;
	if (bytes != value.GetSize() - 3) {
		Corrupt("a BIGNUM's header does not tell its length");
	}
}

//! DuckDB keeps a GEOMETRY as little-endian well-known binary and reads it back without looking at its end.
class GeometryCheck {
public:
	explicit GeometryCheck(const string_t &value) : data(const_data_ptr_cast(value.GetData())), left(value.GetSize()) {
	}

	void Run() {
		One(0);
		if (left) {
			Corrupt("a GEOMETRY has bytes after its end");
		}
	}

private:
	uint32_t Number() {
		Need(4);
		auto result = Load<uint32_t>(data);
		Skip(4);
		return result;
	}
	void Need(idx_t bytes) {
		if (left < bytes) {
			Corrupt("a GEOMETRY is cut short");
		}
	}
	void Skip(idx_t bytes) {
		Need(bytes);
		data += bytes;
		left -= bytes;
	}
	void Points(idx_t vertex_size) {
		auto count = Number();
		Skip(idx_t(count) * vertex_size);
	}
	void One(idx_t depth) {
		if (depth > Geometry::MAX_RECURSION_DEPTH) {
			Corrupt("a GEOMETRY is nested too deep");
		}
		Need(5);
		if (data[0] != 1) {
			Corrupt("a GEOMETRY is not little-endian");
		}
		Skip(1);
		auto meta = Number();
		auto type = GeometryType(meta % 1000);
		auto flags = meta / 1000;
		if (flags > 3) {
			Corrupt("a GEOMETRY has unknown flags");
		}
		idx_t vertex_size = sizeof(double) * (2 + (flags & 1) + (flags >> 1));
		switch (type) {
		case GeometryType::POINT:
			return Skip(vertex_size);
		case GeometryType::LINESTRING:
			return Points(vertex_size);
		case GeometryType::POLYGON: {
			auto rings = Number();
			for (uint32_t i = 0; i < rings; i++) {
				Points(vertex_size);
			}
			return;
		}
		case GeometryType::MULTIPOINT:
		case GeometryType::MULTILINESTRING:
		case GeometryType::MULTIPOLYGON:
		case GeometryType::GEOMETRYCOLLECTION: {
			auto parts = Number();
			for (uint32_t i = 0; i < parts; i++) {
				One(depth + 1);
			}
			return;
		}
		default:
			Corrupt("a GEOMETRY has an unknown type");
		}
	}

	const_data_ptr_t data;
	idx_t left;
};

void VerifyBlobs(const LogicalType &type, const string_t *values, const ValidityMask &validity, idx_t count) {
	auto id = type.id();
	if (id == LogicalTypeId::BLOB) {
		return;
	}
	for (idx_t i = 0; i < count; i++) {
		if (!validity.RowIsValid(i)) {
			continue;
		}
		if (id == LogicalTypeId::BIT) {
			VerifyBit(values[i]);
		} else if (id == LogicalTypeId::BIGNUM) {
			VerifyBignum(values[i]);
		} else {
			GeometryCheck(values[i]).Run();
		}
	}
}

//! DuckDB writes a time's text with no look at its hour: one outside of a day would be read and written out of bounds.
static void VerifyTime(LogicalTypeId type, uint64_t value) {
	auto day = type == LogicalTypeId::TIME_NS ? Interval::NANOS_PER_DAY : Interval::MICROS_PER_DAY;
	auto time = value;
	if (type == LogicalTypeId::TIME_TZ) {
		time = value >> dtime_tz_t::OFFSET_BITS;
		if ((value & dtime_tz_t::OFFSET_MASK) > uint64_t(dtime_tz_t::MAX_OFFSET - dtime_tz_t::MIN_OFFSET)) {
			Corrupt("a time's offset is out of range");
		}
	}
	if (time > uint64_t(day)) {
		Corrupt("a time is outside of its day");
	}
}

void VerifyTimes(const LogicalType &type, const uint64_t *values, const ValidityMask &validity, idx_t count) {
	for (idx_t i = 0; i < count; i++) {
		if (validity.RowIsValid(i)) {
			VerifyTime(type.id(), values[i]);
		}
	}
}

//===--------------------------------------------------------------------===//
// VARIANT
//===--------------------------------------------------------------------===//
namespace {

//! DuckDB walks a VARIANT by recursion.
constexpr uint16_t MAX_VARIANT_DEPTH = 1000;

//! The flat parts of a VARIANT vector.
struct VariantParts {
	explicit VariantParts(Vector &variant)
	    : data(variant), children_valid(FlatVector::Validity(VariantVector::GetChildren(variant))),
	      values_valid(FlatVector::Validity(VariantVector::GetValues(variant))),
	      keys_valid(FlatVector::Validity(data.keys)),
	      blob_valid(FlatVector::Validity(VariantVector::GetData(variant))),
	      key_valid(FlatVector::Validity(ListVector::GetEntry(data.keys))),
	      child_value_valid(FlatVector::Validity(VariantVector::GetChildrenValuesIndex(variant))),
	      type_valid(FlatVector::Validity(VariantVector::GetValuesTypeId(variant))),
	      offset_valid(FlatVector::Validity(VariantVector::GetValuesByteOffset(variant))) {
	}

	VariantVectorData data;
	const ValidityMask &children_valid, &values_valid, &keys_valid, &blob_valid;
	const ValidityMask &key_valid, &child_value_valid, &type_valid, &offset_valid;
};

//! One row's bytes from an offset on.
class Bytes {
public:
	Bytes(const string_t &blob, idx_t offset)
	    : data(const_data_ptr_cast(blob.GetData()) + offset), left(blob.GetSize() - offset) {
	}
	uint32_t Varint() {
		uint32_t result = 0;
		for (int shift = 0; shift < 35; shift += 7) {
			Skip(1);
			auto byte = data[-1];
			result |= uint32_t(byte & 0x7F) << (shift > 31 ? 31 : shift);
			if (!(byte & 0x80)) {
				return result;
			}
		}
		Corrupt("a VARIANT holds a number that never ends");
	}
	void Skip(idx_t bytes) {
		if (left < bytes) {
			Corrupt("a VARIANT's value ends outside of its data");
		}
		data += bytes;
		left -= bytes;
	}
	const_data_ptr_t data;
	idx_t left;
};

} // namespace

static void VerifyVariantDecimal(Bytes &bytes) {
	auto width = bytes.Varint();
	auto scale = bytes.Varint();
	if (width < 1 || width > 38 || scale > width) {
		Corrupt("a VARIANT's decimal has no valid width and scale");
	}
	bytes.Skip(width > 18 ? 16 : width > 9 ? 8 : width > 4 ? 4 : 2);
}

static void VerifyVariantString(Bytes &bytes, VariantLogicalType type) {
	auto length = bytes.Varint();
	auto text = const_char_ptr_cast(bytes.data);
	bytes.Skip(length);
	string_t value(text, length);
	switch (type) {
	case VariantLogicalType::VARCHAR:
		if (length && !Utf8Proc::IsValid(text, length)) {
			Corrupt("a string in a VARIANT is not valid UTF-8");
		}
		break;
	case VariantLogicalType::BIGNUM:
		return VerifyBignum(value);
	case VariantLogicalType::BITSTRING:
		return VerifyBit(value);
	case VariantLogicalType::GEOMETRY:
		return GeometryCheck(value).Run();
	default:
		break;
	}
}

static void VerifyVariantTime(Bytes &bytes, LogicalTypeId type) {
	auto value = bytes.data;
	bytes.Skip(sizeof(uint64_t));
	VerifyTime(type, Load<uint64_t>(value));
}

//! The bytes of a value whose size does not depend on the data.
static idx_t VariantFixedSize(VariantLogicalType type) {
	switch (type) {
	case VariantLogicalType::VARIANT_NULL:
	case VariantLogicalType::BOOL_TRUE:
	case VariantLogicalType::BOOL_FALSE:
		return 0;
	case VariantLogicalType::INT8:
	case VariantLogicalType::UINT8:
		return 1;
	case VariantLogicalType::INT16:
	case VariantLogicalType::UINT16:
		return 2;
	case VariantLogicalType::INT32:
	case VariantLogicalType::UINT32:
	case VariantLogicalType::FLOAT:
	case VariantLogicalType::DATE:
		return 4;
	case VariantLogicalType::INT128:
	case VariantLogicalType::UINT128:
	case VariantLogicalType::UUID:
	case VariantLogicalType::INTERVAL:
		return 16;
	default:
		return 8;
	}
}

static void VerifyVariantRow(const VariantParts &parts, idx_t row, vector<uint16_t> &depths) {
	auto &data = parts.data;
	if (!parts.keys_valid.RowIsValid(row) || !parts.children_valid.RowIsValid(row) ||
	    !parts.values_valid.RowIsValid(row) || !parts.blob_valid.RowIsValid(row)) {
		Corrupt("a VARIANT lacks a part");
	}
	auto keys = data.keys_data[row];
	auto children = data.children_data[row];
	auto values = data.values_data[row];
	auto &blob = data.blob_data[row];
	if (values.length == 0) {
		Corrupt("a VARIANT has no value");
	}
	for (idx_t i = 0; i < keys.length; i++) {
		if (!parts.key_valid.RowIsValid(keys.offset + i)) {
			Corrupt("a VARIANT has a key that is NULL");
		}
	}
	// Each child is a value that comes after its parent, and has one parent: so there is no cycle, and no row that is
	// short here and endless when it is shown.
	depths.assign(values.length, 0);
	for (idx_t i = 0; i < values.length; i++) {
		auto at = values.offset + i;
		if (!parts.type_valid.RowIsValid(at) || !parts.offset_valid.RowIsValid(at) ||
		    data.type_ids_data[at] >= uint8_t(VariantLogicalType::ENUM_SIZE) ||
		    data.byte_offset_data[at] > blob.GetSize()) {
			Corrupt("a VARIANT has a value without a valid type and place");
		}
		auto type = VariantLogicalType(data.type_ids_data[at]);
		Bytes bytes(blob, data.byte_offset_data[at]);
		switch (type) {
		case VariantLogicalType::OBJECT:
		case VariantLogicalType::ARRAY: {
			idx_t count = bytes.Varint();
			idx_t first = count ? bytes.Varint() : 0;
			if (first + count > children.length) {
				Corrupt("a VARIANT has children that do not exist");
			}
			for (idx_t k = first; k < first + count; k++) {
				auto child = children.offset + k;
				auto key_valid = data.keys_index_validity.RowIsValid(child);
				if (type == VariantLogicalType::OBJECT && (!key_valid || data.keys_index_data[child] >= keys.length)) {
					Corrupt("a VARIANT has a child without a valid key");
				}
				auto value = parts.child_value_valid.RowIsValid(child) ? data.values_index_data[child] : 0;
				if (value <= i || value >= values.length || depths[value]) {
					Corrupt("a VARIANT has children that do not form a tree");
				}
				if (depths[i] >= MAX_VARIANT_DEPTH) {
					Corrupt("a VARIANT is nested too deep");
				}
				depths[value] = uint16_t(depths[i] + 1);
			}
			break;
		}
		case VariantLogicalType::DECIMAL:
			VerifyVariantDecimal(bytes);
			break;
		case VariantLogicalType::VARCHAR:
		case VariantLogicalType::BLOB:
		case VariantLogicalType::BIGNUM:
		case VariantLogicalType::BITSTRING:
		case VariantLogicalType::GEOMETRY:
			VerifyVariantString(bytes, type);
			break;
		case VariantLogicalType::TIME_MICROS:
			VerifyVariantTime(bytes, LogicalTypeId::TIME);
			break;
		case VariantLogicalType::TIME_NANOS:
			VerifyVariantTime(bytes, LogicalTypeId::TIME_NS);
			break;
		case VariantLogicalType::TIME_MICROS_TZ:
			VerifyVariantTime(bytes, LogicalTypeId::TIME_TZ);
			break;
		default:
			bytes.Skip(VariantFixedSize(type));
			break;
		}
	}
}

void VerifyVariant(Vector &variant, idx_t count) {
	auto &validity = FlatVector::Validity(variant);
	VariantParts parts(variant);
	vector<uint16_t> depths;
	for (idx_t row = 0; row < count; row++) {
		if (validity.RowIsValid(row)) {
			VerifyVariantRow(parts, row, depths);
		}
	}
}

} // namespace openduck

//===----------------------------------------------------------------------===//
// openduck/scan_decode.cpp: columns as they lie in a payload become DuckDB's vectors
//===----------------------------------------------------------------------===//
#include "openduck/scan_decode.hpp"

#include "duckdb/common/exception.hpp"
#include "openduck/remote.hpp"

namespace openduck {

//! The alignment that DuckDB's values need at most.
static constexpr idx_t ALIGNMENT = 8;

[[noreturn]] static void Corrupt(const string &what) {
	throw IOException("the server sent a damaged result: %s", what);
}

//===--------------------------------------------------------------------===//
// Validity
//===--------------------------------------------------------------------===//
//! Copies COUNT bits from bit OFFSET on. A mask is shared by DuckDB's expressions without the buffer that it came from, so
//! it cannot stay in the message.
static void ReadValidity(const od_column &column, ValidityMask &mask, idx_t offset, idx_t count) {
	if (!column.validity || column.null_count == 0 || count == 0) {
		return;
	}
	mask.Initialize(MaxValue<idx_t>(count, STANDARD_VECTOR_SIZE));
	auto target = data_ptr_cast(mask.GetData());
	auto source = column.validity + offset / 8;
	auto shift = offset % 8;
	auto bytes = (count + 7) / 8;
	if (shift == 0) {
		memcpy(target, source, bytes);
		return;
	}
	auto last = (offset + count - 1) / 8 - offset / 8;
	for (idx_t i = 0; i < bytes; i++) {
		auto high = i < last ? uint32_t(source[i + 1]) : 0;
		target[i] = data_t((source[i] | high << 8) >> shift);
	}
}

//===--------------------------------------------------------------------===//
// Vectors that point into a message
//===--------------------------------------------------------------------===//
namespace {

class Decoder {
public:
	explicit Decoder(const buffer_ptr<VectorBuffer> &keep_p) : keep(keep_p) {
	}

	//! Rows [OFFSET, OFFSET + COUNT) of COLUMN into OUT, a flat vector of TYPE without content.
	void Read(const od_column &column, const LogicalType &type, Vector &out, idx_t offset, idx_t count) const {
		if (offset + count > idx_t(column.length)) {
			Corrupt("a column is shorter than its batch");
		}
		ReadValidity(column, FlatVector::Validity(out), offset, count);
		switch (type.InternalType()) {
		case PhysicalType::VARCHAR:
			return ReadStrings(column, type, out, offset, count);
		case PhysicalType::LIST:
			return ReadList(column, type, out, offset, count);
		case PhysicalType::ARRAY:
			return ReadArray(column, type, out, offset, count);
		case PhysicalType::STRUCT:
			return ReadStruct(column, type, out, offset, count);
		default:
			return ReadFixed(column, type, out, offset, count);
		}
	}

private:
	//! A vector of TYPE for COUNT rows, to be read into.
	static unique_ptr<Vector> MakeVector(const LogicalType &type, idx_t count) {
		auto result = make_uniq<Vector>(type, false, false, count);
		FlatVector::Validity(*result).Reset(MaxValue<idx_t>(count, STANDARD_VECTOR_SIZE));
		switch (type.InternalType()) {
		case PhysicalType::VARCHAR:
		case PhysicalType::LIST: {
			static_assert(sizeof(string_t) == sizeof(uhugeint_t) && sizeof(list_entry_t) == sizeof(uhugeint_t),
			              "the values of both take 16 bytes");
			Vector values(LogicalType::UHUGEINT, true, false, MaxValue<idx_t>(count, 1));
			result->CopyBuffer(values);
			break;
		}
		case PhysicalType::STRUCT: {
			auto children = make_buffer<VectorStructBuffer>();
			for (auto &child : StructType::GetChildTypes(type)) {
				children->GetChildren().push_back(MakeVector(child.second, count));
			}
			result->SetAuxiliary(std::move(children));
			break;
		}
		default:
			break;
		}
		return result;
	}

	void Pin(Vector &out, const uint8_t *data) const {
		FlatVector::SetData(out, const_cast<data_ptr_t>(data)); // NOLINT: DuckDB reads scanned vectors only
		out.SetAuxiliary(keep);
	}

	void ReadFixed(const od_column &column, const LogicalType &type, Vector &out, idx_t offset, idx_t count) const {
		auto width = GetTypeIdSize(type.InternalType());
		auto data = column.data + offset * width;
		if (count == 0) {
			return;
		}
		if (reinterpret_cast<uintptr_t>(data) % MinValue(width, ALIGNMENT)) {
			Corrupt("a buffer is not aligned");
		}
		if (type.id() == LogicalTypeId::BOOLEAN) {
			VerifyBooleans(data, FlatVector::Validity(out), count);
		} else if (type.id() == LogicalTypeId::ENUM) {
			VerifyEnum(data, type, FlatVector::Validity(out), count);
		} else if (type.id() == LogicalTypeId::TIME || type.id() == LogicalTypeId::TIME_NS ||
		           type.id() == LogicalTypeId::TIME_TZ) {
			VerifyTimes(type, reinterpret_cast<const uint64_t *>(data), FlatVector::Validity(out), count);
		} else if (type.id() == LogicalTypeId::SQLNULL) {
			auto &validity = FlatVector::Validity(out);
			validity.Initialize(MaxValue<idx_t>(count, STANDARD_VECTOR_SIZE));
			validity.SetAllInvalid(count);
		}
		Pin(out, data);
	}

	static void VerifyBooleans(const uint8_t *data, const ValidityMask &validity, idx_t count) {
		uint8_t any = 0;
		for (idx_t i = 0; i < count; i++) {
			any |= data[i];
		}
		// The byte of a NULL may be anything.
		for (idx_t i = 0; any > 1 && i < count; i++) {
			if (data[i] > 1 && validity.RowIsValid(i)) {
				Corrupt("a BOOLEAN is neither 0 nor 1");
			}
		}
	}

	template <class T>
	static void VerifyIndexes(const uint8_t *data, idx_t size, const ValidityMask &validity, idx_t count) {
		auto values = reinterpret_cast<const T *>(data);
		for (idx_t i = 0; i < count; i++) {
			if (values[i] >= size && validity.RowIsValid(i)) {
				Corrupt("an ENUM has an index outside of its values");
			}
		}
	}

	static void VerifyEnum(const uint8_t *data, const LogicalType &type, const ValidityMask &validity, idx_t count) {
		auto size = EnumType::GetSize(type);
		switch (type.InternalType()) {
		case PhysicalType::UINT8:
			return VerifyIndexes<uint8_t>(data, size, validity, count);
		case PhysicalType::UINT16:
			return VerifyIndexes<uint16_t>(data, size, validity, count);
		default:
			return VerifyIndexes<uint32_t>(data, size, validity, count);
		}
	}

	void ReadStrings(const od_column &column, const LogicalType &type, Vector &out, idx_t offset, idx_t count) const {
		if (count == 0) {
			return;
		}
		auto offsets = reinterpret_cast<const int32_t *>(column.data) + offset;
		auto text = type.id() == LogicalTypeId::VARCHAR;
		if (text) {
			VerifyUtf8(column.bytes, offsets, count);
		}
		auto values = FlatVector::GetData<string_t>(out);
		auto bytes = const_char_ptr_cast(column.bytes);
		bool pointed = false;
		for (idx_t i = 0; i < count; i++) {
			auto length = uint32_t(offsets[i + 1] - offsets[i]);
			values[i] = string_t(bytes + offsets[i], length);
			pointed |= length > string_t::INLINE_LENGTH;
		}
		if (!text) {
			VerifyBlobs(type, values, FlatVector::Validity(out), count);
		}
		if (pointed) {
			StringVector::AddBuffer(out, keep);
		}
	}

	void ReadList(const od_column &column, const LogicalType &type, Vector &out, idx_t offset, idx_t count) const {
		idx_t begin = 0, end = 0;
		if (count > 0) {
			auto offsets = reinterpret_cast<const int32_t *>(column.data) + offset;
			auto entries = FlatVector::GetData<list_entry_t>(out);
			begin = idx_t(offsets[0]);
			end = idx_t(offsets[count]);
			for (idx_t i = 0; i < count; i++) {
				entries[i].offset = idx_t(offsets[i]) - begin;
				entries[i].length = idx_t(offsets[i + 1] - offsets[i]);
			}
		}
		// DuckDB may have bound a NULL type as another.
		auto child = MakeVector(ListType::GetChildType(out.GetType()), end - begin);
		Read(column.children[0], ListType::GetChildType(type), *child, begin, end - begin);
		auto list = make_buffer<VectorListBuffer>(std::move(child), end - begin);
		list->SetSize(end - begin);
		out.SetAuxiliary(std::move(list));
	}

	void ReadArray(const od_column &column, const LogicalType &type, Vector &out, idx_t offset, idx_t count) const {
		auto size = ArrayType::GetSize(type);
		auto child = MakeVector(ArrayType::GetChildType(out.GetType()), size * count);
		Read(column.children[0], ArrayType::GetChildType(type), *child, offset * size, size * count);
		out.SetAuxiliary(make_buffer<VectorArrayBuffer>(std::move(child), size, MaxValue<idx_t>(count, 1)));
	}

	void ReadStruct(const od_column &column, const LogicalType &type, Vector &out, idx_t offset, idx_t count) const {
		auto &children = StructVector::GetEntries(out);
		auto &child_types = StructType::GetChildTypes(type);
		for (idx_t i = 0; i < child_types.size(); i++) {
			Read(column.children[i], child_types[i].second, *children[i], offset, count);
		}
		if (type.id() == LogicalTypeId::UNION) {
			VerifyUnion(type, out, count);
		} else if (type.id() == LogicalTypeId::VARIANT) {
			VerifyVariant(out, count);
		}
	}

	static void VerifyUnion(const LogicalType &type, Vector &out, idx_t count) {
		auto members = UnionType::GetMemberCount(type);
		auto &tags = *StructVector::GetEntries(out)[0];
		auto &tag_valid = FlatVector::Validity(tags);
		auto &validity = FlatVector::Validity(out);
		auto data = FlatVector::GetData<union_tag_t>(tags);
		for (idx_t i = 0; i < count; i++) {
			if (!validity.RowIsValid(i)) {
				continue;
			}
			if (!tag_valid.RowIsValid(i) || data[i] >= members) {
				Corrupt("a UNION has a tag outside of its members");
			}
		}
	}

	const buffer_ptr<VectorBuffer> &keep;
};

} // namespace

//===--------------------------------------------------------------------===//
// NativeReader
//===--------------------------------------------------------------------===//
NativeReader::NativeReader(vector<string> names_p, vector<LogicalType> types_p)
    : names(std::move(names_p)), types(std::move(types_p)), reader(nullptr) {
	od_error err = {};
	if (od_ipc_reader_create(&reader, &err) != OD_OK) {
		ThrowError(err);
	}
}

NativeReader::~NativeReader() {
	od_ipc_reader_free(reader);
}

//! A server that writes its lengths in another way than ours has its payload anywhere in the message.
static od_msg *CopyAligned(od_slice &payload) {
	od_msg *copy = nullptr;
	od_error err = {};
	if (od_msg_create(payload.len, 0, &copy, &err) != OD_OK) {
		ThrowError(err);
	}
	memcpy(od_msg_data(copy), payload.data, payload.len);
	payload.data = od_msg_data(copy);
	return copy;
}

void NativeReader::Start(od_msg *owner, od_slice payload) {
	batch = nullptr;
	offset = 0;
	count = 0;
	keep = make_buffer<MessageBuffer>(owner);
	if (reinterpret_cast<uintptr_t>(payload.data) % ALIGNMENT) {
		keep = make_buffer<MessageBuffer>(CopyAligned(payload));
	}
	bool same = false;
	od_error err = {};
	if (od_ipc_reader_start(reader, payload, &same, &err) != OD_OK) {
		ThrowError(err);
	}
	if (!same || !checked) {
		checked = false;
		CheckNativeSchema(*od_ipc_reader_schema(reader), names, types);
		checked = true;
	}
	if (od_ipc_reader_next(reader, &batch, &err) != OD_OK) {
		ThrowError(err);
	}
}

idx_t NativeReader::Next() {
	offset += count;
	count = 0;
	while (batch && offset >= idx_t(batch->rows)) {
		od_error err = {};
		offset = 0;
		if (od_ipc_reader_next(reader, &batch, &err) != OD_OK) {
			batch = nullptr;
			ThrowError(err);
		}
	}
	if (batch) {
		count = MinValue<idx_t>(STANDARD_VECTOR_SIZE, idx_t(batch->rows) - offset);
	}
	return count;
}

void NativeReader::Read(idx_t column, Vector &out) {
	Decoder(keep).Read(batch->columns[column], types[column], out, offset, count);
}

void NativeReader::Read(DataChunk &out) {
	for (idx_t i = 0; i < types.size(); i++) {
		Read(i, out.data[i]);
	}
	out.SetCardinality(count);
}

} // namespace openduck

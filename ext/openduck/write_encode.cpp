#include "openduck/write_encode.hpp"

#include "common/throw.hpp"
#include "openduck/scan_decode.hpp"

extern "C" {
#include "arrow/schema.h"
}

namespace openduck {

namespace {

//! A buffer of a payload starts at a multiple of this.
constexpr idx_t PADDING = 64;

idx_t Pad(idx_t size) {
	return (size + PADDING - 1) / PADDING * PADDING;
}

void Must(od_code code, const od_error &err) {
	if (code != OD_OK) {
		ThrowError(err);
	}
}

//! Bytes that grow.
class Bytes {
public:
	Bytes() = default;
	Bytes(const Bytes &) = delete;
	~Bytes() {
		od_buf_release(&buf);
	}
	//! Room for MORE bytes, of which the caller says with Add how many it has filled.
	uint8_t *Reserve(idx_t more) {
		od_error err = {};
		Must(od_buf_reserve(&buf, more, &err), err);
		return buf.data + buf.len;
	}
	void Add(idx_t count) {
		buf.len += count;
	}
	idx_t Size() const {
		return buf.len;
	}
	const uint8_t *Data() const {
		return buf.data;
	}
	void Clear() {
		buf.len = 0;
	}

private:
	od_buf buf = {nullptr, 0, 0};
};

} // namespace

//===--------------------------------------------------------------------===//
// One column, or a part of a nested one
//===--------------------------------------------------------------------===//
class NativeColumn {
public:
	explicit NativeColumn(const LogicalType &type);

	//! Appends ROWS of VECTOR, which holds SIZE.
	void Append(Vector &vector, idx_t size, const NativeRows &rows);
	idx_t Measure(Vector &vector, idx_t size, const NativeRows &rows);
	idx_t BufferBytes() const;
	void Layout(vector<od_ipc_node> &nodes, vector<od_ipc_span> &spans, idx_t &at) const;
	//! Writes the buffers to where SPAN and what follows it say; SPAN is moved on.
	void Write(uint8_t *body, const od_ipc_span *&span) const;
	void Clear();

private:
	enum class Kind : uint8_t { FIXED, TEXT, LIST, ARRAY, STRUCT };

	//! The rows of the child that ROWS consist of; SEL holds them if they are not a range.
	NativeRows ListRows(const UnifiedVectorFormat &format, const NativeRows &rows, SelectionVector &sel) const;
	NativeRows ArrayRows(const UnifiedVectorFormat &format, const NativeRows &rows, SelectionVector &sel) const;

	void AppendValidity(const UnifiedVectorFormat &format, const NativeRows &rows);
	void AppendFixed(const UnifiedVectorFormat &format, const NativeRows &rows);
	void AppendText(const UnifiedVectorFormat &format, const NativeRows &rows);
	void AppendList(const UnifiedVectorFormat &format, const NativeRows &rows);
	int32_t *AppendOffsets(idx_t more);
	vector<pair<const void *, idx_t>> Buffers() const;

	Kind kind;
	bool all_null = false;
	//! Bytes of a value; elements of an ARRAY.
	idx_t width = 0;
	idx_t count = 0;
	idx_t nulls = 0;
	//! A bit for each row if there are NULLs; bits behind the last row are set.
	vector<uint8_t> valid_bits;
	//! Values, or offsets.
	Bytes data;
	//! What the offsets of TEXT point into.
	Bytes text;
	//! The last offset.
	idx_t end = 0;
	vector<unique_ptr<NativeColumn>> children;
};

NativeColumn::NativeColumn(const LogicalType &type) {
	all_null = type.id() == LogicalTypeId::SQLNULL;
	switch (type.InternalType()) {
	case PhysicalType::VARCHAR:
		kind = Kind::TEXT;
		break;
	case PhysicalType::LIST:
		kind = Kind::LIST;
		children.push_back(make_uniq<NativeColumn>(ListType::GetChildType(type)));
		break;
	case PhysicalType::ARRAY:
		kind = Kind::ARRAY;
		width = ArrayType::GetSize(type);
		children.push_back(make_uniq<NativeColumn>(ArrayType::GetChildType(type)));
		break;
	case PhysicalType::STRUCT:
		kind = Kind::STRUCT;
		for (auto &child : StructType::GetChildTypes(type)) {
			children.push_back(make_uniq<NativeColumn>(child.second));
		}
		break;
	default:
		kind = Kind::FIXED;
		width = all_null ? sizeof(int32_t) : GetTypeIdSize(type.InternalType());
	}
}

static bool IsValid(const UnifiedVectorFormat &format, idx_t row) {
	return format.validity.RowIsValid(format.sel->get_index(row));
}

//! Whether there may be a NULL among ROWS. Scans give a mask where there is none, too.
static bool MayHaveNulls(const UnifiedVectorFormat &format, const NativeRows &rows) {
	if (format.validity.AllValid()) {
		return false;
	}
	auto end = rows.first + rows.count;
	return rows.sel || format.sel->IsSet() || format.validity.CountValid(end) < end;
}

void NativeColumn::AppendValidity(const UnifiedVectorFormat &format, const NativeRows &rows) {
	auto before = count;
	count += rows.count;
	auto any = all_null || MayHaveNulls(format, rows);
	if (!any && nulls == 0) {
		return;
	}
	valid_bits.resize((count + 7) / 8, 0xFF);
	for (idx_t i = 0; any && i < rows.count; i++) {
		if (all_null || !IsValid(format, rows.Get(i))) {
			auto row = before + i;
			valid_bits[row / 8] &= uint8_t(~(1U << (row % 8)));
			nulls++;
		}
	}
}

template <class T>
static void Gather(const UnifiedVectorFormat &format, const NativeRows &rows, uint8_t *target) {
	auto from = reinterpret_cast<const T *>(format.data);
	auto to = reinterpret_cast<T *>(target);
	for (idx_t i = 0; i < rows.count; i++) {
		to[i] = from[format.sel->get_index(rows.Get(i))];
	}
}

void NativeColumn::AppendFixed(const UnifiedVectorFormat &format, const NativeRows &rows) {
	auto size = rows.count * width;
	auto target = data.Reserve(size);
	if (all_null) {
		memset(target, 0, size);
	} else if (!rows.sel && !format.sel->IsSet()) {
		memcpy(target, format.data + rows.first * width, size);
	} else {
		switch (width) {
		case 1:
			Gather<uint8_t>(format, rows, target);
			break;
		case 2:
			Gather<uint16_t>(format, rows, target);
			break;
		case 4:
			Gather<uint32_t>(format, rows, target);
			break;
		case 8:
			Gather<uint64_t>(format, rows, target);
			break;
		default:
			D_ASSERT(width == sizeof(uhugeint_t));
			Gather<uhugeint_t>(format, rows, target);
		}
	}
	data.Add(size);
}

//! Room for MORE offsets; the first of all is 0.
int32_t *NativeColumn::AppendOffsets(idx_t more) {
	if (data.Size() == 0) {
		*reinterpret_cast<int32_t *>(data.Reserve(sizeof(int32_t))) = 0;
		data.Add(sizeof(int32_t));
	}
	auto result = reinterpret_cast<int32_t *>(data.Reserve(more * sizeof(int32_t)));
	data.Add(more * sizeof(int32_t));
	return result;
}

static idx_t TextBytes(const UnifiedVectorFormat &format, const NativeRows &rows) {
	auto values = UnifiedVectorFormat::GetData<string_t>(format);
	idx_t total = 0;
	for (idx_t i = 0; i < rows.count; i++) {
		auto row = format.sel->get_index(rows.Get(i));
		if (format.validity.RowIsValid(row)) {
			total += values[row].GetSize();
		}
	}
	return total;
}

void NativeColumn::AppendText(const UnifiedVectorFormat &format, const NativeRows &rows) {
	auto values = UnifiedVectorFormat::GetData<string_t>(format);
	// There is always room for as many short strings as are left, each copied as if it were of full length.
	idx_t room = rows.count * string_t::INLINE_LENGTH;
	auto to = text.Reserve(room);
	auto offsets = AppendOffsets(rows.count);
	for (idx_t i = 0; i < rows.count; i++) {
		auto row = format.sel->get_index(rows.Get(i));
		if (format.validity.RowIsValid(row)) {
			auto &value = values[row];
			idx_t size = value.GetSize();
			if (size <= string_t::INLINE_LENGTH) {
				memcpy(to, value.GetPrefix(), string_t::INLINE_LENGTH);
			} else {
				auto need = size + (rows.count - i - 1) * string_t::INLINE_LENGTH;
				if (need > room) {
					room = need + (rows.count - i) * size;
					to = text.Reserve(room);
				}
				memcpy(to, value.GetData(), size);
			}
			text.Add(size);
			room -= size;
			to += size;
			end += size;
		}
		offsets[i] = int32_t(end);
	}
}

void NativeColumn::AppendList(const UnifiedVectorFormat &format, const NativeRows &rows) {
	auto entries = UnifiedVectorFormat::GetData<list_entry_t>(format);
	auto offsets = AppendOffsets(rows.count);
	for (idx_t i = 0; i < rows.count; i++) {
		auto row = format.sel->get_index(rows.Get(i));
		if (format.validity.RowIsValid(row)) {
			end += entries[row].length;
		}
		offsets[i] = int32_t(end);
	}
}

NativeRows NativeColumn::ListRows(const UnifiedVectorFormat &format, const NativeRows &rows,
                                  SelectionVector &sel) const {
	auto entries = UnifiedVectorFormat::GetData<list_entry_t>(format);
	idx_t total = 0, start = 0;
	bool range = true;
	auto each = [&](const std::function<void(const list_entry_t &)> &callback) {
		for (idx_t i = 0; i < rows.count; i++) {
			auto row = format.sel->get_index(rows.Get(i));
			if (format.validity.RowIsValid(row) && entries[row].length > 0) {
				callback(entries[row]);
			}
		}
	};
	each([&](const list_entry_t &entry) {
		if (total == 0) {
			start = entry.offset;
		}
		range = range && entry.offset == start + total;
		total += entry.length;
	});
	if (range) {
		return {nullptr, start, total};
	}
	sel.Initialize(total);
	idx_t at = 0;
	each([&](const list_entry_t &entry) {
		for (idx_t k = 0; k < entry.length; k++) {
			sel.set_index(at++, entry.offset + k);
		}
	});
	return {&sel, 0, total};
}

NativeRows NativeColumn::ArrayRows(const UnifiedVectorFormat &format, const NativeRows &rows,
                                   SelectionVector &sel) const {
	if (!format.sel->IsSet() && !rows.sel) {
		return {nullptr, rows.first * width, rows.count * width};
	}
	sel.Initialize(rows.count * width);
	for (idx_t i = 0; i < rows.count; i++) {
		auto row = format.sel->get_index(rows.Get(i));
		for (idx_t k = 0; k < width; k++) {
			sel.set_index(i * width + k, row * width + k);
		}
	}
	return {&sel, 0, rows.count * width};
}

//! How many rows a vector must have for ROWS to be among them.
static idx_t SizeFor(const NativeRows &rows) {
	if (!rows.sel) {
		return rows.first + rows.count;
	}
	idx_t result = 0;
	for (idx_t i = 0; i < rows.count; i++) {
		result = MaxValue(result, rows.Get(i) + 1);
	}
	return result;
}

void NativeColumn::Append(Vector &vector, idx_t size, const NativeRows &rows) {
	if (rows.count == 0) {
		return;
	}
	UnifiedVectorFormat format;
	vector.ToUnifiedFormat(size, format);
	AppendValidity(format, rows);
	SelectionVector sel;
	switch (kind) {
	case Kind::FIXED:
		return AppendFixed(format, rows);
	case Kind::TEXT:
		return AppendText(format, rows);
	case Kind::LIST: {
		AppendList(format, rows);
		auto below = ListRows(format, rows, sel);
		return children[0]->Append(ListVector::GetEntry(vector), SizeFor(below), below);
	}
	case Kind::ARRAY: {
		auto below = ArrayRows(format, rows, sel);
		return children[0]->Append(ArrayVector::GetEntry(vector), SizeFor(below), below);
	}
	case Kind::STRUCT: {
		// The fields of a dictionary or a constant have its rows, not those of what it points to.
		auto &entries = StructVector::GetEntries(vector);
		for (idx_t i = 0; i < children.size(); i++) {
			children[i]->Append(*entries[i], size, rows);
		}
		return;
	}
	}
}

idx_t NativeColumn::Measure(Vector &vector, idx_t size, const NativeRows &rows) {
	if (rows.count == 0) {
		return 0;
	}
	if (kind == Kind::FIXED) {
		return rows.count * width;
	}
	UnifiedVectorFormat format;
	vector.ToUnifiedFormat(size, format);
	SelectionVector sel;
	idx_t result = 0;
	switch (kind) {
	case Kind::TEXT:
		return rows.count * sizeof(int32_t) + TextBytes(format, rows);
	case Kind::LIST: {
		auto below = ListRows(format, rows, sel);
		result = rows.count * sizeof(int32_t);
		return result + children[0]->Measure(ListVector::GetEntry(vector), SizeFor(below), below);
	}
	case Kind::ARRAY: {
		auto below = ArrayRows(format, rows, sel);
		return children[0]->Measure(ArrayVector::GetEntry(vector), SizeFor(below), below);
	}
	default: {
		auto &entries = StructVector::GetEntries(vector);
		for (idx_t i = 0; i < children.size(); i++) {
			result += children[i]->Measure(*entries[i], size, rows);
		}
		return result;
	}
	}
}

//! In the order of the format. Without rows there are offsets none the less.
vector<pair<const void *, idx_t>> NativeColumn::Buffers() const {
	static const int32_t NO_OFFSETS = 0;
	vector<pair<const void *, idx_t>> result;
	result.emplace_back(valid_bits.data(), nulls > 0 ? valid_bits.size() : 0);
	switch (kind) {
	case Kind::TEXT:
	case Kind::LIST:
		if (data.Size() == 0) {
			result.emplace_back(&NO_OFFSETS, sizeof(NO_OFFSETS));
		} else {
			result.emplace_back(data.Data(), data.Size());
		}
		if (kind == Kind::TEXT) {
			result.emplace_back(text.Data(), text.Size());
		}
		break;
	case Kind::FIXED:
		result.emplace_back(data.Data(), data.Size());
		break;
	default:
		break;
	}
	return result;
}

idx_t NativeColumn::BufferBytes() const {
	idx_t result = data.Size() + text.Size() + valid_bits.size();
	for (auto &child : children) {
		result += child->BufferBytes();
	}
	return result;
}

void NativeColumn::Layout(vector<od_ipc_node> &nodes, vector<od_ipc_span> &spans, idx_t &at) const {
	nodes.push_back({int64_t(count), int64_t(nulls)});
	for (auto &buffer : Buffers()) {
		spans.push_back({int64_t(at), int64_t(buffer.second)});
		at += Pad(buffer.second);
	}
	for (auto &child : children) {
		child->Layout(nodes, spans, at);
	}
}

void NativeColumn::Write(uint8_t *body, const od_ipc_span *&span) const {
	for (auto &buffer : Buffers()) {
		auto to = body + span->offset;
		auto size = buffer.second;
		if (size > 0) {
			memcpy(to, buffer.first, size);
			memset(to + size, 0, Pad(size) - size);
		}
		span++;
	}
	for (auto &child : children) {
		child->Write(body, span);
	}
}

void NativeColumn::Clear() {
	count = 0;
	nulls = 0;
	end = 0;
	valid_bits.clear();
	data.Clear();
	text.Clear();
	for (auto &child : children) {
		child->Clear();
	}
}

//===--------------------------------------------------------------------===//
// The schema
//===--------------------------------------------------------------------===//
//! The fields below one of TYPE, as they are named on the wire.
static child_list_t<LogicalType> ChildFields(const LogicalType &type) {
	switch (type.InternalType()) {
	case PhysicalType::LIST:
		return {{"l", ListType::GetChildType(type)}};
	case PhysicalType::ARRAY:
		return {{"l", ArrayType::GetChildType(type)}};
	case PhysicalType::STRUCT:
		return StructType::GetChildTypes(type);
	default:
		return {};
	}
}

//! Makes OUT, whose memory its parent owns.
static void MakeField(const string &column, const string &name, const LogicalType &type, ArrowSchema *out) {
	auto format = NativeFormat(type);
	if (format.empty()) {
		throw NotImplementedException("column '%s': type %s cannot be written over openduck", column, type.ToString());
	}
	auto fields = ChildFields(type);
	auto signature = NativeSignature(type);
	od_error err = {};
	Must(od_schema_make(out, name.c_str(), format.c_str(), int64_t(fields.size()), &err), err);
	Must(od_schema_set_metadata(out, "openduck:type", od_slice_of(signature.data(), signature.size()), &err), err);
	for (idx_t i = 0; i < fields.size(); i++) {
		MakeField(column, fields[i].first, fields[i].second, out->children[i]);
	}
}

//===--------------------------------------------------------------------===//
// NativeWriter
//===--------------------------------------------------------------------===//
NativeWriter::NativeWriter(const vector<string> &names, const vector<LogicalType> &types, od_msg_pool *pool) {
	od_error err = {};
	memset(&schema, 0, sizeof(schema));
	Must(od_schema_make(&schema, "", "+s", int64_t(types.size()), &err), err);
	try {
		for (idx_t i = 0; i < types.size(); i++) {
			MakeField(names[i], names[i], types[i], schema.children[i]);
			columns.push_back(make_uniq<NativeColumn>(types[i]));
		}
		Must(od_ipc_writer_create(&schema, &writer, &err), err);
		od_ipc_writer_pool(writer, pool);
	} catch (...) {
		od_schema_release(&schema);
		throw;
	}
}

NativeWriter::~NativeWriter() {
	od_ipc_writer_free(writer);
	od_schema_release(&schema);
}

void NativeWriter::Append(DataChunk &chunk, const vector<idx_t> &from, idx_t first, idx_t count) {
	D_ASSERT(from.size() == columns.size());
	for (idx_t i = 0; i < columns.size(); i++) {
		columns[i]->Append(chunk.data[from[i]], chunk.size(), {nullptr, first, count});
	}
	rows += count;
}

idx_t NativeWriter::Measure(DataChunk &chunk, const vector<idx_t> &from, idx_t first, idx_t count) {
	idx_t result = 0;
	for (idx_t i = 0; i < columns.size(); i++) {
		result += columns[i]->Measure(chunk.data[from[i]], chunk.size(), {nullptr, first, count});
	}
	return result;
}

idx_t NativeWriter::Bytes() const {
	idx_t result = 0;
	for (auto &column : columns) {
		result += column->BufferBytes();
	}
	return result;
}

od_msg *NativeWriter::Flush() {
	nodes.clear();
	spans.clear();
	idx_t size = 0;
	for (auto &column : columns) {
		column->Layout(nodes, spans, size);
	}
	od_ipc_layout layout = {int64_t(rows), nodes.data(), nodes.size(), spans.data(), spans.size(), size};
	od_msg *result = nullptr;
	size_t body_at = 0;
	od_error err = {};
	Must(od_ipc_writer_layout(writer, &layout, &result, &body_at, &err), err);
	auto body = od_msg_data(result) + body_at;
	const od_ipc_span *span = spans.data();
	for (auto &column : columns) {
		column->Write(body, span);
		column->Clear();
	}
	rows = 0;
	return result;
}

} // namespace openduck

#include "openduck/write_column.hpp"

namespace openduck {

//! No dictionary that is sent has more values, or more bytes: they go along with each payload.
static constexpr idx_t MAX_DICTIONARY = 1024;
static constexpr idx_t MAX_DICTIONARY_BYTES = idx_t(64) << 10;

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

//! Bytes of the values of VECTOR's dictionary.
static idx_t DictionaryBytes(Vector &vector, idx_t size) {
	UnifiedVectorFormat format;
	DictionaryVector::Child(vector).ToUnifiedFormat(size, format);
	return TextBytes(format, {nullptr, 0, size});
}

//! Whether VECTOR has a dictionary that storage gave it, of which it pays to send ROWS as indices.
bool NativeColumn::HasSmallDictionary(Vector &vector, const NativeRows &rows) const {
	if (kind != Kind::TEXT || vector.GetVectorType() != VectorType::DICTIONARY_VECTOR || rows.count < MIN_INDEXED) {
		return false;
	}
	auto size = DictionaryVector::DictionarySize(vector);
	return size.IsValid() && size.GetIndex() <= MinValue(rows.count, MAX_DICTIONARY) &&
	       !DictionaryVector::DictionaryId(vector).empty() &&
	       DictionaryVector::Child(vector).GetVectorType() == VectorType::FLAT_VECTOR &&
	       DictionaryBytes(vector, size.GetIndex()) <= MAX_DICTIONARY_BYTES;
}

bool NativeColumn::IsCurrentDictionary(Vector &vector) const {
	return vector.GetVectorType() == VectorType::DICTIONARY_VECTOR && !dictionary.empty() &&
	       DictionaryVector::DictionaryId(vector) == dictionary;
}

bool NativeColumn::Takes(Vector &vector, const NativeRows &rows) const {
	if (!indexed || rows.count == 0 || IsCurrentDictionary(vector)) {
		return true;
	}
	return HasSmallDictionary(vector, rows) &&
	       value_ends.size() + DictionaryVector::DictionarySize(vector).GetIndex() <= MAX_DICTIONARY;
}

void NativeColumn::AppendDictionary(Vector &vector) {
	auto size = DictionaryVector::DictionarySize(vector).GetIndex();
	auto &child = DictionaryVector::Child(vector);
	auto values = FlatVector::GetData<string_t>(child);
	auto &valid = FlatVector::Validity(child);
	dictionary = DictionaryVector::DictionaryId(vector);
	first_value = value_ends.size();
	for (idx_t i = 0; i < size; i++) {
		// A row without a value has an index, too.
		idx_t length = valid.RowIsValid(i) ? values[i].GetSize() : 0;
		if (length > 0) {
			memcpy(text.Reserve(length), values[i].GetData(), length);
			text.Add(length);
		}
		value_ends.push_back(int32_t(text.Size()));
	}
}

void NativeColumn::AppendIndices(Vector &vector, const NativeRows &rows) {
	if (!IsCurrentDictionary(vector)) {
		AppendDictionary(vector);
	}
	auto &sel = DictionaryVector::SelVector(vector);
	auto to = reinterpret_cast<uint16_t *>(data.Reserve(rows.count * sizeof(uint16_t)));
	for (idx_t i = 0; i < rows.count; i++) {
		to[i] = uint16_t(first_value + sel.get_index(rows.Get(i)));
	}
	data.Add(rows.count * sizeof(uint16_t));
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

void NativeColumn::Append(Vector &vector, idx_t size, const NativeRows &rows, bool may_index) {
	if (rows.count == 0) {
		return;
	}
	if (count == 0) {
		indexed = may_index && HasSmallDictionary(vector, rows);
	}
	UnifiedVectorFormat format;
	vector.ToUnifiedFormat(size, format);
	AppendValidity(format, rows);
	SelectionVector sel;
	switch (kind) {
	case Kind::FIXED:
		return AppendFixed(format, rows);
	case Kind::TEXT:
		return indexed ? AppendIndices(vector, rows) : AppendText(format, rows);
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
	if (indexed && Takes(vector, rows)) {
		return rows.count * sizeof(uint16_t);
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
		if (indexed) {
			result.emplace_back(data.Data(), data.Size());
			break;
		}
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
		at += NativePad(buffer.second);
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
			memset(to + size, 0, NativePad(size) - size);
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
	indexed = false;
	value_ends.clear();
	dictionary.clear();
	valid_bits.clear();
	data.Clear();
	text.Clear();
	for (auto &child : children) {
		child->Clear();
	}
}

} // namespace openduck

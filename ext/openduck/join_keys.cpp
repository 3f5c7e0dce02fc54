#include "openduck/join_keys.hpp"

#include "openduck/pushdown.hpp"
#include "openduck/write_encode.hpp"

#include "duckdb/execution/aggregate_hashtable.hpp"
#include "duckdb/storage/buffer_manager.hpp"

namespace openduck {

//===--------------------------------------------------------------------===//
// JoinKeys
//===--------------------------------------------------------------------===//
JoinKeys::JoinKeys(vector<LogicalType> types_p, bool keep_null, idx_t max_bytes, idx_t estimated_rows)
    : types(std::move(types_p)), keep_null(keep_null), estimated_rows(estimated_rows), max_bytes(max_bytes) {
}

JoinKeys::~JoinKeys() {
}

void JoinKeys::Begin(ClientContext &context) {
	lock_guard<mutex> guard(lock);
	auto &allocator = BufferAllocator::Get(context);
	seen = make_uniq<GroupedAggregateHashTable>(context, allocator, types);
	keys = make_uniq<ColumnDataCollection>(allocator, types);
	bytes = 0;
	too_many = false;
	has_null = false;
}

idx_t JoinKeys::SelectKeys(DataChunk &rows, SelectionVector &selection) const {
	vector<UnifiedVectorFormat> formats(rows.ColumnCount());
	for (idx_t i = 0; i < formats.size(); i++) {
		rows.data[i].ToUnifiedFormat(rows.size(), formats[i]);
	}
	idx_t count = 0;
	for (idx_t row = 0; row < rows.size(); row++) {
		bool valid = true;
		for (auto &format : formats) {
			valid = valid && format.validity.RowIsValid(format.sel->get_index(row));
		}
		if (valid) {
			selection.set_index(count++, row);
		}
	}
	return count;
}

//! The bytes of the texts TEXTS, whose type is VARCHAR.
static idx_t TextBytes(Vector &texts, idx_t count) {
	UnifiedVectorFormat format;
	texts.ToUnifiedFormat(count, format);
	auto data = UnifiedVectorFormat::GetData<string_t>(format);
	idx_t size = 0;
	for (idx_t row = 0; row < count; row++) {
		auto index = format.sel->get_index(row);
		size += format.validity.RowIsValid(index) ? data[index].GetSize() : 0;
	}
	return size;
}

idx_t JoinKeys::Size(DataChunk &rows) const {
	idx_t size = 0;
	for (idx_t i = 0; i < types.size(); i++) {
		auto least = rows.size() * MaxValue(idx_t(MIN_KEY_BYTES), GetTypeIdSize(types[i].InternalType()));
		size += least;
		if (types[i].InternalType() == PhysicalType::VARCHAR) {
			size += TextBytes(rows.data[i], rows.size());
		}
	}
	return size;
}

void JoinKeys::Add(DataChunk &rows) {
	if (too_many || rows.size() == 0) {
		return;
	}
	SelectionVector selection(STANDARD_VECTOR_SIZE);
	auto valid = SelectKeys(rows, selection);
	if (valid < rows.size()) {
		has_null = true;
		if (!keep_null) {
			rows.Slice(selection, valid);
		}
	}
	if (rows.size() == 0) {
		return;
	}
	lock_guard<mutex> guard(lock);
	if (too_many) {
		return;
	}
	// Not the one above, which ROWS may look through.
	SelectionVector added(STANDARD_VECTOR_SIZE);
	Vector addresses(LogicalType::POINTER);
	auto found = seen->FindOrCreateGroups(rows, addresses, added);
	if (found == 0) {
		return;
	}
	rows.Slice(added, found);
	bytes += Size(rows);
	if (bytes > max_bytes) {
		too_many = true;
		seen.reset();
		keys.reset();
		return;
	}
	keys->Append(rows);
}

idx_t JoinKeys::Count() {
	lock_guard<mutex> guard(lock);
	return keys ? keys->Count() : 0;
}

od_msg *JoinKeys::Write() {
	lock_guard<mutex> guard(lock);
	vector<string> names;
	vector<idx_t> columns;
	for (idx_t i = 0; i < types.size(); i++) {
		names.push_back("k" + to_string(i + 1));
		columns.push_back(i);
	}
	NativeWriter writer(names, types);
	for (auto &chunk : keys->Chunks()) {
		writer.Append(chunk, columns, 0, chunk.size());
	}
	return writer.Flush();
}

void JoinKeys::SetSource(weak_ptr<Pipeline> source_p) {
	lock_guard<mutex> guard(lock);
	source = std::move(source_p);
}

shared_ptr<Pipeline> JoinKeys::Source() {
	lock_guard<mutex> guard(lock);
	return source.lock();
}

//===--------------------------------------------------------------------===//
// JoinKeyConditions
//===--------------------------------------------------------------------===//
void JoinKeyConditions::Add(const JoinKeyFilter &filter, idx_t parameter) {
	vector<string> names;
	for (idx_t i = 0; i < filter.columns.size(); i++) {
		names.push_back("k" + to_string(i + 1));
	}
	auto keys = "SELECT " + StringUtil::Join(names, ", ") + " FROM " + RowParameters::FromItem(parameter);
	auto columns = StringUtil::Join(filter.columns, ", ");
	auto condition = (names.size() == 1 ? columns : "(" + columns + ")") + " IN (" + keys + ")";
	if (filter.keys->keep_null && filter.keys->HasNull()) {
		condition += " OR " + columns + " IS NULL";
	}
	conditions.push_back("(" + condition + ")");
}

JoinKeyConditions JoinKeyConditions::Planned(const vector<JoinKeyFilter> &filters, idx_t before) {
	JoinKeyConditions result;
	for (auto &filter : filters) {
		result.Add(filter, ++before);
	}
	return result;
}

JoinKeyConditions JoinKeyConditions::Complete(const vector<JoinKeyFilter> &filters, RowParameters &parameters) {
	JoinKeyConditions result;
	vector<pair<double, const_reference<JoinKeyFilter>>> used;
	for (auto &filter : filters) {
		auto count = filter.keys->Count();
		if (filter.keys->TooMany() || !filter.IsUseful(count)) {
			continue;
		}
		result.nothing = result.nothing || count == 0;
		used.emplace_back(filter.Part(count), filter);
	}
	std::stable_sort(
	    used.begin(), used.end(),
	    [](const decltype(used)::value_type &a, const decltype(used)::value_type &b) { return a.first < b.first; });
	for (auto &entry : used) {
		auto &filter = entry.second.get();
		auto count = filter.keys->Count();
		if (count > 0 && parameters.Add(filter.keys->Write())) {
			result.count += count;
			result.Add(filter, parameters.Count());
		}
	}
	return result;
}

} // namespace openduck

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

//! Keys of TYPE go up as one text. DuckDB makes a Value of every element of a list that is a parameter, several times over; a text it
//! splits and casts as it goes.
static bool IsWrittenAsText(const LogicalType &type) {
	return type.IsIntegral();
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
		if (IsWrittenAsText(types[i])) {
			Vector words(LogicalType::VARCHAR);
			VectorOperations::DefaultCast(rows.data[i], words, rows.size());
			least = MaxValue(least, TextBytes(words, rows.size()) + rows.size());
		}
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

static LogicalType ParameterType(const LogicalType &type) {
	return IsWrittenAsText(type) ? LogicalType::VARCHAR : LogicalType::LIST(type);
}

void JoinKeys::FillList(idx_t column, Vector &list) {
	ListVector::Reserve(list, keys->Count());
	for (auto &chunk : keys->Chunks()) {
		ListVector::Append(list, chunk.data[column], chunk.size());
	}
	FlatVector::GetData<list_entry_t>(list)[0] = {0, keys->Count()};
}

void JoinKeys::FillText(idx_t column, Vector &text) {
	string result;
	Vector words(LogicalType::VARCHAR);
	for (auto &chunk : keys->Chunks()) {
		VectorOperations::DefaultCast(chunk.data[column], words, chunk.size());
		UnifiedVectorFormat format;
		words.ToUnifiedFormat(chunk.size(), format);
		auto data = UnifiedVectorFormat::GetData<string_t>(format);
		for (idx_t row = 0; row < chunk.size(); row++) {
			auto index = format.sel->get_index(row);
			// A NULL among the keys is a condition of its own.
			if (format.validity.RowIsValid(index)) {
				result += result.empty() ? "" : ",";
				result.append(data[index].GetData(), data[index].GetSize());
			}
		}
	}
	// A NULL has no elements, an empty text has one.
	if (result.empty()) {
		FlatVector::SetNull(text, 0, true);
		return;
	}
	FlatVector::GetData<string_t>(text)[0] = StringVector::AddString(text, result);
}

void JoinKeys::Fill(vector<reference<Vector>> values) {
	lock_guard<mutex> guard(lock);
	for (idx_t i = 0; i < values.size(); i++) {
		if (IsWrittenAsText(types[i])) {
			FillText(i, values[i]);
		} else {
			FillList(i, values[i]);
		}
	}
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
JoinKeyConditions::~JoinKeyConditions() {
	od_msg_unref(message);
}

JoinKeyConditions::JoinKeyConditions(JoinKeyConditions &&other) noexcept {
	*this = std::move(other);
}

JoinKeyConditions &JoinKeyConditions::operator=(JoinKeyConditions &&other) noexcept {
	std::swap(conditions, other.conditions);
	std::swap(count, other.count);
	std::swap(nothing, other.nothing);
	std::swap(message, other.message);
	return *this;
}

void JoinKeyConditions::Add(const JoinKeyFilter &filter, idx_t &parameters) {
	vector<string> values, lists;
	for (auto &type : filter.keys->types) {
		auto number = ++parameters;
		auto value = StringUtil::Format(IsWrittenAsText(type) ? "string_split($%llu, ',')" : "$%llu", number);
		values.push_back(StringUtil::Format("CAST(%s AS %s[]) AS k%llu", value, TypeToSql(type), number));
		lists.push_back(StringUtil::Format("unnest(k%llu)", number));
	}
	// Of a value that stands in unnest itself DuckDB makes a text when it binds it.
	auto keys = "SELECT " + StringUtil::Join(lists, ", ") + " FROM (SELECT " + StringUtil::Join(values, ", ") + ")";
	auto columns = StringUtil::Join(filter.columns, ", ");
	auto one = filter.columns.size() == 1;
	auto condition = (one ? columns : "(" + columns + ")") + " IN (" + keys + ")";
	if (filter.keys->keep_null && filter.keys->HasNull()) {
		condition += " OR " + columns + " IS NULL";
	}
	conditions.push_back("(" + condition + ")");
}

JoinKeyConditions JoinKeyConditions::Planned(const vector<JoinKeyFilter> &filters) {
	JoinKeyConditions result;
	idx_t parameters = 0;
	for (auto &filter : filters) {
		result.Add(filter, parameters);
	}
	return result;
}

JoinKeyConditions JoinKeyConditions::Complete(const vector<JoinKeyFilter> &filters) {
	JoinKeyConditions result;
	idx_t parameters = 0;
	vector<string> names;
	vector<LogicalType> types;
	vector<idx_t> columns;
	vector<reference<JoinKeys>> used;
	for (auto &filter : filters) {
		auto &keys = *filter.keys;
		if (keys.TooMany()) {
			continue;
		}
		auto count = keys.Count();
		result.nothing = result.nothing || count == 0;
		result.count += count;
		result.Add(filter, parameters);
		used.push_back(keys);
		for (auto &type : keys.types) {
			columns.push_back(names.size());
			names.push_back(to_string(names.size() + 1));
			types.push_back(ParameterType(type));
		}
	}
	if (used.empty() || result.nothing) {
		return result;
	}
	DataChunk row;
	row.Initialize(Allocator::DefaultAllocator(), types, 1);
	idx_t next = 0;
	for (auto &keys : used) {
		vector<reference<Vector>> lists;
		for (idx_t i = 0; i < keys.get().types.size(); i++) {
			lists.push_back(row.data[next++]);
		}
		keys.get().Fill(std::move(lists));
	}
	row.SetCardinality(1);
	NativeWriter writer(names, types);
	writer.Append(row, columns, 0, 1);
	result.message = writer.Flush();
	return result;
}

od_slice JoinKeyConditions::Parameters() const {
	return message ? od_slice {od_msg_data(message), od_msg_len(message)} : od_slice {nullptr, 0};
}

} // namespace openduck

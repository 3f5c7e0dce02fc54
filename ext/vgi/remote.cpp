#include "vgi/remote.hpp"

#include "duckdb/common/arrow/arrow_converter.hpp"
#include "duckdb/function/table/arrow.hpp"
#include "duckdb/main/client_context.hpp"

namespace vgi {

vector<string> Texts(const od_vgi_texts &texts) {
	vector<string> result;
	for (idx_t i = 0; i < texts.count; i++) {
		result.push_back(Text(texts.items[i]));
	}
	return result;
}

vector<NamedValue> ReadValues(ClientContext &context, const od_vgi_values &values) {
	vector<NamedValue> result;
	if (!values.schema.release || values.schema.n_children == 0) {
		return result;
	}
	ArrowTableSchema table;
	ArrowTableFunction::PopulateArrowTableSchema(context, table, values.schema);
	DataChunk chunk;
	chunk.Initialize(context, table.GetTypes(), 1);
	chunk.SetCardinality(1);
	ArrowScanLocalState state(make_uniq<ArrowArrayWrapper>(), context);
	// Lent: the answer still owns it.
	state.chunk->arrow_array = values.array;
	try {
		ArrowTableFunction::ArrowToDuckDB(state, table.GetColumns(), chunk);
		for (idx_t i = 0; i < chunk.ColumnCount(); i++) {
			result.push_back({table.GetNames()[i], chunk.GetValue(i, 0)});
		}
	} catch (...) {
		state.chunk->arrow_array.release = nullptr;
		throw;
	}
	state.chunk->arrow_array.release = nullptr;
	return result;
}

ClientProperties ArrowProperties(ClientContext &context) {
	auto result = context.GetClientProperties();
	result.arrow_offset_size = ArrowOffsetSize::REGULAR;
	result.arrow_use_list_view = false;
	result.produce_arrow_string_view = false;
	result.arrow_lossless_conversion = false;
	return result;
}

SentValues::SentValues(ClientContext &context, const vector<NamedValue> &values) {
	vector<LogicalType> types;
	vector<string> names;
	for (auto &value : values) {
		types.push_back(value.value.type());
		names.push_back(value.name);
	}
	if (values.empty()) {
		return;
	}
	DataChunk chunk;
	chunk.Initialize(context, types, 1);
	for (idx_t i = 0; i < values.size(); i++) {
		chunk.SetValue(i, 0, values[i].value);
	}
	chunk.SetCardinality(1);
	auto properties = ArrowProperties(context);
	ArrowConverter::ToArrowSchema(&data.schema, types, names, properties);
	try {
		ArrowConverter::ToArrowArray(chunk, &data.array, properties,
		                             ArrowTypeExtensionData::GetExtensionTypes(context, types));
	} catch (...) {
		data.schema.release(&data.schema);
		throw;
	}
}

SentValues::~SentValues() {
	if (data.array.release) {
		data.array.release(&data.array);
	}
	if (data.schema.release) {
		data.schema.release(&data.schema);
	}
}

VgiRemote::VgiRemote(const string &location, const string &token, int64_t timeout_ms) {
	od_vgi_options options = {};
	options.location = location.c_str();
	options.bearer_token = token.empty() ? nullptr : token.c_str();
	options.start_timeout_ms = timeout_ms;
	options.call_timeout_ms = timeout_ms;
	od_error err = {};
	ThrowIfFailed(od_vgi_open(&options, &vgi, &err), err);
}

VgiRemote::~VgiRemote() {
	od_vgi_unref(vgi);
}

bool VgiRemote::IsUrl(const string &location) {
	od_vgi_location parsed = {};
	od_error err = {};
	ThrowIfFailed(od_vgi_location_parse(location.c_str(), &parsed, &err), err);
	auto result = parsed.scheme == OD_VGI_HTTP;
	od_vgi_location_release(&parsed);
	return result;
}

static bool IsInterrupted(void *arg) {
	return static_cast<ClientContext *>(arg)->interrupted;
}

od_vgi_interrupt VgiRemote::Interrupt(ClientContext &context) {
	return {IsInterrupted, &context};
}

static od_slice Bytes(const string &text) {
	return text.empty() ? od_slice {nullptr, 0} : od_slice_of(text.data(), text.size());
}

od_vgi_context VgiRemote::Call(ClientContext &context, const string &transaction) const {
	return {od_slice_of(attach_bytes.data(), attach_bytes.size()), Bytes(transaction), Interrupt(context)};
}

od_vgi_context VgiRemote::Quiet(const string &transaction) const {
	return {od_slice_of(attach_bytes.data(), attach_bytes.size()), Bytes(transaction), {nullptr, nullptr}};
}

} // namespace vgi

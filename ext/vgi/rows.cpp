#include "vgi/rows.hpp"

#include "duckdb/common/arrow/arrow_converter.hpp"

namespace vgi {

RowsSchema::RowsSchema(ClientContext &context, const vector<LogicalType> &types, const vector<string> &names) {
	auto properties = ArrowProperties(context);
	ArrowConverter::ToArrowSchema(&schema, types, names, properties);
}

RowsSchema::~RowsSchema() {
	if (schema.release) {
		schema.release(&schema);
	}
}

RowsStream::RowsStream(ClientContext &context, const od_vgi_context &call, const BoundFunction &bound,
                       const RowsSchema &input, bool streaming)
    : context(context) {
	od_vgi_scan_options options = {};
	options.input = &input.Get();
	options.streaming = streaming;
	od_error err = {};
	ThrowIfFailed(od_vgi_scan_open(bound.remote->Handle(), &call, bound.bound, &options, &scan, &err), err);
}

RowsStream::~RowsStream() {
	od_vgi_scan_close(scan);
}

bool RowsStream::Put(DataChunk &rows, bool again) {
	ArrowArray array = {};
	ArrowConverter::ToArrowArray(rows, &array, ArrowProperties(context),
	                             ArrowTypeExtensionData::GetExtensionTypes(context, rows.GetTypes()));
	batch = make_shared_ptr<ArrowArrayWrapper>();
	bool more = false;
	od_error err = {};
	ThrowIfFailed(od_vgi_scan_put(scan, &array, again, &batch->arrow_array, &more, &err), err);
	return more;
}

vector<int32_t> RowsStream::Parents(idx_t rows) const {
	vector<int32_t> result(idx_t(batch->arrow_array.length));
	od_error err = {};
	ThrowIfFailed(od_vgi_scan_parents(scan, int64_t(rows), batch->arrow_array.length, result.data(), &err), err);
	return result;
}

void RowsStream::Finish() {
	od_error err = {};
	ThrowIfFailed(od_vgi_scan_finish(scan, &err), err);
}

void RowsStream::Finalize() {
	od_vgi_scan *kept = nullptr;
	od_error err = {};
	ThrowIfFailed(od_vgi_scan_finalize(scan, &kept, &err), err);
	od_vgi_scan_close(scan);
	scan = kept;
}

bool RowsStream::NextKept() {
	batch = make_shared_ptr<ArrowArrayWrapper>();
	od_error err = {};
	ThrowIfFailed(od_vgi_scan_next(scan, &batch->arrow_array, &err), err);
	return batch->arrow_array.release != nullptr;
}

BatchRows::BatchRows(ClientContext &context, const ArrowSchema &schema)
    : arrow(make_uniq<ArrowArrayWrapper>(), context) {
	ArrowTableFunction::PopulateArrowTableSchema(context, columns, schema);
}

void BatchRows::Take(shared_ptr<ArrowArrayWrapper> batch) {
	arrow.Reset();
	arrow.chunk = std::move(batch);
}

idx_t BatchRows::Give(DataChunk &output) {
	auto begin = arrow.chunk_offset;
	auto &types = columns.GetTypes();
	// DuckDB converts as many columns as the chunk has that it is given.
	DataChunk own;
	own.InitializeEmpty(types);
	for (idx_t i = 0; i < types.size(); i++) {
		own.data[i].Reference(output.data[i]);
	}
	own.SetCardinality(MinValue<idx_t>(STANDARD_VECTOR_SIZE, idx_t(arrow.chunk->arrow_array.length) - begin));
	ArrowTableFunction::ArrowToDuckDB(arrow, columns.GetColumns(), own);
	for (idx_t i = 0; i < types.size(); i++) {
		output.data[i].Reference(own.data[i]);
	}
	output.SetCardinality(own.size());
	arrow.chunk_offset += own.size();
	return begin;
}

} // namespace vgi

#include "openduck/write_encode.hpp"

#include "openduck/scan_decode.hpp"
#include "openduck/write_column.hpp"

extern "C" {
#include "arrow/schema.h"
}

namespace openduck {

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

//! Makes OUT, whose memory its parent owns. INDEXED: texts that are sent as indices.
static void MakeField(const string &column, const string &name, const LogicalType &type, bool indexed,
                      ArrowSchema *out) {
	auto format = NativeFormat(type);
	if (format.empty()) {
		throw NotImplementedException("column '%s': type %s cannot be written over openduck", column, type.ToString());
	}
	auto fields = ChildFields(type);
	auto signature = NativeSignature(type);
	od_error err = {};
	ThrowIfFailed(od_schema_make(out, name.c_str(), indexed ? "S" : format.c_str(), int64_t(fields.size()), &err), err);
	ThrowIfFailed(od_schema_set_metadata(out, "openduck:type", od_slice_of(signature.data(), signature.size()), &err),
	              err);
	for (idx_t i = 0; i < fields.size(); i++) {
		MakeField(column, fields[i].first, fields[i].second, false, out->children[i]);
	}
}

//===--------------------------------------------------------------------===//
// Dictionaries: a last column of a payload, whose row K lists the values of the K-th indexed column
//===--------------------------------------------------------------------===//
class NativeDictionaries {
public:
	static void MakeField(ArrowSchema *out) {
		od_error err = {};
		ThrowIfFailed(od_schema_make(out, "openduck:dictionaries", "+l", 1, &err), err);
		ThrowIfFailed(od_schema_make(out->children[0], "l", "z", 0, &err), err);
	}

	//! Of COLUMNS, those that are indexed, in a payload of ROWS.
	NativeDictionaries(const vector<unique_ptr<NativeColumn>> &columns, idx_t rows) {
		list_ends.push_back(0);
		value_ends.push_back(0);
		for (auto &column : columns) {
			if (!column->Indexed()) {
				continue;
			}
			auto start = value_ends.back();
			for (auto value_end : column->ValueEnds()) {
				value_ends.push_back(start + value_end);
			}
			list_ends.push_back(int32_t(value_ends.size() - 1));
			values.push_back(&column->Values());
		}
		D_ASSERT(list_ends.size() <= rows + 1);
		list_ends.resize(rows + 1, list_ends.back());
	}

	void Layout(vector<od_ipc_node> &nodes, vector<od_ipc_span> &spans, idx_t &at) const {
		nodes.push_back({int64_t(list_ends.size() - 1), 0});
		nodes.push_back({int64_t(value_ends.size() - 1), 0});
		for (auto size : {idx_t(0), list_ends.size() * sizeof(int32_t), idx_t(0), value_ends.size() * sizeof(int32_t),
		                  idx_t(value_ends.back())}) {
			spans.push_back({int64_t(at), int64_t(size)});
			at += NativePad(size);
		}
	}

	//! SPAN is that of the first buffer.
	void Write(uint8_t *body, const od_ipc_span *span) const {
		for (idx_t i = 0; i < 5; i++) {
			auto used = idx_t(span[i].length);
			memset(body + span[i].offset + used, 0, NativePad(used) - used);
		}
		memcpy(body + span[1].offset, list_ends.data(), idx_t(span[1].length));
		memcpy(body + span[3].offset, value_ends.data(), idx_t(span[3].length));
		auto to = body + span[4].offset;
		for (auto bytes : values) {
			if (bytes->Size() > 0) {
				memcpy(to, bytes->Data(), bytes->Size());
			}
			to += bytes->Size();
		}
	}

private:
	vector<int32_t> list_ends, value_ends;
	vector<const NativeBuffer *> values;
};

//===--------------------------------------------------------------------===//
// NativeWriter
//===--------------------------------------------------------------------===//
//! What payloads with the same columns as indices have in common.
struct NativeWriter::Shape {
	Shape(const vector<string> &names, const vector<LogicalType> &types, const vector<bool> &indexed,
	      od_msg_pool *pool) {
		auto any = std::find(indexed.begin(), indexed.end(), true) != indexed.end();
		od_error err = {};
		memset(&schema, 0, sizeof(schema));
		ThrowIfFailed(od_schema_make(&schema, "", "+s", int64_t(types.size() + any), &err), err);
		try {
			for (idx_t i = 0; i < types.size(); i++) {
				MakeField(names[i], names[i], types[i], indexed[i], schema.children[i]);
			}
			if (any) {
				NativeDictionaries::MakeField(schema.children[types.size()]);
			}
			ThrowIfFailed(od_ipc_writer_create(&schema, &writer, &err), err);
			od_ipc_writer_pool(writer, pool);
		} catch (...) {
			od_schema_release(&schema);
			throw;
		}
	}
	~Shape() {
		od_ipc_writer_free(writer);
		od_schema_release(&schema);
	}

	ArrowSchema schema;
	od_ipc_writer *writer = nullptr;
};

NativeWriter::NativeWriter(const vector<string> &names, const vector<LogicalType> &types, od_msg_pool *pool)
    : names(names), types(types), pool(pool), indexed(types.size(), false),
      shape(make_uniq<Shape>(names, types, indexed, pool)) {
	for (auto &type : types) {
		columns.push_back(make_uniq<NativeColumn>(type));
	}
}

NativeWriter::~NativeWriter() {
}

bool NativeWriter::Takes(DataChunk &chunk, const vector<idx_t> &from, idx_t first, idx_t count) const {
	for (idx_t i = 0; i < columns.size(); i++) {
		if (!columns[i]->Takes(chunk.data[from[i]], {nullptr, first, count})) {
			return false;
		}
	}
	return true;
}

void NativeWriter::Append(DataChunk &chunk, const vector<idx_t> &from, idx_t first, idx_t count) {
	D_ASSERT(from.size() == columns.size());
	idx_t sent = 0;
	for (idx_t i = 0; i < columns.size(); i++) {
		auto may_index = dictionaries && sent < NativeColumn::MIN_INDEXED;
		columns[i]->Append(chunk.data[from[i]], chunk.size(), {nullptr, first, count}, may_index);
		sent += columns[i]->Indexed();
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

void NativeWriter::TakeShape() {
	vector<bool> now;
	for (auto &column : columns) {
		now.push_back(column->Indexed());
	}
	if (now != indexed) {
		shape = make_uniq<Shape>(names, types, now, pool);
		indexed = now;
	}
}

od_msg *NativeWriter::Flush() {
	TakeShape();
	unique_ptr<NativeDictionaries> last;
	nodes.clear();
	spans.clear();
	idx_t size = 0;
	for (auto &column : columns) {
		column->Layout(nodes, spans, size);
	}
	if (shape->schema.n_children > int64_t(columns.size())) {
		last = make_uniq<NativeDictionaries>(columns, rows);
		last->Layout(nodes, spans, size);
	}
	od_ipc_layout layout = {int64_t(rows), nodes.data(), nodes.size(), spans.data(), spans.size(), size};
	od_msg *result = nullptr;
	size_t body_at = 0;
	od_error err = {};
	ThrowIfFailed(od_ipc_writer_layout(shape->writer, &layout, &result, &body_at, &err), err);
	auto body = od_msg_data(result) + body_at;
	const od_ipc_span *span = spans.data();
	for (auto &column : columns) {
		column->Write(body, span);
	}
	if (last) {
		last->Write(body, span);
	}
	for (auto &column : columns) {
		column->Clear();
	}
	rows = 0;
	return result;
}

} // namespace openduck

//===----------------------------------------------------------------------===//
// openduck/write_encode.hpp: rows become NATIVE payloads (docs/protocol.md)
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"

extern "C" {
#include "arrow/ipc_write.h"
#include "base/buf.h"
}

namespace openduck {
using namespace duckdb; // NOLINT

class NativeColumn;

//! Gathers rows, column by column, until they are written as one payload. One thread.
class NativeWriter {
public:
	//! Throws a NotImplementedException for a type that does not travel. POOL (null: none) is borrowed.
	NativeWriter(const vector<string> &names, const vector<LogicalType> &types, od_msg_pool *pool = nullptr);
	~NativeWriter();
	NativeWriter(const NativeWriter &) = delete;

	//! From now on texts that come with a small dictionary are sent as indices into it; Takes has then to be asked.
	void SendDictionaries() {
		dictionaries = true;
	}
	//! Whether these rows may be appended. If not, what is there has to be flushed first.
	bool Takes(DataChunk &chunk, const vector<idx_t> &columns, idx_t first, idx_t count) const;
	//! Copies COUNT rows from FIRST on of the columns COLUMNS of CHUNK.
	void Append(DataChunk &chunk, const vector<idx_t> &columns, idx_t first, idx_t count);
	//! Bytes that these rows would add, about.
	idx_t Measure(DataChunk &chunk, const vector<idx_t> &columns, idx_t first, idx_t count);
	idx_t Rows() const {
		return rows;
	}
	//! What the rows that were appended take in a payload, about.
	idx_t Bytes() const;
	//! The rows as a payload, which the caller owns; none are left.
	od_msg *Flush();

private:
	struct Shape;

	//! That of the payload that Flush is to make.
	void TakeShape();

	const vector<string> names;
	const vector<LogicalType> types;
	od_msg_pool *pool;
	bool dictionaries = false;
	vector<unique_ptr<NativeColumn>> columns;
	idx_t rows = 0;
	//! Which columns SHAPE has as indices. Storage seldom changes its mind.
	vector<bool> indexed;
	unique_ptr<Shape> shape;
	vector<od_ipc_node> nodes;
	vector<od_ipc_span> spans;
};

} // namespace openduck

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

//! Rows of a vector: those that SEL lists, or COUNT ones from FIRST on.
struct NativeRows {
	const SelectionVector *sel;
	idx_t first;
	idx_t count;

	idx_t Get(idx_t i) const {
		return sel ? sel->get_index(first + i) : first + i;
	}
};

//! Gathers rows, column by column, until they are written as one payload. One thread.
class NativeWriter {
public:
	//! Throws a NotImplementedException for a type that does not travel. POOL (null: none) is borrowed.
	NativeWriter(const vector<string> &names, const vector<LogicalType> &types, od_msg_pool *pool = nullptr);
	~NativeWriter();
	NativeWriter(const NativeWriter &) = delete;

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
	vector<unique_ptr<NativeColumn>> columns;
	idx_t rows = 0;
	ArrowSchema schema;
	od_ipc_writer *writer = nullptr;
	vector<od_ipc_node> nodes;
	vector<od_ipc_span> spans;
};

} // namespace openduck

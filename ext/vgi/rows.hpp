//===----------------------------------------------------------------------===//
// vgi/rows.hpp: rows into a worker's function, and out of it
//===----------------------------------------------------------------------===//
#pragma once

#include "vgi/bound.hpp"

#include "duckdb/function/table/arrow.hpp"

namespace vgi {

//! The schema of rows that go in.
class RowsSchema {
public:
	RowsSchema(ClientContext &context, const vector<LogicalType> &types, const vector<string> &names);
	~RowsSchema();
	RowsSchema(const RowsSchema &) = delete;

	const ArrowSchema &Get() const {
		return schema;
	}

private:
	ArrowSchema schema = {};
};

//! One stream of a function over rows. One thread.
class RowsStream {
public:
	//! CALL and BOUND outlive it.
	RowsStream(ClientContext &context, const od_vgi_context &call, const BoundFunction &bound, const RowsSchema &input,
	           bool streaming);
	~RowsStream();
	RowsStream(const RowsStream &) = delete;

	//! Sends ROWS, or asks for more of them (AGAIN); true: there is more still.
	bool Put(DataChunk &rows, bool again);
	//! Of each row of the batch that came last: which of the ROWS rows that went in it is of.
	vector<int32_t> Parents(idx_t rows) const;
	//! No rows follow, and nothing was kept; throws what the worker says at the end.
	void Finish();
	//! No rows follow: what the function kept comes as batches.
	void Finalize();
	//! After Finalize: the next batch; false at the end.
	bool NextKept();

	//! The batch that came.
	shared_ptr<ArrowArrayWrapper> batch;

private:
	ClientContext &context;
	od_vgi_scan *scan = nullptr;
};

//! Batches of a function's, as chunks.
class BatchRows {
public:
	BatchRows(ClientContext &context, const ArrowSchema &schema);

	bool HasRows() const {
		return arrow.chunk_offset < idx_t(arrow.chunk->arrow_array.length);
	}
	void Take(shared_ptr<ArrowArrayWrapper> batch);
	//! Puts what is left of the batch, up to a vector, into OUTPUT. This may have more columns than a batch has: those are left alone.
	//! Where the rows begin in the batch.
	idx_t Give(DataChunk &output);

private:
	ArrowTableSchema columns;
	ArrowScanLocalState arrow;
};

} // namespace vgi

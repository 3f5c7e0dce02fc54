//===----------------------------------------------------------------------===//
// openduck/write_upload.hpp: rows on their way to a staging table of the server
//===----------------------------------------------------------------------===//
#pragma once

#include "openduck/remote.hpp"
#include "openduck/write_encode.hpp"

#include "duckdb/common/deque.hpp"
#include "duckdb/common/map.hpp"
#include "duckdb/parallel/interrupt.hpp"

namespace openduck {

//! Columns of rows that go up.
struct StagedColumns {
	vector<string> names;
	//! For messages.
	vector<string> shown;
	vector<LogicalType> types;
};

//! TYPE as SQL that any server reads, whatever its user-defined types: names that types were given here are resolved.
string StagedTypeSql(const LogicalType &type);
//! As above, but JSON remains a type of its own.
string CreatedTypeSql(const LogicalType &type);

//! One stream of payloads that many threads fill. Payloads are sent by batch index: those of the lowest batch that any
//! thread still works on, as far as the server takes them; those of later ones wait, and all do while the server is behind,
//! up to MAX_WAITING bytes. Then the threads' tasks block: a client without a task would spin while another thread has one.
class RowUpload {
public:
	//! What waits at most before threads ahead of the others have to wait themselves.
	static constexpr idx_t MAX_WAITING = idx_t(128) << 20;

	//! Into a new staging table TABLE in TXN, which must outlive this. With a STATEMENT there is no table: it reads the rows
	//! as they come, by that name, in TXN or (null) by itself, at catalog version VERSION (0: any). Nothing is sent before
	//! the first payload.
	RowUpload(ClientContext &context, shared_ptr<Remote> remote, const od_remote_txn *txn, string table,
	          const StagedColumns &columns, string statement, uint64_t version);
	~RowUpload();
	RowUpload(const RowUpload &) = delete;

	//! Whether a task that works on BATCH has to block; its STATE is then called when it need not any longer. MIN is the
	//! lowest batch that any thread works on.
	bool MustWait(ExecutionContext &context, idx_t batch, idx_t min, InterruptState &state);
	//! Takes PAYLOAD, rows of BATCH that come after those that were pushed before.
	void Push(idx_t batch, od_msg *payload);
	//! All batches below MIN are complete.
	void Advance(idx_t min);
	//! All rows have been pushed: waits, WAIT_MS at most, until they are in the table or the statement has ended. True: they
	//! are, and ROWS tells how many arrived, or were affected.
	bool Finish(int64_t wait_ms, idx_t &rows);
	//! For payloads.
	od_msg_pool *Pool() const {
		return pool;
	}
	//! Something was sent.
	bool Begun() const {
		return ingest != nullptr;
	}

private:
	static bool Interrupted(void *arg);
	//! A payload may go.
	bool HasNext() const {
		return !waiting.empty() && waiting.begin()->first <= min_batch;
	}
	od_msg *TakeNext();
	//! Sends what the server takes within WAIT_MS, until no more than ENOUGH bytes wait, unless another thread does.
	void Drain(std::unique_lock<mutex> &guard, int64_t wait_ms, idx_t enough);
	//! All batches below MIN are complete: sends what can go within WAIT_MS, and throws what has gone wrong.
	void Raise(std::unique_lock<mutex> &guard, idx_t min, int64_t wait_ms);
	//! A payload, or (null) what is left of the last one. False: not all of it is written yet.
	bool Send(od_msg *payload, int64_t wait_ms);
	void Open();
	//! All that are blocked; while the server is behind one of them, to wait for it, unless somebody does.
	void Unblock();
	//! While tasks are blocked: waits for the server for a while.
	void AwaitRoom();

	ClientContext &context;
	shared_ptr<Remote> remote;
	const od_remote_txn *txn;
	const string table;
	const string statement;
	const uint64_t version;
	vector<string> names;
	vector<string> sql_types;
	od_msg_pool *pool = nullptr;

	//! Guards what follows.
	mutex lock;
	map<idx_t, deque<od_msg *>> waiting;
	idx_t waiting_bytes = 0;
	idx_t min_batch = 0;
	bool sending = false;
	//! The server is behind: the last payload is not wholly written.
	bool behind = false;
	//! A task waits for it.
	bool awaited = false;
	vector<InterruptState> blocked;
	ErrorData error;

	//! Of the thread that sends.
	od_ingest *ingest = nullptr;
};

//! A thread's share of the rows: encodes them, and pushes payloads of about TARGET bytes.
class RowEncoder {
public:
	static constexpr idx_t TARGET = idx_t(1) << 20;

	RowEncoder(RowUpload &upload, const StagedColumns &columns);
	//! Rows of CHUNK, of its columns FROM, that belong to BATCH.
	void Append(DataChunk &chunk, const vector<idx_t> &from, idx_t batch);
	//! Pushes what is left.
	void Flush();

private:
	void AppendRows(DataChunk &chunk, const vector<idx_t> &from, idx_t first, idx_t count);

	RowUpload &upload;
	NativeWriter writer;
	//! Whether the size of a row tells nothing of the size of another.
	bool variable = false;
	idx_t batch = 0;
};

} // namespace openduck

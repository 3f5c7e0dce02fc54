//===----------------------------------------------------------------------===//
// openduck/scan.hpp: the parts of a remote scan, shared between the scan*.cpp and pushdown*.cpp files
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/main/client_context_state.hpp"
#include "openduck/join_keys.hpp"
#include "openduck/pushdown.hpp"
#include "openduck/remote.hpp"
#include "openduck/scan_decode.hpp"

#include <condition_variable>
#include <deque>
#include <map>

namespace openduck {

class SentRows;

class RemoteScanBindData : public TableFunctionData {
public:
	RemoteScanSource source;
	//! A query that may be used as a subquery (one SELECT, nothing volatile): its text without semicolon. Else empty.
	string subquery;
	//! Conditions that the server applies, as SQL.
	vector<string> filters;
	//! Rows that are needed at most.
	optional_idx limit;
	//! Whether the server may be asked to leave out rows.
	bool filters_pushed = true;
	//! False if a join's run-time filter must not reach below a LIMIT that lies between them.
	bool dynamic_filters = false;
	//! It starts when the bound of a TOP N above may be known, and is sent with it.
	bool awaits_bound = false;
	//! The part of its rows that FILTERS are thought to leave.
	double selectivity = 1;
	//! Rows of this side that the subquery reads as parameters "1", "2", ...
	vector<shared_ptr<SentRows>> sent;
	//! Keys of joins that are sent along once they are known.
	vector<JoinKeyFilter> key_filters;
	//! What will be sent as far as the optimizer can tell, and how many rows it expects then; for EXPLAIN.
	string planned_sql;
	optional_idx expected_rows;

	//! Whether filters, limit and projection can be added to what is read.
	bool Wrappable() const {
		return !source.relation.empty() || !subquery.empty();
	}
	unique_ptr<FunctionData> Copy() const override;
	bool Equals(const FunctionData &other_p) const override;
	bool SupportStatementCache() const override {
		return false;
	}
};

//! The transaction at the server that a scan of SOURCE runs in; null: it runs by itself.
od_remote_txn *ScanTransaction(ClientContext &context, const RemoteScanSource &source);

//! How one execution of a scan maps to one remote query.
struct RemoteScanPlan {
	string sql;
	//! The server counts; no column is sent.
	bool count_only = false;
	//! The stream's columns.
	vector<string> names;
	vector<LogicalType> types;
	//! For each column that the scan gives: the stream's column, or invalid for one without content.
	vector<optional_idx> outputs;
	//! Conditions that only the client can apply, over the stream's columns; null if there is none.
	unique_ptr<Expression> local_filter;
};

//! FILTERS are by position in COLUMN_IDS. With OPTIONAL_FILTERS those that DuckDB could do without are used too. CONDITIONS (SQL)
//! are added to those of BIND, which is Wrappable if there are any.
RemoteScanPlan PlanRemoteScan(const RemoteScanBindData &bind, const vector<ColumnIndex> &column_ids,
                              const vector<idx_t> &projection_ids, optional_ptr<const TableFilterSet> filters,
                              bool optional_filters, const vector<string> &conditions = vector<string>());
//! What stands behind FROM, and the CONDITIONS behind WHERE, so that all rows come that BIND and FILTERS (by column) leave. Empty if the
//! server cannot apply all of them. BIND is Wrappable, and has no limit.
string ScanFromSql(const RemoteScanBindData &bind, const TableFilterSet &filters, vector<string> &conditions);
//! True if the server can apply all of FILTERS (by column).
bool CanPushAll(const RemoteScanBindData &bind, const TableFilterSet &filters);

//! What a value of TYPE takes, for all that is known before it is seen.
idx_t ValueBytes(const LogicalType &type);
//! What the columns that GET gives will take, as the optimizer estimates its rows; 0 if it scans nothing remote.
idx_t ScanBytes(ClientContext &context, LogicalGet &get);

//! Over how many streams THREADS read a result at most (openduck_fetch_streams).
idx_t FetchStreams(ClientContext &context, idx_t threads);

//! The name and type of column ID of what is scanned.
string ScanColumnSql(const RemoteScanBindData &bind, column_t id);
LogicalType ScanColumnType(const RemoteScanBindData &bind, column_t id);
//! Writes columns of the scan GET, which has the data BIND; both must outlive it.
column_writer_t ScanColumnWriter(LogicalGet &get, const RemoteScanBindData &bind);

//! A received payload; whoever holds it owns the message.
struct RemotePayload {
	od_msg *owner = nullptr;
	od_slice bytes = {nullptr, 0};
};

//! One execution at the server.
class RemoteStream {
public:
	~RemoteStream();
	//! Sends SQL, which runs in TXN (null: by itself), with the values PARAMETERS (see od_remote_query). While a call blocks,
	//! the interrupt of CONTEXT (may be null) is looked at.
	static unique_ptr<RemoteStream> Start(optional_ptr<ClientContext> context, Remote &remote, const od_remote_txn *txn,
	                                      const string &sql, uint64_t catalog_version, bool describe_only,
	                                      od_slice parameters = {nullptr, 0}, bool wants_layout = false,
	                                      bool divides = false);
	//! A further stream of the result, once Place is not 0. Any thread.
	unique_ptr<RemoteStream> Follow();
	enum class Got : uint8_t { PAYLOAD, END, NOTHING_YET };
	//! The next payload; NOTHING_YET after WAIT_MS without one. One thread at a time.
	Got NextWithin(int64_t wait_ms, RemotePayload &payload);
	//! The next payload, however long it takes; false at the end.
	bool Next(RemotePayload &payload);
	//! As Next, but reports instead of throwing.
	od_code TryNext(RemotePayload &payload, od_error &err);
	//! As NextWithin, but reports instead of throwing; *got counts with OD_OK only.
	od_code TryNextWithin(int64_t wait_ms, RemotePayload &payload, Got &got, od_error &err);
	uint64_t Bytes() const;
	//! od_result_place, od_result_payloads.
	uint64_t Place() const;
	uint64_t Payloads() const;
	//! Nothing more is wanted of it: waits WAIT_MS at most for its end, whatever becomes of the statement.
	void ReadEnd(int64_t wait_ms);
	//! Another stream of the result has had something. Any thread.
	void Heard();
	uint64_t CatalogVersion() const;
	//! What od_result_layout has.
	string Layout() const;
	//! Also stop waiting when another part of the running statement has failed.
	void WatchExecutor() {
		watch_executor = true;
	}

private:
	static bool Interrupted(void *arg);

	optional_ptr<ClientContext> context;
	optional_ptr<Remote> remote;
	od_result *result = nullptr;
	bool watch_executor = false;
};

//! A stream that was started before its scan.
struct StartedScan {
	~StartedScan();
	RemoteScanPlan plan;
	unique_ptr<RemoteStream> stream;
	//! The first answer.
	RemotePayload first;
	bool finished = false;
	ErrorData error;
};

//! What the extension remembers of a client while it runs a statement.
class RemoteClientState : public ClientContextState {
public:
	static shared_ptr<RemoteClientState> Get(ClientContext &context);
	//! One id for all remote queries of a statement, so that the server counts it once.
	string StatementId();
	void Put(const FunctionData &bind_data, unique_ptr<StartedScan> scan);
	unique_ptr<StartedScan> Take(const FunctionData &bind_data);
	void DropStarted();
	void QueryEnd() override;

private:
	mutex lock;
	string statement_id;
	unordered_map<const FunctionData *, unique_ptr<StartedScan>> started;
};

//! The payloads of a result, dealt out to threads. Consecutive payloads form runs of about a row group, and a run is read
//! by one thread: so each batch that an order-keeping INSERT sees is a whole row group, and is not copied again. Whoever is
//! idle fetches, also for another thread's run. When more threads would fetch than there are streams of the result, a further
//! stream is opened, and what comes on them is put in order again.
class PayloadQueue {
public:
	struct Run {
		~Run();
		idx_t index;
		bool owned = false;
		idx_t rows = 0;
		idx_t bytes = 0;
		bool full = false;
		std::deque<RemotePayload> queue;
	};

	//! STREAM null: there is none, only an end that is pushed.
	PayloadQueue(unique_ptr<RemoteStream> stream, idx_t max_streams);
	~PayloadQueue();

	//! A payload that was received already, or (END) the stream's end.
	void Push(const RemotePayload &payload, bool end);
	//! The next payload for the thread that reads RUN (null at first). Waits a moment at most.
	RemoteStream::Got Take(ClientContext &context, shared_ptr<Run> &run, RemotePayload &payload);
	uint64_t Bytes();
	//! How many streams the result came on.
	idx_t Streams();

private:
	//! One stream of the result; the first is the execution's own.
	struct Source {
		unique_ptr<RemoteStream> stream;
		//! Of its last payload.
		uint64_t place = 0;
		uint64_t bytes = 0;
		//! How often nothing came in time, since something came on any of them.
		idx_t missed = 0;
		//! A thread reads it, or opens it.
		bool busy = false;
		bool ended = false;
	};

	//! Takes PAYLOAD, which SOURCE has given.
	void Receive(Source &source, const RemotePayload &payload);
	//! SOURCE gives no more.
	void End(Source &source);
	//! Adds to the run being filled what is next, while it has room.
	void Deal();
	void Add(const RemotePayload &payload);
	//! Nothing comes any more.
	bool Finished() const;
	//! What is next, and is not here, comes on none of the streams.
	bool IsLost() const;
	//! Whom to read from; null: wait for those who do.
	optional_ptr<Source> Choose();
	bool MayFollow() const;
	uint64_t TotalBytes() const;
	uint64_t MaxPlace() const;
	//! Reads from SOURCE, or opens it, with GUARD released; false if nothing came.
	bool Fetch(std::unique_lock<mutex> &guard, Source &source);
	void Open(std::unique_lock<mutex> &guard, Source &source);

	mutex lock;
	std::condition_variable changed;
	vector<unique_ptr<Source>> sources;
	idx_t max_streams;
	//! The result can be followed.
	bool places_told = false;
	//! The next payload's place, and those that came before their turn.
	uint64_t next_place = 1;
	std::map<uint64_t, RemotePayload> early;
	idx_t early_bytes = 0;
	//! How many there are, once the first stream has ended.
	uint64_t total = 0;
	shared_ptr<Run> filling;
	idx_t run_count = 0;
	ErrorData error;
	//! Of a stream that was not the first: it matters if something is missing.
	ErrorData follower_error;
};

//! The function itself, to tell our scans from others in a plan.
bool IsRemoteScan(const TableFunction &function);

} // namespace openduck

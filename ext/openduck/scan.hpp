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
	                                      od_slice parameters = {nullptr, 0}, bool wants_layout = false);
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

//! The payloads of a stream, dealt out to threads. Consecutive payloads form runs of about a row group, and a run is read
//! by one thread: so each batch that an order-keeping INSERT sees is a whole row group, and is not copied again. Whoever is
//! idle fetches, also for another thread's run.
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

	explicit PayloadQueue(unique_ptr<RemoteStream> stream_p) : stream(std::move(stream_p)) {
	}

	//! A payload that was received already, or (END) the stream's end.
	void Push(const RemotePayload &payload, bool end);
	//! The next payload for the thread that reads RUN (null at first). Waits a moment at most.
	RemoteStream::Got Take(ClientContext &context, shared_ptr<Run> &run, RemotePayload &payload);
	uint64_t Bytes();

private:
	void Add(const RemotePayload &payload);
	//! Fetches one payload with GUARD released; false if none came.
	bool Fetch(std::unique_lock<mutex> &guard);

	mutex lock;
	std::condition_variable changed;
	unique_ptr<RemoteStream> stream;
	shared_ptr<Run> filling;
	idx_t run_count = 0;
	bool fetching = false;
	bool finished = false;
	uint64_t bytes = 0;
	ErrorData error;
};

//! The function itself, to tell our scans from others in a plan.
bool IsRemoteScan(const TableFunction &function);

} // namespace openduck

#include "openduck/write.hpp"

#include "openduck/catalog.hpp"
#include "openduck/scan.hpp"
#include "openduck/transaction.hpp"
#include "openduck/write_merge.hpp"
#include "openduck/write_work.hpp"

#include "duckdb/main/attached_database.hpp"
#include "duckdb/main/database_manager.hpp"
#include "duckdb/parser/keyword_helper.hpp"

namespace openduck {

//! Names of staging tables are never used twice by one process.
static string NextStagingTable() {
	static atomic<idx_t> last {0};
	return "openduck_rows_" + to_string(++last);
}

//===--------------------------------------------------------------------===//
// States
//===--------------------------------------------------------------------===//
class RemoteWriteGlobalState : public GlobalSinkState {
public:
	RemoteWriteGlobalState(ClientContext &context, const RemoteWrite &op)
	    : context(context), op(op), direct(op.direct), transaction(OpenDuckTransaction::Get(context, op.catalog)),
	      txn(transaction.Server(context, direct ? ServerUse::STATEMENT : ServerUse::STEPS)), table(NextStagingTable()),
	      upload(context, op.catalog.SharedRemote(), txn, table, op.info.staged, direct ? Statement() : string(),
	             direct && !txn && !transaction.Rebinding() ? transaction.Snapshot(context)->version : 0) {
	}

	//! All rows are on their way: waits for them and runs the statement. True: it is done.
	bool Step(int64_t wait_ms);

	ClientContext &context;
	const RemoteWrite &op;
	const bool direct;
	OpenDuckTransaction &transaction;
	od_remote_txn *const txn;
	const string table;
	RowUpload upload;
	atomic<idx_t> arrived {0};
	//! What the statement gave.
	idx_t count = 0;
	unique_ptr<ColumnDataCollection> rows;

private:
	//! The statement, reading the rows where they are.
	string Statement() const {
		return op.info.head + (direct ? "" : "temp.main.") + KeywordHelper::WriteQuoted(table, '"') + op.info.tail;
	}
	//! Rows have arrived: which statement is to run, and how often.
	void Prepare();
	//! What the running statement gives within WAIT_MS; true: all.
	bool Fetch(int64_t wait_ms);
	void Finish();

	bool prepared = false;
	string sql;
	idx_t times = 0;
	unique_ptr<RemoteStream> stream;
	unique_ptr<NativeReader> reader;
	DataChunk chunk;
};

class RemoteWriteLocalState : public LocalSinkState {
public:
	//! Made when the first rows come: a MERGE makes our state before it has a global one.
	unique_ptr<RowEncoder> encoder;

	void Flush() {
		if (encoder) {
			encoder->Flush();
		}
	}
};

class RemoteWriteSourceState : public GlobalSourceState {
public:
	ColumnDataScanState scan;
	bool begun = false;
};

void RemoteWriteGlobalState::Prepare() {
	auto &info = op.info;
	prepared = true;
	if (direct && upload.Begun()) {
		count = arrived;
	} else if (info.once_a_row) {
		sql = info.head + info.tail;
		times = arrived;
	} else if (arrived > 0) {
		sql = Statement();
		times = 1;
	} else if (!info.without_rows.empty()) {
		sql = info.without_rows;
		times = 1;
	}
	if (times > 0) {
		transaction.Wrote(false);
	}
	auto types = info.returning ? op.types : vector<LogicalType> {LogicalType::BIGINT};
	vector<string> names;
	for (idx_t i = 0; i < types.size(); i++) {
		names.push_back("#" + to_string(i + 1));
	}
	rows = make_uniq<ColumnDataCollection>(context, types);
	reader = make_uniq<NativeReader>(std::move(names), types);
	chunk.Initialize(context, types);
}

bool RemoteWriteGlobalState::Fetch(int64_t wait_ms) {
	RemotePayload payload;
	auto got = stream->NextWithin(wait_ms, payload);
	if (got != RemoteStream::Got::PAYLOAD) {
		return got == RemoteStream::Got::END;
	}
	reader->Start(payload.owner, payload.bytes);
	while (reader->Next() > 0) {
		chunk.Reset();
		reader->Read(chunk);
		rows->Append(chunk);
	}
	return false;
}

void RemoteWriteGlobalState::Finish() {
	auto &info = op.info;
	if (!info.returning) {
		for (auto &row : rows->Rows()) {
			count += idx_t(BigIntValue::Get(row.GetValue(0)));
		}
	}
	if (info.changes_catalog) {
		transaction.Wrote(true);
	}
}

bool RemoteWriteGlobalState::Step(int64_t wait_ms) {
	if (!prepared) {
		idx_t rows_there = 0;
		if (!upload.Finish(wait_ms, rows_there)) {
			return false;
		}
		arrived += rows_there;
		Prepare();
	}
	if (!stream && times > 0) {
		stream = RemoteStream::Start(&context, op.catalog.GetRemote(), txn, sql, 0, false,
		                             ParameterPayload(op.info.parameters).Bytes());
		stream->WatchExecutor();
	}
	if (times > 0) {
		if (!Fetch(wait_ms)) {
			return false;
		}
		stream.reset();
		times--;
	}
	if (times > 0) {
		return false;
	}
	Finish();
	return true;
}

//===--------------------------------------------------------------------===//
// RemoteWrite
//===--------------------------------------------------------------------===//
RemoteWrite::RemoteWrite(PhysicalPlan &plan, vector<LogicalType> types, OpenDuckCatalog &catalog,
                         RemoteWriteInfo info_p, idx_t estimated_cardinality)
    : PhysicalOperator(plan, PhysicalOperatorType::EXTENSION, std::move(types), estimated_cardinality),
      catalog(catalog), info(std::move(info_p)) {
}

string RemoteWrite::GetName() const {
	return "OPENDUCK_" + info.name;
}

InsertionOrderPreservingMap<string> RemoteWrite::ParamsToString() const {
	InsertionOrderPreservingMap<string> result;
	result["Endpoint"] = catalog.GetRemote().Authority();
	result["Database"] = catalog.GetRemote().Database();
	result["Remote SQL"] = info.head + (info.once_a_row ? "" : "rows") + info.tail;
	return result;
}

OperatorPartitionInfo RemoteWrite::RequiredPartitionInfo() const {
	return info.ordered && info.parallel ? OperatorPartitionInfo::BatchIndex()
	                                     : OperatorPartitionInfo::NoPartitionInfo();
}

unique_ptr<GlobalSinkState> RemoteWrite::GetGlobalSinkState(ClientContext &context) const {
	return make_uniq<RemoteWriteGlobalState>(context, *this);
}

unique_ptr<LocalSinkState> RemoteWrite::GetLocalSinkState(ExecutionContext &context) const {
	return make_uniq<RemoteWriteLocalState>();
}

static idx_t BatchOf(const optional_idx &index) {
	return index.IsValid() ? index.GetIndex() : 0;
}

SinkResultType RemoteWrite::Sink(ExecutionContext &context, DataChunk &chunk, OperatorSinkInput &input) const {
	auto &global = input.global_state.Cast<RemoteWriteGlobalState>();
	auto &local = input.local_state.Cast<RemoteWriteLocalState>();
	if (info.once_a_row) {
		global.arrived += chunk.size();
		return SinkResultType::NEED_MORE_INPUT;
	}
	auto batch = BatchOf(local.partition_info.batch_index);
	if (global.upload.MustWait(context, batch, BatchOf(local.partition_info.min_batch_index), input.interrupt_state)) {
		return SinkResultType::BLOCKED;
	}
	if (!local.encoder) {
		local.encoder = make_uniq<RowEncoder>(global.upload, info.staged);
		if (global.direct) {
			global.transaction.Wrote(false);
		}
	}
	local.encoder->Append(chunk, info.from, batch);
	return SinkResultType::NEED_MORE_INPUT;
}

SinkNextBatchType RemoteWrite::NextBatch(ExecutionContext &context, OperatorSinkNextBatchInput &input) const {
	auto &local = input.local_state.Cast<RemoteWriteLocalState>();
	local.Flush();
	return SinkNextBatchType::READY;
}

SinkCombineResultType RemoteWrite::Combine(ExecutionContext &context, OperatorSinkCombineInput &input) const {
	auto &global = input.global_state.Cast<RemoteWriteGlobalState>();
	auto &local = input.local_state.Cast<RemoteWriteLocalState>();
	local.Flush();
	global.upload.Advance(BatchOf(local.partition_info.min_batch_index));
	return SinkCombineResultType::FINISHED;
}

SinkFinalizeType RemoteWrite::Finalize(Pipeline &pipeline, Event &event, ClientContext &context,
                                       OperatorSinkFinalizeInput &input) const {
	auto &global = input.global_state.Cast<RemoteWriteGlobalState>();
	vector<reference<RemoteWriteGlobalState>> states;
	if (sequence) {
		states = sequence->Arrived(*this, global);
	} else {
		states.push_back(global);
	}
	if (states.empty()) {
		return SinkFinalizeType::READY;
	}
	idx_t at = 0;
	DoRemoteWork(pipeline, event, [states, at](int64_t wait_ms) mutable {
		if (states[at].get().Step(wait_ms)) {
			at++;
		}
		return at == states.size();
	});
	return SinkFinalizeType::READY;
}

unique_ptr<GlobalSourceState> RemoteWrite::GetGlobalSourceState(ClientContext &context) const {
	return make_uniq<RemoteWriteSourceState>();
}

SourceResultType RemoteWrite::GetDataInternal(ExecutionContext &context, DataChunk &chunk,
                                              OperatorSourceInput &input) const {
	auto &global = sink_state->Cast<RemoteWriteGlobalState>();
	auto &source = input.global_state.Cast<RemoteWriteSourceState>();
	if (!info.returning) {
		chunk.SetCardinality(1);
		chunk.SetValue(0, 0, Value::BIGINT(NumericCast<int64_t>(global.count)));
		return SourceResultType::FINISHED;
	}
	if (!source.begun) {
		global.rows->InitializeScan(source.scan);
		source.begun = true;
	}
	global.rows->Scan(source.scan, chunk);
	return chunk.size() == 0 ? SourceResultType::FINISHED : SourceResultType::HAVE_MORE_OUTPUT;
}

//===--------------------------------------------------------------------===//
// Before a plan runs
//===--------------------------------------------------------------------===//
static optional_ptr<OpenDuckCatalog> WrittenCatalog(const PhysicalOperator &op) {
	if (op.type == PhysicalOperatorType::EXTENSION) {
		auto write = dynamic_cast<const RemoteWrite *>(&op);
		return write ? &write->catalog : nullptr;
	}
	if (op.type == PhysicalOperatorType::MERGE_INTO) {
		auto merge = dynamic_cast<const RemoteMerge *>(&op);
		return merge ? &merge->catalog : nullptr;
	}
	return nullptr;
}

static void CollectWrites(const PhysicalOperator &op, vector<const_reference<PhysicalOperator>> &result) {
	if (WrittenCatalog(op)) {
		result.push_back(op);
	}
	for (auto &child : op.GetChildren()) {
		CollectWrites(child.get(), result);
	}
}

static bool ReadsRemote(ClientContext &context, const PhysicalOperator &plan, const StatementProperties &properties) {
	for (auto &read : properties.read_databases) {
		auto database = DatabaseManager::Get(context).GetDatabase(context, read.first);
		if (database && OpenDuckCatalog::Is(database->GetCatalog())) {
			return true;
		}
	}
	return !RemoteScans(plan).empty();
}

void BeginRemoteWrites(ClientContext &context, const PhysicalOperator &plan, const StatementProperties &properties) {
	vector<const_reference<PhysicalOperator>> writes;
	CollectWrites(plan, writes);
	// While a statement reads rows, nothing else can be asked in its transaction.
	auto alone = writes.size() == 1 && !ReadsRemote(context, plan, properties);
	for (auto &op : writes) {
		auto write =
		    op.get().type == PhysicalOperatorType::EXTENSION ? &static_cast<const RemoteWrite &>(op.get()) : nullptr;
		auto direct = alone && write && write->info.single_pass;
		if (write) {
			write->direct = direct;
		}
		if (!direct) {
			OpenDuckTransaction::Get(context, *WrittenCatalog(op)).Server(context, ServerUse::STEPS);
		}
	}
}

} // namespace openduck

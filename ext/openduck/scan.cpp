//===----------------------------------------------------------------------===//
// openduck/scan.cpp: the table function behind every remote read
//===----------------------------------------------------------------------===//
#include "openduck/scan.hpp"
#include "openduck/sent_rows.hpp"
#include "openduck/table.hpp"

#include "duckdb/execution/expression_executor.hpp"
#include "duckdb/main/database.hpp"
#include "duckdb/parallel/async_result.hpp"
#include "duckdb/parallel/pipeline.hpp"

#include <chrono>

namespace openduck {

//===--------------------------------------------------------------------===//
// States
//===--------------------------------------------------------------------===//
class RemoteScanGlobalState : public GlobalTableFunctionState {
public:
	RemoteScanPlan plan;
	//! What was sent along. Outlives the queue, whose stream may run in its transaction.
	unique_ptr<RowTransport> transport;
	unique_ptr<PayloadQueue> queue;
	idx_t keys_sent = 0;
	idx_t bytes_sent = 0;
	idx_t max_threads = 1;
	atomic<idx_t> rows {0};
	//! count_only: rows that are still to be given.
	atomic<idx_t> counted {0};
	bool count_known = false;

	idx_t MaxThreads() const override {
		return max_threads;
	}
};

class RemoteScanLocalState : public LocalTableFunctionState {
public:
	unique_ptr<NativeReader> reader;
	shared_ptr<PayloadQueue::Run> run;
	bool reading = false;
	//! Whether the thread may be given back to DuckDB, and since when it was not.
	bool may_block = false;
	std::chrono::steady_clock::time_point resumed;
	idx_t batch_index = 0;
	//! For a local filter: all of the stream's columns.
	DataChunk wide;
	unique_ptr<ExpressionExecutor> filter;
	SelectionVector selection;
};

//! Threads that PLAN's rows are for.
static idx_t MaxScanThreads(ClientContext &context, const RemoteScanPlan &plan) {
	return plan.count_only ? 1 : context.db->NumberOfThreads();
}

//! A stream keeps a thread busy, here and there.
static idx_t MaxStreams(ClientContext &context, const RemoteScanPlan &plan) {
	return FetchStreams(context, MaxScanThreads(context, plan));
}

//! Sends the scan with the rows of this side and the keys of its joins, which are known now.
static void SendScan(ClientContext &context, const RemoteScanBindData &bind, TableFunctionInitInput &input,
                     RemoteScanGlobalState &state) {
	auto &remote = *bind.source.remote;
	state.transport = make_uniq<RowTransport>(context, remote, ScanTransaction(context, bind.source), bind.sent);
	auto &transport = *state.transport;
	// Tables take the place of parameters, so that none is left for keys.
	auto keys = JoinKeyConditions::Complete(transport.UsesTables() ? vector<JoinKeyFilter>() : bind.key_filters,
	                                        *transport.parameters);
	state.plan =
	    PlanRemoteScan(bind, input.column_indexes, input.projection_ids,
	                   optional_ptr<const TableFilterSet>(input.filters.get()), bind.dynamic_filters, keys.conditions);
	state.plan.sql = transport.Name(std::move(state.plan.sql));
	auto parameters = transport.parameters->Slice();
	state.keys_sent = keys.count;
	state.bytes_sent = transport.UsesTables() ? transport.bytes : parameters.len;
	unique_ptr<RemoteStream> stream;
	auto streams = MaxStreams(context, state.plan);
	if (!keys.nothing) {
		stream = RemoteStream::Start(&context, remote, transport.Transaction(), state.plan.sql,
		                             bind.source.catalog_version, false, parameters, false, streams > 1);
		stream->WatchExecutor();
	}
	state.queue = make_uniq<PayloadQueue>(std::move(stream), streams);
	if (keys.nothing) {
		state.queue->Push(RemotePayload(), true);
	}
}

static unique_ptr<GlobalTableFunctionState> RemoteScanInitGlobal(ClientContext &context,
                                                                 TableFunctionInitInput &input) {
	auto &bind = input.bind_data->Cast<RemoteScanBindData>();
	auto result = make_uniq<RemoteScanGlobalState>();
	auto started = RemoteClientState::Get(context)->Take(bind);
	if (started) {
		if (started->error.HasError()) {
			started->error.Throw();
		}
		result->plan = std::move(started->plan);
		started->stream->WatchExecutor();
		result->queue = make_uniq<PayloadQueue>(std::move(started->stream), MaxStreams(context, result->plan));
		if (started->first.owner) {
			auto first = started->first;
			started->first = RemotePayload();
			result->queue->Push(first, false);
		}
		if (started->finished) {
			result->queue->Push(RemotePayload(), true);
		}
	} else {
		SendScan(context, bind, input, *result);
	}
	result->max_threads = MaxScanThreads(context, result->plan);
	return std::move(result);
}

static unique_ptr<LocalTableFunctionState> RemoteScanInitLocal(ExecutionContext &context, TableFunctionInitInput &input,
                                                               GlobalTableFunctionState *global_p) {
	auto &global = global_p->Cast<RemoteScanGlobalState>();
	auto result = make_uniq<RemoteScanLocalState>();
	// A positional join reads its tables itself, and knows no waiting.
	auto source = context.pipeline ? context.pipeline->GetSource() : nullptr;
	result->may_block = source && input.op && RefersToSameObject<const PhysicalOperator>(*source, *input.op);
	result->resumed = std::chrono::steady_clock::now();
	result->reader = make_uniq<NativeReader>(global.plan.names, global.plan.types);
	if (global.plan.local_filter) {
		result->wide.Initialize(context.client, global.plan.types);
		result->filter = make_uniq<ExpressionExecutor>(context.client, *global.plan.local_filter);
		result->selection.Initialize(STANDARD_VECTOR_SIZE);
	}
	return std::move(result);
}

//===--------------------------------------------------------------------===//
// Execution
//===--------------------------------------------------------------------===//
//! DuckDB tells a running scan of an interrupt, but not that a result was closed or a LIMIT reached: of that it thinks when a
//! scan blocks. So a scan that waits for the server, or that gave no rest for a while, blocks for a moment.
static constexpr std::chrono::milliseconds MAX_RUN(200);

//! Nothing to do: what counts is that DuckDB runs it, and the scan after it, only if the statement still wants rows.
class ComeBack : public AsyncTask {
public:
	void Execute() override {
	}
};

static void Block(TableFunctionInput &input) {
	input.local_state->Cast<RemoteScanLocalState>().resumed = std::chrono::steady_clock::now();
	vector<unique_ptr<AsyncTask>> tasks;
	tasks.push_back(make_uniq<ComeBack>());
	input.async_result = AsyncResult(std::move(tasks));
}

//! The next rows of the thread's payload, or of the next one. 0 at the end, and with BLOCKED.
static idx_t NextRows(ClientContext &context, RemoteScanGlobalState &global, RemoteScanLocalState &local,
                      bool &blocked) {
	while (true) {
		if (local.may_block && std::chrono::steady_clock::now() - local.resumed > MAX_RUN) {
			blocked = true;
			return 0;
		}
		if (local.reading) {
			auto count = local.reader->Next();
			if (count > 0) {
				return count;
			}
			local.reading = false;
		}
		RemotePayload payload;
		auto got = global.queue->Take(context, local.run, payload);
		if (got == RemoteStream::Got::END) {
			return 0;
		}
		if (got == RemoteStream::Got::NOTHING_YET) {
			blocked = local.may_block;
			if (blocked) {
				return 0;
			}
			continue;
		}
		local.batch_index = local.run->index;
		local.reader->Start(payload.owner, payload.bytes);
		local.reading = true;
	}
}

static void EmptyColumn(Vector &out) {
	out.SetVectorType(VectorType::CONSTANT_VECTOR);
	ConstantVector::SetNull(out, true);
}

static void GiveCounted(ClientContext &context, RemoteScanGlobalState &global, RemoteScanLocalState &local,
                        DataChunk &output, bool &blocked) {
	if (!global.count_known) {
		Vector count(LogicalType::BIGINT);
		while (NextRows(context, global, local, blocked) > 0) {
			local.reader->Read(0, count);
			auto value = FlatVector::GetData<int64_t>(count)[0];
			if (!FlatVector::Validity(count).RowIsValid(0) || value < 0) {
				throw IOException("the server sent a damaged result: a count is not a number");
			}
			global.counted = idx_t(value);
		}
		if (blocked) {
			return;
		}
		global.count_known = true;
	}
	auto give = MinValue<idx_t>(global.counted, STANDARD_VECTOR_SIZE);
	global.counted -= give;
	for (auto &column : output.data) {
		EmptyColumn(column);
	}
	output.SetCardinality(give);
	global.rows += give;
}

//! BLOCKED: there are no rows yet.
static void ScanRows(ClientContext &context, TableFunctionInput &input, DataChunk &output, bool &blocked) {
	auto &global = input.global_state->Cast<RemoteScanGlobalState>();
	auto &local = input.local_state->Cast<RemoteScanLocalState>();
	auto &plan = global.plan;
	if (plan.count_only) {
		return GiveCounted(context, global, local, output, blocked);
	}
	while (true) {
		auto count = NextRows(context, global, local, blocked);
		if (count == 0) {
			return;
		}
		global.rows += count;
		if (!plan.local_filter) {
			for (idx_t i = 0; i < plan.outputs.size(); i++) {
				if (plan.outputs[i].IsValid()) {
					local.reader->Read(plan.outputs[i].GetIndex(), output.data[i]);
				} else {
					EmptyColumn(output.data[i]);
				}
			}
			output.SetCardinality(count);
			return;
		}
		local.wide.Reset();
		local.reader->Read(local.wide);
		auto selected = local.filter->SelectExpression(local.wide, local.selection);
		if (selected == 0) {
			continue;
		}
		for (idx_t i = 0; i < plan.outputs.size(); i++) {
			if (plan.outputs[i].IsValid()) {
				output.data[i].Reference(local.wide.data[plan.outputs[i].GetIndex()]);
			} else {
				EmptyColumn(output.data[i]);
			}
		}
		output.SetCardinality(count);
		if (selected < count) {
			output.Slice(local.selection, selected);
		}
		return;
	}
}

static void RemoteScanExecute(ClientContext &context, TableFunctionInput &input, DataChunk &output) {
	try {
		bool blocked = false;
		ScanRows(context, input, output, blocked);
		if (blocked) {
			Block(input);
		}
	} catch (IOException &exception) {
		// What the client itself finds wrong with an answer: say whose it is.
		auto text = ErrorData(exception).RawMessage();
		if (StringUtil::Contains(text, "(openduck ")) {
			throw;
		}
		auto &bind = input.bind_data->Cast<RemoteScanBindData>();
		throw IOException("%s (openduck %s)", text, bind.source.remote->Authority());
	}
}

static OperatorPartitionData RemoteScanGetPartitionData(ClientContext &, TableFunctionGetPartitionInput &input) {
	if (input.partition_info.RequiresPartitionColumns()) {
		throw InternalException("a remote scan has no partition columns");
	}
	return OperatorPartitionData(input.local_state->Cast<RemoteScanLocalState>().batch_index);
}

//===--------------------------------------------------------------------===//
// What the optimizer and EXPLAIN ask
//===--------------------------------------------------------------------===//
//! Ours for what a query gives: a plan for too many rows goes less wrong than one for too few.
static constexpr idx_t UNKNOWN_ROWS = 10000;

static unique_ptr<NodeStatistics> RemoteScanCardinality(ClientContext &, const FunctionData *bind_p) {
	auto &bind = bind_p->Cast<RemoteScanBindData>();
	auto rows = bind.source.estimated_rows.IsValid() ? bind.source.estimated_rows.GetIndex() : UNKNOWN_ROWS;
	if (!bind.filters.empty()) {
		rows = MaxValue<idx_t>(1, idx_t(double(rows) * bind.selectivity));
	}
	if (bind.limit.IsValid()) {
		rows = MinValue(rows, bind.limit.GetIndex());
	}
	return make_uniq<NodeStatistics>(rows);
}

//! Only how many values there are: the rest of what statistics tell DuckDB takes for true, but others may have written since.
static unique_ptr<BaseStatistics> RemoteScanStatistics(ClientContext &, const FunctionData *bind_p, column_t column) {
	auto &bind = bind_p->Cast<RemoteScanBindData>();
	auto count = bind.source.entry ? bind.source.entry->Cast<OpenDuckTableEntry>().Figures(column).distinct_count : 0;
	if (count == 0 || column >= bind.source.columns.size()) {
		return nullptr;
	}
	auto result = BaseStatistics::CreateUnknown(bind.source.columns[column].type);
	result.SetDistinctCount(count);
	return result.ToUnique();
}

static InsertionOrderPreservingMap<string> RemoteScanToString(TableFunctionToStringInput &input) {
	InsertionOrderPreservingMap<string> result;
	auto &bind = input.bind_data->Cast<RemoteScanBindData>();
	result["Endpoint"] = bind.source.remote->Authority();
	result["Database"] = bind.source.remote->Database();
	auto sql = bind.planned_sql;
	if (sql.empty()) {
		vector<ColumnIndex> all;
		for (idx_t i = 0; i < bind.source.columns.size(); i++) {
			all.emplace_back(i);
		}
		sql = PlanRemoteScan(bind, all, vector<idx_t>(), nullptr, false).sql;
	}
	result["Remote SQL"] = sql;
	return result;
}

static InsertionOrderPreservingMap<string> RemoteScanDynamicToString(TableFunctionDynamicToStringInput &input) {
	InsertionOrderPreservingMap<string> result;
	auto &bind = input.bind_data->Cast<RemoteScanBindData>();
	result["Endpoint"] = bind.source.remote->Authority();
	result["Database"] = bind.source.remote->Database();
	if (!input.global_state) {
		return result;
	}
	auto &global = input.global_state->Cast<RemoteScanGlobalState>();
	result["Remote SQL"] = global.plan.sql;
	if (bind.expected_rows.IsValid()) {
		result["Rows Expected"] = to_string(bind.expected_rows.GetIndex());
	}
	result["Rows Received"] = to_string(global.rows.load());
	result["Bytes Received"] = to_string(global.queue->Bytes());
	if (global.queue->Streams() > 1) {
		result["Streams"] = to_string(global.queue->Streams());
	}
	if (!bind.sent.empty() && global.transport) {
		result["Rows Sent"] = to_string(global.transport->rows);
	}
	if (!bind.key_filters.empty()) {
		result["Keys Sent"] = to_string(global.keys_sent);
	}
	if (global.bytes_sent > 0) {
		result["Bytes Sent"] = to_string(global.bytes_sent);
	}
	return result;
}

static virtual_column_map_t RemoteScanVirtualColumns(ClientContext &, optional_ptr<FunctionData> bind_p) {
	virtual_column_map_t result;
	auto &bind = bind_p->Cast<RemoteScanBindData>();
	result.insert(make_pair(COLUMN_IDENTIFIER_EMPTY, TableColumn("", LogicalType::BOOLEAN)));
	if (bind.source.entry) {
		result.insert(make_pair(COLUMN_IDENTIFIER_ROW_ID, TableColumn("rowid", LogicalType::ROW_TYPE)));
	}
	return result;
}

static BindInfo RemoteScanBindInfo(const optional_ptr<FunctionData> bind_p) {
	auto entry = bind_p->Cast<RemoteScanBindData>().source.entry;
	return entry ? BindInfo(*entry) : BindInfo(ScanType::EXTERNAL);
}

//===--------------------------------------------------------------------===//
// The seam to the catalog
//===--------------------------------------------------------------------===//
bool IsRemoteScan(const TableFunction &function) {
	return function.function == RemoteScanExecute;
}

//! DuckDB copies a plan by writing it and reading it again: a CTE in the place of each of its names. That would read a table, or run a
//! statement, as often; so what reads them says that it cannot be copied, and the CTE stays one.
static void RemoteScanSerialize(Serializer &, const optional_ptr<FunctionData>, const TableFunction &) {
	throw NotImplementedException("a plan that reads a remote table cannot be copied");
}

static unique_ptr<FunctionData> RemoteScanDeserialize(Deserializer &, TableFunction &) {
	throw NotImplementedException("a plan that reads a remote table cannot be copied");
}

TableFunction RemoteScanFunction() {
	TableFunction function("openduck_scan", {}, RemoteScanExecute, nullptr, RemoteScanInitGlobal, RemoteScanInitLocal);
	function.cardinality = RemoteScanCardinality;
	function.statistics = RemoteScanStatistics;
	function.pushdown_complex_filter = PushdownFilters;
	function.to_string = RemoteScanToString;
	function.dynamic_to_string = RemoteScanDynamicToString;
	function.get_partition_data = RemoteScanGetPartitionData;
	function.get_bind_info = RemoteScanBindInfo;
	function.get_virtual_columns = RemoteScanVirtualColumns;
	function.projection_pushdown = true;
	function.filter_pushdown = true;
	function.filter_prune = true;
	function.verify_serialization = false;
	function.serialize = RemoteScanSerialize;
	function.deserialize = RemoteScanDeserialize;
	return function;
}

RemoteStart RemoteScanStart(ClientContext &context, const PhysicalTableScan &scan) {
	auto &bind = scan.bind_data->Cast<RemoteScanBindData>();
	auto &remote = *bind.source.remote;
	// A scan that a join or a TOP N will filter, or that brings rows along, is sent when these are known; now only the version is looked at.
	auto later = (scan.dynamic_filters && bind.dynamic_filters) || bind.awaits_bound || !bind.key_filters.empty() ||
	             !bind.sent.empty();
	if (later && bind.source.catalog_version == 0) {
		return RemoteStart::STARTED;
	}
	auto started = make_uniq<StartedScan>();
	started->plan = PlanRemoteScan(bind, scan.column_ids, scan.projection_ids,
	                               optional_ptr<const TableFilterSet>(scan.table_filters.get()), false);
	try {
		started->stream = RemoteStream::Start(&context, remote, ScanTransaction(context, bind.source),
		                                      started->plan.sql, bind.source.catalog_version, later, {nullptr, 0},
		                                      false, !later && MaxStreams(context, started->plan) > 1);
		od_error err = {};
		auto code = started->stream->TryNext(started->first, err);
		if (code == OD_E_STALE_CATALOG) {
			return RemoteStart::STALE_CATALOG;
		}
		if (code != OD_OK) {
			ThrowError(err);
		}
		started->finished = !started->first.owner;
	} catch (InterruptException &) {
		throw;
	} catch (std::exception &ex) {
		started->error = ErrorData(ex);
	}
	if (!later) {
		RemoteClientState::Get(context)->Put(bind, std::move(started));
	}
	return RemoteStart::STARTED;
}

static bool RightSideRunsFirst(PhysicalOperatorType type) {
	switch (type) {
	case PhysicalOperatorType::HASH_JOIN:
	case PhysicalOperatorType::NESTED_LOOP_JOIN:
	case PhysicalOperatorType::BLOCKWISE_NL_JOIN:
	case PhysicalOperatorType::PIECEWISE_MERGE_JOIN:
	case PhysicalOperatorType::IE_JOIN:
	case PhysicalOperatorType::ASOF_JOIN:
	case PhysicalOperatorType::CROSS_PRODUCT:
	case PhysicalOperatorType::POSITIONAL_JOIN:
		return true;
	default:
		return false;
	}
}

static void CollectScans(const PhysicalOperator &op, vector<const_reference<PhysicalTableScan>> &result) {
	if (op.type == PhysicalOperatorType::TABLE_SCAN) {
		auto &scan = op.Cast<PhysicalTableScan>();
		if (IsRemoteScan(scan.function)) {
			result.push_back(scan);
		}
	}
	auto children = op.GetChildren();
	if (RightSideRunsFirst(op.type)) {
		std::reverse(children.begin(), children.end());
	}
	for (auto &child : children) {
		CollectScans(child.get(), result);
	}
}

vector<const_reference<PhysicalTableScan>> RemoteScans(const PhysicalOperator &plan) {
	vector<const_reference<PhysicalTableScan>> result;
	CollectScans(plan, result);
	return result;
}

void RemoteScanDropUnused(ClientContext &context) {
	RemoteClientState::Get(context)->DropStarted();
}

} // namespace openduck

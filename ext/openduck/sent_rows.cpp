#include "openduck/sent_rows.hpp"

#include "openduck/pass_through.hpp"
#include "openduck/write_encode.hpp"
#include "openduck/write_upload.hpp"

#include "duckdb/execution/executor.hpp"
#include "duckdb/execution/physical_operator.hpp"
#include "duckdb/execution/physical_plan_generator.hpp"
#include "duckdb/parallel/meta_pipeline.hpp"
#include "duckdb/parallel/pipeline.hpp"
#include "duckdb/storage/buffer_manager.hpp"

namespace openduck {

//! Of what goes into a table.
static constexpr idx_t TABLE_PAYLOAD = idx_t(1) << 20;

static vector<string> ColumnNames(idx_t count) {
	vector<string> names;
	for (idx_t i = 0; i < count; i++) {
		names.push_back("c" + to_string(i));
	}
	return names;
}

//===--------------------------------------------------------------------===//
// SentRows
//===--------------------------------------------------------------------===//
void SentRows::Begin(ClientContext &context) {
	lock_guard<mutex> guard(lock);
	rows = make_uniq<ColumnDataCollection>(BufferManager::GetBufferManager(context), types);
}

void SentRows::Add(DataChunk &chunk) {
	lock_guard<mutex> guard(lock);
	rows->Append(chunk);
}

idx_t SentRows::Size() {
	lock_guard<mutex> guard(lock);
	return rows ? rows->SizeInBytes() : 0;
}

idx_t SentRows::Count() {
	lock_guard<mutex> guard(lock);
	return rows ? rows->Count() : 0;
}

void SentRows::Write(idx_t target, const std::function<void(od_msg *payload)> &give) {
	lock_guard<mutex> guard(lock);
	vector<idx_t> columns;
	for (idx_t i = 0; i < types.size(); i++) {
		columns.push_back(i);
	}
	NativeWriter writer(ColumnNames(types.size()), types);
	bool given = false;
	for (auto &chunk : rows->Chunks()) {
		writer.Append(chunk, columns, 0, chunk.size());
		if (writer.Bytes() >= target) {
			give(writer.Flush());
			given = true;
		}
	}
	if (writer.Rows() > 0 || !given) {
		give(writer.Flush());
	}
}

namespace {

//! A stream of rows into a new table of a transaction.
class TableStream {
public:
	TableStream(ClientContext &context, Remote &remote, const od_remote_txn *txn, const string &table,
	            const vector<LogicalType> &types)
	    : context(context) {
		auto names = ColumnNames(types.size());
		vector<string> sql_types;
		vector<od_wire_column> columns(types.size());
		for (auto &type : types) {
			sql_types.push_back(StagedTypeSql(type));
		}
		for (idx_t i = 0; i < types.size(); i++) {
			columns[i].name = od_slice_of(names[i].data(), names[i].size());
			columns[i].sql_type = od_slice_of(sql_types[i].data(), sql_types[i].size());
		}
		od_ingest_options options = {};
		options.staging_table = od_slice_of(table.data(), table.size());
		options.columns = columns.data();
		options.column_count = columns.size();
		options.format = OD_FORMAT_NATIVE;
		options.interrupt.check = Interrupted;
		options.interrupt.arg = this;
		od_error err = {};
		ThrowIfFailed(od_ingest_open(remote.Handle(), txn, &options, &ingest, &err), err);
	}
	~TableStream() {
		od_ingest_free(ingest);
	}
	TableStream(const TableStream &) = delete;

	//! Takes PAYLOAD.
	void Send(od_msg *payload) {
		od_error err = {};
		ThrowIfFailed(od_ingest_send(ingest, payload, &err), err);
	}
	void Finish() {
		od_error err = {};
		uint64_t arrived;
		ThrowIfFailed(od_ingest_finish(ingest, &arrived, &err), err);
	}

private:
	static bool Interrupted(void *arg) {
		auto &context = static_cast<TableStream *>(arg)->context;
		return context.interrupted || Executor::Get(context).HasError();
	}

	ClientContext &context;
	od_ingest *ingest = nullptr;
};

//! Not those of what is written (write.cpp).
string NextTable() {
	static atomic<idx_t> last {0};
	return "openduck_sent_" + to_string(++last);
}

} // namespace

//===--------------------------------------------------------------------===//
// RowTransport
//===--------------------------------------------------------------------===//
RowTransport::RowTransport(ClientContext &context, Remote &remote, od_remote_txn *txn,
                           const vector<shared_ptr<SentRows>> &sent)
    : parameters(make_uniq<RowParameters>()), txn(txn) {
	if (MakeParameters(sent)) {
		return;
	}
	parameters = make_uniq<RowParameters>();
	bytes = 0;
	if (!txn) {
		own = ServerTransaction::Begin(context, remote);
	}
	for (auto &part : sent) {
		tables.push_back(NextTable());
		TableStream stream(context, remote, Transaction(), tables.back(), part->types);
		part->Write(TABLE_PAYLOAD, [&](od_msg *payload) {
			bytes += od_msg_len(payload);
			stream.Send(payload);
		});
		stream.Finish();
	}
}

bool RowTransport::MakeParameters(const vector<shared_ptr<SentRows>> &sent) {
	idx_t size = 0;
	for (auto &part : sent) {
		rows += part->Count();
		size += part->Size();
	}
	if (size > RowParameters::MAX_BYTES) {
		return false;
	}
	bool fits = true;
	for (auto &part : sent) {
		part->Write(RowParameters::MAX_BYTES, [&](od_msg *payload) {
			bytes += od_msg_len(payload);
			fits = parameters->Add(payload) && fits;
		});
	}
	return fits && parameters->Count() == sent.size();
}

string RowTransport::Name(string sql) const {
	for (idx_t i = 0; i < tables.size(); i++) {
		sql = StringUtil::Replace(sql, RowParameters::FromItem(i + 1), "temp.main." + tables[i]);
	}
	return sql;
}

//===--------------------------------------------------------------------===//
// Operators
//===--------------------------------------------------------------------===//
namespace {

//! Rows of the second child go to the sink; those of the first pass, afterwards.
class PhysicalSentRows : public PhysicalOperator {
public:
	static constexpr const PhysicalOperatorType TYPE = PhysicalOperatorType::EXTENSION;

	PhysicalSentRows(PhysicalPlan &plan, vector<LogicalType> types, shared_ptr<SentRows> rows_p,
	                 idx_t estimated_cardinality)
	    : PhysicalOperator(plan, TYPE, std::move(types), estimated_cardinality), rows(std::move(rows_p)) {
	}

	string GetName() const override {
		return "OPENDUCK_SEND_ROWS";
	}
	bool ParallelOperator() const override {
		return true;
	}
	OperatorResultType Execute(ExecutionContext &context, DataChunk &input, DataChunk &chunk,
	                           GlobalOperatorState &gstate, OperatorState &state) const override {
		chunk.Reference(input);
		return OperatorResultType::NEED_MORE_INPUT;
	}

	bool IsSink() const override {
		return true;
	}
	bool ParallelSink() const override {
		return true;
	}
	unique_ptr<GlobalSinkState> GetGlobalSinkState(ClientContext &context) const override {
		rows->Begin(context);
		return make_uniq<GlobalSinkState>();
	}
	SinkResultType Sink(ExecutionContext &context, DataChunk &chunk, OperatorSinkInput &input) const override {
		rows->Add(chunk);
		return SinkResultType::NEED_MORE_INPUT;
	}

	void BuildPipelines(Pipeline &current, MetaPipeline &meta_pipeline) override {
		op_state.reset();
		sink_state.reset();
		meta_pipeline.GetState().AddPipelineOperator(current, *this);
		meta_pipeline.CreateChildMetaPipeline(current, *this).Build(children[1].get());
		children[0].get().BuildPipelines(current, meta_pipeline);
	}
	vector<const_reference<PhysicalOperator>> GetSources() const override {
		return children[0].get().GetSources();
	}

private:
	shared_ptr<SentRows> rows;
};

class LogicalSentRows : public LogicalPassThrough {
public:
	LogicalSentRows(shared_ptr<SentRows> rows_p, unique_ptr<LogicalOperator> scan, unique_ptr<LogicalOperator> child)
	    : LogicalPassThrough(std::move(scan)), rows(std::move(rows_p)) {
		children.push_back(std::move(child));
	}
	string GetName() const override {
		return "OPENDUCK_SEND_ROWS";
	}
	//! Nothing of the child can be seen above.
	vector<idx_t> GetTableIndex() const override {
		return {};
	}
	PhysicalOperator &CreatePlan(ClientContext &context, PhysicalPlanGenerator &planner) override {
		auto &child = planner.CreatePlan(*children[1]);
		auto &scan = planner.CreatePlan(*children[0]);
		auto &result = planner.Make<PhysicalSentRows>(types, rows, scan.estimated_cardinality);
		result.children.push_back(scan);
		result.children.push_back(child);
		return result;
	}

private:
	shared_ptr<SentRows> rows;
};

} // namespace

unique_ptr<LogicalOperator> PlanSentRows(shared_ptr<SentRows> rows, unique_ptr<LogicalOperator> scan,
                                         unique_ptr<LogicalOperator> child) {
	auto result = make_uniq<LogicalSentRows>(std::move(rows), std::move(scan), std::move(child));
	result->ResolveOperatorTypes();
	return std::move(result);
}

bool IsSentRows(const LogicalOperator &op) {
	return dynamic_cast<const LogicalSentRows *>(&op) != nullptr;
}

} // namespace openduck

#include "vgi/scan.hpp"

#include "vgi/transaction.hpp"

#include "duckdb/function/table/arrow.hpp"
#include "duckdb/main/database.hpp"

namespace vgi {

namespace {

struct BoundFunction {
	explicit BoundFunction(shared_ptr<VgiRemote> remote_p) : remote(std::move(remote_p)) {
	}
	~BoundFunction() {
		od_vgi_bound_free(bound);
	}
	shared_ptr<VgiRemote> remote;
	od_vgi_bound *bound = nullptr;
};

class ScanBindData : public TableFunctionData {
public:
	ScanBindData(VgiCatalog &catalog, shared_ptr<BoundFunction> function_p)
	    : catalog(catalog), function(std::move(function_p)) {
	}

	VgiCatalog &catalog;
	shared_ptr<BoundFunction> function;
	string name;
	ArrowTableSchema columns;
	//! The worker sends the columns that it is asked for, in that order.
	bool projects = false;
	optional_idx rows;

	unique_ptr<FunctionData> Copy() const override {
		auto result = make_uniq<ScanBindData>(catalog, function);
		result->name = name;
		result->columns = columns;
		result->projects = projects;
		result->rows = rows;
		return std::move(result);
	}
	bool Equals(const FunctionData &other) const override {
		return function == other.Cast<ScanBindData>().function;
	}
	bool SupportStatementCache() const override {
		return false;
	}
};

class ScanGlobalState : public GlobalTableFunctionState {
public:
	~ScanGlobalState() override {
		od_vgi_scan_close(scan);
	}
	idx_t MaxThreads() const override {
		return max_threads;
	}
	//! The next batch with rows; false at the end.
	bool Next(ArrowArrayWrapper &out, idx_t &batch) {
		lock_guard<mutex> guard(lock);
		while (!ended) {
			od_error err = {};
			auto code = od_vgi_scan_next(scan, &out.arrow_array, &err);
			if (code != OD_OK) {
				ended = true;
				ThrowError(err);
			}
			if (!out.arrow_array.release) {
				ended = true;
				break;
			}
			if (out.arrow_array.length > 0) {
				batch = ++batches;
				return true;
			}
			out.arrow_array.release(&out.arrow_array);
		}
		return false;
	}

	od_vgi_scan *scan = nullptr;
	idx_t max_threads = 1;

private:
	mutex lock; //!< guards the scan and the fields below
	bool ended = false;
	idx_t batches = 0;
};

class ScanLocalState : public LocalTableFunctionState {
public:
	explicit ScanLocalState(ClientContext &context) : arrow(make_uniq<ArrowArrayWrapper>(), context) {
	}
	ArrowScanLocalState arrow;
};

unique_ptr<GlobalTableFunctionState> InitGlobal(ClientContext &context, TableFunctionInitInput &input) {
	auto &bind = input.bind_data->Cast<ScanBindData>();
	auto result = make_uniq<ScanGlobalState>();
	auto call = VgiTransaction::Get(context, bind.catalog).Call(context);
	vector<int64_t> columns(input.column_ids.begin(), input.column_ids.end());
	od_vgi_scan_options options = {};
	if (bind.projects) {
		options.columns = columns.data();
		options.column_count = columns.size();
	}
	od_error err = {};
	ThrowIfFailed(
	    od_vgi_scan_open(bind.function->remote->Handle(), &call, bind.function->bound, &options, &result->scan, &err),
	    err);
	// One stream; what takes time beside the worker is to make vectors of its batches.
	result->max_threads = context.db->NumberOfThreads();
	return std::move(result);
}

unique_ptr<LocalTableFunctionState> InitLocal(ExecutionContext &context, TableFunctionInitInput &input,
                                              GlobalTableFunctionState *) {
	auto result = make_uniq<ScanLocalState>(context.client);
	result->arrow.column_ids = input.column_ids;
	return std::move(result);
}

void Execute(ClientContext &context, TableFunctionInput &input, DataChunk &output) {
	auto &bind = input.bind_data->Cast<ScanBindData>();
	auto &global = input.global_state->Cast<ScanGlobalState>();
	auto &state = input.local_state->Cast<ScanLocalState>().arrow;
	if (state.chunk_offset >= idx_t(state.chunk->arrow_array.length)) {
		state.Reset();
		auto chunk = make_shared_ptr<ArrowArrayWrapper>();
		if (!global.Next(*chunk, state.batch_index)) {
			state.chunk = make_shared_ptr<ArrowArrayWrapper>();
			return;
		}
		state.chunk = std::move(chunk);
	}
	auto count = MinValue<idx_t>(STANDARD_VECTOR_SIZE, idx_t(state.chunk->arrow_array.length) - state.chunk_offset);
	output.SetCardinality(count);
	ArrowTableFunction::ArrowToDuckDB(state, bind.columns.GetColumns(), output, bind.projects);
	state.chunk_offset += count;
}

OperatorPartitionData GetPartitionData(ClientContext &, TableFunctionGetPartitionInput &input) {
	if (input.partition_info.RequiresPartitionColumns()) {
		throw NotImplementedException("a VGI scan has no partition columns");
	}
	return OperatorPartitionData(input.local_state->Cast<ScanLocalState>().arrow.batch_index);
}

unique_ptr<NodeStatistics> Cardinality(ClientContext &, const FunctionData *bind_p) {
	auto &bind = bind_p->Cast<ScanBindData>();
	return bind.rows.IsValid() ? make_uniq<NodeStatistics>(bind.rows.GetIndex()) : make_uniq<NodeStatistics>();
}

InsertionOrderPreservingMap<string> ToText(TableFunctionToStringInput &input) {
	InsertionOrderPreservingMap<string> result;
	auto &bind = input.bind_data->Cast<ScanBindData>();
	result["Catalog"] = bind.catalog.GetName();
	result["Function"] = bind.name;
	return result;
}

TableFunction ScanFunction() {
	TableFunction function("vgi_scan", {}, Execute, nullptr, InitGlobal, InitLocal);
	function.projection_pushdown = true;
	function.cardinality = Cardinality;
	function.to_string = ToText;
	function.get_partition_data = GetPartitionData;
	function.verify_serialization = false;
	return function;
}

} // namespace

static optional_idx AskCardinality(ClientContext &context, VgiRemote &remote, const od_vgi_context &call,
                                   const od_vgi_bound *bound) {
	od_vgi_number estimate = {}, max = {};
	od_error err = {};
	auto code = od_vgi_bound_cardinality(remote.Handle(), &call, bound, &estimate, &max, &err);
	if (code == OD_E_NOT_IMPLEMENTED) {
		return optional_idx();
	}
	ThrowIfFailed(code, err);
	auto &number = estimate.known ? estimate : max;
	return number.known && number.value >= 0 ? optional_idx(idx_t(number.value)) : optional_idx();
}

unique_ptr<LogicalGet> BindWorkerScan(ClientContext &context, VgiCatalog &catalog, const od_vgi_function &function,
                                      const string &schema, od_vgi_values &arguments, idx_t table_index,
                                      optional_idx rows) {
	auto call = VgiTransaction::Get(context, catalog).Call(context);
	auto bound = make_shared_ptr<BoundFunction>(catalog.Remote());
	od_vgi_bind bind = {};
	bind.function = CText(function.name);
	bind.schema = schema.c_str();
	bind.type = OD_VGI_TABLE_FUNCTION;
	bind.arguments = &arguments;
	od_error err = {};
	ThrowIfFailed(od_vgi_bind_function(catalog.Remote()->Handle(), &call, &bind, &bound->bound, &err), err);
	if (od_vgi_bound_secret_count(bound->bound) > 0) {
		throw NotImplementedException("VGI function \"%s\" of \"%s\" asks for secrets, which are not sent",
		                              bind.function, catalog.GetName());
	}
	auto data = make_uniq<ScanBindData>(catalog, bound);
	data->name = schema + "." + bind.function;
	data->projects = function.projection_pushdown;
	data->rows = rows.IsValid() ? rows : AskCardinality(context, *catalog.Remote(), call, bound->bound);
	ArrowTableFunction::PopulateArrowTableSchema(context, data->columns, *od_vgi_bound_schema(bound->bound));
	auto names = data->columns.GetNames();
	auto types = data->columns.GetTypes();
	if (names.empty()) {
		throw IOException("VGI function \"%s\" of \"%s\" has no columns", bind.function, catalog.GetName());
	}
	return make_uniq<LogicalGet>(table_index, ScanFunction(), std::move(data), std::move(types), std::move(names),
	                             virtual_column_map_t());
}

} // namespace vgi

#include "common/plan_copies.hpp"
#include "vgi/scan.hpp"

#include "vgi/estimates.hpp"
#include "vgi/functions.hpp"
#include "vgi/pushdown.hpp"
#include "vgi/streams.hpp"
#include "vgi/transaction.hpp"

#include "duckdb/execution/expression_executor.hpp"
#include "duckdb/function/table/arrow.hpp"
#include "duckdb/main/database.hpp"
#include "duckdb/planner/expression/bound_conjunction_expression.hpp"
#include "duckdb/planner/expression/bound_reference_expression.hpp"
#include "duckdb/planner/expression_iterator.hpp"

namespace vgi {

namespace {

class ScanBindData : public TableFunctionData {
public:
	ScanBindData(VgiCatalog &catalog, shared_ptr<BoundFunction> function_p, shared_ptr<ScanEstimates> estimates_p)
	    : catalog(catalog), function(std::move(function_p)), estimates(std::move(estimates_p)) {
	}

	VgiCatalog &catalog;
	shared_ptr<BoundFunction> function;
	shared_ptr<ScanEstimates> estimates;
	string name;
	ArrowTableSchema columns;
	//! The names and types of COLUMNS.
	vector<string> names;
	vector<LogicalType> types;
	//! The worker sends the columns that it is asked for, in that order.
	bool projects = false;
	//! The worker is told conditions; EXACT: no row that does not fit comes.
	bool filters_told = false;
	bool filters_exact = false;
	//! Conditions for the worker, over references to COLUMNS; if EXACT, nobody else applies them.
	vector<unique_ptr<Expression>> filters;
	//! More rows than these nobody reads.
	optional_idx limit;
	optional_idx rows;

	unique_ptr<FunctionData> Copy() const override {
		auto result = make_uniq<ScanBindData>(catalog, function, estimates);
		result->name = name;
		result->columns = columns;
		result->names = names;
		result->types = types;
		result->projects = projects;
		result->filters_told = filters_told;
		result->filters_exact = filters_exact;
		for (auto &filter : filters) {
			result->filters.push_back(filter->Copy());
		}
		result->limit = limit;
		result->rows = rows;
		return std::move(result);
	}
	bool Equals(const FunctionData &other_p) const override {
		auto &other = other_p.Cast<ScanBindData>();
		return function == other.function && limit == other.limit && Expression::ListEquals(filters, other.filters);
	}
	bool SupportStatementCache() const override {
		return false;
	}
};

class ScanGlobalState : public GlobalTableFunctionState {
public:
	idx_t MaxThreads() const override {
		return max_threads;
	}

	unique_ptr<ScanStreams> streams;
	//! Those of the function's columns that come.
	vector<column_t> columns;
	//! A condition over what comes that the worker was not told, and nobody else applies; null: none.
	unique_ptr<Expression> filter;
	idx_t max_threads = 1;
};

class ScanLocalState : public LocalTableFunctionState {
public:
	explicit ScanLocalState(ClientContext &context) : arrow(make_uniq<ArrowArrayWrapper>(), context) {
	}
	ArrowScanLocalState arrow;
	ScanStreams::Reader reader;
	//! Of a filtered scan: all that comes, before the filter.
	DataChunk wide;
	unique_ptr<ExpressionExecutor> executor;
};

od_vgi_scan *OpenScan(ClientContext &context, const ScanBindData &bind, ScanGlobalState &state, bool with_filters,
                      bool &all_told) {
	auto call = VgiTransaction::Get(context, bind.catalog).Call(context);
	vector<int64_t> columns(state.columns.begin(), state.columns.end());
	od_vgi_scan_options options = {};
	if (bind.projects) {
		options.columns = columns.data();
		options.column_count = columns.size();
	}
	ToldFilters told(context, bind.function->Schema());
	if (with_filters) {
		for (auto &filter : bind.filters) {
			told.Add(*filter);
		}
		options.filters = told.Get().data();
		options.filter_count = told.Get().size();
		options.row_limit = bind.limit.IsValid() ? int64_t(bind.limit.GetIndex()) : 0;
	}
	od_vgi_scan *result = nullptr;
	od_error err = {};
	ThrowIfFailed(
	    od_vgi_scan_open(bind.function->remote->Handle(), &call, bind.function->bound, &options, &result, &err), err);
	all_told = od_vgi_scan_filter_count(result) == bind.filters.size();
	return result;
}

//! The worker was to apply conditions that it now cannot be told: they are applied here, which may take more columns.
void FilterHere(const ScanBindData &bind, ScanGlobalState &state) {
	auto all = make_uniq<BoundConjunctionExpression>(ExpressionType::CONJUNCTION_AND);
	for (auto &filter : bind.filters) {
		all->children.push_back(filter->Copy());
	}
	state.filter = std::move(all);
	ExpressionIterator::VisitExpressionMutable<BoundReferenceExpression>(
	    state.filter, [&](BoundReferenceExpression &reference, unique_ptr<Expression> &) {
		    auto column = reference.index;
		    auto place = std::find(state.columns.begin(), state.columns.end(), column);
		    reference.index = idx_t(place - state.columns.begin());
		    if (place == state.columns.end()) {
			    state.columns.push_back(column);
		    }
	    });
}

unique_ptr<GlobalTableFunctionState> InitGlobal(ClientContext &context, TableFunctionInitInput &input) {
	auto &bind = input.bind_data->Cast<ScanBindData>();
	auto result = make_uniq<ScanGlobalState>();
	result->columns = input.column_ids;
	bool all_told = false;
	auto scan = OpenScan(context, bind, *result, true, all_told);
	if (bind.filters_exact && !all_told) {
		od_vgi_scan_close(scan);
		FilterHere(bind, *result);
		scan = OpenScan(context, bind, *result, false, all_told);
	}
	// Beside the worker's, it takes time to make vectors of its batches.
	result->max_threads = context.db->NumberOfThreads();
	result->streams = make_uniq<ScanStreams>(scan, result->max_threads);
	return std::move(result);
}

unique_ptr<LocalTableFunctionState> InitLocal(ExecutionContext &context, TableFunctionInitInput &input,
                                              GlobalTableFunctionState *global_p) {
	auto &global = global_p->Cast<ScanGlobalState>();
	auto &bind = input.bind_data->Cast<ScanBindData>();
	auto result = make_uniq<ScanLocalState>(context.client);
	result->arrow.column_ids = global.columns;
	global.streams->Assign(result->reader);
	if (global.filter) {
		vector<LogicalType> types;
		for (auto column : global.columns) {
			types.push_back(bind.types[column]);
		}
		result->wide.Initialize(context.client, types);
		result->executor = make_uniq<ExpressionExecutor>(context.client, *global.filter);
	}
	return std::move(result);
}

//! The rows of WIDE that meet the condition, cut to OUTPUT's columns.
void Filter(ScanLocalState &state, DataChunk &output) {
	SelectionVector chosen(STANDARD_VECTOR_SIZE);
	auto count = state.executor->SelectExpression(state.wide, chosen);
	for (idx_t column = 0; column < output.ColumnCount(); column++) {
		output.data[column].Slice(state.wide.data[column], chosen, count);
	}
	output.SetCardinality(count);
}

//! Whether there is a batch with rows left to give.
bool HasBatch(ClientContext &context, ScanGlobalState &global, ScanLocalState &local) {
	auto &state = local.arrow;
	if (state.chunk_offset < idx_t(state.chunk->arrow_array.length)) {
		return true;
	}
	state.Reset();
	ScanBatch batch;
	if (!global.streams->Next(context, local.reader, batch)) {
		state.chunk = make_shared_ptr<ArrowArrayWrapper>();
		return false;
	}
	state.chunk = std::move(batch.rows);
	state.batch_index = batch.index;
	return true;
}

void Execute(ClientContext &context, TableFunctionInput &input, DataChunk &output) {
	auto &bind = input.bind_data->Cast<ScanBindData>();
	auto &global = input.global_state->Cast<ScanGlobalState>();
	auto &local = input.local_state->Cast<ScanLocalState>();
	auto &state = local.arrow;
	while (HasBatch(context, global, local)) {
		auto count = MinValue<idx_t>(STANDARD_VECTOR_SIZE, idx_t(state.chunk->arrow_array.length) - state.chunk_offset);
		auto &filled = local.executor ? local.wide : output;
		filled.Reset();
		filled.SetCardinality(count);
		ArrowTableFunction::ArrowToDuckDB(state, bind.columns.GetColumns(), filled, bind.projects);
		state.chunk_offset += count;
		if (!local.executor) {
			return;
		}
		Filter(local, output);
		if (output.size() > 0) {
			return;
		}
	}
}

OperatorPartitionData GetPartitionData(ClientContext &, TableFunctionGetPartitionInput &input) {
	if (input.partition_info.RequiresPartitionColumns()) {
		throw NotImplementedException("a VGI scan has no partition columns");
	}
	return OperatorPartitionData(input.local_state->Cast<ScanLocalState>().arrow.batch_index);
}

//! Of the rows those that come, as far as that can be guessed.
unique_ptr<NodeStatistics> Cardinality(ClientContext &context, const FunctionData *bind_p) {
	auto &bind = bind_p->Cast<ScanBindData>();
	if (!bind.rows.IsValid()) {
		return make_uniq<NodeStatistics>();
	}
	auto rows = double(bind.rows.GetIndex());
	for (auto &filter : bind.filters) {
		rows *= EstimateSelectivity(*filter, bind.estimates->Get(context), bind.function->Schema());
	}
	auto least = MinValue<idx_t>(bind.rows.GetIndex(), 1);
	return make_uniq<NodeStatistics>(MaxValue(least, MinValue(bind.rows.GetIndex(), idx_t(rows))));
}

unique_ptr<BaseStatistics> ColumnStatistics(ClientContext &context, const FunctionData *bind_p, column_t column) {
	auto &bind = bind_p->Cast<ScanBindData>();
	auto &known = bind.estimates->Get(context);
	return column < known.size() ? ToStatistics(known[column], bind.types[column], bind.rows) : nullptr;
}

void PushFilters(ClientContext &context, LogicalGet &get, FunctionData *bind_p,
                 vector<unique_ptr<Expression>> &filters) {
	auto &bind = bind_p->Cast<ScanBindData>();
	if (!bind.filters_told) {
		return;
	}
	vector<unique_ptr<Expression>> left;
	for (auto &filter : filters) {
		auto over_columns = OverFunctionColumns(*filter, get);
		ToldFilters told(context, bind.function->Schema());
		bool can = over_columns && told.Add(*over_columns);
		if (can) {
			bind.filters.push_back(std::move(over_columns));
		}
		if (!can || !bind.filters_exact) {
			left.push_back(std::move(filter));
		}
	}
	filters = std::move(left);
}

InsertionOrderPreservingMap<string> ToText(TableFunctionToStringInput &input) {
	InsertionOrderPreservingMap<string> result;
	auto &bind = input.bind_data->Cast<ScanBindData>();
	result["Catalog"] = bind.catalog.GetName();
	result["Function"] = bind.name;
	vector<string> filters;
	for (auto &filter : bind.filters) {
		auto shown = filter->Copy();
		ExpressionIterator::VisitExpressionMutable<BoundReferenceExpression>(
		    shown, [&](BoundReferenceExpression &reference, unique_ptr<Expression> &) {
			    reference.SetAlias(bind.names[reference.index]);
		    });
		filters.push_back(shown->ToString());
	}
	if (!filters.empty()) {
		result["Filters sent"] = StringUtil::Join(filters, "\n");
	}
	if (bind.limit.IsValid()) {
		result["Limit sent"] = to_string(bind.limit.GetIndex());
	}
	return result;
}

TableFunction ScanFunction() {
	TableFunction function("vgi_scan", {}, Execute, nullptr, InitGlobal, InitLocal);
	function.projection_pushdown = true;
	function.pushdown_complex_filter = PushFilters;
	function.cardinality = Cardinality;
	function.statistics = ColumnStatistics;
	function.to_string = ToText;
	function.get_partition_data = GetPartitionData;
	openduck::RefuseCopies(function);
	return function;
}

} // namespace

void SendLimit(LogicalGet &get, idx_t rows) {
	if (get.function.function == Execute) {
		auto &limit = get.bind_data->Cast<ScanBindData>().limit;
		limit = limit.IsValid() ? MinValue(limit.GetIndex(), rows) : rows;
	}
}

static optional_idx AskCardinality(ClientContext &context, VgiCatalog &catalog, const BoundFunction &function) {
	auto call = VgiTransaction::Get(context, catalog).Call(context);
	od_vgi_number estimate = {}, max = {};
	od_error err = {};
	auto code = od_vgi_bound_cardinality(function.remote->Handle(), &call, function.bound, &estimate, &max, &err);
	if (code == OD_E_NOT_IMPLEMENTED) {
		return optional_idx();
	}
	ThrowIfFailed(code, err);
	auto &number = estimate.known ? estimate : max;
	return number.known && number.value >= 0 ? optional_idx(idx_t(number.value)) : optional_idx();
}

static vector<ColumnEstimate> InPlace(NamedEstimates named, const vector<string> &names) {
	vector<ColumnEstimate> result(names.size());
	for (idx_t i = 0; i < names.size(); i++) {
		auto found = named.find(names[i]);
		if (found != named.end()) {
			result[i] = found->second;
		}
	}
	return result;
}

static vector<ColumnEstimate> AskEstimates(ClientContext &context, VgiCatalog &catalog, const BoundFunction &function) {
	auto call = VgiTransaction::Get(context, catalog).Call(context);
	Answer<od_vgi_statistics> told;
	od_error err = {};
	auto code = od_vgi_bound_statistics(function.remote->Handle(), &call, function.bound, &told.data, &err);
	if (code == OD_E_UNKNOWN) {
		return {}; // the worker's own code failed: it could only have helped
	}
	ThrowIfFailed(code, err);
	vector<string> names;
	for (int64_t i = 0; i < function.Schema().n_children; i++) {
		names.emplace_back(function.Schema().children[i]->name);
	}
	return InPlace(ReadEstimates(told.data), names);
}

void WantEstimates(LogicalGet &get) {
	if (get.function.function == Execute) {
		get.bind_data->Cast<ScanBindData>().estimates->Want();
	}
}

void ReplaceEstimates(LogicalGet &get, std::function<NamedEstimates(ClientContext &)> source, vector<string> names) {
	auto &bind = get.bind_data->Cast<ScanBindData>();
	bind.estimates->Replace([source = std::move(source), names = std::move(names)](ClientContext &context) {
		return InPlace(source(context), names);
	});
}

static unique_ptr<FunctionData> BindScan(ClientContext &context, const FunctionCall &call, optional_idx rows,
                                         vector<LogicalType> &types, vector<string> &names) {
	auto bound = BindAtWorker(context, call);
	auto &catalog = call.catalog;
	auto estimates = make_shared_ptr<ScanEstimates>(
	    [&catalog, bound](ClientContext &context) { return AskEstimates(context, catalog, *bound); });
	auto data = make_uniq<ScanBindData>(catalog, bound, std::move(estimates));
	data->name = call.schema + "." + Text(call.function.name);
	data->projects = call.function.projection_pushdown;
	data->filters_told = call.function.filter_pushdown;
	data->filters_exact = call.function.filters_exactly_applied;
	data->rows = rows.IsValid() ? rows : AskCardinality(context, call.catalog, *bound);
	ArrowTableFunction::PopulateArrowTableSchema(context, data->columns, bound->Schema());
	names = data->names = data->columns.GetNames();
	types = data->types = data->columns.GetTypes();
	if (names.empty()) {
		throw IOException("VGI function \"%s\" of \"%s\" has no columns", Text(call.function.name),
		                  call.catalog.GetName());
	}
	return std::move(data);
}

unique_ptr<LogicalGet> BindWorkerScan(ClientContext &context, const FunctionCall &call, idx_t table_index,
                                      optional_idx rows) {
	vector<LogicalType> types;
	vector<string> names;
	auto data = BindScan(context, call, rows, types, names);
	return make_uniq<LogicalGet>(table_index, ScanFunction(), std::move(data), std::move(types), std::move(names),
	                             virtual_column_map_t());
}

static unique_ptr<FunctionData> BindDirect(ClientContext &context, TableFunctionBindInput &input,
                                           vector<LogicalType> &types, vector<string> &names) {
	auto &worker = *input.info->Cast<WorkerTableInfo>().worker;
	FunctionCall call(worker.catalog, worker.function, worker.schema);
	call.arguments = CallArguments(worker, input);
	return BindScan(context, call, optional_idx(), types, names);
}

TableFunction DirectScanFunction(const string &name, vector<LogicalType> parameters) {
	auto function = ScanFunction();
	function.name = name;
	function.arguments = std::move(parameters);
	function.bind = BindDirect;
	return function;
}

} // namespace vgi

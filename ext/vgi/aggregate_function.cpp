//===----------------------------------------------------------------------===//
// vgi/aggregate_function.cpp: aggregate functions of a worker's
//===----------------------------------------------------------------------===//
#include "common/plan_copies.hpp"
#include "vgi/aggregation.hpp"
#include "vgi/remote.hpp"

#include "duckdb/common/types/column/column_data_collection.hpp"
#include "duckdb/execution/expression_executor.hpp"
#include "duckdb/function/aggregate_function.hpp"

namespace vgi {

namespace {

struct WorkerAggregateInfo : public AggregateFunctionInfo {
	explicit WorkerAggregateInfo(shared_ptr<WorkerFunction> worker_p) : worker(std::move(worker_p)) {
	}
	shared_ptr<WorkerFunction> worker;
};

struct AggregateBindData : public FunctionData {
	explicit AggregateBindData(shared_ptr<Aggregation> aggregation_p) : aggregation(std::move(aggregation_p)) {
	}
	unique_ptr<FunctionData> Copy() const override {
		return make_uniq<AggregateBindData>(aggregation);
	}
	bool Equals(const FunctionData &other) const override {
		return aggregation->Equals(*other.Cast<AggregateBindData>().aggregation);
	}
	shared_ptr<Aggregation> aggregation;
};

//! The worker has the rest.
struct GroupState {
	int64_t group;     //!< 0: no row went in
	int64_t partition; //!< of a window; 0: none
};

Aggregation &Bound(AggregateInputData &data) {
	return *data.bind_data->Cast<AggregateBindData>().aggregation;
}

idx_t StateSize(const AggregateFunction &) {
	return sizeof(GroupState);
}

void InitializeState(const AggregateFunction &, data_ptr_t state) {
	*reinterpret_cast<GroupState *>(state) = {0, 0};
}

struct States {
	States(Vector &vector, idx_t count) {
		vector.ToUnifiedFormat(count, format);
		data = UnifiedVectorFormat::GetData<GroupState *>(format);
	}
	GroupState &operator[](idx_t i) const {
		return *data[format.sel->get_index(i)];
	}
	UnifiedVectorFormat format;
	GroupState *const *data;
};

//===--------------------------------------------------------------------===//
// Groups
//===--------------------------------------------------------------------===//
void Send(Aggregation &aggregation, AggregateRun &run, Vector inputs[], Vector &groups, idx_t count) {
	auto &context = aggregation.context;
	vector<LogicalType> types = aggregation.types;
	types.insert(types.begin(), LogicalType::BIGINT);
	DataChunk rows;
	rows.InitializeEmpty(types);
	rows.data[0].Reference(groups);
	for (idx_t i = 0; i < aggregation.types.size(); i++) {
		rows.data[i + 1].Reference(inputs[i]);
	}
	rows.SetCardinality(count);
	ArrowArray array = {};
	ArrowConverter::ToArrowArray(rows, &array, ArrowProperties(context),
	                             ArrowTypeExtensionData::GetExtensionTypes(context, types));
	od_error err = {};
	ThrowIfFailed(
	    od_vgi_aggregate_update(run.handle, VgiRemote::Interrupt(context), &aggregation.grouped->Get(), &array, &err),
	    err);
}

int64_t GroupOf(GroupState &state, AggregateRun &run) {
	if (state.group == 0) {
		state.group = ++run.groups;
	}
	return state.group;
}

void Update(Vector inputs[], AggregateInputData &data, idx_t, Vector &state_vector, idx_t count) {
	auto &aggregation = Bound(data);
	auto run = aggregation.Run();
	States states(state_vector, count);
	Vector groups(LogicalType::BIGINT, count);
	auto numbers = FlatVector::GetData<int64_t>(groups);
	for (idx_t i = 0; i < count; i++) {
		numbers[i] = GroupOf(states[i], *run);
	}
	Send(aggregation, *run, inputs, groups, count);
}

void UpdateOne(Vector inputs[], AggregateInputData &data, idx_t, data_ptr_t state, idx_t count) {
	auto &aggregation = Bound(data);
	auto run = aggregation.Run();
	Vector groups(Value::BIGINT(GroupOf(*reinterpret_cast<GroupState *>(state), *run)));
	Send(aggregation, *run, inputs, groups, count);
}

void Combine(Vector &from_vector, Vector &into_vector, AggregateInputData &data, idx_t count) {
	auto &aggregation = Bound(data);
	States from(from_vector, count), into(into_vector, count);
	vector<int64_t> sources, targets;
	shared_ptr<AggregateRun> run;
	for (idx_t i = 0; i < count; i++) {
		if (from[i].group == 0) {
			continue;
		}
		if (into[i].group == 0 && data.combine_type == AggregateCombineType::ALLOW_DESTRUCTIVE) {
			into[i].group = from[i].group;
			continue;
		}
		if (!run) {
			run = aggregation.Run();
		}
		sources.push_back(from[i].group);
		targets.push_back(GroupOf(into[i], *run));
	}
	if (sources.empty()) {
		return;
	}
	auto &context = aggregation.context;
	od_error err = {};
	ThrowIfFailed(od_vgi_aggregate_combine(run->handle, VgiRemote::Interrupt(context), sources.data(), targets.data(),
	                                       sources.size(), &err),
	              err);
}

//! The results in BATCH as values of RESULT, from OFFSET on.
void Convert(Aggregation &aggregation, const shared_ptr<ArrowArrayWrapper> &batch, Vector &result, idx_t offset) {
	auto &context = aggregation.context;
	auto run = aggregation.Run();
	BatchRows rows(context, *od_vgi_aggregate_schema(run->handle));
	rows.Take(batch);
	while (rows.HasRows()) {
		DataChunk chunk;
		chunk.Initialize(context, {aggregation.result});
		rows.Give(chunk);
		VectorOperations::Copy(chunk.data[0], result, chunk.size(), 0, offset);
		offset += chunk.size();
	}
}

void Finalize(Vector &state_vector, AggregateInputData &data, Vector &result, idx_t count, idx_t offset) {
	auto &aggregation = Bound(data);
	auto &context = aggregation.context;
	auto run = aggregation.Run();
	bool constant = state_vector.GetVectorType() == VectorType::CONSTANT_VECTOR;
	States states(state_vector, count);
	vector<int64_t> groups;
	for (idx_t i = 0; i < (constant ? 1 : count); i++) {
		groups.push_back(states[i].group);
	}
	auto batch = make_shared_ptr<ArrowArrayWrapper>();
	od_error err = {};
	ThrowIfFailed(od_vgi_aggregate_finalize(run->handle, VgiRemote::Interrupt(context), groups.data(), groups.size(),
	                                        &batch->arrow_array, &err),
	              err);
	result.SetVectorType(VectorType::FLAT_VECTOR);
	Convert(aggregation, batch, result, constant ? 0 : offset);
	if (constant) {
		result.SetVectorType(VectorType::CONSTANT_VECTOR);
	}
}

//===--------------------------------------------------------------------===//
// Frames
//===--------------------------------------------------------------------===//
//! All rows of PARTITION, as one array.
void AllRows(ClientContext &context, Aggregation &aggregation, const WindowPartitionInput &partition, ArrowArray &out) {
	DataChunk all;
	all.Initialize(context, aggregation.types, MaxValue<idx_t>(partition.count, 1));
	DataChunk part;
	ColumnDataScanState scan;
	if (partition.inputs) {
		partition.inputs->InitializeScan(scan, partition.column_ids);
		partition.inputs->InitializeScanChunk(scan, part);
		while (partition.inputs->Scan(scan, part)) {
			all.Append(part, true);
		}
	}
	all.SetCardinality(partition.count);
	ArrowConverter::ToArrowArray(all, &out, ArrowProperties(context),
	                             ArrowTypeExtensionData::GetExtensionTypes(context, aggregation.types));
}

void WindowInit(AggregateInputData &data, const WindowPartitionInput &partition, data_ptr_t state) {
	auto &aggregation = Bound(data);
	auto &context = aggregation.context;
	auto run = aggregation.Run();
	ArrowArray rows = {};
	AllRows(context, aggregation, partition, rows);
	vector<uint8_t> filter, valid;
	if (!partition.filter_mask.AllValid()) {
		filter.assign((partition.count + 7) / 8, 0);
		for (idx_t i = 0; i < partition.count; i++) {
			filter[i / 8] |= uint8_t(partition.filter_mask.RowIsValid(i) << (i % 8));
		}
	}
	for (bool all_valid : partition.all_valid) {
		valid.push_back(all_valid);
	}
	od_vgi_partition told = {};
	told.id = ++run->partitions;
	told.schema = &aggregation.alone->Get();
	told.rows = &rows;
	told.filter = od_slice_of(filter.data(), filter.size());
	told.begin_min = partition.stats[0].begin;
	told.begin_max = partition.stats[0].end;
	told.end_min = partition.stats[1].begin;
	told.end_max = partition.stats[1].end;
	told.all_valid = od_slice_of(valid.data(), valid.size());
	od_error err = {};
	ThrowIfFailed(od_vgi_aggregate_window_open(run->handle, VgiRemote::Interrupt(context), &told, &err), err);
	reinterpret_cast<GroupState *>(state)->partition = told.id;
}

void Window(AggregateInputData &data, const WindowPartitionInput &, const_data_ptr_t state, data_ptr_t,
            const SubFrames &frames, Vector &result, idx_t row) {
	auto &aggregation = Bound(data);
	auto &context = aggregation.context;
	auto run = aggregation.Run();
	vector<int64_t> begins, ends;
	for (auto &frame : frames) {
		begins.push_back(int64_t(frame.start));
		ends.push_back(int64_t(frame.end));
	}
	auto batch = make_shared_ptr<ArrowArrayWrapper>();
	od_error err = {};
	ThrowIfFailed(od_vgi_aggregate_window(run->handle, VgiRemote::Interrupt(context),
	                                      reinterpret_cast<const GroupState *>(state)->partition, int64_t(row),
	                                      begins.data(), ends.data(), begins.size(), &batch->arrow_array, &err),
	              err);
	Convert(aggregation, batch, result, row);
}

//! Of groups nothing has to go before the end of the transaction. May not throw.
void Destroy(Vector &state_vector, AggregateInputData &data, idx_t count) {
	States states(state_vector, count);
	for (idx_t i = 0; i < count; i++) {
		if (states[i].partition == 0) {
			continue;
		}
		auto run = Bound(data).Begun();
		if (run) {
			od_vgi_aggregate_window_close(run->handle, states[i].partition);
		}
	}
}

//===--------------------------------------------------------------------===//
// The function
//===--------------------------------------------------------------------===//
unique_ptr<FunctionData> BindAggregate(ClientContext &context, AggregateFunction &function,
                                       vector<unique_ptr<Expression>> &arguments) {
	auto &worker = function.function_info->Cast<WorkerAggregateInfo>().worker;
	vector<Value> constants;
	vector<LogicalType> types;
	vector<string> names;
	auto constant_at = [&](idx_t i) {
		return i < worker->parameters.size() && worker->parameters[i].is_constant;
	};
	for (idx_t i = 0; i < arguments.size(); i++) {
		bool known = i < worker->parameters.size();
		auto declared = known ? worker->parameters[i].type : worker->varargs;
		if (constant_at(i)) {
			constants.push_back(ConstantArgument(context, *worker, i, *arguments[i]));
			continue;
		}
		types.push_back(declared == LogicalType::ANY ? arguments[i]->return_type : declared);
		names.push_back(known ? worker->parameters[i].name : "col" + to_string(i));
	}
	for (idx_t i = arguments.size(); i-- > 0;) {
		if (constant_at(i)) {
			arguments.erase_at(i);
		}
	}
	// DuckDB casts to these, and drops arguments beyond.
	function.arguments = types;
	auto aggregation = make_shared_ptr<Aggregation>(context, worker, std::move(constants), std::move(types), names);
	function.SetReturnType(aggregation->result);
	return make_uniq<AggregateBindData>(std::move(aggregation));
}

void AddAggregateFunction(const shared_ptr<WorkerFunction> &worker, AggregateFunctionSet &out) {
	for (auto count = worker->Required(); count <= worker->parameters.size(); count++) {
		vector<LogicalType> types;
		for (idx_t i = 0; i < count; i++) {
			types.push_back(worker->parameters[i].type);
		}
		AggregateFunction function(out.name, std::move(types), LogicalType::ANY, StateSize, InitializeState, Update,
		                           Combine, Finalize, UpdateOne, BindAggregate, Destroy);
		if (count == worker->parameters.size()) {
			function.varargs = worker->varargs;
		}
		if (worker->function.supports_window) {
			function.SetWindowCallback(Window);
			function.SetWindowInitCallback(WindowInit);
		}
		if (Text(worker->function.null_handling) == "SPECIAL") {
			function.SetNullHandling(FunctionNullHandling::SPECIAL_HANDLING);
		}
		function.SetSerializeCallback([](Serializer &, const optional_ptr<FunctionData>, const AggregateFunction &) {
			openduck::RefuseToWrite();
		});
		function.SetDeserializeCallback(
		    [](Deserializer &, AggregateFunction &) -> unique_ptr<FunctionData> { openduck::RefuseToWrite(); });
		function.function_info = make_shared_ptr<WorkerAggregateInfo>(worker);
		out.AddFunction(std::move(function));
	}
}

} // namespace

AggregateFunctionSet MakeAggregateFunctions(const string &name, const vector<shared_ptr<WorkerFunction>> &overloads) {
	AggregateFunctionSet result(name);
	for (auto &worker : overloads) {
		AddAggregateFunction(worker, result);
	}
	return result;
}

} // namespace vgi

#include "vgi/aggregation.hpp"

#include "vgi/transaction.hpp"

namespace vgi {

static unique_ptr<RowsSchema> GroupedSchema(ClientContext &context, vector<LogicalType> types, vector<string> names) {
	types.insert(types.begin(), LogicalType::BIGINT);
	names.insert(names.begin(), OD_VGI_GROUP_COLUMN);
	return make_uniq<RowsSchema>(context, types, names);
}

Aggregation::Aggregation(ClientContext &context_p, shared_ptr<WorkerFunction> worker_p, vector<Value> constants_p,
                         vector<LogicalType> types_p, const vector<string> &names)
    : context(context_p), worker(std::move(worker_p)), types(std::move(types_p)), constants(std::move(constants_p)) {
	grouped = GroupedSchema(context, types, names);
	alone = make_uniq<RowsSchema>(context, types, names);
	run = Open();
}

shared_ptr<AggregateRun> Aggregation::Open() {
	FunctionCall call(worker->catalog, worker->function, worker->schema);
	for (idx_t i = 0; i < constants.size(); i++) {
		call.arguments.push_back({"positional_" + to_string(i), constants[i]});
	}
	call.input = types.empty() ? nullptr : &alone->Get();
	auto opened = make_shared_ptr<AggregateRun>();
	OpenAggregateAtWorker(context, call, opened->handle);
	ArrowTableSchema columns;
	ArrowTableFunction::PopulateArrowTableSchema(context, columns, *od_vgi_aggregate_schema(opened->handle));
	auto &type = columns.GetTypes()[0];
	if (result != LogicalType() && result != type) {
		throw IOException("VGI function \"%s\" of \"%s\" gives %s where it gave %s", Text(worker->function.name),
		                  worker->catalog.GetName(), type.ToString(), result.ToString());
	}
	result = type;
	VgiTransaction::Get(context, worker->catalog).Keep(opened);
	return opened;
}

shared_ptr<AggregateRun> Aggregation::Run() {
	lock_guard<mutex> guard(lock);
	auto current = run.lock();
	if (!current) {
		current = Open();
		run = current;
	}
	return current;
}

shared_ptr<AggregateRun> Aggregation::Begun() {
	lock_guard<mutex> guard(lock);
	return run.lock();
}

bool Aggregation::Equals(const Aggregation &other) const {
	if (worker != other.worker || types != other.types || constants.size() != other.constants.size()) {
		return false;
	}
	for (idx_t i = 0; i < constants.size(); i++) {
		if (constants[i].type() != other.constants[i].type() ||
		    !Value::NotDistinctFrom(constants[i], other.constants[i])) {
			return false;
		}
	}
	return Text(worker->function.stability) != "VOLATILE";
}

} // namespace vgi

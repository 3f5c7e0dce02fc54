#include "common/plan_copies.hpp"
#include "vgi/functions.hpp"
#include "vgi/rows.hpp"
#include "vgi/transaction.hpp"

#include "duckdb/execution/expression_executor.hpp"
#include "duckdb/planner/expression/bound_function_expression.hpp"

namespace vgi {

namespace {

struct WorkerScalarInfo : public ScalarFunctionInfo {
	explicit WorkerScalarInfo(shared_ptr<WorkerFunction> worker_p) : worker(std::move(worker_p)) {
	}
	shared_ptr<WorkerFunction> worker;
};

struct ScalarBindData : public FunctionData {
	shared_ptr<WorkerFunction> worker;
	shared_ptr<BoundFunction> bound;
	shared_ptr<RowsSchema> input;
	//! Those of the arguments that are a column of what goes in.
	vector<idx_t> columns;
	//! No argument is: a column of nothing tells how many rows there are.
	vector<LogicalType> types;

	unique_ptr<FunctionData> Copy() const override {
		auto result = make_uniq<ScalarBindData>();
		*result = *this;
		return std::move(result);
	}
	bool Equals(const FunctionData &other) const override {
		return bound == other.Cast<ScalarBindData>().bound;
	}
};

struct ScalarState : public FunctionLocalState {
	ScalarState(ClientContext &context, const ScalarBindData &bind)
	    : call(VgiTransaction::Get(context, bind.worker->catalog).Call(context)),
	      stream(context, call, *bind.bound, *bind.input, false), arrow(make_uniq<ArrowArrayWrapper>(), context) {
		ArrowTableFunction::PopulateArrowTableSchema(context, columns, bind.bound->Schema());
		arrow.column_ids = {0};
	}
	od_vgi_context call;
	RowsStream stream;
	ArrowTableSchema columns;
	ArrowScanLocalState arrow;
};

unique_ptr<FunctionData> BindScalar(ScalarFunctionBindInput &input, ScalarFunction &function,
                                    vector<unique_ptr<Expression>> &arguments) {
	auto &context = input.binder.context;
	// What is bound belongs to a transaction.
	input.binder.SetAlwaysRequireRebind();
	auto result = make_uniq<ScalarBindData>();
	result->worker = function.GetExtraFunctionInfo().Cast<WorkerScalarInfo>().worker;
	auto &worker = *result->worker;
	FunctionCall call(worker.catalog, worker.function, worker.schema);
	vector<string> names;
	idx_t constants = 0;
	for (idx_t i = 0; i < arguments.size(); i++) {
		auto &argument = *arguments[i];
		bool known = i < worker.parameters.size();
		if (known && worker.parameters[i].is_constant) {
			call.arguments.push_back(
			    {"positional_" + to_string(constants++), ConstantArgument(context, worker, i, argument)});
			continue;
		}
		result->columns.push_back(i);
		auto declared = known ? worker.parameters[i].type : worker.varargs;
		result->types.push_back(declared == LogicalType::ANY ? argument.return_type : declared);
		names.push_back(known ? worker.parameters[i].name : "col" + to_string(i));
	}
	if (names.empty()) {
		result->types.push_back(LogicalType::BOOLEAN);
		names.push_back("rows");
	}
	result->input = make_shared_ptr<RowsSchema>(context, result->types, names);
	call.input = &result->input->Get();
	result->bound = BindAtWorker(context, call);
	ArrowTableSchema columns;
	ArrowTableFunction::PopulateArrowTableSchema(context, columns, result->bound->Schema());
	if (columns.GetTypes().size() != 1) {
		throw IOException("VGI function \"%s\" of \"%s\" gives %d columns, not one", function.name,
		                  worker.catalog.GetName(), columns.GetTypes().size());
	}
	function.SetReturnType(columns.GetTypes()[0]);
	return std::move(result);
}

unique_ptr<FunctionLocalState> InitScalar(ExpressionState &state, const BoundFunctionExpression &, FunctionData *bind) {
	return make_uniq<ScalarState>(state.GetContext(), bind->Cast<ScalarBindData>());
}

void RunScalar(DataChunk &arguments, ExpressionState &state, Vector &result) {
	auto &bind = state.expr.Cast<BoundFunctionExpression>().bind_info->Cast<ScalarBindData>();
	auto &local = ExecuteFunctionState::GetFunctionState(state)->Cast<ScalarState>();
	auto count = arguments.size();
	DataChunk rows;
	rows.InitializeEmpty(bind.types);
	for (idx_t i = 0; i < bind.columns.size(); i++) {
		rows.data[i].Reference(arguments.data[bind.columns[i]]);
	}
	if (bind.columns.empty()) {
		rows.data[0].Reference(Value(LogicalType::BOOLEAN));
	}
	rows.SetCardinality(count);
	local.stream.Put(rows, false);
	auto given = local.stream.batch->arrow_array.length;
	if (idx_t(given) != count) {
		throw IOException("VGI function \"%s\" of \"%s\" gives %d rows for %d", Text(bind.worker->function.name),
		                  bind.worker->catalog.GetName(), given, count);
	}
	local.arrow.Reset();
	local.arrow.chunk = local.stream.batch;
	DataChunk output;
	output.Initialize(Allocator::DefaultAllocator(), {result.GetType()}, MaxValue<idx_t>(count, STANDARD_VECTOR_SIZE));
	output.SetCardinality(count);
	ArrowTableFunction::ArrowToDuckDB(local.arrow, local.columns.GetColumns(), output);
	result.Reference(output.data[0]);
}

void AddScalarFunction(const shared_ptr<WorkerFunction> &worker, ScalarFunctionSet &out) {
	vector<LogicalType> types;
	for (auto &parameter : worker->parameters) {
		types.push_back(parameter.type);
	}
	ScalarFunction function(out.name, std::move(types), LogicalType::ANY, RunScalar, nullptr, BindScalar);
	function.SetInitStateCallback(InitScalar);
	function.varargs = worker->varargs;
	auto stability = Text(worker->function.stability);
	if (stability == "VOLATILE") {
		function.SetVolatile();
	} else if (stability == "CONSISTENT_WITHIN_QUERY") {
		function.SetStability(FunctionStability::CONSISTENT_WITHIN_QUERY);
	}
	if (Text(worker->function.null_handling) == "SPECIAL") {
		function.SetNullHandling(FunctionNullHandling::SPECIAL_HANDLING);
	}
	function.SetFallible();
	function.SetSerializeCallback(
	    [](Serializer &, const optional_ptr<FunctionData>, const ScalarFunction &) { openduck::RefuseToWrite(); });
	function.SetDeserializeCallback(
	    [](Deserializer &, ScalarFunction &) -> unique_ptr<FunctionData> { openduck::RefuseToWrite(); });
	function.SetExtraFunctionInfo(make_shared_ptr<WorkerScalarInfo>(worker));
	out.AddFunction(std::move(function));
}

} // namespace

ScalarFunctionSet MakeScalarFunctions(const string &name, const vector<shared_ptr<WorkerFunction>> &overloads) {
	ScalarFunctionSet result(name);
	for (auto &worker : overloads) {
		AddScalarFunction(worker, result);
	}
	return result;
}

} // namespace vgi

//===----------------------------------------------------------------------===//
// vgi/row_function.cpp: functions whose parameters are columns of rows that go in
//===----------------------------------------------------------------------===//
#include "common/plan_copies.hpp"
#include "vgi/function_operator.hpp"
#include "vgi/transaction.hpp"

#include "duckdb/execution/expression_executor.hpp"
#include "duckdb/execution/physical_plan_generator.hpp"
#include "duckdb/planner/binder.hpp"
#include "duckdb/planner/expression/bound_cast_expression.hpp"
#include "duckdb/planner/expression/bound_columnref_expression.hpp"
#include "duckdb/planner/expression/bound_constant_expression.hpp"
#include "duckdb/planner/expression/bound_reference_expression.hpp"
#include "duckdb/planner/operator/logical_dummy_scan.hpp"

namespace vgi {

namespace {

//===--------------------------------------------------------------------===//
// The operator
//===--------------------------------------------------------------------===//
//! One thread's stream, and where it is in the chunk that came last.
class RowFunctionState : public OperatorState {
public:
	RowFunctionState(ExecutionContext &context, const InOutBindData &bind, const vector<unique_ptr<Expression>> &inputs)
	    : executor(context.client, inputs), batch(context.client, bind.bound->Schema()) {
		all.Initialize(context.client, bind.types);
		rows.InitializeEmpty(bind.types);
	}

	od_vgi_context call;
	unique_ptr<RowsStream> stream;
	ExpressionExecutor executor;
	DataChunk all;  //!< what the chunk has for the function
	DataChunk rows; //!< of it, what is at the worker
	bool begun = false;
	idx_t sent = 0;    //!< of ALL
	bool more = false; //!< the worker has more of ROWS
	BatchRows batch;
	vector<int32_t> parents;  //!< of each row of the batch: which of ROWS it is of
	vector<int64_t> ordinals; //!< of each of ROWS: how many came of it
};

class PhysicalRowFunction : public PhysicalOperator {
public:
	static constexpr const PhysicalOperatorType TYPE = PhysicalOperatorType::EXTENSION;

	PhysicalRowFunction(PhysicalPlan &plan, vector<LogicalType> types, vector<unique_ptr<Expression>> inputs,
	                    vector<idx_t> passed, bool counts, unique_ptr<FunctionData> bind, idx_t rows)
	    : PhysicalOperator(plan, TYPE, std::move(types), rows), inputs(std::move(inputs)), passed(std::move(passed)),
	      counts(counts), bind(std::move(bind)) {
	}
	string GetName() const override {
		return "VGI_ROW_FUNCTION";
	}
	InsertionOrderPreservingMap<string> ParamsToString() const override {
		return Bind().worker->ForExplain();
	}
	bool ParallelOperator() const override {
		return true;
	}
	bool RequiresFinalExecute() const override {
		return true;
	}
	unique_ptr<OperatorState> GetOperatorState(ExecutionContext &context) const override {
		return make_uniq<RowFunctionState>(context, Bind(), inputs);
	}

	OperatorResultType Execute(ExecutionContext &context, DataChunk &input, DataChunk &chunk, GlobalOperatorState &,
	                           OperatorState &state_p) const override {
		auto &state = state_p.Cast<RowFunctionState>();
		if (!state.begun) {
			state.all.Reset();
			state.executor.Execute(input, state.all);
			state.sent = 0;
			state.begun = true;
		}
		while (!state.batch.HasRows()) {
			if (!state.more && state.sent == input.size()) {
				state.begun = false;
				return OperatorResultType::NEED_MORE_INPUT;
			}
			Ask(context.client, state);
		}
		Give(state, input, chunk);
		return OperatorResultType::HAVE_MORE_OUTPUT;
	}
	OperatorFinalizeResultType FinalExecute(ExecutionContext &, DataChunk &, GlobalOperatorState &,
	                                        OperatorState &state_p) const override {
		auto &state = state_p.Cast<RowFunctionState>();
		if (state.stream) {
			state.stream->Finish();
			state.stream.reset();
		}
		return OperatorFinalizeResultType::FINISHED;
	}

private:
	const InOutBindData &Bind() const {
		return bind->Cast<InOutBindData>();
	}
	//! Sends the next rows, or asks for more of those that were sent.
	void Ask(ClientContext &context, RowFunctionState &state) const {
		auto &worker = *Bind().worker;
		if (!state.stream) {
			state.call = VgiTransaction::Get(context, worker.catalog).Call(context);
			state.stream = make_uniq<RowsStream>(context, state.call, *Bind().bound, *Bind().input, true);
		}
		bool again = state.more;
		if (!again) {
			auto limit = worker.function.input_rows_per_call;
			auto left = state.all.size() - state.sent;
			auto count = limit.known && limit.value > 0 ? MinValue<idx_t>(left, idx_t(limit.value)) : left;
			state.rows.Reference(state.all);
			if (count < state.all.size()) {
				state.rows.Slice(state.sent, count);
			}
			state.sent += count;
			state.ordinals.assign(count, 0);
		}
		state.more = state.stream->Put(state.rows, again);
		state.parents = state.stream->Parents(state.rows.size());
		state.batch.Take(state.stream->batch);
	}
	//! The next rows of the batch, with what is passed on of the rows that they are of.
	void Give(RowFunctionState &state, DataChunk &input, DataChunk &chunk) const {
		auto at = state.batch.Give(chunk);
		auto count = chunk.size();
		auto first = state.sent - state.rows.size();
		auto given = chunk.ColumnCount() - passed.size();
		if (counts) {
			auto ordinals = FlatVector::GetData<int64_t>(chunk.data[given - 1]);
			for (idx_t i = 0; i < count; i++) {
				ordinals[i] = ++state.ordinals[idx_t(state.parents[at + i])];
			}
		}
		if (passed.empty()) {
			return;
		}
		SelectionVector of(count);
		for (idx_t i = 0; i < count; i++) {
			of.set_index(i, first + idx_t(state.parents[at + i]));
		}
		for (idx_t i = 0; i < passed.size(); i++) {
			chunk.data[given + i].Slice(input.data[passed[i]], of, count);
		}
	}

	const vector<unique_ptr<Expression>> inputs;
	const vector<idx_t> passed; //!< columns of the child that come after the function's own
	const bool counts;          //!< the last of the function's own says the how many-th it is of its row
	const unique_ptr<FunctionData> bind;
};

//! Behind the expressions for what goes in: those of the columns that are passed on, under the bindings that they have below.
class LogicalRowFunction : public LogicalWorkerFunction {
public:
	LogicalRowFunction(LogicalGet &get, idx_t inputs)
	    : LogicalWorkerFunction(get, get.returned_types), inputs(inputs), counts(get.ordinality_idx.IsValid()) {
	}
	PhysicalOperator &CreatePlan(ClientContext &, PhysicalPlanGenerator &planner) override {
		auto &rows = planner.CreatePlan(*children[0]);
		vector<idx_t> columns;
		for (idx_t i = inputs; i < expressions.size(); i++) {
			columns.push_back(expressions[i]->Cast<BoundReferenceExpression>().index);
		}
		expressions.resize(inputs);
		auto &result = planner.Make<PhysicalRowFunction>(types, std::move(expressions), std::move(columns), counts,
		                                                 std::move(bind), MaxValue<idx_t>(estimated_cardinality, 1));
		result.children.push_back(rows);
		return result;
	}
	vector<ColumnBinding> GetColumnBindings() override {
		auto result = LogicalWorkerFunction::GetColumnBindings();
		for (idx_t i = inputs; i < expressions.size(); i++) {
			auto &expression = *expressions[i];
			result.push_back(expression.GetExpressionType() == ExpressionType::BOUND_COLUMN_REF
			                     ? expression.Cast<BoundColumnRefExpression>().binding
			                     : passed[i - inputs]);
		}
		return result;
	}
	void ResolveColumnBindings(ColumnBindingResolver &resolver, vector<ColumnBinding> &bindings) override {
		// The expressions lose them.
		auto known = GetColumnBindings();
		passed.assign(known.begin() + int64_t(given.size()), known.end());
		LogicalExtensionOperator::ResolveColumnBindings(resolver, bindings);
	}
	string GetName() const override {
		return "VGI_ROW_FUNCTION";
	}

protected:
	void ResolveTypes() override {
		types = given;
		for (idx_t i = inputs; i < expressions.size(); i++) {
			types.push_back(expressions[i]->return_type);
		}
	}

private:
	const idx_t inputs; //!< how many of the expressions are for what goes in
	const bool counts;
	vector<ColumnBinding> passed;
};

//===--------------------------------------------------------------------===//
// The function
//===--------------------------------------------------------------------===//
OperatorResultType RefuseToRun(ExecutionContext &, TableFunctionInput &input, DataChunk &, DataChunk &) {
	auto &worker = *input.bind_data->Cast<InOutBindData>().worker;
	throw NotImplementedException(
	    "VGI function \"%s\" of \"%s\" takes rows: it cannot be called without the optimizer (PRAGMA enable_optimizer)",
	    Text(worker.function.name), worker.catalog.GetName());
}

//! The overload that is meant where COLUMNS are given, of which those at the end that have the names of named parameters may be such: how
//! many of them are is in NAMED.
const shared_ptr<WorkerFunction> &MeantOverload(const WorkerTableInfo &info, const vector<string> &columns,
                                                idx_t &named) {
	for (named = columns.size(); named > 0; named--) {
		const shared_ptr<WorkerFunction> *meant = nullptr;
		for (auto &overload : info.overloads) {
			bool fits = overload->TakesCount(columns.size() - named);
			for (idx_t i = columns.size() - named; i < columns.size() && fits; i++) {
				fits = overload->named.count(columns[i]) > 0;
			}
			if (!fits) {
				continue;
			}
			if (overload == info.worker) {
				return info.worker;
			}
			if (meant) {
				throw BinderException("VGI function \"%s\" has several overloads of %d columns: with named parameters "
				                      "DuckDB cannot tell which is meant",
				                      Text(overload->function.name), columns.size() - named);
			}
			meant = &overload;
		}
		if (meant) {
			return *meant;
		}
	}
	return info.worker;
}

void BindRowsAtWorker(ClientContext &context, InOutBindData &bind, vector<NamedValue> arguments) {
	FunctionCall call(bind.worker->catalog, bind.worker->function, bind.worker->schema);
	call.arguments = std::move(arguments);
	call.input = &bind.input->Get();
	bind.bound = BindAtWorker(context, call);
}

unique_ptr<FunctionData> BindRows(ClientContext &context, TableFunctionBindInput &input, vector<LogicalType> &types,
                                  vector<string> &names) {
	auto result = make_uniq<InOutBindData>();
	auto &info = input.info->Cast<WorkerTableInfo>();
	auto given = input.input_table_types;
	idx_t named = 0;
	if (input.inputs.empty()) {
		result->worker = MeantOverload(info, input.input_table_names, named);
	} else {
		result->worker = info.worker;
		// Of constants DuckDB tells the types that they had before they were cast.
		for (idx_t i = 0; i < given.size(); i++) {
			given[i] = input.inputs[i].type();
		}
	}
	auto &worker = *result->worker;
	auto count = given.size() - named;
	result->named.assign(input.input_table_names.end() - int64_t(named), input.input_table_names.end());
	if (count == 0 || !worker.TakesCount(count)) {
		throw BinderException("VGI function \"%s\" does not take %d arguments without a name",
		                      Text(worker.function.name), count);
	}
	vector<string> columns;
	for (idx_t i = 0; i < count; i++) {
		bool known = i < worker.parameters.size();
		auto &declared = known ? worker.parameters[i].type : worker.varargs;
		result->types.push_back(declared == LogicalType::ANY ? given[i] : declared);
		columns.push_back(known ? worker.parameters[i].name : "col" + to_string(i));
	}
	result->input = make_shared_ptr<RowsSchema>(context, result->types, columns);
	BindRowsAtWorker(context, *result, CallArguments(worker, input));
	ReturnedColumns(context, worker, *result->bound, types, names);
	return std::move(result);
}

//! Binds once more with the values of named parameters that came as columns of CHILD: before, nobody knew them.
void BindNamed(ClientContext &context, InOutBindData &bind, LogicalOperator &child) {
	auto &worker = *bind.worker;
	vector<NamedValue> arguments;
	for (idx_t i = 0; i < bind.named.size(); i++) {
		auto place = bind.types.size() + i;
		auto &parameter = *worker.named.find(bind.named[i]);
		if (child.type != LogicalOperatorType::LOGICAL_PROJECTION || !child.expressions[place]->IsFoldable()) {
			throw BinderException("the parameter \"%s\" of VGI function \"%s\" has to be a constant", parameter.first,
			                      Text(worker.function.name));
		}
		auto value = ExpressionExecutor::EvaluateScalar(context, *child.expressions[place], true);
		arguments.push_back({"named_" + parameter.first,
		                     parameter.second == LogicalType::ANY ? value : value.CastAs(context, parameter.second)});
	}
	vector<LogicalType> before, after;
	vector<string> names_before, names_after;
	ReturnedColumns(context, worker, *bind.bound, before, names_before);
	BindRowsAtWorker(context, bind, std::move(arguments));
	ReturnedColumns(context, worker, *bind.bound, after, names_after);
	if (before != after || names_before != names_after) {
		throw BinderException(
		    "VGI function \"%s\" has other columns with its named parameters: DuckDB cannot know them "
		    "where its arguments are columns",
		    Text(worker.function.name));
	}
}

} // namespace

void PlanRowFunction(Binder &binder, unique_ptr<LogicalOperator> &op) {
	auto &get = op->Cast<LogicalGet>();
	if (get.function.in_out_function != RefuseToRun) {
		return;
	}
	auto &bind = get.bind_data->Cast<InOutBindData>();
	if (!bind.named.empty()) {
		BindNamed(binder.context, bind, *get.children[0]);
	}
	auto types = bind.types;
	auto result = make_uniq<LogicalRowFunction>(get, types.size());
	if (get.children.empty()) {
		for (auto &value : get.parameters) {
			result->expressions.push_back(make_uniq<BoundConstantExpression>(value));
		}
		result->children.push_back(make_uniq<LogicalDummyScan>(binder.GenerateTableIndex()));
	} else {
		auto &child = *get.children[0];
		child.ResolveOperatorTypes();
		auto bindings = child.GetColumnBindings();
		for (idx_t i = 0; i < types.size(); i++) {
			result->expressions.push_back(make_uniq<BoundColumnRefExpression>(child.types[i], bindings[i]));
		}
		for (auto i : get.projected_input) {
			result->expressions.push_back(make_uniq<BoundColumnRefExpression>(child.types[i], bindings[i]));
		}
		result->children = std::move(get.children);
	}
	for (idx_t i = 0; i < types.size(); i++) {
		auto &expression = result->expressions[i];
		expression = BoundCastExpression::AddCastToType(binder.context, std::move(expression), types[i]);
	}
	op = std::move(result);
}

TableFunction RowFunction(const string &name, vector<LogicalType> parameters) {
	TableFunction function(name, std::move(parameters), nullptr, BindRows);
	function.in_out_function = RefuseToRun;
	openduck::RefuseCopies(function);
	return function;
}

} // namespace vgi

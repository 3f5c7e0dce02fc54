#include "common/plan_copies.hpp"
#include "vgi/functions.hpp"
#include "vgi/rows.hpp"
#include "vgi/transaction.hpp"

#include "duckdb/main/client_config.hpp"
#include "duckdb/main/config.hpp"

namespace vgi {

namespace {

//! One thread's rows in and out: a stream of its own, begun with its first row.
struct InOutState : public LocalTableFunctionState {
	InOutState(ClientContext &context, const InOutBindData &bind) : batch(context, bind.bound->Schema()) {
	}

	od_vgi_context call;
	unique_ptr<RowsStream> stream;
	BatchRows batch;
	//! The rows that went in last are not done with: there is more of them.
	bool more = false;
	bool rows_are_in = false;
	bool finalized = false;
};

unique_ptr<LocalTableFunctionState> InitInOut(ExecutionContext &context, TableFunctionInitInput &input,
                                              GlobalTableFunctionState *) {
	return make_uniq<InOutState>(context.client, input.bind_data->Cast<InOutBindData>());
}

OperatorResultType RunInOut(ExecutionContext &context, TableFunctionInput &data, DataChunk &input, DataChunk &output) {
	auto &bind = data.bind_data->Cast<InOutBindData>();
	auto &state = data.local_state->Cast<InOutState>();
	if (!state.stream) {
		if (input.size() == 0) {
			return OperatorResultType::NEED_MORE_INPUT;
		}
		state.call = VgiTransaction::Get(context.client, bind.worker->catalog).Call(context.client);
		state.stream = make_uniq<RowsStream>(context.client, state.call, *bind.bound, *bind.input, true);
	}
	while (!state.batch.HasRows()) {
		if (state.rows_are_in && !state.more) {
			state.rows_are_in = false;
			return OperatorResultType::NEED_MORE_INPUT;
		}
		state.more = state.stream->Put(input, state.rows_are_in);
		state.rows_are_in = true;
		state.batch.Take(state.stream->batch);
	}
	state.batch.Give(output);
	if (!state.batch.HasRows() && !state.more) {
		state.rows_are_in = false;
		return OperatorResultType::NEED_MORE_INPUT;
	}
	return OperatorResultType::HAVE_MORE_OUTPUT;
}

OperatorFinalizeResultType FinishInOut(ExecutionContext &, TableFunctionInput &data, DataChunk &output) {
	auto &state = data.local_state->Cast<InOutState>();
	if (!state.stream) {
		return OperatorFinalizeResultType::FINISHED;
	}
	if (!state.finalized) {
		state.stream->Finalize();
		state.finalized = true;
	}
	while (!state.batch.HasRows()) {
		if (!state.stream->NextKept()) {
			return OperatorFinalizeResultType::FINISHED;
		}
		state.batch.Take(state.stream->batch);
	}
	state.batch.Give(output);
	return OperatorFinalizeResultType::HAVE_MORE_OUTPUT;
}

bool OptimizerRuns(ClientContext &context) {
	return ClientConfig::GetConfig(context).enable_optimizer &&
	       !DBConfig::GetConfig(context).options.disabled_optimizers.count(OptimizerType::EXTENSION);
}

} // namespace

void RefuseCorrelated(const LogicalGet &get) {
	if (get.function.in_out_function != RunInOut || !get.function.in_out_function_final ||
	    get.projected_input.empty()) {
		return;
	}
	auto &worker = *get.bind_data->Cast<InOutBindData>().worker;
	throw BinderException("VGI function \"%s\" of \"%s\" keeps rows for its end: it cannot be called for each row of "
	                      "another table",
	                      Text(worker.function.name), worker.catalog.GetName());
}

void ReturnedColumns(ClientContext &context, const WorkerFunction &worker, const BoundFunction &bound,
                     vector<LogicalType> &types, vector<string> &names) {
	ArrowTableSchema columns;
	ArrowTableFunction::PopulateArrowTableSchema(context, columns, bound.Schema());
	names = columns.GetNames();
	types = columns.GetTypes();
	if (names.empty()) {
		throw IOException("VGI function \"%s\" of \"%s\" has no columns", Text(worker.function.name),
		                  worker.catalog.GetName());
	}
}

unique_ptr<FunctionData> BindInOut(ClientContext &context, TableFunctionBindInput &input, vector<LogicalType> &types,
                                   vector<string> &names) {
	auto result = make_uniq<InOutBindData>();
	result->worker = input.info->Cast<WorkerTableInfo>().worker;
	auto &worker = *result->worker;
	if (input.input_table_types.empty()) {
		throw BinderException("VGI function \"%s\" takes a table: %s((SELECT ...))", Text(worker.function.name),
		                      Text(worker.function.name));
	}
	if (worker.function.has_finalize && !OptimizerRuns(context)) {
		// What RefuseCorrelated refuses would be the end of DuckDB's instance.
		throw NotImplementedException(
		    "VGI function \"%s\" of \"%s\" keeps rows for its end: it cannot be called without "
		    "the optimizer (PRAGMA enable_optimizer)",
		    Text(worker.function.name), worker.catalog.GetName());
	}
	FunctionCall call(worker.catalog, worker.function, worker.schema);
	call.arguments = CallArguments(worker, input);
	result->types = input.input_table_types;
	result->input = make_shared_ptr<RowsSchema>(context, result->types, input.input_table_names);
	call.input = &result->input->Get();
	result->bound = BindAtWorker(context, call);
	ReturnedColumns(context, worker, *result->bound, types, names);
	return std::move(result);
}

TableFunction TableInOutFunction(const string &name, vector<LogicalType> parameters, bool has_finalize) {
	TableFunction function(name, std::move(parameters), nullptr, BindInOut, nullptr, InitInOut);
	function.in_out_function = RunInOut;
	function.in_out_function_final = has_finalize ? FinishInOut : nullptr;
	openduck::RefuseCopies(function);
	return function;
}

} // namespace vgi

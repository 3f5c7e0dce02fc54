#include "server/stream.hpp"

#include "duckdb.h"
#include "duckdb/catalog/catalog.hpp"
#include "duckdb/common/exception.hpp"
#include "duckdb/common/exception/binder_exception.hpp"
#include "duckdb/common/vector_operations/vector_operations.hpp"
#include "duckdb/function/table_function.hpp"
#include "duckdb/main/client_context_state.hpp"
#include "duckdb/parser/parsed_data/create_table_function_info.hpp"

using namespace duckdb; // NOLINT

namespace openduck {
namespace {

constexpr const char *NAME = "openduck_stream";

struct StreamState : public ClientContextState {
	const od_stream_source *source = nullptr;
};

struct StreamBindData : public TableFunctionData {
	explicit StreamBindData(const od_stream_source *source) : source(source) {
	}
	unique_ptr<FunctionData> Copy() const override {
		return make_uniq<StreamBindData>(source);
	}
	bool Equals(const FunctionData &other) const override {
		return source == other.Cast<StreamBindData>().source;
	}
	const od_stream_source *source;
};

struct StreamGlobalState : public GlobalTableFunctionState {
	idx_t MaxThreads() const override {
		return MAX_THREADS;
	}
};

struct StreamLocalState : public LocalTableFunctionState {
	StreamLocalState(const od_stream_source &source) : source(source), reader(source.open(source.arg)) {
		if (!reader) {
			throw OutOfMemoryException("a reader of arriving rows");
		}
	}
	~StreamLocalState() override {
		source.close(reader);
	}

	const od_stream_source &source;
	void *reader;
	uint64_t run = 0;
};

//! A thread of the scheduler waits a moment, so that other work of the instance has its turn between two moments
struct WaitTask : public AsyncTask {
	explicit WaitTask(const od_stream_source &source) : source(source) {
	}
	void Execute() override {
		source.wait(source.arg);
	}
	const od_stream_source &source;
};

unique_ptr<FunctionData> Bind(ClientContext &context, TableFunctionBindInput &, vector<LogicalType> &types,
                              vector<string> &names) {
	auto state = context.registered_state->Get<StreamState>(NAME);
	auto source = state ? state->source : nullptr;
	if (!source) {
		throw BinderException("no rows are arriving for this statement");
	}
	for (size_t i = 0; i < source->column_count; i++) {
		names.emplace_back(source->names[i]);
		types.push_back(*static_cast<LogicalType *>(source->types[i]));
	}
	return make_uniq<StreamBindData>(source);
}

unique_ptr<GlobalTableFunctionState> InitGlobal(ClientContext &context, TableFunctionInitInput &) {
	auto state = context.registered_state->Get<StreamState>(NAME);
	if (!state || !state->source) {
		throw InvalidInputException("the arriving rows can be read only once in a statement");
	}
	state->source = nullptr;
	return make_uniq<StreamGlobalState>();
}

unique_ptr<LocalTableFunctionState> InitLocal(ExecutionContext &, TableFunctionInitInput &input,
                                              GlobalTableFunctionState *) {
	return make_uniq<StreamLocalState>(*input.bind_data->Cast<StreamBindData>().source);
}

void CastInto(ClientContext &context, DataChunk &from, DataChunk &to) {
	for (idx_t i = 0; i < to.ColumnCount(); i++) {
		if (from.data[i].GetType() == to.data[i].GetType()) {
			to.data[i].Reference(from.data[i]);
		} else {
			VectorOperations::Cast(context, from.data[i], to.data[i], from.size());
		}
	}
	to.SetCardinality(from.size());
}

void Scan(ClientContext &context, TableFunctionInput &data, DataChunk &output) {
	auto &local = data.local_state->Cast<StreamLocalState>();
	for (;;) {
		void *other = nullptr;
		switch (local.source.next(local.reader, &output, &other, &local.run)) {
		case OD_STREAM_ROWS:
			if (other) {
				CastInto(context, *static_cast<DataChunk *>(other), output);
			}
			return;
		case OD_STREAM_END:
			output.SetCardinality(0);
			return;
		case OD_STREAM_FAILED:
			throw IOException("the rows stopped arriving");
		case OD_STREAM_WAIT:
			break;
		}
		if (data.results_execution_mode == AsyncResultsExecutionMode::TASK_EXECUTOR) {
			vector<unique_ptr<AsyncTask>> tasks;
			tasks.push_back(make_uniq<WaitTask>(local.source));
			data.async_result = AsyncResult(std::move(tasks));
			output.SetCardinality(0);
			return;
		}
		if (context.interrupted) {
			throw InterruptException();
		}
		local.source.wait(local.source.arg);
	}
}

OperatorPartitionData PartitionData(ClientContext &, TableFunctionGetPartitionInput &input) {
	if (input.partition_info.RequiresPartitionColumns()) {
		throw NotImplementedException("arriving rows have no partition columns");
	}
	return OperatorPartitionData(input.local_state->Cast<StreamLocalState>().run);
}

} // namespace

void InstallStream(ClientContext &context) {
	TableFunction function(NAME, {}, Scan, Bind, InitGlobal, InitLocal);
	function.get_partition_data = PartitionData;
	CreateTableFunctionInfo info(function);
	info.internal = true;
	context.RunFunctionInTransaction([&]() { Catalog::GetSystemCatalog(context).CreateTableFunction(context, info); });
}

void SetStream(ClientContext &context, const od_stream_source *source) {
	context.registered_state->GetOrCreate<StreamState>(NAME)->source = source;
}

} // namespace openduck

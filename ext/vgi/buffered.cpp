//===----------------------------------------------------------------------===//
// vgi/buffered.cpp: functions that keep all rows before they give any
//===----------------------------------------------------------------------===//
#include "common/plan_copies.hpp"
#include "vgi/function_operator.hpp"
#include "vgi/transaction.hpp"

#include "duckdb/common/arrow/arrow_converter.hpp"
#include "duckdb/execution/physical_plan_generator.hpp"
#include "duckdb/planner/expression/bound_columnref_expression.hpp"
#include "duckdb/planner/expression/bound_reference_expression.hpp"

namespace vgi {

namespace {

//===--------------------------------------------------------------------===//
// The operator
//===--------------------------------------------------------------------===//
class BufferedSink : public GlobalSinkState {
public:
	BufferedSink(ClientContext &context, const InOutBindData &bind)
	    : context(context), bind(bind), call(VgiTransaction::Get(context, bind.worker->catalog).Call(context)) {
		od_error err = {};
		ThrowIfFailed(od_vgi_buffered_open(bind.bound->remote->Handle(), &call, bind.bound->bound,
		                                   CText(bind.worker->function.name), bind.worker->schema.c_str(), &buffered,
		                                   &err),
		              err);
	}
	~BufferedSink() override {
		od_vgi_buffered_close(buffered);
	}
	void Put(DataChunk &rows) {
		ArrowArray array = {};
		ArrowConverter::ToArrowArray(rows, &array, ArrowProperties(context),
		                             ArrowTypeExtensionData::GetExtensionTypes(context, rows.GetTypes()));
		od_error err = {};
		ThrowIfFailed(od_vgi_buffered_put(buffered, &bind.input->Get(), &array, &err), err);
	}
	void Combine() {
		od_error err = {};
		ThrowIfFailed(od_vgi_buffered_combine(buffered, &parts, &err), err);
	}

	ClientContext &context;
	const InOutBindData &bind;
	od_vgi_context call;
	od_vgi_buffered *buffered = nullptr;
	size_t parts = 0;
};

//! One part after the other, in their order.
class BufferedSource : public GlobalSourceState {
public:
	BufferedSource(ClientContext &context, const InOutBindData &bind) : batch(context, bind.bound->Schema()) {
	}
	~BufferedSource() override {
		od_vgi_scan_close(scan);
	}
	//! Whether there is a batch with rows left to give.
	bool HasBatch(BufferedSink &sink) {
		while (!batch.HasRows()) {
			auto next = make_shared_ptr<ArrowArrayWrapper>();
			od_error err = {};
			if (!scan) {
				if (part == sink.parts) {
					return false;
				}
				ThrowIfFailed(od_vgi_buffered_scan(sink.buffered, part++, &scan, &err), err);
			}
			ThrowIfFailed(od_vgi_scan_next(scan, &next->arrow_array, &err), err);
			if (!next->arrow_array.release) {
				od_vgi_scan_close(scan);
				scan = nullptr;
			}
			batch.Take(std::move(next));
		}
		return true;
	}

	BatchRows batch;

private:
	size_t part = 0;
	od_vgi_scan *scan = nullptr;
};

class PhysicalBuffered : public PhysicalOperator {
public:
	static constexpr const PhysicalOperatorType TYPE = PhysicalOperatorType::EXTENSION;

	PhysicalBuffered(PhysicalPlan &plan, vector<LogicalType> types, vector<idx_t> from, unique_ptr<FunctionData> bind,
	                 idx_t rows)
	    : PhysicalOperator(plan, TYPE, std::move(types), rows), from(std::move(from)), bind(std::move(bind)) {
	}
	string GetName() const override {
		return "VGI_BUFFERED";
	}
	InsertionOrderPreservingMap<string> ParamsToString() const override {
		return Bind().worker->ForExplain();
	}

	// A worker may want its rows in their order, and counts their batches: one thread sends them.
	bool IsSink() const override {
		return true;
	}
	bool SinkOrderDependent() const override {
		return true;
	}
	unique_ptr<GlobalSinkState> GetGlobalSinkState(ClientContext &context) const override {
		return make_uniq<BufferedSink>(context, Bind());
	}
	SinkResultType Sink(ExecutionContext &, DataChunk &chunk, OperatorSinkInput &input) const override {
		DataChunk rows;
		vector<LogicalType> types;
		for (auto column : from) {
			types.push_back(chunk.data[column].GetType());
		}
		rows.InitializeEmpty(types);
		for (idx_t i = 0; i < from.size(); i++) {
			rows.data[i].Reference(chunk.data[from[i]]);
		}
		rows.SetCardinality(chunk.size());
		input.global_state.Cast<BufferedSink>().Put(rows);
		return SinkResultType::NEED_MORE_INPUT;
	}
	SinkFinalizeType Finalize(Pipeline &, Event &, ClientContext &, OperatorSinkFinalizeInput &input) const override {
		input.global_state.Cast<BufferedSink>().Combine();
		return SinkFinalizeType::READY;
	}

	bool IsSource() const override {
		return true;
	}
	OrderPreservationType SourceOrder() const override {
		return OrderPreservationType::FIXED_ORDER;
	}
	unique_ptr<GlobalSourceState> GetGlobalSourceState(ClientContext &context) const override {
		return make_uniq<BufferedSource>(context, Bind());
	}

protected:
	SourceResultType GetDataInternal(ExecutionContext &, DataChunk &chunk, OperatorSourceInput &input) const override {
		auto &source = input.global_state.Cast<BufferedSource>();
		if (!source.HasBatch(sink_state->Cast<BufferedSink>())) {
			return SourceResultType::FINISHED;
		}
		source.batch.Give(chunk);
		return SourceResultType::HAVE_MORE_OUTPUT;
	}

private:
	const InOutBindData &Bind() const {
		return bind->Cast<InOutBindData>();
	}

	const vector<idx_t> from; //!< the rows' columns among the child's
	const unique_ptr<FunctionData> bind;
};

class LogicalBuffered : public LogicalWorkerFunction {
public:
	using LogicalWorkerFunction::LogicalWorkerFunction;

	PhysicalOperator &CreatePlan(ClientContext &context, PhysicalPlanGenerator &planner) override {
		auto &rows = planner.CreatePlan(*children[0]);
		vector<idx_t> from;
		for (auto &expression : expressions) {
			from.push_back(expression->Cast<BoundReferenceExpression>().index);
		}
		auto &result = planner.Make<PhysicalBuffered>(types, std::move(from), std::move(bind),
		                                              MaxValue<idx_t>(estimated_cardinality, 1));
		result.children.push_back(rows);
		return result;
	}
	string GetName() const override {
		return "VGI_BUFFERED";
	}
};

OperatorResultType RefuseToRun(ExecutionContext &, TableFunctionInput &input, DataChunk &, DataChunk &) {
	auto &worker = *input.bind_data->Cast<InOutBindData>().worker;
	throw NotImplementedException(
	    "VGI function \"%s\" of \"%s\" keeps all rows before it gives any: it cannot be called "
	    "without the optimizer (PRAGMA enable_optimizer), nor for each row of another table",
	    Text(worker.function.name), worker.catalog.GetName());
}

} // namespace

void PlanBuffered(ClientContext &, unique_ptr<LogicalOperator> &op) {
	auto &get = op->Cast<LogicalGet>();
	if (get.function.in_out_function != RefuseToRun || get.children.size() != 1 || !get.projected_input.empty()) {
		return;
	}
	auto &child = *get.children[0];
	child.ResolveOperatorTypes();
	auto result = make_uniq<LogicalBuffered>(get, get.returned_types);
	auto bindings = child.GetColumnBindings();
	for (idx_t i = 0; i < bindings.size(); i++) {
		result->expressions.push_back(make_uniq<BoundColumnRefExpression>(child.types[i], bindings[i]));
	}
	result->children = std::move(get.children);
	op = std::move(result);
}

TableFunction BufferedFunction(const string &name, vector<LogicalType> parameters) {
	TableFunction function(name, std::move(parameters), nullptr, BindInOut);
	function.in_out_function = RefuseToRun;
	openduck::RefuseCopies(function);
	return function;
}

} // namespace vgi

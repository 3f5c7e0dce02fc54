//===----------------------------------------------------------------------===//
// openduck/join_keys_operator.cpp: what gathers the keys of a join, and what waits for them
//===----------------------------------------------------------------------===//
#include "openduck/join_keys.hpp"
#include "openduck/pass_through.hpp"

#include "duckdb/execution/expression_executor.hpp"
#include "duckdb/execution/physical_operator.hpp"
#include "duckdb/execution/physical_plan_generator.hpp"
#include "duckdb/parallel/meta_pipeline.hpp"
#include "duckdb/parallel/thread_context.hpp"

namespace openduck {

namespace {

class KeyCollectorState : public OperatorState {
public:
	KeyCollectorState(ClientContext &context, const vector<unique_ptr<Expression>> &expressions,
	                  const vector<LogicalType> &types)
	    : executor(context, expressions) {
		rows.Initialize(context, types);
	}
	void Finalize(const PhysicalOperator &op, ExecutionContext &context) override {
		context.thread.profiler.Flush(op);
	}

	ExpressionExecutor executor;
	DataChunk rows;
};

class PhysicalKeyCollector : public PhysicalOperator {
public:
	static constexpr const PhysicalOperatorType TYPE = PhysicalOperatorType::EXTENSION;

	PhysicalKeyCollector(PhysicalPlan &plan, vector<LogicalType> types, shared_ptr<JoinKeys> keys_p,
	                     vector<unique_ptr<Expression>> expressions_p, string shown_p, idx_t estimated_cardinality)
	    : PhysicalOperator(plan, TYPE, std::move(types), estimated_cardinality), keys(std::move(keys_p)),
	      expressions(std::move(expressions_p)), shown(std::move(shown_p)) {
	}

	string GetName() const override {
		return "OPENDUCK_JOIN_KEYS";
	}
	InsertionOrderPreservingMap<string> ParamsToString() const override {
		InsertionOrderPreservingMap<string> result;
		result["Sent For"] = shown;
		SetEstimatedCardinality(result, estimated_cardinality);
		return result;
	}
	bool ParallelOperator() const override {
		return true;
	}
	unique_ptr<GlobalOperatorState> GetGlobalOperatorState(ClientContext &context) const override {
		keys->Begin(context);
		return make_uniq<GlobalOperatorState>();
	}
	unique_ptr<OperatorState> GetOperatorState(ExecutionContext &context) const override {
		return make_uniq<KeyCollectorState>(context.client, expressions, keys->types);
	}
	OperatorResultType Execute(ExecutionContext &context, DataChunk &input, DataChunk &chunk,
	                           GlobalOperatorState &gstate, OperatorState &state_p) const override {
		auto &state = state_p.Cast<KeyCollectorState>();
		if (!keys->TooMany()) {
			state.rows.Reset();
			state.executor.Execute(input, state.rows);
			keys->Add(state.rows);
		}
		chunk.Reference(input);
		return OperatorResultType::NEED_MORE_INPUT;
	}
	void BuildPipelines(Pipeline &current, MetaPipeline &meta_pipeline) override {
		keys->SetSource(weak_ptr<Pipeline>(current.shared_from_this()));
		PhysicalOperator::BuildPipelines(current, meta_pipeline);
	}

private:
	shared_ptr<JoinKeys> keys;
	vector<unique_ptr<Expression>> expressions;
	string shown;
};

class PhysicalKeyBarrier : public PhysicalOperator {
public:
	static constexpr const PhysicalOperatorType TYPE = PhysicalOperatorType::EXTENSION;

	PhysicalKeyBarrier(PhysicalPlan &plan, vector<LogicalType> types, shared_ptr<JoinKeys> keys_p,
	                   idx_t estimated_cardinality)
	    : PhysicalOperator(plan, TYPE, std::move(types), estimated_cardinality), keys(std::move(keys_p)) {
	}

	string GetName() const override {
		return "OPENDUCK_AWAIT_KEYS";
	}
	bool ParallelOperator() const override {
		return true;
	}
	OperatorResultType Execute(ExecutionContext &context, DataChunk &input, DataChunk &chunk,
	                           GlobalOperatorState &gstate, OperatorState &state) const override {
		chunk.Reference(input);
		return OperatorResultType::NEED_MORE_INPUT;
	}
	//! The pipelines of a join's first side have been built when those of the other side are.
	void BuildPipelines(Pipeline &current, MetaPipeline &meta_pipeline) override {
		auto source = keys->Source();
		if (source) {
			current.AddDependency(source);
		}
		PhysicalOperator::BuildPipelines(current, meta_pipeline);
	}

private:
	shared_ptr<JoinKeys> keys;
};

class LogicalKeyOperator : public LogicalPassThrough {
public:
	LogicalKeyOperator(shared_ptr<JoinKeys> keys_p, unique_ptr<LogicalOperator> child)
	    : LogicalPassThrough(std::move(child)), keys(std::move(keys_p)) {
	}

protected:
	shared_ptr<JoinKeys> keys;
};

class LogicalKeyCollector : public LogicalKeyOperator {
public:
	LogicalKeyCollector(shared_ptr<JoinKeys> keys, vector<unique_ptr<Expression>> expressions_p, string shown_p,
	                    unique_ptr<LogicalOperator> child)
	    : LogicalKeyOperator(std::move(keys), std::move(child)), shown(std::move(shown_p)) {
		expressions = std::move(expressions_p);
	}
	string GetName() const override {
		return "OPENDUCK_JOIN_KEYS";
	}
	InsertionOrderPreservingMap<string> ParamsToString() const override {
		InsertionOrderPreservingMap<string> result;
		result["Sent For"] = shown;
		return result;
	}
	PhysicalOperator &CreatePlan(ClientContext &context, PhysicalPlanGenerator &planner) override {
		auto &child = planner.CreatePlan(*children[0]);
		auto &result =
		    planner.Make<PhysicalKeyCollector>(types, keys, std::move(expressions), shown, child.estimated_cardinality);
		result.children.push_back(child);
		return result;
	}

private:
	string shown;
};

class LogicalKeyBarrier : public LogicalKeyOperator {
public:
	using LogicalKeyOperator::LogicalKeyOperator;
	string GetName() const override {
		return "OPENDUCK_AWAIT_KEYS";
	}
	PhysicalOperator &CreatePlan(ClientContext &context, PhysicalPlanGenerator &planner) override {
		auto &child = planner.CreatePlan(*children[0]);
		auto &result = planner.Make<PhysicalKeyBarrier>(types, keys, child.estimated_cardinality);
		result.children.push_back(child);
		return result;
	}
};

} // namespace

unique_ptr<LogicalOperator> PlanKeyCollector(shared_ptr<JoinKeys> keys, vector<unique_ptr<Expression>> expressions,
                                             string shown, unique_ptr<LogicalOperator> child) {
	return make_uniq<LogicalKeyCollector>(std::move(keys), std::move(expressions), std::move(shown), std::move(child));
}

unique_ptr<LogicalOperator> PlanKeyBarrier(shared_ptr<JoinKeys> keys, unique_ptr<LogicalOperator> child) {
	return make_uniq<LogicalKeyBarrier>(std::move(keys), std::move(child));
}

bool IsKeyOperator(const LogicalOperator &op) {
	return dynamic_cast<const LogicalKeyOperator *>(&op) != nullptr;
}

} // namespace openduck

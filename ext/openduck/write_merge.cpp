#include "openduck/write_merge.hpp"

#include "openduck/catalog.hpp"
#include "openduck/server_value.hpp"
#include "openduck/write_plan.hpp"

#include "duckdb/execution/physical_plan_generator.hpp"
#include "duckdb/planner/expression/bound_reference_expression.hpp"
#include "duckdb/planner/operator/logical_merge_into.hpp"

namespace openduck {

//===--------------------------------------------------------------------===//
// Execution
//===--------------------------------------------------------------------===//
void MergeSequence::Begin(idx_t count) {
	expected = count;
	arrived.clear();
}

vector<reference<RemoteWriteGlobalState>> MergeSequence::Arrived(const RemoteWrite &write,
                                                                 RemoteWriteGlobalState &state) {
	vector<reference<RemoteWriteGlobalState>> result;
	arrived.emplace_back(write.info.name, state);
	if (arrived.size() < expected) {
		return result;
	}
	for (auto name : {"DELETE", "UPDATE", "INSERT"}) {
		for (auto &entry : arrived) {
			if (entry.first == name) {
				result.push_back(entry.second);
			}
		}
	}
	return result;
}

RemoteMerge::RemoteMerge(PhysicalPlan &plan, vector<LogicalType> types, OpenDuckCatalog &catalog, actions_t actions_p,
                         idx_t row_id_index, optional_idx source_marker, bool returning,
                         shared_ptr<MergeSequence> sequence_p)
    : PhysicalMergeInto(plan, std::move(types), std::move(actions_p), row_id_index, source_marker, !returning,
                        returning),
      catalog(catalog), sequence(std::move(sequence_p)) {
	for (auto &action : actions) {
		write_count += action->op ? 1 : 0;
	}
}

string RemoteMerge::GetName() const {
	return "OPENDUCK_MERGE_INTO";
}

unique_ptr<GlobalSinkState> RemoteMerge::GetGlobalSinkState(ClientContext &context) const {
	sequence->Begin(write_count);
	return PhysicalMergeInto::GetGlobalSinkState(context);
}

//===--------------------------------------------------------------------===//
// Planning
//===--------------------------------------------------------------------===//
//! What an INSERT action writes. The action's expressions become those of the columns that go up.
static RemoteWriteInfo PlanMergeInsert(LogicalMergeInto &op, BoundMergeIntoAction &action, PhysicalOperator &plan,
                                       vector<unique_ptr<Expression>> &expressions) {
	vector<InsertedColumn> columns;
	for (auto &column : InsertedColumns(op.table, action.column_index_map)) {
		auto &expression = action.expressions[column.from];
		if (expression->GetExpressionClass() == ExpressionClass::BOUND_REF &&
		    TakeServerValue(plan, expression->Cast<BoundReferenceExpression>().index)) {
			continue;
		}
		column.from = expressions.size();
		expressions.push_back(std::move(expression));
		columns.push_back(std::move(column));
	}
	return columns.empty() ? DefaultsInfo(op.table, op.return_chunk) : InsertInfo(op.table, columns, op.return_chunk);
}

static unique_ptr<MergeIntoOperator> PlanMergeAction(OpenDuckCatalog &catalog, PhysicalPlanGenerator &planner,
                                                     LogicalMergeInto &op, BoundMergeIntoAction &action,
                                                     PhysicalOperator &plan,
                                                     const shared_ptr<MergeSequence> &sequence) {
	auto result = make_uniq<MergeIntoOperator>();
	result->action_type = action.action_type;
	result->condition = std::move(action.condition);
	RemoteWriteInfo info;
	switch (action.action_type) {
	case MergeActionType::MERGE_UPDATE:
		info = UpdateInfo(op.table, action.columns, action.expressions, op.row_id_start, op.return_chunk);
		break;
	case MergeActionType::MERGE_DELETE:
		info = DeleteInfo(op.table, op.row_id_start, op.return_chunk);
		break;
	case MergeActionType::MERGE_INSERT:
		info = PlanMergeInsert(op, action, plan, result->expressions);
		break;
	default:
		// An error's text, or nothing.
		result->expressions = std::move(action.expressions);
		return result;
	}
	auto types = op.types;
	if (op.return_chunk) {
		types.pop_back(); // merge_action, which the MERGE adds
	}
	auto &write = planner.Make<RemoteWrite>(std::move(types), catalog, std::move(info), op.estimated_cardinality);
	write.Cast<RemoteWrite>().sequence = sequence;
	result->op = write;
	return result;
}

PhysicalOperator &OpenDuckCatalog::PlanMergeInto(ClientContext &context, PhysicalPlanGenerator &planner,
                                                 LogicalMergeInto &op, PhysicalOperator &plan) {
	RequireWritable("MERGE INTO");
	auto sequence = make_shared_ptr<MergeSequence>();
	RemoteMerge::actions_t actions;
	for (auto &entry : op.actions) {
		auto &planned = actions[entry.first];
		for (auto &action : entry.second) {
			planned.push_back(PlanMergeAction(*this, planner, op, *action, plan, sequence));
		}
	}
	auto &merge = planner.Make<RemoteMerge>(op.types, *this, std::move(actions), op.row_id_start, op.source_marker,
	                                        op.return_chunk, std::move(sequence));
	merge.children.push_back(plan);
	return merge;
}

} // namespace openduck

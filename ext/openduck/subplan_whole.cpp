//===----------------------------------------------------------------------===//
// openduck/subplan_whole.cpp: a plan that is the server's as a whole, before DuckDB's optimizers
//===----------------------------------------------------------------------===//
#include "openduck/subplan.hpp"

#include "duckdb/optimizer/deliminator.hpp"
#include "duckdb/optimizer/filter_pullup.hpp"
#include "duckdb/optimizer/filter_pushdown.hpp"
#include "duckdb/optimizer/optimizer.hpp"
#include "duckdb/optimizer/remove_unused_columns.hpp"
#include "duckdb/optimizer/rule/constant_folding.hpp"
#include "duckdb/optimizer/rule/date_part_simplification.hpp"
#include "duckdb/optimizer/topn_optimizer.hpp"

namespace openduck {

//! Whether OP has what DuckDB makes of a subquery, which is something better once filters are where they belong.
static bool HasSubquery(const LogicalOperator &op) {
	if (op.type == LogicalOperatorType::LOGICAL_DELIM_JOIN ||
	    (op.type == LogicalOperatorType::LOGICAL_COMPARISON_JOIN &&
	     op.Cast<LogicalComparisonJoin>().join_type == JoinType::MARK)) {
		return true;
	}
	for (auto &child : op.children) {
		if (HasSubquery(*child)) {
			return true;
		}
	}
	return false;
}

void PrepareWholePlan(Optimizer &optimizer, unique_ptr<LogicalOperator> &plan) {
	// No other rule: some derive conditions from others, and the server would estimate by both.
	ExpressionRewriter rewriter(optimizer.context);
	rewriter.rules.push_back(make_uniq<ConstantFoldingRule>(rewriter));
	rewriter.rules.push_back(make_uniq<DatePartSimplificationRule>(rewriter));
	rewriter.VisitOperator(*plan);
	if (HasSubquery(*plan)) {
		FilterPullup pullup;
		plan = pullup.Rewrite(std::move(plan));
		FilterPushdown pushdown(optimizer);
		unordered_set<idx_t> top_bindings;
		pushdown.CheckMarkToSemi(*plan, top_bindings);
		plan = pushdown.Rewrite(std::move(plan));
		Deliminator deliminator;
		plan = deliminator.Optimize(std::move(plan));
	}
	RemoveUnusedColumns unused(optimizer);
	unused.VisitOperator(*plan);
	TopN top(optimizer.context);
	plan = top.Optimize(std::move(plan));
}

} // namespace openduck

//===----------------------------------------------------------------------===//
// vgi/branches.hpp: the scan of a table with branches, before and after the optimizer has seen it
//===----------------------------------------------------------------------===//
#pragma once

#include "vgi/table.hpp"

#include "duckdb/function/table_function.hpp"
#include "duckdb/planner/operator/logical_get.hpp"

namespace vgi {

constexpr const char *MULTI_BRANCH_SETTING = "vgi_multi_branch_scans";

//! A place in the plan: which branches are to be read there.
class BranchesBindData : public TableFunctionData {
public:
	BranchesBindData(VgiTableEntry &table, shared_ptr<Answer<od_vgi_branches>> branches);

	VgiTableEntry &table;
	shared_ptr<Answer<od_vgi_branches>> branches;

	unique_ptr<FunctionData> Copy() const override;
	bool Equals(const FunctionData &other) const override;
	bool SupportStatementCache() const override {
		return false;
	}
};

//! The function of such a place. It is never run: the optimizer puts the branches there.
TableFunction BranchesFunction(const VgiTableEntry &table);
bool IsBranchesScan(const LogicalOperator &op);

//! Throws a BinderException if PLAN, which the optimizer has not seen, reads a table without the filters that this requires.
void CheckRequiredFilters(LogicalOperator &plan);

//! The plan of what GET stands for, with the column bindings that GET has.
unique_ptr<LogicalOperator> PlanBranches(ClientContext &context, Binder &binder, LogicalGet &get);

//! One branch's plan, which gives all of its columns under NAMES.
struct BoundArm {
	unique_ptr<LogicalOperator> plan;
	vector<string> names;
	vector<LogicalType> types;
	//! A function of the worker's own.
	bool is_worker = false;
};
//! Binds what BRANCH reads; afterwards BINDER knows its columns.
BoundArm BindArm(ClientContext &context, Binder &binder, VgiTableEntry &table, const od_vgi_branch &branch);

//! Argument NAME of a branch: its place among the positional ones, if it has one.
optional_idx ArgumentPosition(const string &name);

//! Binds the SQL text FILTER over the columns that BINDER knows. Throws a BinderException if it is more than an expression over
//! them: a subquery, an aggregate, or what has another value each time.
unique_ptr<Expression> BindBranchFilter(ClientContext &context, Binder &binder, const string &filter,
                                        const string &table);

//! FILTER as it is written; throws as BindBranchFilter does for what can be seen of it so.
unique_ptr<ParsedExpression> ParseBranchFilter(ClientContext &context, const string &filter, const string &table);

//! Registers vgi_check_branches().
void RegisterBranchCheck(ExtensionLoader &loader);

//! Registers the rewriter, its setting, and vgi_table_branches().
void RegisterBranches(ExtensionLoader &loader);
void RegisterBranchFunctions(ExtensionLoader &loader);

} // namespace vgi

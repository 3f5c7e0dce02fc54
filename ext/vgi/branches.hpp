//===----------------------------------------------------------------------===//
// vgi/branches.hpp: the branches of a VGI table
//===----------------------------------------------------------------------===//
#pragma once

#include "common/branches.hpp"
#include "vgi/table.hpp"

namespace vgi {
using openduck::BoundArm;

constexpr const char *MULTI_BRANCH_SETTING = "vgi_multi_branch_scans";

//! The branches that the worker told when the table was bound.
class VgiBranchesBindData : public openduck::BranchesBindData {
public:
	VgiBranchesBindData(VgiTableEntry &table, shared_ptr<Answer<od_vgi_branches>> branches);

	VgiTableEntry &Table() const {
		return table.Cast<VgiTableEntry>();
	}
	const vector<openduck::BranchColumn> &Columns() const override;
	idx_t ColumnIndex(column_t id) const override;
	optional_idx EstimatedRows() const override;
	vector<string> RequiredExtensions() const override;
	idx_t Count() const override;
	bool Filter(idx_t i, string &out) const override;
	BoundArm BindArm(ClientContext &context, Binder &binder, idx_t i) const override;
	void OnlyArmBound(BoundArm &arm, vector<string> names) const override;

	unique_ptr<FunctionData> Copy() const override;
	bool Equals(const FunctionData &other) const override;

private:
	shared_ptr<Answer<od_vgi_branches>> branches;
};

//! Throws a BinderException if PLAN, which the optimizer has not seen, reads a table without the filters that this requires.
void CheckRequiredFilters(LogicalOperator &plan);

//! Registers vgi_check_branches().
void RegisterBranchCheck(ExtensionLoader &loader);

//! Registers the rewriter, its setting, and vgi_table_branches().
void RegisterBranches(ExtensionLoader &loader);
void RegisterBranchFunctions(ExtensionLoader &loader);

} // namespace vgi

//===----------------------------------------------------------------------===//
// openduck/branches.hpp: a table that is read from branches, of its server and of companions
//===----------------------------------------------------------------------===//
#pragma once

#include "common/branches.hpp"
#include "openduck/table.hpp"

namespace openduck {

//! The branches with their conditions, the split's value in them as the server told it when the table was bound.
class RemoteBranchesBindData : public BranchesBindData {
public:
	RemoteBranchesBindData(OpenDuckTableEntry &table, vector<string> conditions);

	const vector<BranchColumn> &Columns() const override {
		return columns;
	}
	idx_t ColumnIndex(column_t id) const override {
		return id;
	}
	optional_idx EstimatedRows() const override {
		return optional_idx();
	}
	vector<string> RequiredExtensions() const override;
	idx_t Count() const override;
	bool Filter(idx_t i, string &out) const override;
	BoundArm BindArm(ClientContext &context, Binder &binder, idx_t i) const override;

	unique_ptr<FunctionData> Copy() const override;
	bool Equals(const FunctionData &other) const override;

private:
	const od_layout_branch &Branch(idx_t i) const;
	OpenDuckTableEntry &Entry() const {
		return table.Cast<OpenDuckTableEntry>();
	}

	vector<BranchColumn> columns;
	const vector<string> conditions;
};

//! The scan of TABLE, which has branches; asks the server for the split if there is one.
TableFunction BindBranches(ClientContext &context, OpenDuckTableEntry &table, unique_ptr<FunctionData> &bind_data);
//! Throws if TABLE has branches: it is not written to, nor changed.
void RequireNoBranches(const OpenDuckTableEntry &table);
//! Why: NAME of DATABASE has branches.
string BranchesRefusal(const string &name, const string &database);
//! True if ENTRY, of any catalog, is a table of branches of ours.
bool HasBranches(CatalogEntry &entry);

//! Registers openduck_table_branches().
void RegisterBranchList(ExtensionLoader &loader);

} // namespace openduck

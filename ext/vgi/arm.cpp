#include "vgi/branches.hpp"

#include "vgi/scan.hpp"
#include "vgi/transaction.hpp"

namespace vgi {

static constexpr const char *ARM_ALIAS = "vgi_branch";

VgiBranchesBindData::VgiBranchesBindData(VgiTableEntry &table, shared_ptr<Answer<od_vgi_branches>> branches_p)
    : BranchesBindData(table, "VGI"), branches(std::move(branches_p)) {
}

unique_ptr<FunctionData> VgiBranchesBindData::Copy() const {
	return make_uniq<VgiBranchesBindData>(Table(), branches);
}

bool VgiBranchesBindData::Equals(const FunctionData &other) const {
	return branches == other.Cast<VgiBranchesBindData>().branches;
}

const vector<openduck::BranchColumn> &VgiBranchesBindData::Columns() const {
	return Table().ToldColumns();
}

idx_t VgiBranchesBindData::ColumnIndex(column_t id) const {
	return Table().ToldIndex(id);
}

optional_idx VgiBranchesBindData::EstimatedRows() const {
	return Table().EstimatedRows();
}

vector<string> VgiBranchesBindData::RequiredExtensions() const {
	return Texts((*branches)->required_extensions);
}

idx_t VgiBranchesBindData::Count() const {
	return (*branches)->count;
}

bool VgiBranchesBindData::Filter(idx_t i, string &out) const {
	auto &filter = (*branches)->items[i].filter;
	out = Text(filter);
	return filter.data != nullptr;
}

//! What is said of the table's columns is said of its only arm's. What is cast has another order, and other numbers.
void VgiBranchesBindData::OnlyArmBound(BoundArm &arm, vector<string> names) const {
	auto &entry = Table();
	if (arm.is_own_function && entry.HasEstimates()) {
		ReplaceEstimates(
		    arm.plan->Cast<LogicalGet>(), [&entry](ClientContext &context) { return entry.Estimates(context); },
		    std::move(names));
	}
}

static vector<pair<string, Value>> ReadPairs(ClientContext &context, const od_vgi_values &values) {
	vector<pair<string, Value>> result;
	for (auto &value : ReadValues(context, values)) {
		result.emplace_back(value.name, value.value);
	}
	return result;
}

//! A function of the worker's own; null plan if it has none of that name.
static BoundArm BindWorkerFunction(ClientContext &context, Binder &binder, VgiTableEntry &table,
                                   const od_vgi_scan_function &call, optional_idx rows) {
	auto &catalog = table.Schema().Owner();
	auto &snapshot = VgiTransaction::Get(context, catalog).Snapshot(context);
	auto name = Text(call.function);
	vector<string> schemas;
	if (call.schema_path.count > 0) {
		schemas.push_back(Text(call.schema_path.items[call.schema_path.count - 1]));
	}
	schemas.push_back(table.schema.name);
	schemas.push_back(catalog.GetDefaultSchema());
	for (auto &schema_name : schemas) {
		auto schema = snapshot.FindSchema(schema_name);
		if (!schema) {
			continue;
		}
		auto functions = schema->Functions(context, name);
		if (functions.empty()) {
			continue;
		}
		BoundArm result;
		FunctionCall function(catalog, *functions[0], schema->name);
		function.arguments = ReadValues(context, call.arguments);
		function.at_unit = table.AtVersion().unit;
		function.at_value = table.AtVersion().value;
		auto get = BindWorkerScan(context, function, binder.GenerateTableIndex(), rows);
		result.names = get->names;
		result.types = get->returned_types;
		binder.bind_context.AddTableFunction(get->table_index, openduck::ARM_ALIAS, result.names, result.types,
		                                     get->GetMutableColumnIds(), nullptr, get->virtual_columns);
		result.plan = std::move(get);
		result.is_own_function = true;
		return result;
	}
	return BoundArm();
}

BoundArm VgiBranchesBindData::BindArm(ClientContext &context, Binder &binder, idx_t i) const {
	auto &branch = (*branches)->items[i];
	switch (branch.kind) {
	case OD_VGI_BRANCH_TABLE:
		return openduck::BindTableArm(context, binder, shown, Text(branch.source_catalog), Text(branch.source_schema),
		                              Text(branch.source_table), {VgiCatalog::TYPE});
	case OD_VGI_BRANCH_FORMAT:
		return openduck::BindFormatArm(context, binder, shown, Text(branch.format_name), Texts(branch.format_locations),
		                               ReadPairs(context, branch.format_options));
	default:
		break;
	}
	auto result = BindWorkerFunction(context, binder, Table(), branch.call, optional_idx());
	if (result.plan) {
		return result;
	}
	return openduck::BindFunctionArm(context, binder, shown, Text(branch.call.function),
	                                 ReadPairs(context, branch.call.arguments));
}

} // namespace vgi

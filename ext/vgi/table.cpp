#include "vgi/table.hpp"

#include "vgi/branches.hpp"
#include "vgi/event.hpp"
#include "vgi/transaction.hpp"

#include "duckdb/function/table/arrow.hpp"
#include "duckdb/parser/constraints/not_null_constraint.hpp"
#include "duckdb/parser/constraints/unique_constraint.hpp"
#include "duckdb/storage/statistics/base_statistics.hpp"
#include "duckdb/storage/table_storage_info.hpp"

extern "C" {
#include "vgi/branch.h"
}

namespace vgi {

VgiTableEntry::VgiTableEntry(VgiSchemaEntry &schema, CreateTableInfo &info, optional_idx estimated_rows)
    : TableCatalogEntry(schema.ParentCatalog(), schema, info), estimated_rows(estimated_rows) {
}

static void AddKey(CreateTableInfo &info, const od_vgi_columns &key, const vector<string> &names, bool primary) {
	vector<string> columns;
	for (idx_t i = 0; i < key.count; i++) {
		auto &name = names[idx_t(key.items[i])];
		if (!info.columns.ColumnExists(name)) {
			return; // of the rowid
		}
		columns.push_back(name);
	}
	if (columns.size() == 1) {
		auto &column = info.columns.GetColumn(columns[0]);
		info.constraints.push_back(make_uniq<UniqueConstraint>(column.Logical(), column.Name(), primary));
	} else if (!columns.empty()) {
		info.constraints.push_back(make_uniq<UniqueConstraint>(columns, primary));
	}
}

static void AddConstraints(CreateTableInfo &info, const od_vgi_table &table, const vector<string> &names) {
	for (idx_t i = 0; i < table.not_null.count; i++) {
		auto &name = names[idx_t(table.not_null.items[i])];
		if (info.columns.ColumnExists(name)) {
			info.constraints.push_back(make_uniq<NotNullConstraint>(info.columns.GetColumn(name).Logical()));
		}
	}
	for (idx_t i = 0; i < table.primary_key_count && i < 1; i++) {
		AddKey(info, table.primary_keys[i], names, true);
	}
	for (idx_t i = 0; i < table.unique_count; i++) {
		AddKey(info, table.unique[i], names, false);
	}
}

unique_ptr<VgiTableEntry> VgiTableEntry::Make(ClientContext &context, VgiSchemaEntry &schema,
                                              const od_vgi_table &table) {
	CreateTableInfo info(schema, Text(table.name));
	ArrowTableSchema columns;
	ArrowTableFunction::PopulateArrowTableSchema(context, columns, table.columns);
	auto &names = columns.GetNames();
	auto &types = columns.GetTypes();
	for (idx_t i = 0; i < names.size(); i++) {
		if (int64_t(i) != table.row_id) {
			info.columns.AddColumn(ColumnDefinition(names[i], types[i]));
		}
	}
	if (info.columns.empty()) {
		throw IOException("the VGI worker of \"%s\" lists table \"%s\".\"%s\" without columns",
		                  schema.ParentCatalog().GetName(), schema.name, info.table);
	}
	if (table.comment.data) {
		info.comment = Value(Text(table.comment));
	}
	for (idx_t i = 0; i < table.tags.count; i++) {
		info.tags[Text(table.tags.items[i].key)] = Text(table.tags.items[i].value);
	}
	AddConstraints(info, table, names);
	auto &estimate = table.cardinality_estimate.known ? table.cardinality_estimate : table.cardinality_max;
	auto result = make_uniq<VgiTableEntry>(
	    schema, info, estimate.known && estimate.value >= 0 ? optional_idx(idx_t(estimate.value)) : optional_idx());
	for (idx_t i = 0; i < table.required_filter_count; i++) {
		result->required_filters.push_back(Texts(table.required_filters[i]));
	}
	return result;
}

//! What the policy wants to know of a branch.
static od_branch Outline(const od_vgi_branch &branch) {
	od_branch result = {};
	result.function_name = CText(branch.call.function);
	result.source_catalog = CText(branch.source_catalog);
	result.source_schema = CText(branch.source_schema);
	result.source_table = CText(branch.source_table);
	result.format_name = CText(branch.format_name);
	result.location_count = branch.format_locations.count;
	result.writable = branch.writable;
	return result;
}

void VgiTableEntry::GetBranches(ClientContext &context, Answer<od_vgi_branches> &out) {
	auto call = VgiTransaction::Get(context, catalog).Call(context);
	od_vgi_table_ref ref = {schema.name.c_str(), name.c_str(), nullptr, nullptr};
	od_error err = {};
	ThrowIfFailed(od_vgi_get_branches(Schema().Owner().Remote()->Handle(), &call, &ref, &out.data, &err), err);
	vector<od_branch> outline;
	for (idx_t i = 0; i < out->count; i++) {
		outline.push_back(Outline(out->items[i]));
	}
	auto shown = schema.name + "." + name;
	ThrowIfFailed(od_branches_check(outline.data(), outline.size(), shown.c_str(), &err), err);
}

TableFunction VgiTableEntry::MakeScan(ClientContext &context, unique_ptr<FunctionData> &bind_data, bool with_at) {
	auto branches = make_shared_ptr<Answer<od_vgi_branches>>();
	GetBranches(context, *branches);
	auto count = (*branches)->count;
	auto shown = schema.name + "." + name;
	if (with_at && count > 1) {
		throw BinderException(
		    "AT (...) clauses are not supported on multi-branch VGI tables. A version of one branch is "
		    "none of the others [table: %s, branches: %d]",
		    shown, count);
	}
	if (with_at) {
		throw NotImplementedException("AT (...) clauses are not supported on VGI tables [table: %s]", shown);
	}
	Value enabled;
	if (count > 1 && context.TryGetCurrentSetting(MULTI_BRANCH_SETTING, enabled) && !BooleanValue::Get(enabled)) {
		throw BinderException("Multi-branch VGI table scan disabled via %s=false. Set it to true to read this table "
		                      "[table: %s, branches: %d]",
		                      MULTI_BRANCH_SETTING, shown, count);
	}
	if (count > 1) {
		LogEvent(DatabaseInstance::GetDatabase(context), &context, "vgi.multi_scan.marker_returned",
		         {{"schema", schema.name}, {"table", name}, {"branches", to_string(count)}});
	}
	bind_data = make_uniq<BranchesBindData>(*this, std::move(branches));
	return BranchesFunction();
}

TableFunction VgiTableEntry::GetScanFunction(ClientContext &context, unique_ptr<FunctionData> &bind_data) {
	return MakeScan(context, bind_data, false);
}

TableFunction VgiTableEntry::GetScanFunction(ClientContext &context, unique_ptr<FunctionData> &bind_data,
                                             const EntryLookupInfo &lookup_info) {
	return MakeScan(context, bind_data, lookup_info.GetAtClause() != nullptr);
}

unique_ptr<BaseStatistics> VgiTableEntry::GetStatistics(ClientContext &context, column_t column_id) {
	return nullptr;
}

TableStorageInfo VgiTableEntry::GetStorageInfo(ClientContext &context) {
	TableStorageInfo result;
	result.cardinality = estimated_rows;
	return result;
}

virtual_column_map_t VgiTableEntry::GetVirtualColumns() const {
	return virtual_column_map_t();
}

vector<column_t> VgiTableEntry::GetRowIdColumns() const {
	return vector<column_t>();
}

} // namespace vgi

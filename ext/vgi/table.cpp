#include "vgi/table.hpp"

#include "common/event.hpp"
#include "vgi/branches.hpp"
#include "vgi/transaction.hpp"

#include "duckdb/function/table/arrow.hpp"
#include "duckdb/parser/expression/constant_expression.hpp"
#include "duckdb/parser/expression/function_expression.hpp"
#include "duckdb/parser/parser.hpp"
#include "duckdb/parser/constraints/not_null_constraint.hpp"
#include "duckdb/planner/tableref/bound_at_clause.hpp"
#include "duckdb/parser/constraints/unique_constraint.hpp"
#include "duckdb/storage/statistics/base_statistics.hpp"
#include "duckdb/storage/table_storage_info.hpp"

extern "C" {
#include "arrow/ipc_read.h"
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

//! What a column is where an INSERT leaves it out. One that is no SQL is an error there, and nowhere else.
static void AddDefault(ColumnDefinition &column, const ArrowSchema &told, const string &table) {
	auto sql = od_schema_metadata(&told, "default");
	if (!sql.data) {
		return;
	}
	try {
		auto parsed = Parser::ParseExpressionList(Text(sql));
		if (parsed.size() == 1) {
			column.SetDefaultValue(std::move(parsed[0]));
			return;
		}
	} catch (ParserException &) { // said when it is needed
	}
	vector<unique_ptr<ParsedExpression>> message;
	message.push_back(make_uniq<ConstantExpression>(
	    Value("the worker's default of column \"" + column.Name() + "\" of \"" + table + "\" is no SQL expression")));
	column.SetDefaultValue(make_uniq<FunctionExpression>("error", std::move(message)));
}

unique_ptr<VgiTableEntry> VgiTableEntry::Make(ClientContext &context, VgiSchemaEntry &schema, const od_vgi_table &table,
                                              Version version) {
	CreateTableInfo info(schema, Text(table.name));
	ArrowTableSchema columns;
	ArrowTableFunction::PopulateArrowTableSchema(context, columns, table.columns);
	auto &names = columns.GetNames();
	auto &types = columns.GetTypes();
	for (idx_t i = 0; i < names.size(); i++) {
		if (int64_t(i) != table.row_id) {
			ColumnDefinition column(names[i], types[i]);
			AddDefault(column, *table.columns.children[i], info.table);
			info.columns.AddColumn(std::move(column));
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
	result->version = std::move(version);
	result->can_insert = table.supports_insert;
	for (idx_t i = 0; i < names.size(); i++) {
		result->told.push_back({names[i], types[i]});
	}
	if (table.row_id >= 0) {
		result->row_id = idx_t(table.row_id);
	}
	if (table.statistics.count > 0) {
		result->estimates = make_uniq<NamedEstimates>(ReadEstimates(table.statistics));
	}
	// Those that are asked for are the present's.
	result->has_estimates = result->estimates || (table.supports_column_statistics && result->version.unit.empty());
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

VgiTableEntry::Version VgiTableEntry::VersionOf(optional_ptr<BoundAtClause> at) {
	return at ? Version {StringUtil::Upper(at->Unit()), at->GetValue().ToString()} : Version();
}

static const char *OrNull(const string &text) {
	return text.empty() ? nullptr : text.c_str();
}

unique_ptr<VgiTableEntry> VgiTableEntry::Ask(ClientContext &context, VgiSchemaEntry &schema, const string &name,
                                             const Version &version) {
	auto call = VgiTransaction::Get(context, schema.catalog).Call(context);
	od_vgi_table_ref ref = {schema.name.c_str(), name.c_str(), OrNull(version.unit), OrNull(version.value)};
	auto answer = make_uniq<Answer<od_vgi_tables>>();
	auto &found = answer->data;
	od_error err = {};
	ThrowIfFailed(od_vgi_get_table(schema.Owner().Remote()->Handle(), &call, &ref, &found, &err), err);
	if (found.count == 0) {
		return nullptr;
	}
	auto result = Make(context, schema, found.items[0], version);
	if (found.items[0].has_scan_function) {
		result->function_branch.kind = OD_VGI_BRANCH_FUNCTION;
		result->function_branch.call = found.items[0].scan_function;
		result->function_answer = std::move(answer);
	}
	return result;
}

idx_t VgiTableEntry::ToldIndex(column_t id) const {
	if (!row_id.IsValid()) {
		return id;
	}
	if (id == COLUMN_IDENTIFIER_ROW_ID) {
		return row_id.GetIndex();
	}
	return id < row_id.GetIndex() ? id : id + 1;
}

void VgiTableEntry::AskBranches(ClientContext &context, const Version &at, Answer<od_vgi_branches> &out) {
	auto call = VgiTransaction::Get(context, catalog).Call(context);
	od_vgi_table_ref ref = {schema.name.c_str(), name.c_str(), OrNull(at.unit), OrNull(at.value)};
	od_error err = {};
	ThrowIfFailed(od_vgi_get_branches(Schema().Owner().Remote()->Handle(), &call, &ref, &out.data, &err), err);
	vector<od_branch> outline;
	for (idx_t i = 0; i < out->count; i++) {
		outline.push_back(Outline(out->items[i]));
	}
	auto shown = schema.name + "." + name;
	ThrowIfFailed(od_branches_check(outline.data(), outline.size(), shown.c_str(), &err), err);
}

void VgiTableEntry::GetBranches(ClientContext &context, Answer<od_vgi_branches> &out) {
	if (function_answer) {
		out->count = 1;
		out->items = &function_branch;
		return;
	}
	AskBranches(context, version, out);
}

TableFunction VgiTableEntry::MakeScan(ClientContext &context, unique_ptr<FunctionData> &bind_data) {
	auto branches = make_shared_ptr<Answer<od_vgi_branches>>();
	GetBranches(context, *branches);
	auto count = (*branches)->count;
	auto shown = schema.name + "." + name;
	Value enabled;
	if (count > 1 && context.TryGetCurrentSetting(MULTI_BRANCH_SETTING, enabled) && !BooleanValue::Get(enabled)) {
		throw BinderException("Multi-branch VGI table scan disabled via %s=false. Set it to true to read this table "
		                      "[table: %s, branches: %d]",
		                      MULTI_BRANCH_SETTING, shown, count);
	}
	if (count > 1) {
		openduck::LogEvent(DatabaseInstance::GetDatabase(context), &context, "vgi.multi_scan.marker_returned",
		                   {{"schema", schema.name}, {"table", name}, {"branches", to_string(count)}});
	}
	bind_data = make_uniq<VgiBranchesBindData>(*this, std::move(branches));
	return openduck::BranchesFunction("vgi_branches", *this);
}

void VgiTableEntry::RefuseVersionOfBranches(ClientContext &context) {
	Answer<od_vgi_branches> present;
	AskBranches(context, Version(), present);
	if (present->count > 1) {
		throw BinderException(
		    "AT (...) clauses are not supported on multi-branch VGI tables. A version of one branch is "
		    "none of the others [table: %s.%s, branches: %d]",
		    schema.name, name, present->count);
	}
}

TableFunction VgiTableEntry::GetScanFunction(ClientContext &context, unique_ptr<FunctionData> &bind_data) {
	return MakeScan(context, bind_data);
}

TableFunction VgiTableEntry::GetScanFunction(ClientContext &context, unique_ptr<FunctionData> &bind_data,
                                             const EntryLookupInfo &) {
	// The entry that was looked up is the version's.
	return MakeScan(context, bind_data);
}

NamedEstimates VgiTableEntry::Estimates(ClientContext &context) {
	auto call = VgiTransaction::Get(context, catalog).Call(context);
	lock_guard<mutex> guard(estimates_lock);
	if (!estimates) {
		Answer<od_vgi_statistics> answer;
		od_error err = {};
		auto code = od_vgi_get_table_statistics(Schema().Owner().Remote()->Handle(), &call, schema.name.c_str(),
		                                        name.c_str(), &answer.data, &err);
		if (code != OD_E_UNKNOWN) { // its own code failed: it could only have helped
			ThrowIfFailed(code, err);
		}
		estimates = make_uniq<NamedEstimates>(ReadEstimates(answer.data));
	}
	return *estimates;
}

unique_ptr<BaseStatistics> VgiTableEntry::GetStatistics(ClientContext &context, column_t column_id) {
	return nullptr; // the scan that the optimizer puts in its place has them
}

TableStorageInfo VgiTableEntry::GetStorageInfo(ClientContext &context) {
	TableStorageInfo result;
	result.cardinality = estimated_rows;
	return result;
}

virtual_column_map_t VgiTableEntry::GetVirtualColumns() const {
	virtual_column_map_t result;
	if (row_id.IsValid()) {
		result.insert(make_pair(COLUMN_IDENTIFIER_ROW_ID, TableColumn("rowid", told[row_id.GetIndex()].type)));
	}
	return result;
}

vector<column_t> VgiTableEntry::GetRowIdColumns() const {
	vector<column_t> result;
	if (row_id.IsValid()) {
		result.push_back(COLUMN_IDENTIFIER_ROW_ID);
	}
	return result;
}

} // namespace vgi

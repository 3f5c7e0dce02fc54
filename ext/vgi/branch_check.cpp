//===----------------------------------------------------------------------===//
// vgi/branch_check.cpp: vgi_check_branches(table)
//===----------------------------------------------------------------------===//
#include "vgi/branches.hpp"

#include "duckdb/catalog/catalog.hpp"
#include "duckdb/main/extension/extension_loader.hpp"
#include "duckdb/parser/parsed_data/create_view_info.hpp"
#include "duckdb/parser/keyword_helper.hpp"
#include "duckdb/parser/qualified_name.hpp"
#include "duckdb/parser/statement/select_statement.hpp"
#include "duckdb/parser/tableref/subqueryref.hpp"

namespace vgi {

static string Quote(const string &name) {
	return KeywordHelper::WriteQuoted(name, '"');
}

//! The values as SQL writes them between the parentheses of a call.
static string WriteCall(const vector<NamedValue> &values) {
	map<idx_t, string> places;
	vector<string> parts, named;
	for (auto &value : values) {
		auto place = openduck::ArgumentPosition(value.name);
		if (place.IsValid()) {
			places[place.GetIndex()] = value.value.ToSQLString();
		} else {
			named.push_back(Quote(value.name) + " := " + value.value.ToSQLString());
		}
	}
	for (auto &place : places) {
		parts.push_back(place.second);
	}
	parts.insert(parts.end(), named.begin(), named.end());
	return "(" + StringUtil::Join(parts, ", ") + ")";
}

//! What BRANCH reads, before its filter, as SQL.
static string WriteSource(ClientContext &context, VgiTableEntry &table, const od_vgi_branch &branch) {
	if (branch.kind == OD_VGI_BRANCH_TABLE) {
		auto schema = Text(branch.source_schema);
		return Quote(Text(branch.source_catalog)) + "." + (schema.empty() ? "" : Quote(schema) + ".") +
		       Quote(Text(branch.source_table));
	}
	if (branch.kind == OD_VGI_BRANCH_FORMAT) {
		throw NotImplementedException("vgi_check_branches: branches of files are not checked [table: %s.%s]",
		                              table.schema.name, table.name);
	}
	auto call = WriteCall(ReadValues(context, branch.call.arguments));
	auto name = Text(branch.call.function);
	vector<string> schemas;
	if (branch.call.schema_path.count > 0) {
		schemas.push_back(Text(branch.call.schema_path.items[branch.call.schema_path.count - 1]));
	}
	schemas.push_back(table.schema.name);
	schemas.push_back(table.ParentCatalog().GetDefaultSchema());
	for (auto &schema : schemas) {
		EntryLookupInfo lookup(CatalogType::TABLE_FUNCTION_ENTRY, name);
		if (table.ParentCatalog().GetEntry(context, schema, lookup, OnEntryNotFound::RETURN_NULL)) {
			return Quote(table.ParentCatalog().GetName()) + "." + Quote(schema) + "." + Quote(name) + call;
		}
	}
	return Quote(name) + call;
}

static VgiTableEntry &FindTable(ClientContext &context, const string &name) {
	auto parsed = QualifiedName::Parse(name);
	auto catalog = parsed.catalog;
	auto schema = parsed.schema;
	Binder::BindSchemaOrCatalog(context, catalog, schema);
	EntryLookupInfo lookup(CatalogType::TABLE_ENTRY, parsed.name);
	auto entry = Catalog::GetEntry(context, catalog, schema, lookup, OnEntryNotFound::THROW_EXCEPTION);
	if (!VgiCatalog::Is(entry->ParentCatalog()) || entry->type != CatalogType::TABLE_ENTRY) {
		throw BinderException("vgi_check_branches: %s is no table of a VGI catalog", name);
	}
	return entry->Cast<VgiTableEntry>();
}

static unique_ptr<TableRef> CheckBranches(ClientContext &context, TableFunctionBindInput &input) {
	auto &table = FindTable(context, StringValue::Get(input.inputs[0]));
	const openduck::BranchedName shown {"VGI", table.schema.name, table.name};
	Answer<od_vgi_branches> branches;
	table.GetBranches(context, branches);
	vector<string> claims, arms;
	for (idx_t i = 0; i < branches->count; i++) {
		auto &filter = branches->items[i].filter;
		auto claim = filter.data ? openduck::ParseBranchFilter(context, Text(filter), shown)->ToString() : "true";
		claims.push_back("coalesce((" + claim + ")::BOOLEAN, false)::INTEGER");
	}
	for (idx_t i = 0; i < branches->count; i++) {
		arms.push_back(
		    "SELECT " + to_string(i) +
		    "::BIGINT AS branch_index, count(*) AS row_count, "
		    "count(*) FILTER (claims = 0) AS claimed_by_none, count(*) FILTER (claims > 1) AS claimed_by_several "
		    "FROM (SELECT " +
		    StringUtil::Join(claims, " + ") + " AS claims FROM " + WriteSource(context, table, branches->items[i]) +
		    ")");
	}
	auto select = CreateViewInfo::ParseSelect(StringUtil::Join(arms, " UNION ALL "));
	return make_uniq<SubqueryRef>(std::move(select), "vgi_check_branches");
}

void RegisterBranchCheck(ExtensionLoader &loader) {
	TableFunction function("vgi_check_branches", {LogicalType::VARCHAR}, nullptr, nullptr);
	function.bind_replace = CheckBranches;
	loader.RegisterFunction(function);
}

} // namespace vgi

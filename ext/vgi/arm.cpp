#include "vgi/branches.hpp"

#include "vgi/scan.hpp"
#include "vgi/transaction.hpp"

#include "duckdb/main/attached_database.hpp"
#include "duckdb/main/database_manager.hpp"
#include "duckdb/parser/expression/columnref_expression.hpp"
#include "duckdb/parser/expression/comparison_expression.hpp"
#include "duckdb/parser/expression/constant_expression.hpp"
#include "duckdb/parser/expression/function_expression.hpp"
#include "duckdb/parser/tableref/basetableref.hpp"
#include "duckdb/parser/tableref/table_function_ref.hpp"

namespace vgi {

static constexpr const char *ARM_ALIAS = "vgi_branch";

static BoundArm FromStatement(BoundStatement statement) {
	return {std::move(statement.plan), std::move(statement.names), std::move(statement.types), false};
}

//! A table of an attached catalog, bound as a statement binds it: a lake's with what it is looked up by.
static BoundArm BindTableArm(ClientContext &context, Binder &binder, VgiTableEntry &table,
                             const od_vgi_branch &branch) {
	auto catalog = Text(branch.source_catalog);
	auto name = Text(branch.source_table);
	auto database = DatabaseManager::Get(context).GetDatabase(context, catalog);
	if (!database) {
		throw BinderException(
		    "VGI table \"%s\".\"%s\" references companion catalog '%s' (table '%s') which is not attached",
		    table.schema.name, table.name, catalog, name);
	}
	if (VgiCatalog::Is(database->GetCatalog())) {
		// Two tables may name each other.
		throw BinderException("VGI table \"%s\".\"%s\" references table '%s' of '%s', which is a VGI catalog itself",
		                      table.schema.name, table.name, name, catalog);
	}
	BaseTableRef ref;
	ref.catalog_name = catalog;
	ref.schema_name = Text(branch.source_schema);
	if (ref.schema_name.empty()) {
		ref.schema_name = database->GetCatalog().GetDefaultSchema();
	}
	ref.table_name = name;
	ref.alias = ARM_ALIAS;
	return FromStatement(binder.Bind(static_cast<TableRef &>(ref)));
}

optional_idx ArgumentPosition(const string &name) {
	for (auto prefix : {"arg_", "positional_"}) {
		auto length = strlen(prefix);
		if (!StringUtil::StartsWith(name, prefix) || name.size() == length || name.size() > length + 4) {
			continue;
		}
		auto digits = name.substr(length);
		if (std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; })) {
			return optional_idx(idx_t(std::stoul(digits)));
		}
	}
	return optional_idx();
}

static unique_ptr<ParsedExpression> Named(const string &name, const Value &value) {
	// name = value is how DuckDB's parser writes a named argument.
	return make_uniq<ComparisonExpression>(ExpressionType::COMPARE_EQUAL, make_uniq<ColumnRefExpression>(name),
	                                       make_uniq<ConstantExpression>(value));
}

//! The values as they stand between the parentheses of a call.
static void AddArguments(const vector<NamedValue> &values, const string &function,
                         vector<unique_ptr<ParsedExpression>> &out) {
	map<idx_t, Value> positional;
	for (auto &value : values) {
		auto position = ArgumentPosition(value.name);
		if (position.IsValid()) {
			positional[position.GetIndex()] = value.value;
		}
	}
	idx_t next = 0;
	for (auto &entry : positional) {
		if (entry.first != next++) {
			throw BinderException("VGI branch calls '%s' without its argument %d", function, next - 1);
		}
		out.push_back(make_uniq<ConstantExpression>(entry.second));
	}
	for (auto &value : values) {
		if (!ArgumentPosition(value.name).IsValid()) {
			out.push_back(Named(value.name, value.value));
		}
	}
}

//! A function of DuckDB's own, or of an extension.
static BoundArm BindLocalFunction(ClientContext &context, Binder &binder, const string &name,
                                  vector<unique_ptr<ParsedExpression>> arguments) {
	EntryLookupInfo lookup(CatalogType::TABLE_FUNCTION_ENTRY, name);
	auto &system = Catalog::GetSystemCatalog(context);
	if (!Catalog::GetEntry(context, INVALID_CATALOG, INVALID_SCHEMA, lookup, OnEntryNotFound::RETURN_NULL)) {
		throw BinderException(
		    "VGI branch references unknown function '%s'. Check that any required extensions are loaded.", name);
	}
	TableFunctionRef ref;
	ref.function = make_uniq<FunctionExpression>(system.GetName(), DEFAULT_SCHEMA, name, std::move(arguments));
	ref.alias = ARM_ALIAS;
	return FromStatement(binder.Bind(static_cast<TableRef &>(ref)));
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
		binder.bind_context.AddTableFunction(get->table_index, ARM_ALIAS, result.names, result.types,
		                                     get->GetMutableColumnIds(), nullptr, get->virtual_columns);
		result.plan = std::move(get);
		result.is_worker = true;
		return result;
	}
	return BoundArm();
}

//! Files, read by the function that DuckDB has for their format.
static BoundArm BindFormatArm(ClientContext &context, Binder &binder, const od_vgi_branch &branch) {
	static const unordered_map<string, string> READERS = {{"parquet", "read_parquet"},
	                                                      {"csv", "read_csv_auto"},
	                                                      {"json", "read_json_auto"},
	                                                      {"iceberg", "iceberg_scan"},
	                                                      {"delta", "delta_scan"}};
	auto format = StringUtil::Lower(Text(branch.format_name));
	auto reader = READERS.find(format);
	if (reader == READERS.end()) {
		throw BinderException("VGI branch is of the format '%s', which is not read here", format);
	}
	vector<Value> files;
	for (auto &location : Texts(branch.format_locations)) {
		files.emplace_back(location);
	}
	vector<unique_ptr<ParsedExpression>> arguments;
	bool lists = format == "parquet" || format == "csv" || format == "json";
	if (!lists && files.size() != 1) {
		throw BinderException("VGI branch of the format '%s' names %d places, not one", format, files.size());
	}
	arguments.push_back(
	    make_uniq<ConstantExpression>(lists ? Value::LIST(LogicalType::VARCHAR, std::move(files)) : files[0]));
	for (auto &option : ReadValues(context, branch.format_options)) {
		arguments.push_back(Named(option.name, option.value));
	}
	return BindLocalFunction(context, binder, reader->second, std::move(arguments));
}

BoundArm BindArm(ClientContext &context, Binder &binder, VgiTableEntry &table, const od_vgi_branch &branch) {
	switch (branch.kind) {
	case OD_VGI_BRANCH_TABLE:
		return BindTableArm(context, binder, table, branch);
	case OD_VGI_BRANCH_FORMAT:
		return BindFormatArm(context, binder, branch);
	default:
		break;
	}
	auto result = BindWorkerFunction(context, binder, table, branch.call, optional_idx());
	if (result.plan) {
		return result;
	}
	auto name = Text(branch.call.function);
	vector<unique_ptr<ParsedExpression>> arguments;
	AddArguments(ReadValues(context, branch.call.arguments), name, arguments);
	return BindLocalFunction(context, binder, name, std::move(arguments));
}

} // namespace vgi

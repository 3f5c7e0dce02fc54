#include "common/branches.hpp"

#include "duckdb/main/attached_database.hpp"
#include "duckdb/main/database_manager.hpp"
#include "duckdb/parser/expression/columnref_expression.hpp"
#include "duckdb/parser/expression/comparison_expression.hpp"
#include "duckdb/parser/expression/constant_expression.hpp"
#include "duckdb/parser/expression/function_expression.hpp"
#include "duckdb/parser/tableref/basetableref.hpp"
#include "duckdb/parser/tableref/table_function_ref.hpp"

namespace openduck {

const char *const ARM_ALIAS = "vgi_branch";

static BoundArm FromStatement(BoundStatement statement) {
	return {std::move(statement.plan), std::move(statement.names), std::move(statement.types), false};
}

BoundArm BindNamedArm(Binder &binder, const string &catalog, const string &schema, const string &name) {
	BaseTableRef ref;
	ref.catalog_name = catalog;
	ref.schema_name = schema;
	ref.table_name = name;
	ref.alias = ARM_ALIAS;
	return FromStatement(binder.Bind(static_cast<TableRef &>(ref)));
}

//! Whether PLAN reads a table of branches, of either extension: whose optimizer comes next is not known.
static bool ReadsBranches(const LogicalOperator &plan) {
	if (plan.type == LogicalOperatorType::LOGICAL_GET) {
		auto &name = plan.Cast<LogicalGet>().function.name;
		if (name == "vgi_branches" || name == "openduck_branches") {
			return true;
		}
	}
	for (auto &child : plan.children) {
		if (ReadsBranches(*child)) {
			return true;
		}
	}
	return false;
}

BoundArm BindTableArm(ClientContext &context, Binder &binder, const BranchedName &table, const string &catalog,
                      const string &schema, const string &name, const vector<string> &refused) {
	auto database = DatabaseManager::Get(context).GetDatabase(context, catalog);
	if (!database) {
		throw BinderException("%s references companion catalog '%s' (table '%s') which is not attached", table.Quoted(),
		                      catalog, name);
	}
	auto type = database->GetCatalog().GetCatalogType();
	if (std::find(refused.begin(), refused.end(), type) != refused.end()) {
		// Two tables may name each other.
		throw BinderException("%s references table '%s' of '%s', which is a%s catalog itself", table.Quoted(), name,
		                      catalog, type == "vgi" ? " VGI" : "n OpenDuck");
	}
	auto result =
	    BindNamedArm(binder, catalog, schema.empty() ? database->GetCatalog().GetDefaultSchema() : schema, name);
	if (ReadsBranches(*result.plan)) {
		throw BinderException("%s references table '%s' of '%s', which is read from branches itself", table.Quoted(),
		                      name, catalog);
	}
	return result;
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
static void AddArguments(const BranchedName &table, const vector<pair<string, Value>> &values, const string &function,
                         vector<unique_ptr<ParsedExpression>> &out) {
	map<idx_t, Value> positional;
	for (auto &value : values) {
		auto position = ArgumentPosition(value.first);
		if (position.IsValid()) {
			positional[position.GetIndex()] = value.second;
		}
	}
	idx_t next = 0;
	for (auto &entry : positional) {
		if (entry.first != next++) {
			throw BinderException("%s branch calls '%s' without its argument %d", table.family, function, next - 1);
		}
		out.push_back(make_uniq<ConstantExpression>(entry.second));
	}
	for (auto &value : values) {
		if (!ArgumentPosition(value.first).IsValid()) {
			out.push_back(Named(value.first, value.second));
		}
	}
}

//! A function of DuckDB's own, or of an extension.
static BoundArm BindLocalFunction(ClientContext &context, Binder &binder, const BranchedName &table, const string &name,
                                  vector<unique_ptr<ParsedExpression>> arguments) {
	EntryLookupInfo lookup(CatalogType::TABLE_FUNCTION_ENTRY, name);
	auto &system = Catalog::GetSystemCatalog(context);
	if (!Catalog::GetEntry(context, INVALID_CATALOG, INVALID_SCHEMA, lookup, OnEntryNotFound::RETURN_NULL)) {
		throw BinderException(
		    "%s branch references unknown function '%s'. Check that any required extensions are loaded.", table.family,
		    name);
	}
	TableFunctionRef ref;
	ref.function = make_uniq<FunctionExpression>(system.GetName(), DEFAULT_SCHEMA, name, std::move(arguments));
	ref.alias = ARM_ALIAS;
	return FromStatement(binder.Bind(static_cast<TableRef &>(ref)));
}

BoundArm BindFunctionArm(ClientContext &context, Binder &binder, const BranchedName &table, const string &name,
                         const vector<pair<string, Value>> &values) {
	vector<unique_ptr<ParsedExpression>> arguments;
	AddArguments(table, values, name, arguments);
	return BindLocalFunction(context, binder, table, name, std::move(arguments));
}

BoundArm BindFormatArm(ClientContext &context, Binder &binder, const BranchedName &table, const string &format_name,
                       const vector<string> &locations, const vector<pair<string, Value>> &options) {
	static const unordered_map<string, string> READERS = {{"parquet", "read_parquet"},
	                                                      {"csv", "read_csv_auto"},
	                                                      {"json", "read_json_auto"},
	                                                      {"iceberg", "iceberg_scan"},
	                                                      {"delta", "delta_scan"}};
	auto format = StringUtil::Lower(format_name);
	auto reader = READERS.find(format);
	if (reader == READERS.end()) {
		throw BinderException("%s branch is of the format '%s', which is not read here", table.family, format);
	}
	vector<Value> files;
	for (auto &location : locations) {
		files.emplace_back(location);
	}
	vector<unique_ptr<ParsedExpression>> arguments;
	bool lists = format == "parquet" || format == "csv" || format == "json";
	if (!lists && files.size() != 1) {
		throw BinderException("%s branch of the format '%s' names %d places, not one", table.family, format,
		                      files.size());
	}
	arguments.push_back(
	    make_uniq<ConstantExpression>(lists ? Value::LIST(LogicalType::VARCHAR, std::move(files)) : files[0]));
	for (auto &option : options) {
		arguments.push_back(Named(option.first, option.second));
	}
	try {
		return BindLocalFunction(context, binder, table, reader->second, std::move(arguments));
	} catch (std::exception &ex) {
		// What a reader says of its files need not tell whose they are.
		ErrorData(ex).Throw(
		    StringUtil::Format("a branch of %s, of the format '%s', cannot be read: ", table.Quoted(), format));
	}
}

} // namespace openduck

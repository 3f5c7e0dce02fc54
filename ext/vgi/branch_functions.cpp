//===----------------------------------------------------------------------===//
// vgi/branch_functions.cpp: vgi_table_branches()
//===----------------------------------------------------------------------===//
#include "common/event.hpp"
#include "common/row_list.hpp"
#include "vgi/branches.hpp"
#include "vgi/transaction.hpp"

#include "duckdb/main/attached_database.hpp"
#include "duckdb/main/database_manager.hpp"
#include "duckdb/main/extension/extension_loader.hpp"

namespace vgi {

namespace {

string Quoted(const string &text) {
	string result = "\"";
	for (auto c : text) {
		if (c == '"' || c == '\\') {
			result += '\\';
		}
		if (uint8_t(c) < 0x20) {
			result += StringUtil::Format("\\u%04x", int(c));
		} else {
			result += c;
		}
	}
	return result + "\"";
}

string Json(const Value &value) {
	if (value.IsNull()) {
		return "null";
	}
	if (value.type().IsNumeric() || value.type().id() == LogicalTypeId::BOOLEAN) {
		return value.ToString();
	}
	return Quoted(value.ToString());
}

//! The arguments as a JSON array of the positional ones, and a JSON object of the others.
void WriteArguments(ClientContext &context, const od_vgi_branch &branch, Value &positional, Value &named) {
	map<idx_t, string> places;
	vector<string> pairs;
	for (auto &value : ReadValues(context, branch.call.arguments)) {
		auto place = openduck::ArgumentPosition(value.name);
		if (place.IsValid()) {
			places[place.GetIndex()] = Json(value.value);
		} else {
			pairs.push_back(Quoted(value.name) + ":" + Json(value.value));
		}
	}
	vector<string> items;
	for (auto &place : places) {
		items.push_back(place.second);
	}
	positional = Value("[" + StringUtil::Join(items, ",") + "]");
	named = Value("{" + StringUtil::Join(pairs, ",") + "}");
}

void AddTable(ClientContext &context, VgiTableEntry &table, vector<vector<Value>> &rows) {
	Answer<od_vgi_branches> branches;
	table.GetBranches(context, branches);
	vector<Value> extensions;
	for (auto &extension : Texts(branches->required_extensions)) {
		extensions.emplace_back(extension);
	}
	for (idx_t i = 0; i < branches->count; i++) {
		auto &branch = branches->items[i];
		Value positional, named;
		WriteArguments(context, branch, positional, named);
		rows.push_back({Value(table.ParentCatalog().GetName()), Value(table.schema.name), Value(table.name),
		                Value::BIGINT(int64_t(i)), Value(Text(branch.call.function)), positional, named,
		                branch.filter.data ? Value(Text(branch.filter)) : Value(LogicalType::VARCHAR),
		                Value::LIST(LogicalType::VARCHAR, extensions), Value::BOOLEAN(branch.writable)});
	}
}

void AddCatalog(ClientContext &context, VgiCatalog &catalog, vector<vector<Value>> &rows) {
	catalog.ScanSchemas(context, [&](SchemaCatalogEntry &schema) {
		schema.Scan(context, CatalogType::TABLE_ENTRY, [&](CatalogEntry &entry) {
			if (entry.type != CatalogType::TABLE_ENTRY) {
				return;
			}
			try {
				AddTable(context, entry.Cast<VgiTableEntry>(), rows);
			} catch (InterruptException &) {
				throw;
			} catch (std::exception &ex) {
				openduck::LogEvent(DatabaseInstance::GetDatabase(context), &context,
				                   "vgi.table_branches.skip_failed_table",
				                   {{"catalog", catalog.GetName()},
				                    {"schema", schema.name},
				                    {"table", entry.name},
				                    {"error", ErrorData(ex).RawMessage()}});
			}
		});
	});
}

vector<vector<Value>> ListBranches(ClientContext &context) {
	vector<vector<Value>> result;
	for (auto &database : DatabaseManager::Get(context).GetDatabases(context)) {
		auto &catalog = database->GetCatalog();
		if (VgiCatalog::Is(catalog)) {
			AddCatalog(context, catalog.Cast<VgiCatalog>(), result);
		}
	}
	return result;
}

} // namespace

void RegisterBranchFunctions(ExtensionLoader &loader) {
	loader.RegisterFunction(openduck::RowListFunction(
	    "vgi_table_branches",
	    {"catalog_name", "schema_name", "table_name", "branch_index", "function_name", "positional_arguments",
	     "named_arguments", "branch_filter", "table_required_extensions", "writable"},
	    {LogicalType::VARCHAR, LogicalType::VARCHAR, LogicalType::VARCHAR, LogicalType::BIGINT, LogicalType::VARCHAR,
	     LogicalType::JSON(), LogicalType::JSON(), LogicalType::VARCHAR, LogicalType::LIST(LogicalType::VARCHAR),
	     LogicalType::BOOLEAN},
	    ListBranches));
}

} // namespace vgi

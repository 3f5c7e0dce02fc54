#include "server/confine.hpp"

#include "duckdb/catalog/catalog.hpp"
#include "duckdb/catalog/catalog_entry/schema_catalog_entry.hpp"
#include "duckdb/catalog/catalog_entry/table_function_catalog_entry.hpp"
#include "duckdb/main/client_context_state.hpp"
#include "duckdb/storage/storage_extension.hpp"

#include <mutex>
#include <unordered_map>

namespace openduck {
namespace {

using namespace duckdb; // NOLINT: this file is about its classes

const char *const PREFIXES[] = {"sqlite_", "postgres_", "mysql_"};
const char *const STORAGES[] = {"ducklake",         "sqlite", "sqlite_scanner", "postgres",
                                "postgres_scanner", "mysql",  "mysql_scanner"};
const char *const MARK = "openduck_confined";

struct Mark : ClientContextState {};

[[noreturn]] void Refuse(const string &what) {
	throw PermissionException("%s reaches beyond the databases that are served here: that is disabled by configuration",
	                          what);
}

//! What the functions of DuckDB's extensions do when they are bound, by name. They are the same in every instance.
struct Originals {
	std::mutex lock;
	std::unordered_map<string, table_function_bind_t> bind;
	std::unordered_map<string, table_function_bind_replace_t> replace;
};

Originals &GetOriginals() {
	static Originals originals;
	return originals;
}

void RequireFree(ClientContext &context, const TableFunctionBindInput &input) {
	if (context.registered_state->Get<Mark>(MARK)) {
		Refuse("\"" + input.table_function.name + "\"");
	}
}

unique_ptr<FunctionData> Bind(ClientContext &context, TableFunctionBindInput &input, vector<LogicalType> &types,
                              vector<string> &names) {
	RequireFree(context, input);
	auto &originals = GetOriginals();
	std::unique_lock<std::mutex> guard(originals.lock);
	auto bind = originals.bind.at(input.table_function.name);
	guard.unlock();
	return bind(context, input, types, names);
}

unique_ptr<TableRef> BindReplace(ClientContext &context, TableFunctionBindInput &input) {
	RequireFree(context, input);
	auto &originals = GetOriginals();
	std::unique_lock<std::mutex> guard(originals.lock);
	auto replace = originals.replace.at(input.table_function.name);
	guard.unlock();
	return replace(context, input);
}

void Wrap(TableFunction &function) {
	auto &originals = GetOriginals();
	std::lock_guard<std::mutex> guard(originals.lock);
	if (function.bind && function.bind != Bind) {
		originals.bind[function.name] = function.bind;
		function.bind = Bind;
	}
	if (function.bind_replace && function.bind_replace != BindReplace) {
		originals.replace[function.name] = function.bind_replace;
		function.bind_replace = BindReplace;
	}
}

//! DuckLake's own functions reach files as DuckDB lets them.
bool IsTheirs(const string &name) {
	for (auto &prefix : PREFIXES) {
		if (StringUtil::StartsWith(name, prefix)) {
			return true;
		}
	}
	return false;
}

unique_ptr<Catalog> Attach(optional_ptr<StorageExtensionInfo>, ClientContext &, AttachedDatabase &, const string &name,
                           AttachInfo &, AttachOptions &) {
	Refuse("the database \"" + name + "\"");
}

} // namespace

void Confine(ClientContext &context) {
	context.RunFunctionInTransaction([&]() {
		auto &schema = Catalog::GetSystemCatalog(context).GetSchema(context, DEFAULT_SCHEMA);
		schema.Scan(context, CatalogType::TABLE_FUNCTION_ENTRY, [&](CatalogEntry &entry) {
			if (!IsTheirs(entry.name)) {
				return;
			}
			for (auto &function : entry.Cast<TableFunctionCatalogEntry>().functions.functions) {
				Wrap(function);
			}
		});
	});
	for (auto &name : STORAGES) {
		auto storage = StorageExtension::Find(DBConfig::GetConfig(context), name);
		if (storage) {
			storage->attach = Attach;
		}
	}
}

void MarkConfined(ClientContext &context) {
	context.registered_state->GetOrCreate<Mark>(MARK);
}

} // namespace openduck

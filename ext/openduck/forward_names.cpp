#include "openduck/forward_names.hpp"

#include "openduck/branches.hpp"
#include "openduck/view.hpp"

#include "duckdb/catalog/catalog_entry/schema_catalog_entry.hpp"
#include "duckdb/catalog/catalog_search_path.hpp"
#include "duckdb/main/attached_database.hpp"
#include "duckdb/main/client_data.hpp"
#include "duckdb/main/database_manager.hpp"
#include "duckdb/planner/binder.hpp"

namespace openduck {

optional_ptr<OpenDuckCatalog> RemoteNames::Remote(const string &name) {
	auto database = DatabaseManager::Get(context).GetDatabase(context, name);
	if (!database || database->IsSystem() || database->IsTemporary() || !OpenDuckCatalog::Is(database->GetCatalog())) {
		return nullptr;
	}
	return database->GetCatalog().Cast<OpenDuckCatalog>();
}

RemoteNames::Place RemoteNames::Take(OpenDuckCatalog &found, string &catalog) {
	if (target && target.get() != &found) {
		return Place::LOCAL;
	}
	target = found;
	catalog = found.RemoteDatabase();
	return Place::REMOTE;
}

bool RemoteNames::IsTarget(const string &catalog) const {
	return target && StringUtil::CIEquals(catalog, target->GetName());
}

bool RemoteNames::HasColumn(const string &name) const {
	for (auto &entry : tables) {
		auto &table = entry.get().type == CatalogType::VIEW_ENTRY ? entry.get().Cast<OpenDuckViewEntry>().Rows()
		                                                          : entry.get().Cast<OpenDuckTableEntry>();
		if (table.ColumnExists(name)) {
			return true;
		}
	}
	return false;
}

RemoteNames::Place RemoteNames::ByDefault(string &catalog, string &schema) {
	auto &path = *ClientData::Get(context).catalog_search_path;
	if (catalog.empty()) {
		auto usual = DatabaseManager::GetDefaultDatabase(context);
		if (!Remote(usual) ||
		    (!schema.empty() && !Catalog::GetSchema(context, usual, schema, OnEntryNotFound::RETURN_NULL))) {
			return Place::UNKNOWN;
		}
		catalog = std::move(usual);
	}
	auto remote = Remote(catalog);
	if (!remote) {
		return DatabaseManager::Get(context).GetDatabase(context, catalog) ? Place::LOCAL : Place::UNKNOWN;
	}
	if (schema.empty()) {
		schema = path.GetDefaultSchema(context, catalog);
	}
	return Take(*remote, catalog);
}

void RemoteNames::LookFirstInTarget(const string &schema) {
	first_schema = schema;
}

optional_ptr<CatalogEntry> RemoteNames::FindFirst(const EntryLookupInfo &lookup, const string &schema) {
	if (!target || first_schema.empty()) {
		return nullptr;
	}
	return Catalog::GetEntry(context, target->GetName(), schema.empty() ? first_schema : schema, lookup,
	                         OnEntryNotFound::RETURN_NULL);
}

RemoteNames::Place RemoteNames::Resolve(CatalogType type, string &catalog, string &schema, const string &name) {
	EntryLookupInfo lookup(type, name);
	auto entry = catalog.empty() ? FindFirst(lookup, schema) : nullptr;
	if (!entry) {
		Binder::BindSchemaOrCatalog(context, catalog, schema);
		entry = Catalog::GetEntry(context, catalog, schema, lookup, OnEntryNotFound::RETURN_NULL);
	}
	if (!entry) {
		return ByDefault(catalog, schema);
	}
	auto &owner = entry->ParentCatalog();
	if (owner.IsSystemCatalog() || (entry->internal && !OpenDuckCatalog::Is(owner))) {
		return Place::BUILT_IN;
	}
	if (!OpenDuckCatalog::Is(owner)) {
		return Place::LOCAL;
	}
	if (HasBranches(*entry)) {
		return Place::LOCAL; // its server has only a part of it
	}
	schema = entry->ParentSchema().name;
	if (entry->type == CatalogType::TABLE_ENTRY || entry->type == CatalogType::VIEW_ENTRY) {
		tables.push_back(*entry);
	}
	return Take(owner.Cast<OpenDuckCatalog>(), catalog);
}

optional_ptr<OpenDuckTableEntry> RemoteNames::FindBranched(string catalog, string schema, const string &name) {
	auto laid = false;
	for (auto &database : DatabaseManager::Get(context).GetDatabases(context)) {
		auto remote = Remote(database->GetName());
		auto layout = remote ? remote->Layout() : nullptr;
		laid |= layout && layout->HasName(name);
	}
	if (!laid) {
		return nullptr; // no server is asked for a name that is only to be made
	}
	EntryLookupInfo lookup(CatalogType::TABLE_ENTRY, name);
	Binder::BindSchemaOrCatalog(context, catalog, schema);
	auto entry = Catalog::GetEntry(context, catalog, schema, lookup, OnEntryNotFound::RETURN_NULL);
	return entry && HasBranches(*entry) ? &entry->Cast<OpenDuckTableEntry>() : nullptr;
}

RemoteNames::Place RemoteNames::ResolveNew(string &catalog, string &schema) {
	Binder::BindSchemaOrCatalog(context, catalog, schema);
	auto &path = *ClientData::Get(context).catalog_search_path;
	if (catalog.empty() && schema.empty()) {
		catalog = path.GetDefault().catalog;
		schema = path.GetDefault().schema;
	} else if (catalog.empty()) {
		catalog = path.GetDefaultCatalog(schema);
	}
	return ByDefault(catalog, schema);
}

RemoteNames::Place RemoteNames::ResolveSchema(string &catalog) {
	string schema = DEFAULT_SCHEMA;
	return ByDefault(catalog, schema);
}

} // namespace openduck

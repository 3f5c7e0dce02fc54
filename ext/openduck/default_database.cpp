#include "openduck/default_database.hpp"

#include "openduck/catalog.hpp"

#include "duckdb/catalog/catalog_search_path.hpp"
#include "duckdb/main/attached_database.hpp"
#include "duckdb/main/client_data.hpp"
#include "duckdb/main/database_manager.hpp"

namespace openduck {

static constexpr const char *DEFAULT_DATABASE = "openduck_default_database";

static void CheckDefaultDatabase(ClientContext &context, SetScope scope, Value &parameter) {
	if (scope == SetScope::SESSION) {
		throw InvalidInputException("%s is of all connections; USE is for one", DEFAULT_DATABASE);
	}
	auto name = parameter.IsNull() ? string() : parameter.ToString();
	if (name.empty()) {
		return;
	}
	auto database = DatabaseManager::Get(context).GetDatabase(context, name);
	if (!database || !OpenDuckCatalog::Is(database->GetCatalog())) {
		throw BinderException("%s: no OpenDuck database is attached as \"%s\"", DEFAULT_DATABASE, name);
	}
}

void RegisterDefaultDatabase(ExtensionLoader &loader) {
	auto &config = DBConfig::GetConfig(loader.GetDatabaseInstance());
	config.AddExtensionOption(DEFAULT_DATABASE,
	                          "attached OpenDuck database that new connections begin in, as after USE",
	                          LogicalType::VARCHAR, Value(""), CheckDefaultDatabase, SetScope::GLOBAL);
}

void BeginInDefaultDatabase(ClientContext &context) {
	Value name;
	if (!context.TryGetCurrentSetting(DEFAULT_DATABASE, name) || name.IsNull() || name.ToString().empty()) {
		return;
	}
	CatalogSearchEntry entry(name.ToString(), DEFAULT_SCHEMA);
	ClientData::Get(context).catalog_search_path->Set(std::move(entry), CatalogSetPathType::SET_DIRECTLY);
}

} // namespace openduck

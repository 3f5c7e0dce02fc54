#include "storage/secret.hpp"

#include "duckdb/catalog/catalog_transaction.hpp"
#include "duckdb/common/exception/binder_exception.hpp"
#include "duckdb/common/string_util.hpp"
#include "duckdb/main/secret/secret_manager.hpp"

namespace openduck {

static constexpr const char *TYPE = "openduck_storage";
static constexpr const char *PROVIDER = "config";
static constexpr const char *DATA_DIR = "data_dir";

static unique_ptr<BaseSecret> CreateStorageSecret(ClientContext &context, CreateSecretInput &input) {
	auto scope = input.scope;
	if (scope.empty()) {
		scope.push_back(StorageLocation::SCHEME);
	}
	auto secret = make_uniq<KeyValueSecret>(scope, input.type, input.provider, input.name);
	secret->TrySetValue(DATA_DIR, input);
	return std::move(secret);
}

void RegisterStorageSecret(ExtensionLoader &loader) {
	SecretType type;
	type.name = TYPE;
	type.deserializer = KeyValueSecret::Deserialize<KeyValueSecret>;
	type.default_provider = PROVIDER;
	type.extension = "openduck";
	loader.RegisterSecretType(type);

	CreateSecretFunction function;
	function.secret_type = TYPE;
	function.provider = PROVIDER;
	function.function = CreateStorageSecret;
	function.named_parameters[DATA_DIR] = LogicalType::VARCHAR;
	loader.RegisterFunction(function);
}

static string DataDirOf(const BaseSecret &secret) {
	auto value = dynamic_cast<const KeyValueSecret &>(secret).TryGetValue(DATA_DIR);
	return value.IsNull() ? string() : value.ToString();
}

string DataDirOfSecret(const StorageLocation &location, optional_ptr<FileOpener> opener) {
	auto manager = FileOpener::TryGetSecretManager(opener);
	auto transaction = FileOpener::TryGetCatalogTransaction(opener);
	if (!manager || !transaction) {
		return string();
	}
	if (location.secret.empty()) {
		auto match = manager->LookupSecret(*transaction, location.Name(), TYPE);
		return match.HasMatch() ? DataDirOf(match.GetSecret()) : string();
	}
	auto entry = manager->GetSecretByName(*transaction, location.secret);
	if (!entry) {
		throw BinderException("secret \"%s\" does not exist", location.secret);
	}
	if (!StringUtil::CIEquals(entry->secret->GetType(), TYPE)) {
		throw BinderException("secret \"%s\" is of type \"%s\", not \"%s\"", location.secret, entry->secret->GetType(),
		                      TYPE);
	}
	return DataDirOf(*entry->secret);
}

} // namespace openduck

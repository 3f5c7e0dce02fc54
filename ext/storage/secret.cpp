#include "storage/secret.hpp"

#include "duckdb/catalog/catalog_transaction.hpp"
#include "duckdb/common/exception/binder_exception.hpp"
#include "duckdb/common/string_util.hpp"
#include "duckdb/main/secret/secret_manager.hpp"

namespace openduck {

static constexpr const char *TYPE = "openduck_storage";
static constexpr const char *PROVIDER = "config";
static constexpr const char *DATA_DIR = "data_dir";
static constexpr const char *POSTGRES_URL = "postgres_url";

static unique_ptr<BaseSecret> CreateStorageSecret(ClientContext &context, CreateSecretInput &input) {
	auto scope = input.scope;
	if (scope.empty()) {
		scope.push_back(StorageLocation::SCHEME);
	}
	auto secret = make_uniq<KeyValueSecret>(scope, input.type, input.provider, input.name);
	secret->TrySetValue(DATA_DIR, input);
	secret->TrySetValue(POSTGRES_URL, input);
	secret->redact_keys = {POSTGRES_URL};
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
	function.named_parameters[POSTGRES_URL] = LogicalType::VARCHAR;
	loader.RegisterFunction(function);
}

static StorageSecret ValuesOf(const BaseSecret &secret) {
	auto text = [&](const char *key) {
		auto value = dynamic_cast<const KeyValueSecret &>(secret).TryGetValue(key);
		return value.IsNull() ? string() : value.ToString();
	};
	return {text(DATA_DIR), text(POSTGRES_URL)};
}

StorageSecret FindStorageSecret(const StorageLocation &location, optional_ptr<FileOpener> opener) {
	auto manager = FileOpener::TryGetSecretManager(opener);
	auto transaction = FileOpener::TryGetCatalogTransaction(opener);
	if (!manager || !transaction) {
		return StorageSecret();
	}
	if (location.secret.empty()) {
		auto match = manager->LookupSecret(*transaction, location.Name(), TYPE);
		return match.HasMatch() ? ValuesOf(match.GetSecret()) : StorageSecret();
	}
	auto entry = manager->GetSecretByName(*transaction, location.secret);
	if (!entry) {
		throw BinderException("secret \"%s\" does not exist", location.secret);
	}
	if (!StringUtil::CIEquals(entry->secret->GetType(), TYPE)) {
		throw BinderException("secret \"%s\" is of type \"%s\", not \"%s\"", location.secret, entry->secret->GetType(),
		                      TYPE);
	}
	return ValuesOf(*entry->secret);
}

} // namespace openduck

#include "openduck/secret.hpp"

#include "duckdb/catalog/catalog_transaction.hpp"
#include "duckdb/common/string_util.hpp"
#include "duckdb/main/secret/secret_manager.hpp"

namespace openduck {

static constexpr const char *TYPE = "openduck";
static constexpr const char *PROVIDER = "config";
static constexpr const char *KEYS[] = {"endpoint", "token", "database", "tls_ca", "tls_cert", "tls_key"};

static unique_ptr<BaseSecret> CreateOpenDuckSecret(ClientContext &context, CreateSecretInput &input) {
	auto scope = input.scope;
	if (scope.empty()) {
		scope.push_back("openduck:");
	}
	auto secret = make_uniq<KeyValueSecret>(scope, input.type, input.provider, input.name);
	for (auto key : KEYS) {
		secret->TrySetValue(key, input);
	}
	// A path is no secret, but who mistakes the field puts the key itself there.
	secret->redact_keys = {"token", "tls_key"};
	return std::move(secret);
}

void RegisterSecret(ExtensionLoader &loader) {
	SecretType type;
	type.name = TYPE;
	type.deserializer = KeyValueSecret::Deserialize<KeyValueSecret>;
	type.default_provider = PROVIDER;
	type.extension = TYPE;
	loader.RegisterSecretType(type);

	CreateSecretFunction function;
	function.secret_type = TYPE;
	function.provider = PROVIDER;
	function.function = CreateOpenDuckSecret;
	for (auto key : KEYS) {
		function.named_parameters[key] = LogicalType::VARCHAR;
	}
	loader.RegisterFunction(function);
}

static unique_ptr<KeyValueSecret> CopyOf(const BaseSecret &secret) {
	return make_uniq<KeyValueSecret>(dynamic_cast<const KeyValueSecret &>(secret));
}

unique_ptr<KeyValueSecret> FindSecret(ClientContext &context, const string &name, const string &path) {
	auto &manager = SecretManager::Get(context);
	auto transaction = CatalogTransaction::GetSystemCatalogTransaction(context);
	if (name.empty()) {
		auto match = manager.LookupSecret(transaction, path, TYPE);
		return match.HasMatch() ? CopyOf(match.GetSecret()) : nullptr;
	}
	auto entry = manager.GetSecretByName(transaction, name);
	if (!entry) {
		throw BinderException("secret \"%s\" does not exist", name);
	}
	if (!StringUtil::CIEquals(entry->secret->GetType(), TYPE)) {
		throw BinderException("secret \"%s\" is of type \"%s\", not \"%s\"", name, entry->secret->GetType(), TYPE);
	}
	return CopyOf(*entry->secret);
}

} // namespace openduck

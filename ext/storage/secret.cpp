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
static constexpr const char *BLOB_URL = "blob_url";
static constexpr const char *TIER = "tier";
static constexpr const char *KEEP_BYTES = "keep_bytes";
// As in DuckDB's secrets of type s3.
static constexpr const char *KEY_ID = "key_id";
static constexpr const char *SECRET = "secret";
static constexpr const char *SESSION_TOKEN = "session_token";
static constexpr const char *REGION = "region";
static constexpr const char *ENDPOINT = "endpoint";
static constexpr const char *URL_STYLE = "url_style";
static constexpr const char *USE_SSL = "use_ssl";

static constexpr const char *TEXTS[] = {DATA_DIR, POSTGRES_URL, BLOB_URL,      KEY_ID,   SECRET,
                                        REGION,   ENDPOINT,     SESSION_TOKEN, URL_STYLE};

static unique_ptr<BaseSecret> CreateStorageSecret(ClientContext &context, CreateSecretInput &input) {
	auto scope = input.scope;
	if (scope.empty()) {
		scope.push_back(StorageLocation::SCHEME);
	}
	auto secret = make_uniq<KeyValueSecret>(scope, input.type, input.provider, input.name);
	for (auto key : TEXTS) {
		secret->TrySetValue(key, input);
	}
	for (auto key : {TIER, KEEP_BYTES, USE_SSL}) {
		secret->TrySetValue(key, input);
	}
	secret->redact_keys = {POSTGRES_URL, SECRET, SESSION_TOKEN};
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
	for (auto key : TEXTS) {
		function.named_parameters[key] = LogicalType::VARCHAR;
	}
	function.named_parameters[TIER] = LogicalType::BOOLEAN;
	function.named_parameters[KEEP_BYTES] = LogicalType::UBIGINT;
	function.named_parameters[USE_SSL] = LogicalType::BOOLEAN;
	loader.RegisterFunction(function);
}

static string Text(const KeyValueSecret &secret, const char *key) {
	auto value = secret.TryGetValue(key);
	return value.IsNull() ? string() : value.ToString();
}

static bool Flag(const KeyValueSecret &secret, const char *key, bool otherwise) {
	auto value = secret.TryGetValue(key);
	return value.IsNull() ? otherwise : value.DefaultCastAs(LogicalType::BOOLEAN).GetValue<bool>();
}

//! What a secret of type s3 says, too.
static void ReadS3(const KeyValueSecret &secret, FarPlace &place) {
	place.key_id = Text(secret, KEY_ID);
	place.secret = Text(secret, SECRET);
	place.session_token = Text(secret, SESSION_TOKEN);
	place.region = Text(secret, REGION);
	auto endpoint = Text(secret, ENDPOINT);
	// What stands there for Amazon is the library's default.
	if (!endpoint.empty() && endpoint != "s3.amazonaws.com") {
		auto has_scheme = endpoint.find("://") != string::npos;
		place.endpoint = (has_scheme ? "" : Flag(secret, USE_SSL, true) ? "https://" : "http://") + endpoint;
		place.virtual_host = StringUtil::CIEquals(Text(secret, URL_STYLE), "vhost");
	}
}

static StorageSecret ValuesOf(const BaseSecret &base) {
	auto &secret = dynamic_cast<const KeyValueSecret &>(base);
	StorageSecret result;
	result.data_dir = Text(secret, DATA_DIR);
	result.postgres_url = Text(secret, POSTGRES_URL);
	result.far.url = Text(secret, BLOB_URL);
	result.far.tier = Flag(secret, TIER, false);
	auto keep = secret.TryGetValue(KEEP_BYTES);
	result.far.keep_bytes = keep.IsNull() ? 0 : keep.DefaultCastAs(LogicalType::UBIGINT).GetValue<uint64_t>();
	ReadS3(secret, result.far);
	return result;
}

void AddS3Secret(FarPlace &place, optional_ptr<FileOpener> opener) {
	auto manager = FileOpener::TryGetSecretManager(opener);
	auto transaction = FileOpener::TryGetCatalogTransaction(opener);
	if (!manager || !transaction || !place.key_id.empty() || !StringUtil::StartsWith(place.url, "s3://")) {
		return;
	}
	auto match = manager->LookupSecret(*transaction, place.url, "s3");
	if (match.HasMatch()) {
		ReadS3(dynamic_cast<const KeyValueSecret &>(match.GetSecret()), place);
	}
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

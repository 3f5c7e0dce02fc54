#include "openduck/attach.hpp"

#include "openduck/secret.hpp"
#include "openduck/tls.hpp"
#include "openduck/transaction.hpp"

#include "duckdb/common/file_system.hpp"
#include "duckdb/common/string_util.hpp"
#include "duckdb/main/attached_database.hpp"
#include "duckdb/parser/parsed_data/attach_info.hpp"

extern "C" {
#include "base/alloc.h"
#include "base/secret.h"
#include "query/attach_uri.h"
#include "query/remote_snapshot.h"
}

namespace openduck {

namespace {

constexpr const char *DEFAULT_ENDPOINT = "http://127.0.0.1:7878";

//! A setting that may come from several places: the first that gives it wins, an empty text too.
struct Given {
	bool is_set = false;
	string text;

	void Offer(const string &value) {
		if (!is_set) {
			is_set = true;
			text = value;
		}
	}
};

struct AttachUri {
	od_attach_uri uri = {};

	~AttachUri() {
		od_attach_uri_release(&uri);
	}
};

//! What an ATTACH means, once all places are asked: its options, the path, the secret, the environment.
class AttachTarget {
public:
	AttachTarget(ClientContext &context, const string &path, AttachOptions &options) {
		ReadOptions(options);
		ReadPath(path);
		ReadSecret(context);
		ReadEnvironment();
		endpoint.Offer(DEFAULT_ENDPOINT);
		if (database.text.empty()) {
			throw BinderException("ATTACH names no database: write 'openduck:NAME', the name that the server gives it");
		}
	}

	//! The caller owns what is in the result.
	od_remote_options RemoteOptions(ClientContext &context) {
		od_remote_options result = {};
		od_error err = {};
		if (od_endpoint_parse(od_slice_of(endpoint.text.data(), endpoint.text.size()), &result.endpoint, &err) !=
		    OD_OK) {
			ThrowError(err);
		}
		if (tls_asked && !result.endpoint.tls) {
			throw BinderException("ATTACH: TLS_CA, TLS_CERT and TLS_KEY need an endpoint that begins with https://");
		}
		SetTls(result, {tls_ca.text, tls_cert.text, tls_key.text});
		result.connect_timeout_ms = ConnectTimeoutMs(context);
		result.execute_timeout_ms = ExecuteTimeoutMs(context);
		if (od_secret_set(&result.token, od_slice_of(token.text.data(), token.text.size()), &err) != OD_OK) {
			od_remote_options_release(&result);
			ThrowError(err);
		}
		result.database = od_strdup(database.text.c_str());
		if (!result.database) {
			od_remote_options_release(&result);
			throw OutOfMemoryException("no memory for a database name");
		}
		return result;
	}

	Given database;
	Given snapshot;
	CompanionRights companions;

private:
	static bool Boolean(const string &key, const Value &value) {
		Value result;
		string message;
		if (value.IsNull() || !value.DefaultTryCastAs(LogicalType::BOOLEAN, result, &message)) {
			throw BinderException("ATTACH: %s must be true or false", StringUtil::Upper(key));
		}
		return BooleanValue::Get(result);
	}

	//! Takes the options that are ours; a token does not stay in what duckdb_databases() shows.
	void ReadOptions(AttachOptions &options) {
		for (auto &option : options.options) {
			auto key = StringUtil::Lower(option.first);
			auto text = option.second.IsNull() ? string() : option.second.ToString();
			if (key == "endpoint") {
				endpoint.Offer(text);
			} else if (key == "token") {
				token.Offer(text);
				option.second = Value("redacted");
			} else if (key == "database") {
				database.Offer(text);
			} else if (key == "snapshot") {
				snapshot.Offer(text);
			} else if (key == "secret") {
				secret.Offer(text);
			} else if (key == "tls_ca" || key == "tls_cert" || key == "tls_key") {
				(key == "tls_ca" ? tls_ca : key == "tls_cert" ? tls_cert : tls_key).Offer(text);
				tls_asked = true;
			} else if (key == "attach_companions") {
				companions.attach = Boolean(key, option.second);
			} else if (key == "attach_companion_secrets") {
				companions.secrets = Boolean(key, option.second);
			} else if (key == "companions_read_only") {
				companions.read_only = Boolean(key, option.second);
			} else {
				throw BinderException(
				    "ATTACH: unknown option \"%s\" for an openduck database; ENDPOINT, TOKEN, SECRET, "
				    "DATABASE, SNAPSHOT, TLS_CA, TLS_CERT, TLS_KEY, ATTACH_COMPANIONS, ATTACH_COMPANION_SECRETS, "
				    "COMPANIONS_READ_ONLY and READ_ONLY are known",
				    option.first);
			}
		}
	}

	void ReadPath(const string &path) {
		auto text = path;
		for (auto prefix : {"openduck:", "od:"}) {
			// With TYPE openduck DuckDB leaves the prefix where it is.
			if (StringUtil::StartsWith(text, prefix)) {
				text = text.substr(strlen(prefix));
				break;
			}
		}
		AttachUri parsed;
		od_error err = {};
		if (od_attach_uri_parse(od_slice_of(text.data(), text.size()), &parsed.uri, &err) != OD_OK) {
			od_error_prefix(&err, "ATTACH");
			ThrowError(err);
		}
		if (parsed.uri.database[0] != '\0') {
			database.Offer(parsed.uri.database);
		}
		if (parsed.uri.endpoint) {
			endpoint.Offer(parsed.uri.endpoint);
		}
		if (parsed.uri.secret) {
			secret.Offer(parsed.uri.secret);
		}
		if (parsed.uri.snapshot) {
			snapshot.Offer(parsed.uri.snapshot);
		}
		if (parsed.uri.has_token) {
			token.Offer(string(parsed.uri.token.value ? parsed.uri.token.value : "", parsed.uri.token.len));
		}
	}

	void ReadSecret(ClientContext &context) {
		auto found = FindSecret(context, secret.text, "openduck:" + database.text);
		if (!found) {
			return;
		}
		auto offer = [&](Given &given, const char *key) {
			auto value = found->TryGetValue(key);
			if (!value.IsNull()) {
				given.Offer(value.ToString());
			}
		};
		// A token that was not asked for by its secret's name goes to no other endpoint than the secret's own.
		auto own = found->TryGetValue("endpoint");
		bool elsewhere = endpoint.is_set && !own.IsNull() && own.ToString() != endpoint.text;
		if (secret.text.empty() && elsewhere) {
			return;
		}
		offer(endpoint, "endpoint");
		offer(token, "token");
		offer(database, "database");
		offer(tls_ca, "tls_ca");
		offer(tls_cert, "tls_cert");
		offer(tls_key, "tls_key");
	}

	void ReadEnvironment() {
		auto offer = [](Given &given, const char *name) {
			auto value = std::getenv(name); // NOLINT: read while a statement runs, never written
			if (value && value[0] != '\0') {
				given.Offer(value);
			}
		};
		offer(endpoint, "OPENDUCK_ENDPOINT");
		offer(token, "OPENDUCK_TOKEN");
		auto files = TlsFiles::FromEnvironment();
		tls_ca.Offer(files.ca);
		// A key belongs to its certificate: the two come from one place.
		if (!tls_cert.is_set && !tls_key.is_set) {
			tls_cert.Offer(files.cert);
			tls_key.Offer(files.key);
		}
	}

	Given endpoint;
	Given token;
	Given secret;
	Given tls_ca;
	Given tls_cert;
	Given tls_key;
	//! By options of the statement, which ask for TLS and nothing else.
	bool tls_asked = false;
};

//! Without AS, DuckDB has made the alias from the whole path, and '/' and '?' lead it astray. True if it is such an alias.
bool IsMadeAlias(ClientContext &context, const string &alias, const string &path) {
	return alias == AttachedDatabase::ExtractDatabaseName(path, FileSystem::GetFileSystem(context));
}

//! DuckDB looks for the alias before it calls us, and we take a round trip. Another ATTACH IF NOT EXISTS of the same alias
//! may be done by then; DuckDB would fail ours. Its like takes its place instead.
void GiveWay(ClientContext &context, const string &alias, AttachInfo &info) {
	if (info.on_conflict != OnCreateConflict::IGNORE_ON_CONFLICT) {
		return;
	}
	auto other = DatabaseManager::Get(context).GetDatabase(alias);
	if (!other || OpenDuckCatalog::Is(other->GetCatalog())) {
		info.on_conflict = OnCreateConflict::REPLACE_ON_CONFLICT;
	}
}

//! DB, at REMOTE, is to be the snapshot ID of its database.
void ReadSnapshot(AttachedDatabase &db, Remote &remote, const string &id, const AttachInfo &info,
                  const AttachOptions &options) {
	od_error err = {};
	if (info.options.count("read_write") > 0 && options.access_mode == AccessMode::READ_WRITE) {
		throw BinderException("ATTACH: a snapshot does not change: leave READ_WRITE out");
	}
	if (od_remote_set_snapshot(remote.Handle(), id.c_str(), &err) != OD_OK) {
		ThrowError(err);
	}
	db.SetReadOnlyDatabase();
}

unique_ptr<Catalog> Attach(optional_ptr<StorageExtensionInfo> storage_info, ClientContext &context,
                           AttachedDatabase &db, const string &name, AttachInfo &info, AttachOptions &options) {
	AttachTarget target(context, info.path, options);
	if (IsMadeAlias(context, name, info.path) && name != target.database.text &&
	    !AttachedDatabase::NameIsReserved(target.database.text)) {
		db.SetName(target.database.text);
	}
	auto remote_options = target.RemoteOptions(context);
	string scheme = remote_options.endpoint.tls ? "https://" : "";
	auto remote = Remote::Create(remote_options);
	auto shown = "openduck:" + target.database.text + "?endpoint=" + scheme + remote->Authority();
	if (target.snapshot.is_set) {
		ReadSnapshot(db, *remote, target.snapshot.text, info, options);
		shown += "&snapshot=" + target.snapshot.text;
	}
	auto shared_info = static_cast<OpenDuckStorageInfo &>(*storage_info).shared_from_this();
	auto catalog = make_uniq<OpenDuckCatalog>(db, std::move(remote), std::move(shared_info), shown);
	// The path as it was written may hold the token.
	info.path = shown;
	catalog->Connect(context);
	if (catalog->Layout() && target.companions.attach) {
		catalog->Layout()->AttachCompanions(context, db.GetName(), target.companions, catalog->GetCompanions());
	}
	GiveWay(context, db.GetName(), info);
	return std::move(catalog);
}

unique_ptr<TransactionManager> CreateTransactionManager(optional_ptr<StorageExtensionInfo> storage_info,
                                                        AttachedDatabase &db, Catalog &catalog) {
	return make_uniq<OpenDuckTransactionManager>(db, catalog.Cast<OpenDuckCatalog>());
}

} // namespace

void RegisterAttach(DatabaseInstance &db, shared_ptr<OpenDuckStorageInfo> info) {
	auto &config = DBConfig::GetConfig(db);
	for (auto name : {"openduck", "od"}) {
		auto extension = make_shared_ptr<StorageExtension>();
		extension->attach = Attach;
		extension->create_transaction_manager = CreateTransactionManager;
		extension->storage_info = info;
		StorageExtension::Register(config, name, std::move(extension));
	}
}

} // namespace openduck

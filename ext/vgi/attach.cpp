#include "vgi/attach.hpp"

#include "common/event.hpp"
#include "vgi/attach_target.hpp"
#include "vgi/declared.hpp"
#include "vgi/transaction.hpp"

#include "duckdb/common/file_system.hpp"
#include "duckdb/main/attached_database.hpp"
#include "duckdb/parser/parsed_data/attach_info.hpp"

namespace vgi {

namespace {

constexpr const char *SECRET_SERVICE_TAG = "vgi_secret_service_url";

//! Without AS, DuckDB has made the alias from the whole path. True if it is such an alias.
bool IsMadeAlias(ClientContext &context, const string &alias, const string &path) {
	return alias == AttachedDatabase::ExtractDatabaseName(path, FileSystem::GetFileSystem(context));
}

//! The one catalog that the worker serves.
string DiscoverName(ClientContext &context, VgiRemote &remote) {
	Answer<od_vgi_catalogs> catalogs;
	od_error err = {};
	ThrowIfFailed(od_vgi_list_catalogs(remote.Handle(), VgiRemote::Interrupt(context), &catalogs.data, &err), err);
	if (catalogs->count == 1) {
		return Text(catalogs->items[0].name);
	}
	vector<string> names;
	for (idx_t i = 0; i < catalogs->count; i++) {
		names.push_back("'" + Text(catalogs->items[i].name) + "'");
	}
	throw BinderException("VGI ATTACH names no catalog, and the worker serves %d: %s", names.size(),
	                      StringUtil::Join(names, ", "));
}

void AttachAtWorker(ClientContext &context, VgiRemote &remote, const AttachTarget &target,
                    const vector<NamedValue> &options, Answer<od_vgi_attached> &out) {
	SentValues sent(context, options);
	od_vgi_attach attach = {};
	attach.name = target.name.c_str();
	attach.options = options.empty() ? nullptr : sent.Get();
	attach.data_version_spec = target.data_version_spec.empty() ? nullptr : target.data_version_spec.c_str();
	attach.implementation_version =
	    target.implementation_version.empty() ? nullptr : target.implementation_version.c_str();
	od_error err = {};
	ThrowIfFailed(od_vgi_attach_catalog(remote.Handle(), VgiRemote::Interrupt(context), &attach, &out.data, &err), err);
	remote.attach_bytes = string(reinterpret_cast<const char *>(out->opaque.data), out->opaque.len);
}

//! Why the service at URL is not asked for secrets; empty: it is.
string RefuseSecrets(const AttachTarget &target, const string &url) {
	if (!target.secrets) {
		return "SECRETS false";
	}
	if (!VgiRemote::IsUrl(target.location)) {
		return "only a catalog at a URL may have a secret service";
	}
	if (!od_vgi_secret_url_is_safe(url.c_str())) {
		return "a secret service is at an https URL, or on this machine";
	}
	return string();
}

//! The service that the catalog names, if any, among those that are asked for secrets.
void OpenSecrets(ClientContext &context, const AttachTarget &target, VgiCatalog &catalog, const string &url,
                 VgiStorageInfo &info) {
	auto reason = RefuseSecrets(target, url);
	if (reason.empty()) {
		try {
			catalog.SetSecrets(make_uniq<CatalogSecrets>(info.secret_services, url, target.bearer_token));
		} catch (std::exception &ex) {
			reason = ErrorData(ex).RawMessage();
		}
	}
	vector<std::pair<string, string>> fields = {{"catalog", catalog.GetName()}, {"endpoint", openduck::Redacted(url)}};
	if (!reason.empty()) {
		fields.emplace_back("reason", openduck::Redacted(reason));
	}
	openduck::LogEvent(DatabaseInstance::GetDatabase(context), &context,
	                   reason.empty() ? "vgi.secret_service_attach" : "vgi.secret_service_attach.skipped", fields);
}

void AttachCompanions(ClientContext &context, const AttachTarget &target, const string &alias,
                      const od_vgi_attached &attached, Companions &companions) {
	vector<od_companion_wish> wishes;
	vector<vector<od_companion_option>> options(attached.companion_count);
	for (idx_t i = 0; i < attached.companion_count; i++) {
		auto &companion = attached.companions[i];
		for (idx_t k = 0; k < companion.options.count; k++) {
			auto &pair = companion.options.items[k];
			options[i].push_back({CText(pair.key), CText(pair.value)});
		}
		od_companion_wish wish = {};
		wish.alias = CText(companion.alias);
		wish.target = CText(companion.target);
		wish.db_type = CText(companion.db_type);
		wish.secret_ref = CText(companion.secret_ref);
		wish.options = options[i].data();
		wish.option_count = options[i].size();
		wish.hidden = companion.hidden;
		wish.required = companion.required;
		wishes.push_back(wish);
	}
	od_companion_terms terms = {};
	terms.catalog = alias.c_str();
	terms.secrets = target.attach_companion_secrets;
	terms.read_only = target.companions_read_only;
	companions.Attach(context, wishes, terms);
}

unique_ptr<Catalog> Attach(optional_ptr<StorageExtensionInfo> storage_info, ClientContext &context,
                           AttachedDatabase &db, const string &name, AttachInfo &info, AttachOptions &options) {
	AttachTarget target(info.path, options);
	case_insensitive_set_t secret = {"bearer_token"};
	auto remote = make_shared_ptr<VgiRemote>(target.location, target.bearer_token);
	if (target.name.empty()) {
		target.name = DiscoverName(context, *remote);
	}
	auto worker_options = WorkerOptions(context, *remote, target, secret);
	for (auto &option : options.options) {
		// It does not stay in what duckdb_databases() shows.
		if (secret.count(option.first) > 0) {
			option.second = Value("redacted");
		}
	}
	if (IsMadeAlias(context, name, info.path) && !AttachedDatabase::NameIsReserved(target.name)) {
		db.SetName(target.name);
	}
	Answer<od_vgi_attached> attached;
	AttachAtWorker(context, *remote, target, worker_options, attached);
	// Behind the '?' there may be what is not to be shown.
	info.path = target.name;
	auto &shared_info = static_cast<VgiStorageInfo &>(*storage_info);
	WorkerRights rights;
	rights.settings = RegisterSettings(context, shared_info, db.GetName(), attached.data);
	rights.secret_types = RegisterSecretTypes(context, attached.data);
	rights.any_secret = target.worker_secrets;
	auto catalog = make_uniq<VgiCatalog>(db, std::move(remote), attached.data, info.path, std::move(rights));
	if (attached->comment.data) {
		db.comment = Value(Text(attached->comment));
	}
	for (idx_t i = 0; i < attached->tags.count; i++) {
		auto key = Text(attached->tags.items[i].key), value = Text(attached->tags.items[i].value);
		if (key == SECRET_SERVICE_TAG) {
			OpenSecrets(context, target, *catalog, value, shared_info);
			value = openduck::Redacted(value);
		}
		db.tags[key] = value;
	}
	if (target.attach_companions) {
		AttachCompanions(context, target, db.GetName(), attached.data, catalog->GetCompanions());
	}
	return std::move(catalog);
}

unique_ptr<TransactionManager> CreateTransactionManager(optional_ptr<StorageExtensionInfo> storage_info,
                                                        AttachedDatabase &db, Catalog &catalog) {
	return make_uniq<VgiTransactionManager>(db, catalog.Cast<VgiCatalog>());
}

} // namespace

void RegisterAttach(DatabaseInstance &db, shared_ptr<VgiStorageInfo> info) {
	auto extension = make_shared_ptr<StorageExtension>();
	extension->attach = Attach;
	extension->create_transaction_manager = CreateTransactionManager;
	extension->storage_info = std::move(info);
	StorageExtension::Register(DBConfig::GetConfig(db), VgiCatalog::TYPE, std::move(extension));
}

} // namespace vgi

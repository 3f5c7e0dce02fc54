#include "vgi/secret_storage.hpp"

#include "duckdb/common/error_data.hpp"
#include "duckdb/main/database.hpp"
#include "duckdb/main/secret/secret_manager.hpp"

namespace vgi {

static thread_local bool own_secrets_only = false;

OwnSecretsOnly::OwnSecretsOnly() : before(own_secrets_only) {
	own_secrets_only = true;
}

OwnSecretsOnly::~OwnSecretsOnly() {
	own_secrets_only = before;
}

bool OwnSecretsOnly::Active() {
	return own_secrets_only;
}

VgiRemoteSecretStorage::VgiRemoteSecretStorage(DatabaseInstance &db, shared_ptr<SecretServices> services_p,
                                               int64_t offset)
    : SecretStorage(NAME, offset), db(db), services(std::move(services_p)) {
}

static SecretMatch FindOwn(DatabaseInstance &db, const CatalogTransaction &transaction, const string &path,
                           const string &type) {
	OwnSecretsOnly guard;
	return SecretManager::Get(db).LookupSecret(transaction, path, type);
}

SecretMatch VgiRemoteSecretStorage::LookupSecret(const string &path, const string &type,
                                                 optional_ptr<CatalogTransaction> given) {
	auto asked = OwnSecretsOnly::Active() ? vector<shared_ptr<SecretService>>() : services->All();
	if (asked.empty()) {
		return SecretMatch();
	}
	auto transaction = given ? *given : CatalogTransaction::GetSystemTransaction(db);
	// A service neither takes the place of a secret of the user's nor learns of a path that has one.
	if (FindOwn(db, transaction, path, type).HasMatch()) {
		return SecretMatch();
	}
	ErrorData fault;
	shared_ptr<const KeyValueSecret> best;
	auto best_score = NumericLimits<int64_t>::Minimum();
	for (auto &service : asked) {
		shared_ptr<const KeyValueSecret> found;
		try {
			found = service->Find(db, transaction.context, path, type);
		} catch (std::exception &ex) {
			ErrorData error(ex);
			if (error.Type() == ExceptionType::INTERRUPT) {
				throw;
			}
			fault = fault.HasError() ? fault : error;
		}
		auto score = found ? found->MatchScore(path) : NumericLimits<int64_t>::Minimum();
		if (score > best_score) {
			best = std::move(found);
			best_score = score;
		}
	}
	if (!best && fault.HasError()) {
		fault.Throw();
	}
	if (!best) {
		return SecretMatch();
	}
	SecretEntry entry(best->Clone());
	entry.persist_type = SecretPersistType::TEMPORARY;
	entry.storage_mode = GetName();
	return SecretMatch(entry, 100 * best_score - tie_break_offset);
}

vector<SecretEntry> VgiRemoteSecretStorage::AllSecrets(optional_ptr<CatalogTransaction>) {
	return {};
}

unique_ptr<SecretEntry> VgiRemoteSecretStorage::GetSecretByName(const string &, optional_ptr<CatalogTransaction>) {
	return nullptr;
}

unique_ptr<SecretEntry> VgiRemoteSecretStorage::StoreSecret(unique_ptr<const BaseSecret>, OnCreateConflict,
                                                            optional_ptr<CatalogTransaction>) {
	throw InvalidInputException("The secret storage '%s' is read-only: its secrets are those of VGI catalogs' services",
	                            GetName());
}

void VgiRemoteSecretStorage::DropSecretByName(const string &name, OnEntryNotFound on_entry_not_found,
                                              optional_ptr<CatalogTransaction>) {
	throw InvalidInputException("There is no secret '%s' to drop: the secret storage '%s' is read-only", name,
	                            GetName());
}

void RegisterSecretStorage(DatabaseInstance &db, const shared_ptr<SecretServices> &services) {
	auto &manager = SecretManager::Get(db);
	auto offset = VgiRemoteSecretStorage::FIRST_OFFSET;
	while (true) {
		try {
			manager.LoadSecretStorage(make_uniq<VgiRemoteSecretStorage>(db, services, offset));
			return;
		} catch (InvalidConfigurationException &) {
			// Two storages cannot have one offset.
			if (++offset == 2 * VgiRemoteSecretStorage::FIRST_OFFSET) {
				throw;
			}
		}
	}
}

} // namespace vgi

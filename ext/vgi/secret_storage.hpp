//===----------------------------------------------------------------------===//
// vgi/secret_storage.hpp: what DuckDB asks secret services for
//===----------------------------------------------------------------------===//
#pragma once

#include "vgi/secret_service.hpp"

#include "duckdb/main/secret/secret_storage.hpp"

namespace vgi {

//! The secrets of all services, for paths that no other secret of this DuckDB fits. DuckDB cannot unload a storage: there is one
//! for the whole life of an instance, and it is empty while no catalog with a service is attached.
class VgiRemoteSecretStorage : public SecretStorage {
public:
	static constexpr const char *NAME = "vgi";
	//! Behind DuckDB's own. Others may have taken it: then one of the next.
	static constexpr int64_t FIRST_OFFSET = 100;

	VgiRemoteSecretStorage(DatabaseInstance &db, shared_ptr<SecretServices> services, int64_t offset);

	unique_ptr<SecretEntry> StoreSecret(unique_ptr<const BaseSecret> secret, OnCreateConflict on_conflict,
	                                    optional_ptr<CatalogTransaction> transaction) override;
	//! None: what a service would have is not known before it is asked for a path.
	vector<SecretEntry> AllSecrets(optional_ptr<CatalogTransaction> transaction) override;
	void DropSecretByName(const string &name, OnEntryNotFound on_entry_not_found,
	                      optional_ptr<CatalogTransaction> transaction) override;
	//! Asks every service: the longest scope counts, then who was attached first. One that fails is an error if no other has
	//! anything.
	SecretMatch LookupSecret(const string &path, const string &type,
	                         optional_ptr<CatalogTransaction> transaction) override;
	unique_ptr<SecretEntry> GetSecretByName(const string &name, optional_ptr<CatalogTransaction> transaction) override;

private:
	DatabaseInstance &db;
	shared_ptr<SecretServices> services;
};

//! While it lives, this thread finds the user's own secrets alone.
class OwnSecretsOnly {
public:
	OwnSecretsOnly();
	~OwnSecretsOnly();
	OwnSecretsOnly(const OwnSecretsOnly &) = delete;

	static bool Active();

private:
	const bool before;
};

void RegisterSecretStorage(DatabaseInstance &db, const shared_ptr<SecretServices> &services);

} // namespace vgi

//===----------------------------------------------------------------------===//
// vgi/companions.hpp: the databases that are attached beside a VGI catalog
//===----------------------------------------------------------------------===//
#pragma once

#include "common/throw.hpp"

#include "duckdb/storage/storage_extension.hpp"

extern "C" {
#include "vgi/companion.h"
}

namespace vgi {
using namespace duckdb; // NOLINT: every name here is DuckDB's or ours

class SecretServices;

//! What all VGI catalogs of one DuckDB instance share.
struct VgiStorageInfo : public StorageExtensionInfo, public enable_shared_from_this<VgiStorageInfo> {
	VgiStorageInfo();
	~VgiStorageInfo() override;

	od_companion_registry *registry = nullptr;
	mutex settings_lock; //!< guards settings, also while one is registered
	//! What workers have declared, by names in lower case.
	unordered_map<string, LogicalType> settings;
	const shared_ptr<SecretServices> secret_services;
};

//! What od_companion_host asks for, done with a DatabaseManager. Companions are attached by a connection of their own: the
//! user's transaction may be rolled back while another catalog already uses what it attached.
class CompanionHost {
public:
	//! CONTEXT: the statement that this is for; null if there is none.
	CompanionHost(DatabaseInstance &db, optional_ptr<ClientContext> context);

	const od_companion_host *Table() const {
		return &table;
	}

private:
	static uint64_t Find(void *arg, const char *alias);
	static od_code Attach(void *arg, const od_companion_request *request, uint64_t *identity, od_error *err);
	static od_code Detach(void *arg, const char *alias, od_error *err);
	static od_code Secret(void *arg, const char *name, od_error *err);
	static bool Interrupted(void *arg);
	static void Event(void *arg, const char *name, const od_companion_field *fields, size_t count);

	DatabaseInstance &db;
	optional_ptr<ClientContext> context;
	od_companion_host table;
};

//! The companions of one catalog: gone with it, whatever way it goes.
class Companions {
public:
	Companions(DatabaseInstance &db, VgiStorageInfo &info);
	~Companions();

	//! Attaches what WISHES ask for, or throws, and has then attached nothing.
	void Attach(ClientContext &context, const vector<od_companion_wish> &wishes, const od_companion_terms &terms);
	//! Gives all of them back.
	void Release(ClientContext &context);

private:
	weak_ptr<DatabaseInstance> db;
	shared_ptr<VgiStorageInfo> info;
	od_companion_set *set = nullptr;
};

//! TEXT without the passwords that it may quote.
string Redacted(const string &text);

//! Registers vgi_companion_catalogs().
void RegisterCompanionFunctions(ExtensionLoader &loader, shared_ptr<VgiStorageInfo> info);

} // namespace vgi

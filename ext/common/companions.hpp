//===----------------------------------------------------------------------===//
// common/companions.hpp: the databases that are attached beside a catalog
//===----------------------------------------------------------------------===//
#pragma once

#include "common/throw.hpp"

#include "duckdb/storage/object_cache.hpp"

extern "C" {
#include "vgi/companion.h"
}

namespace openduck {

//! The companions of one DuckDB instance. Extensions of one build share it, whichever is loaded first: a companion that catalogs of both
//! ask for is attached once. To another build's they are databases of somebody else, which it leaves alone.
class CompanionRegistry : public ObjectCacheEntry {
public:
	CompanionRegistry();
	~CompanionRegistry() override;

	static shared_ptr<CompanionRegistry> Get(DatabaseInstance &db);

	od_companion_registry *Handle() const {
		return registry;
	}

	static string ObjectType() {
		return string("openduck_companions ") + OD_VERSION;
	}
	string GetObjectType() override {
		return ObjectType();
	}
	optional_idx GetEstimatedCacheMemory() const override {
		return optional_idx(); // never evicted
	}

private:
	od_companion_registry *registry = nullptr;
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
	explicit Companions(DatabaseInstance &db);
	~Companions();

	//! Attaches what WISHES ask for, or throws, and has then attached nothing.
	void Attach(ClientContext &context, const vector<od_companion_wish> &wishes, const od_companion_terms &terms);
	//! Gives all of them back.
	void Release(ClientContext &context);

private:
	weak_ptr<DatabaseInstance> db;
	shared_ptr<CompanionRegistry> registry;
	od_companion_set *set = nullptr;
};

//! TEXT without the passwords that it may quote.
string Redacted(const string &text);

//! Registers the function NAME(), which lists all companions of the instance.
void RegisterCompanionList(ExtensionLoader &loader, const string &name);

} // namespace openduck

#include "storage/register.hpp"

#include "storage/file_system.hpp"
#include "storage/functions.hpp"
#include "storage/seal.hpp"
#include "storage/secret.hpp"

#include "duckdb/common/exception/binder_exception.hpp"
#include "duckdb/storage/object_cache.hpp"

namespace openduck {

namespace {

constexpr const char *SERVED = "openduck_served_storage";

//! Keeps what RegisterServedStorage made with its instance.
struct ServedStorage : public ObjectCacheEntry {
	explicit ServedStorage(shared_ptr<StorageState> state_p) : state(std::move(state_p)) {
	}

	static string ObjectType() {
		return SERVED;
	}
	string GetObjectType() override {
		return ObjectType();
	}
	//! It is never given up.
	optional_idx GetEstimatedCacheMemory() const override {
		return optional_idx();
	}

	const shared_ptr<StorageState> state;
};

struct Wanted {
	const string &id;
	bool found;
};

} // namespace

void RegisterStorage(ExtensionLoader &loader) {
	auto state = make_shared_ptr<StorageState>();
	RegisterStorageSecret(loader);
	RegisterSeal(loader, state);
	RegisterStoreFunctions(loader, state);
	loader.GetDatabaseInstance().GetFileSystem().RegisterSubSystem(make_uniq<StorageFileSystem>(state));
}

void RegisterServedStorage(DatabaseInstance &db, const StorageObserver &observer) {
	auto state = make_shared_ptr<StorageState>(observer);
	ExtensionLoader loader(db, "openduck_storage");
	RegisterSeal(loader, state);
	db.GetFileSystem().RegisterSubSystem(make_uniq<StorageFileSystem>(state));
	db.GetObjectCache().Put(SERVED, make_shared_ptr<ServedStorage>(std::move(state)));
}

string PathOfServedSnapshot(ClientContext &context, const string &name, const string &id) {
	StorageLocation location;
	auto served = ObjectCache::GetObjectCache(context).Get<ServedStorage>(SERVED);
	if (!served || !LocationOfAttached(context, name, location)) {
		throw BinderException("\"%s\" is not on openduck://", name);
	}
	auto store = served->state->OpenStore(location, false);
	Wanted wanted {id, false};
	auto look = [](void *arg, const od_storage_snapshot *snapshot) {
		auto &looked_for = *static_cast<Wanted *>(arg);
		looked_for.found = looked_for.id == snapshot->id;
		return looked_for.found ? 1 : 0;
	};
	od_storage_error err = {};
	if (od_store_snapshots(store->Handle(), location.database.c_str(), look, &wanted, &err) != OD_STORAGE_OK) {
		ThrowStorageError(err, "cannot list the snapshots of '" + location.Name() + "'");
	}
	location.snapshot = id;
	location.state.clear();
	return wanted.found ? location.Path() : string();
}

} // namespace openduck

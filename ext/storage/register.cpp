#include "storage/register.hpp"

#include "storage/file_system.hpp"
#include "storage/functions.hpp"
#include "storage/secret.hpp"

namespace openduck {

void RegisterStorage(ExtensionLoader &loader) {
	auto state = make_shared_ptr<StorageState>();
	RegisterStorageSecret(loader);
	RegisterSeal(loader, state);
	RegisterStoreFunctions(loader, state);
	loader.GetDatabaseInstance().GetFileSystem().RegisterSubSystem(make_uniq<StorageFileSystem>(state));
}

void RegisterServedStorage(DatabaseInstance &db) {
	auto state = make_shared_ptr<StorageState>();
	ExtensionLoader loader(db, "openduck_storage");
	RegisterSeal(loader, state);
	db.GetFileSystem().RegisterSubSystem(make_uniq<StorageFileSystem>(state));
}

} // namespace openduck

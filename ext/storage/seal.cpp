#include "storage/seal.hpp"

#include "duckdb/common/exception/binder_exception.hpp"
#include "duckdb/common/exception/transaction_exception.hpp"
#include "duckdb/main/attached_database.hpp"
#include "duckdb/main/database_manager.hpp"
#include "duckdb/storage/storage_manager.hpp"
#include "duckdb/transaction/duck_transaction.hpp"
#include "duckdb/transaction/transaction_manager.hpp"

#include <chrono>
#include <thread>

namespace openduck {

//! How long a moment without writers is looked for.
static constexpr std::chrono::milliseconds PATIENCE(1000);

static string PathOf(AttachedDatabase &db) {
	return db.HasStorageManager() ? db.GetStorageManager().GetDBPath() : string();
}

bool LocationOfAttached(ClientContext &context, const string &name, StorageLocation &location) {
	auto db = DatabaseManager::Get(context).GetDatabase(context, name);
	if (!db || !StorageLocation::IsOne(PathOf(*db))) {
		return false;
	}
	location = StorageLocation::Parse(PathOf(*db));
	return true;
}

//! False: writers are active.
static bool TryCheckpoint(ClientContext &context, AttachedDatabase &db) {
	try {
		SealFollows covered;
		TransactionManager::Get(db).Checkpoint(context, false);
		return true;
	} catch (std::exception &ex) {
		if (ErrorData(ex).Type() != ExceptionType::TRANSACTION) {
			throw;
		}
		return false;
	}
}

static void RefuseOwnChanges(ClientContext &context, AttachedDatabase &db) {
	auto current = Transaction::TryGet(context, db);
	if (current && current->Cast<DuckTransaction>().ChangesMade()) {
		throw TransactionException("cannot seal \"%s\": the current transaction has changed it; COMMIT first",
		                           db.GetName());
	}
}

Sealed SealDatabase(ClientContext &context, StorageState &state, const string &name) {
	auto db = DatabaseManager::Get(context).GetDatabase(context, name);
	if (!db) {
		throw BinderException("cannot seal \"%s\": there is no database of that name attached", name);
	}
	auto path = PathOf(*db);
	if (!StorageLocation::IsOne(path)) {
		throw BinderException("cannot seal \"%s\": it is not on openduck://", name);
	}
	auto volume = state.Attached(StorageLocation::Parse(path).VolumePath());
	if (db->IsReadOnly() || !volume) {
		throw BinderException("cannot seal \"%s\": it is attached read-only", name);
	}
	RefuseOwnChanges(context, *db);

	auto &storage = db->GetStorageManager();
	auto end = std::chrono::steady_clock::now() + PATIENCE;
	while (true) {
		auto done = TryCheckpoint(context, *db);
		{
			// Commits go to the log under this lock: none is cut in two.
			auto lock = storage.GetWALLock();
			auto clean = done && storage.GetWALSize() == 0;
			if (clean || std::chrono::steady_clock::now() >= end) {
				return {volume->Seal(), clean};
			}
		}
		if (context.interrupted) {
			throw InterruptException();
		}
		std::this_thread::sleep_for(std::chrono::milliseconds(1));
	}
}

} // namespace openduck

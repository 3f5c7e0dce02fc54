#include "openduck/transaction.hpp"

#include "openduck/catalog.hpp"

namespace openduck {

OpenDuckTransaction::OpenDuckTransaction(TransactionManager &manager, ClientContext &context, OpenDuckCatalog &catalog)
    : Transaction(manager, context), catalog(catalog) {
}

OpenDuckTransaction &OpenDuckTransaction::Get(ClientContext &context, Catalog &catalog) {
	return Transaction::Get(context, catalog).Cast<OpenDuckTransaction>();
}

void OpenDuckTransaction::Use(const shared_ptr<CatalogSnapshot> &snapshot_p, bool confirmed_p) {
	lock_guard<mutex> guard(lock);
	if (snapshot != snapshot_p) {
		if (touched && !used.empty()) {
			mixed = true;
		}
		snapshot = snapshot_p;
		used.push_back(snapshot_p);
	}
	if (confirmed_p) {
		confirmed = true;
		confirmed_in_statement = true;
	}
}

shared_ptr<CatalogSnapshot> OpenDuckTransaction::Snapshot(ClientContext &context) {
	{
		lock_guard<mutex> guard(lock);
		if (snapshot) {
			return snapshot;
		}
	}
	auto current = catalog.Current();
	if (current) {
		Use(current, false);
		return current;
	}
	auto &remote = catalog.GetRemote();
	auto limit = OpenDuckCatalog::SMALL_COLUMN_COUNT;
	auto loaded = catalog.Small() ? CatalogLoader::LoadAll(context, remote, limit)
	                              : CatalogLoader::LoadSchemas(context, remote, limit);
	auto fetched = make_shared_ptr<CatalogSnapshot>(catalog, catalog.NextSnapshotId(), loaded);
	fetched->Add(context, loaded);
	catalog.Publish(fetched);
	Use(fetched, true);
	return fetched;
}

shared_ptr<CatalogSnapshot> OpenDuckTransaction::FreshSnapshot(ClientContext &context) {
	auto result = Snapshot(context);
	return Confirm(context, true) ? result : Snapshot(context);
}

shared_ptr<CatalogSnapshot> OpenDuckTransaction::Absorb(ClientContext &context, CatalogSnapshot &base,
                                                        LoadedCatalog &loaded) {
	shared_ptr<CatalogSnapshot> target;
	{
		lock_guard<mutex> guard(lock);
		for (auto &candidate : used) {
			// Of version 0 nothing is known: only what one transaction has read belongs together.
			if (candidate->version == loaded.version && (candidate.get() == &base || loaded.version != 0)) {
				target = candidate;
			}
		}
	}
	if (!target) {
		auto current = catalog.Current();
		if (current && loaded.version != 0 && current->version == loaded.version) {
			target = std::move(current);
		}
	}
	if (!target) {
		if (loaded.column_count < 0) {
			// This answer did not count.
			loaded.column_count = base.small ? 0 : OpenDuckCatalog::SMALL_COLUMN_COUNT + 1;
		}
		target = make_shared_ptr<CatalogSnapshot>(catalog, catalog.NextSnapshotId(), loaded);
		catalog.Publish(target);
	}
	target->Add(context, loaded);
	Use(target, true);
	return target;
}

bool OpenDuckTransaction::Confirm(ClientContext &context, bool once_a_transaction) {
	auto held = Snapshot(context);
	{
		lock_guard<mutex> guard(lock);
		if (confirmed_in_statement || (once_a_transaction && confirmed)) {
			return true;
		}
	}
	if (catalog.RemoteVersion(context) != held->version || held->version == 0) {
		Drop();
		return false;
	}
	SetConfirmed();
	return true;
}

void OpenDuckTransaction::SetConfirmed() {
	lock_guard<mutex> guard(lock);
	confirmed = true;
	confirmed_in_statement = true;
}

void OpenDuckTransaction::Drop() {
	lock_guard<mutex> guard(lock);
	if (snapshot) {
		catalog.Invalidate(*snapshot);
		snapshot.reset();
	}
}

void OpenDuckTransaction::BeginStatement() {
	touched = false;
	missed = false;
	rebinding = false;
	mixed = false;
	lock_guard<mutex> guard(lock);
	confirmed_in_statement = false;
}

OpenDuckTransactionManager::OpenDuckTransactionManager(AttachedDatabase &db, OpenDuckCatalog &catalog)
    : TransactionManager(db), catalog(catalog) {
}

Transaction &OpenDuckTransactionManager::StartTransaction(ClientContext &context) {
	auto transaction = make_uniq<OpenDuckTransaction>(*this, context, catalog);
	auto &result = *transaction;
	lock_guard<mutex> guard(lock);
	transactions[result] = std::move(transaction);
	return result;
}

void OpenDuckTransactionManager::End(Transaction &transaction) {
	unique_ptr<OpenDuckTransaction> ended; // freed without the lock
	lock_guard<mutex> guard(lock);
	auto entry = transactions.find(transaction);
	if (entry != transactions.end()) {
		ended = std::move(entry->second);
		transactions.erase(entry);
	}
}

ErrorData OpenDuckTransactionManager::CommitTransaction(ClientContext &context, Transaction &transaction) {
	End(transaction);
	return ErrorData();
}

void OpenDuckTransactionManager::RollbackTransaction(Transaction &transaction) {
	End(transaction);
}

void OpenDuckTransactionManager::Checkpoint(ClientContext &context, bool force) {
	// The server decides when it writes its checkpoints.
}

} // namespace openduck

#include "openduck/transaction.hpp"

#include "openduck/catalog.hpp"
#include "openduck/objects.hpp"
#include "openduck/scan.hpp"

#include "duckdb/common/exception/transaction_exception.hpp"
#include "duckdb/main/client_context.hpp"
#include "duckdb/main/error_manager.hpp"
#include "duckdb/main/valid_checker.hpp"
#include "duckdb/transaction/meta_transaction.hpp"

extern "C" {
#include "query/remote_snapshot.h"
}

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

shared_ptr<CatalogSnapshot> OpenDuckTransaction::NewSnapshot(const LoadedCatalog &loaded, bool current) {
	auto shared = IsShared(loaded.version);
	auto result = make_shared_ptr<CatalogSnapshot>(catalog, catalog.NextSnapshotId(), loaded, shared);
	if (shared && current) {
		catalog.Publish(result);
	}
	return result;
}

shared_ptr<CatalogSnapshot> OpenDuckTransaction::Snapshot(ClientContext &context) {
	auto txn = Server(context, ServerUse::STATEMENT);
	bool latest = true;
	bool known = false;
	{
		lock_guard<mutex> guard(lock);
		if (snapshot) {
			return snapshot;
		}
		latest = !in_server || begun_in_statement;
		known = in_server && !unsure;
	}
	auto current = catalog.Current();
	if (current && IsShared(current->version)) {
		Use(current, known);
		return current;
	}
	auto &remote = catalog.GetRemote();
	auto limit = OpenDuckCatalog::SMALL_COLUMN_COUNT;
	auto loaded = catalog.Small() ? CatalogLoader::LoadAll(context, remote, txn, limit)
	                              : CatalogLoader::LoadSchemas(context, remote, txn, limit);
	auto fetched = NewSnapshot(loaded, latest);
	fetched->Add(context, loaded);
	{
		lock_guard<mutex> guard(lock);
		if (snapshot && snapshot->version == fetched->version) {
			return snapshot; // another thread of the statement was faster: its lists are of one snapshot
		}
	}
	Use(fetched, true);
	return fetched;
}

shared_ptr<CatalogSnapshot> OpenDuckTransaction::Glance(ClientContext &context) {
	auto current = catalog.Current();
	{
		lock_guard<mutex> guard(lock);
		if (current && !snapshot && !in_server) {
			glanced.push_back(current);
			return current;
		}
	}
	return Snapshot(context);
}

shared_ptr<CatalogSnapshot> OpenDuckTransaction::FreshSnapshot(ClientContext &context) {
	auto result = Snapshot(context);
	return Confirm(context, true) ? result : Snapshot(context);
}

shared_ptr<CatalogObjects> OpenDuckTransaction::Objects(ClientContext &context) {
	{
		lock_guard<mutex> guard(lock);
		if (objects) {
			return objects;
		}
	}
	auto base = Snapshot(context);
	shared_ptr<CatalogObjects> loaded = CatalogObjects::Load(context, Server(context, ServerUse::STATEMENT), *base);
	lock_guard<mutex> guard(lock);
	if (!objects) {
		objects = std::move(loaded);
	}
	return objects;
}

shared_ptr<CatalogSnapshot> OpenDuckTransaction::Absorb(ClientContext &context, CatalogSnapshot &base,
                                                        LoadedCatalog &loaded) {
	shared_ptr<CatalogSnapshot> target;
	auto shared = IsShared(loaded.version);
	bool latest = true;
	{
		lock_guard<mutex> guard(lock);
		latest = !in_server || begun_in_statement;
		for (auto &candidate : used) {
			// Of version 0 nothing is known: only what one transaction has read belongs together.
			if (candidate->version == loaded.version && candidate->shared == shared &&
			    (candidate.get() == &base || loaded.version != 0)) {
				target = candidate;
			}
		}
	}
	if (!target) {
		auto current = catalog.Current();
		if (current && shared && loaded.version != 0 && current->version == loaded.version) {
			target = std::move(current);
		}
	}
	if (!target) {
		if (loaded.column_count < 0) {
			// This answer did not count.
			loaded.column_count = base.small ? 0 : OpenDuckCatalog::SMALL_COLUMN_COUNT + 1;
		}
		target = NewSnapshot(loaded, latest);
	}
	target->Add(context, loaded);
	Use(target, true);
	return target;
}

bool OpenDuckTransaction::Confirm(ClientContext &context, bool once_a_transaction) {
	auto held = Snapshot(context);
	auto txn = Server(context, ServerUse::STATEMENT);
	{
		lock_guard<mutex> guard(lock);
		if (confirmed_in_statement || (once_a_transaction && confirmed)) {
			return true;
		}
	}
	if (catalog.RemoteVersion(context, txn) != held->version || held->version == 0) {
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
	if (!snapshot) {
		return;
	}
	if (!in_server) {
		catalog.Invalidate(*snapshot);
	} else if (snapshot->version == begin_version) {
		// It held when the transaction began: who has changed the catalog is the transaction itself.
		changed_catalog = true;
	}
	snapshot.reset();
}

void OpenDuckTransaction::BeginStatement() {
	touched = false;
	missed = false;
	rebinding = false;
	mixed = false;
	lock_guard<mutex> guard(lock);
	objects.reset();
	begun_in_statement = false;
	// Nobody else changes the catalog that a transaction sees.
	confirmed_in_statement = in_server && confirmed && !unsure;
}

//===--------------------------------------------------------------------===//
// At the server
//===--------------------------------------------------------------------===//
od_remote_txn *OpenDuckTransaction::Server(ClientContext &context, ServerUse use) {
	lock_guard<mutex> guard(server_lock);
	if (aborted || ValidChecker::IsInvalidated(context.ActiveTransaction())) {
		throw ErrorManager::InvalidatedTransaction(context);
	}
	if (od_remote_snapshot(catalog.GetRemote().Handle())) {
		return nullptr; // it is the same for all statements, and nobody writes to it
	}
	if (!server) {
		if (use == ServerUse::STATEMENT && context.transaction.IsAutoCommit()) {
			return nullptr;
		}
		server = ServerTransaction::Begin(context, catalog.GetRemote());
		StartView();
	}
	return server->Handle();
}

void OpenDuckTransaction::StartView() {
	lock_guard<mutex> guard(lock);
	in_server = true;
	begun_in_statement = true;
	begin_version = server->CatalogVersion();
	if (snapshot && snapshot->version != begin_version) {
		catalog.Invalidate(*snapshot);
		snapshot.reset();
	}
	confirmed = confirmed_in_statement = snapshot != nullptr;
}

bool OpenDuckTransaction::IsShared(uint64_t version) {
	lock_guard<mutex> guard(lock);
	return !in_server || (!changed_catalog && version == begin_version);
}

void OpenDuckTransaction::Wrote(bool catalog_changed) {
	lock_guard<mutex> guard(lock);
	wrote = true;
	if (!catalog_changed) {
		return;
	}
	changed_catalog = true;
	if (in_server) {
		snapshot.reset();
		confirmed = confirmed_in_statement = false;
	}
}

bool OpenDuckTransaction::HasWritten() {
	lock_guard<mutex> guard(lock);
	return wrote;
}

void OpenDuckTransaction::RunsUnknown() {
	lock_guard<mutex> guard(lock);
	wrote = true;
	unsure = true;
}

void OpenDuckTransaction::Abort() {
	lock_guard<mutex> guard(server_lock);
	if (server) {
		aborted = true;
		server->Rollback();
		server.reset();
	}
}

ErrorData OpenDuckTransaction::Commit(ClientContext &context) {
	ErrorData error;
	if (aborted) {
		error = ErrorData(ErrorManager::InvalidatedTransaction(context));
	} else if (server) {
		error = server->Commit(context);
	}
	if (changed_catalog) {
		catalog.Forget();
	}
	if (wrote) {
		catalog.writes++;
	}
	// Nothing was written, and what was read is right, whatever happened to its transaction since.
	return wrote ? error : ErrorData();
}

void OpenDuckTransaction::Rollback() {
	if (server) {
		server->Rollback();
	}
	if (changed_catalog) {
		// A change that ran by itself remains.
		catalog.Forget();
	}
}

void RemoteScanSource::SetTransaction(OpenDuckTransaction &owner) {
	transaction = owner.shared_from_this();
	owned = true;
}

bool RemoteScanSource::SharesTransaction(const RemoteScanSource &other) const {
	return owned == other.owned && transaction.lock() == other.transaction.lock();
}

od_remote_txn *ScanTransaction(ClientContext &context, const RemoteScanSource &source) {
	if (!source.owned) {
		return nullptr;
	}
	auto transaction = source.transaction.lock();
	if (!transaction) {
		throw TransactionException("the transaction that the statement was bound in is over; run the statement again");
	}
	return transaction->Server(context, ServerUse::STATEMENT);
}

OpenDuckTransactionManager::OpenDuckTransactionManager(AttachedDatabase &db, OpenDuckCatalog &catalog)
    : TransactionManager(db), catalog(catalog) {
}

Transaction &OpenDuckTransactionManager::StartTransaction(ClientContext &context) {
	auto transaction = make_shared_ptr<OpenDuckTransaction>(*this, context, catalog);
	auto &result = *transaction;
	lock_guard<mutex> guard(lock);
	transactions[result] = std::move(transaction);
	return result;
}

shared_ptr<OpenDuckTransaction> OpenDuckTransactionManager::Take(Transaction &transaction) {
	shared_ptr<OpenDuckTransaction> result;
	lock_guard<mutex> guard(lock);
	auto entry = transactions.find(transaction);
	if (entry != transactions.end()) {
		result = std::move(entry->second);
		transactions.erase(entry);
	}
	return result;
}

ErrorData OpenDuckTransactionManager::CommitTransaction(ClientContext &context, Transaction &transaction) {
	auto ending = Take(transaction);
	return ending ? ending->Commit(context) : ErrorData();
}

void OpenDuckTransactionManager::RollbackTransaction(Transaction &transaction) {
	auto ending = Take(transaction);
	if (ending) {
		ending->Rollback();
	}
}

void OpenDuckTransactionManager::Checkpoint(ClientContext &context, bool force) {
	// The server decides when it writes its checkpoints.
}

} // namespace openduck

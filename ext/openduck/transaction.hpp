//===----------------------------------------------------------------------===//
// openduck/transaction.hpp: what a transaction of the user has to do with a remote database
//===----------------------------------------------------------------------===//
#pragma once

#include "openduck/server_transaction.hpp"
#include "openduck/snapshot.hpp"

#include "duckdb/common/reference_map.hpp"
#include "duckdb/transaction/transaction.hpp"
#include "duckdb/transaction/transaction_manager.hpp"

namespace openduck {

class CatalogObjects;
class OpenDuckCatalog;

enum class ServerUse : uint8_t {
	//! One request, which may be a transaction by itself.
	STATEMENT,
	//! Several requests that take place together or not at all.
	STEPS
};

//! Owns at most one transaction at the server, begun at its first use. With BEGIN all runs in it, also the questions about
//! the catalog: they and all reads tell of the moment at which it was begun, and of what it has done since. Without BEGIN a
//! statement runs by itself, unless it takes steps.
//! Holds the snapshot that the transaction binds against, and all that it has used.
class OpenDuckTransaction : public Transaction, public enable_shared_from_this<OpenDuckTransaction> {
public:
	OpenDuckTransaction(TransactionManager &manager, ClientContext &context, OpenDuckCatalog &catalog);

	static OpenDuckTransaction &Get(ClientContext &context, Catalog &catalog);

	OpenDuckCatalog &catalog;

	//! The transaction at the server that what USE tells runs in, begun if it must be; ours, valid until this one ends. Null:
	//! it runs by itself (no BEGIN, USE is STATEMENT, and no statement has taken steps). What writes calls Wrote too.
	//! Steps are best begun while the statement is planned: what it reads is read in the transaction then.
	//! Throws the server's error. Interruptible. Thread: any.
	od_remote_txn *Server(ClientContext &context, ServerUse use);
	//! Something was, or is about to be, written, in a transaction at the server or by itself: CommitTransaction reports what
	//! becomes of it. CATALOG_CHANGED (DDL; called after it): names are asked for anew, here at once, elsewhere after the
	//! commit.
	void Wrote(bool catalog_changed);
	bool HasWritten();
	//! A statement that is not understood here is about to run: it may write, also to the catalog.
	void RunsUnknown();

	//! Both end it, once. Commit tells why it did not take place, or that nobody knows.
	ErrorData Commit(ClientContext &context);
	void Rollback();
	//! DuckDB has aborted the transaction: the server need not keep it. From now on Server fails.
	void Abort();

	//! The snapshot to bind against; fetched if there is none.
	shared_ptr<CatalogSnapshot> Snapshot(ClientContext &context);
	//! As Snapshot, for what looks through all databases: where something is known, nothing is begun at the server for it.
	shared_ptr<CatalogSnapshot> Glance(ClientContext &context);
	//! As Snapshot, but known to hold at the server since this transaction began.
	shared_ptr<CatalogSnapshot> FreshSnapshot(ClientContext &context);
	//! Sequences, macros and indexes as this statement sees them; asked for at the first call.
	shared_ptr<CatalogObjects> Objects(ClientContext &context);
	//! The snapshot that LOADED belongs to: BASE if it is of the same version, else a new one, which is used from now on.
	//! LOADED's tables and views are in it.
	shared_ptr<CatalogSnapshot> Absorb(ClientContext &context, CatalogSnapshot &base, LoadedCatalog &loaded);

	//! Asks the server for its version, at most once a statement (ONCE_A_TRANSACTION: once a transaction). False: the
	//! catalog has changed, and the next Snapshot is a new one.
	bool Confirm(ClientContext &context, bool once_a_transaction);
	//! A scan of the statement has found the version to hold.
	void SetConfirmed();
	//! The catalog has changed: the next Snapshot is a new one.
	void Drop();
	//! The statement is being bound for the second time. There is no third: its scans go by the columns they get.
	bool Rebinding() const {
		return rebinding;
	}
	void SetRebinding() {
		rebinding = true;
	}

	//! The statement looked up names of tables or views.
	void Touch() {
		touched = true;
	}
	bool Touched() const {
		return touched;
	}
	//! The statement named a schema that is not there. Only an error makes this worth a question.
	void Miss() {
		missed = true;
	}
	bool Missed() const {
		return missed;
	}
	//! Names of one statement came from snapshots of two versions: it must be bound again.
	bool TakeMixed() {
		bool result = touched && mixed;
		if (result) {
			mixed = false;
		}
		return result;
	}
	//! A statement begins.
	void BeginStatement();

private:
	void Use(const shared_ptr<CatalogSnapshot> &snapshot, bool confirmed);
	//! SERVER has begun: it may see another catalog than what is bound against.
	void StartView();
	//! True if others see the catalog of VERSION as this transaction does.
	bool IsShared(uint64_t version);
	//! A snapshot of what LOADED tells; CURRENT: it is the latest, so others may have it.
	shared_ptr<CatalogSnapshot> NewSnapshot(const LoadedCatalog &loaded, bool current);

	//! Guards SERVER and ABORTED, also while it begins: a statement's threads wait for the one that does it.
	mutex server_lock;
	unique_ptr<ServerTransaction> server;
	bool aborted = false;

	//! Guards the fields below; threads of one statement may ask at the same time.
	mutex lock;
	//! There is a transaction at the server, which began with the catalog BEGIN_VERSION,
	bool in_server = false;
	uint64_t begin_version = 0;
	//! in this statement,
	bool begun_in_statement = false;
	//! and has changed the catalog,
	bool changed_catalog = false;
	//! or perhaps has, so that only the server knows.
	bool unsure = false;
	bool wrote = false;
	shared_ptr<CatalogSnapshot> snapshot;
	vector<shared_ptr<CatalogSnapshot>> used;
	//! Kept for those who hold its entries.
	vector<shared_ptr<CatalogSnapshot>> glanced;
	//! The statement's; it may refer to them until it ends.
	shared_ptr<CatalogObjects> objects;
	bool confirmed = false;
	bool confirmed_in_statement = false;

	atomic<bool> touched {false};
	atomic<bool> missed {false};
	atomic<bool> rebinding {false};
	atomic<bool> mixed {false};
};

class OpenDuckTransactionManager : public TransactionManager {
public:
	OpenDuckTransactionManager(AttachedDatabase &db, OpenDuckCatalog &catalog);

	Transaction &StartTransaction(ClientContext &context) override;
	ErrorData CommitTransaction(ClientContext &context, Transaction &transaction) override;
	void RollbackTransaction(Transaction &transaction) override;
	void Checkpoint(ClientContext &context, bool force) override;

private:
	//! Takes TRANSACTION out of the list.
	shared_ptr<OpenDuckTransaction> Take(Transaction &transaction);

	OpenDuckCatalog &catalog;
	mutex lock; // guards transactions
	reference_map_t<Transaction, shared_ptr<OpenDuckTransaction>> transactions;
};

} // namespace openduck

//===----------------------------------------------------------------------===//
// openduck/transaction.hpp: what a transaction of the user has to do with a remote database
//===----------------------------------------------------------------------===//
#pragma once

#include "openduck/snapshot.hpp"

#include "duckdb/common/reference_map.hpp"
#include "duckdb/transaction/transaction.hpp"
#include "duckdb/transaction/transaction_manager.hpp"

namespace openduck {

class OpenDuckCatalog;

//! Holds the snapshot that the transaction binds against, and all that it has used. Nothing happens at the server yet:
//! each statement reads what is committed there.
class OpenDuckTransaction : public Transaction {
public:
	OpenDuckTransaction(TransactionManager &manager, ClientContext &context, OpenDuckCatalog &catalog);

	static OpenDuckTransaction &Get(ClientContext &context, Catalog &catalog);

	OpenDuckCatalog &catalog;

	//! The snapshot to bind against; fetched if there is none.
	shared_ptr<CatalogSnapshot> Snapshot(ClientContext &context);
	//! As Snapshot, but known to hold at the server since this transaction began.
	shared_ptr<CatalogSnapshot> FreshSnapshot(ClientContext &context);
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

	//! Guards the fields below; threads of one statement may ask at the same time.
	mutex lock;
	shared_ptr<CatalogSnapshot> snapshot;
	vector<shared_ptr<CatalogSnapshot>> used;
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
	void End(Transaction &transaction);

	OpenDuckCatalog &catalog;
	mutex lock; // guards transactions
	reference_map_t<Transaction, unique_ptr<OpenDuckTransaction>> transactions;
};

} // namespace openduck

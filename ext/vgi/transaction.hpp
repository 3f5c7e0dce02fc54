//===----------------------------------------------------------------------===//
// vgi/transaction.hpp: a transaction over a VGI catalog
//===----------------------------------------------------------------------===//
#pragma once

#include "vgi/catalog.hpp"

#include "duckdb/transaction/transaction.hpp"
#include "duckdb/transaction/transaction_manager.hpp"

namespace vgi {

struct AggregateRun;

//! Sees one snapshot of the catalog. Begins at the worker, if that has transactions, at the first question.
class VgiTransaction : public Transaction {
public:
	VgiTransaction(TransactionManager &manager, ClientContext &context, VgiCatalog &catalog);

	static VgiTransaction &Get(ClientContext &context, Catalog &catalog);

	//! Lives as long as the transaction. Thread: any of the statement's.
	CatalogSnapshot &Snapshot(ClientContext &context);
	//! For a call in this transaction; borrows from it.
	od_vgi_context Call(ClientContext &context);

	//! A version of a table by what it was looked up by; null if there is none yet. It lives as long as the transaction.
	optional_ptr<CatalogEntry> FindVersion(const vector<string> &key);
	//! Keeps ENTRY, or the one that is there already.
	CatalogEntry &KeepVersion(vector<string> key, unique_ptr<CatalogEntry> entry);

	//! KEPT lives as long as the transaction.
	void Keep(shared_ptr<AggregateRun> kept);

	//! Both end it at the worker.
	void Commit();
	void Rollback();

private:
	VgiCatalog &catalog;
	mutex lock; //!< guards the fields below, also while they are asked for
	bool begun = false;
	string worker_transaction;
	shared_ptr<CatalogSnapshot> snapshot;
	map<vector<string>, unique_ptr<CatalogEntry>> versions;
	vector<shared_ptr<AggregateRun>> runs;
};

class VgiTransactionManager : public TransactionManager {
public:
	VgiTransactionManager(AttachedDatabase &db, VgiCatalog &catalog);

	Transaction &StartTransaction(ClientContext &context) override;
	ErrorData CommitTransaction(ClientContext &context, Transaction &transaction) override;
	void RollbackTransaction(Transaction &transaction) override;
	void Checkpoint(ClientContext &context, bool force) override;

private:
	//! Takes TRANSACTION out of the list.
	unique_ptr<VgiTransaction> Take(Transaction &transaction);

	VgiCatalog &catalog;
	mutex lock; //!< guards transactions
	reference_map_t<Transaction, unique_ptr<VgiTransaction>> transactions;
};

} // namespace vgi

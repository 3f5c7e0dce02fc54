#include "vgi/transaction.hpp"

#include "vgi/aggregation.hpp"

#include "duckdb/common/error_data.hpp"

namespace vgi {

VgiTransaction::VgiTransaction(TransactionManager &manager, ClientContext &context, VgiCatalog &catalog)
    : Transaction(manager, context), catalog(catalog) {
}

VgiTransaction &VgiTransaction::Get(ClientContext &context, Catalog &catalog) {
	return Transaction::Get(context, catalog).Cast<VgiTransaction>();
}

od_vgi_context VgiTransaction::Call(ClientContext &context) {
	lock_guard<mutex> guard(lock);
	if (!begun && catalog.HasTransactions()) {
		auto call = catalog.Remote()->Call(context, string());
		od_buf bytes = {};
		od_error err = {};
		auto code = od_vgi_begin(catalog.Remote()->Handle(), &call, &bytes, &err);
		worker_transaction = string(reinterpret_cast<const char *>(bytes.data), bytes.len);
		od_buf_release(&bytes);
		ThrowIfFailed(code, err);
	}
	begun = true;
	return catalog.Remote()->Call(context, worker_transaction);
}

CatalogSnapshot &VgiTransaction::Snapshot(ClientContext &context) {
	auto call = Call(context);
	lock_guard<mutex> guard(lock);
	if (!snapshot) {
		snapshot = catalog.Snapshot(call);
	}
	return *snapshot;
}

optional_ptr<CatalogEntry> VgiTransaction::FindVersion(const vector<string> &key) {
	lock_guard<mutex> guard(lock);
	auto known = versions.find(key);
	return known == versions.end() ? nullptr : known->second.get();
}

CatalogEntry &VgiTransaction::KeepVersion(vector<string> key, unique_ptr<CatalogEntry> entry) {
	lock_guard<mutex> guard(lock);
	return *versions.emplace(std::move(key), std::move(entry)).first->second;
}

void VgiTransaction::Keep(shared_ptr<AggregateRun> kept) {
	lock_guard<mutex> guard(lock);
	runs.push_back(std::move(kept));
}

void VgiTransaction::Commit() {
	if (worker_transaction.empty()) {
		return;
	}
	auto call = catalog.Remote()->Quiet(worker_transaction);
	od_error err = {};
	ThrowIfFailed(od_vgi_commit(catalog.Remote()->Handle(), &call, &err), err);
}

void VgiTransaction::Rollback() {
	if (worker_transaction.empty()) {
		return;
	}
	// A worker that cannot be told ends it as it ends what nobody commits.
	auto call = catalog.Remote()->Quiet(worker_transaction);
	od_error err = {};
	(void)(od_vgi_rollback(catalog.Remote()->Handle(), &call, &err) == OD_OK);
}

VgiTransactionManager::VgiTransactionManager(AttachedDatabase &db, VgiCatalog &catalog)
    : TransactionManager(db), catalog(catalog) {
}

Transaction &VgiTransactionManager::StartTransaction(ClientContext &context) {
	auto transaction = make_uniq<VgiTransaction>(*this, context, catalog);
	auto &result = *transaction;
	lock_guard<mutex> guard(lock);
	transactions[result] = std::move(transaction);
	return result;
}

unique_ptr<VgiTransaction> VgiTransactionManager::Take(Transaction &transaction) {
	unique_ptr<VgiTransaction> result;
	lock_guard<mutex> guard(lock);
	auto entry = transactions.find(transaction);
	if (entry != transactions.end()) {
		result = std::move(entry->second);
		transactions.erase(entry);
	}
	return result;
}

ErrorData VgiTransactionManager::CommitTransaction(ClientContext &context, Transaction &transaction) {
	auto ending = Take(transaction);
	try {
		if (ending) {
			ending->Commit();
		}
	} catch (std::exception &ex) {
		return ErrorData(ex);
	}
	return ErrorData();
}

void VgiTransactionManager::RollbackTransaction(Transaction &transaction) {
	auto ending = Take(transaction);
	if (ending) {
		ending->Rollback();
	}
}

void VgiTransactionManager::Checkpoint(ClientContext &context, bool force) {
}

} // namespace vgi

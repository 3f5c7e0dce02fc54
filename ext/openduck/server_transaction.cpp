#include "openduck/server_transaction.hpp"

#include "duckdb/common/exception/transaction_exception.hpp"

extern "C" {
#include "base/deadline.h"
}

namespace openduck {

//! A server that does not answer a ROLLBACK within this time learns of it when the connection closes.
static constexpr int64_t ROLLBACK_MS = 5000;

static bool ContextInterrupted(void *arg) {
	return static_cast<ClientContext *>(arg)->interrupted;
}

static od_interrupt InterruptOf(ClientContext &context) {
	od_interrupt result = {};
	result.check = ContextInterrupted;
	result.arg = &context;
	return result;
}

unique_ptr<ServerTransaction> ServerTransaction::Begin(ClientContext &context, Remote &remote) {
	od_remote_txn *handle = nullptr;
	od_error err = {};
	if (od_remote_txn_begin(remote.Handle(), InterruptOf(context), &handle, &err) != OD_OK) {
		ThrowError(err);
	}
	return unique_ptr<ServerTransaction>(new ServerTransaction(handle));
}

ServerTransaction::~ServerTransaction() {
	od_remote_txn_free(handle);
}

uint64_t ServerTransaction::CatalogVersion() const {
	return od_remote_txn_catalog_version(handle);
}

ErrorData ServerTransaction::Commit(ClientContext &context) {
	od_error err = {};
	auto code = od_remote_txn_commit(handle, InterruptOf(context), &err);
	if (code == OD_OK) {
		return ErrorData();
	}
	if (code == OD_E_CANCELLED || code == OD_E_TIMEOUT) {
		// The request may be on its way.
		return ErrorData(ExceptionType::TRANSACTION,
		                 code == OD_E_CANCELLED
		                     ? "COMMIT was interrupted; whether the transaction was committed is not known"
		                     : "the server did not answer in time; whether the transaction was committed is not known");
	}
	try {
		ThrowError(err);
	} catch (std::exception &ex) {
		return ErrorData(ex);
	}
}

void ServerTransaction::Rollback() {
	auto deadline = od_deadline_in_ms(ROLLBACK_MS);
	od_interrupt interrupt = {};
	interrupt.check = [](void *arg) {
		return od_deadline_passed(*static_cast<od_deadline *>(arg));
	};
	interrupt.arg = &deadline;
	// Whatever it says: what is not over ends when it is freed.
	auto told = od_remote_txn_rollback(handle, interrupt, nullptr);
	(void)told;
}

} // namespace openduck

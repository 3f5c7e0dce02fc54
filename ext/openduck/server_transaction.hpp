//===----------------------------------------------------------------------===//
// openduck/server_transaction.hpp: a transaction at the server, ended once
//===----------------------------------------------------------------------===//
#pragma once

#include "openduck/remote.hpp"

namespace openduck {

//! Freed before its end it is rolled back by the server, which sees its connection close. One thread at a time; what runs in
//! it may run on others.
class ServerTransaction {
public:
	//! Throws the server's error. Interruptible by CONTEXT.
	static unique_ptr<ServerTransaction> Begin(ClientContext &context, Remote &remote);
	~ServerTransaction();

	od_remote_txn *Handle() const {
		return handle;
	}
	//! The catalog that it began with.
	uint64_t CatalogVersion() const;

	//! It is over whatever comes back. Says so if nobody knows whether it took place.
	ErrorData Commit(ClientContext &context);
	//! Waits a moment for the server's answer: what it held is free then. Does not throw.
	void Rollback();

private:
	explicit ServerTransaction(od_remote_txn *handle) : handle(handle) {
	}

	od_remote_txn *handle;
};

} // namespace openduck

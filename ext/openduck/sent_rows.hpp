//===----------------------------------------------------------------------===//
// openduck/sent_rows.hpp: rows of this side that a part of a plan brings along to the server
//===----------------------------------------------------------------------===//
#pragma once

#include "openduck/parameters.hpp"
#include "openduck/remote.hpp"
#include "openduck/server_transaction.hpp"

#include "duckdb/common/types/column/column_data_collection.hpp"
#include "duckdb/planner/logical_operator.hpp"

namespace openduck {

//! What a part of a plan gives that is run here before the scan that names it is sent. Complete when the pipelines of that part are; until
//! then nobody may ask for it. Thread: any.
class SentRows {
public:
	explicit SentRows(vector<LogicalType> types) : types(std::move(types)) {
	}

	const vector<LogicalType> types;

	//! Forgets all: the part is about to be run, perhaps again.
	void Begin(ClientContext &context);
	void Add(DataChunk &rows);
	idx_t Count();
	//! What they take here, in bytes.
	idx_t Size();

	//! NATIVE payloads with columns c0, c1, ..., each of as many rows as take about TARGET bytes; GIVE owns them. One at least.
	void Write(idx_t target, const std::function<void(od_msg *payload)> &give);

private:
	mutex lock; // guards rows
	unique_ptr<ColumnDataCollection> rows;
};

//! How the rows of one scan get to the server.
class RowTransport {
public:
	//! Makes them parameters "1", "2", ..., or, where that would be too much, tables of TXN (null: of a transaction of its own), and SQL
	//! names these.
	RowTransport(ClientContext &context, Remote &remote, od_remote_txn *txn, const vector<shared_ptr<SentRows>> &sent);

	unique_ptr<RowParameters> parameters;
	//! What the scan runs in; null: by itself.
	od_remote_txn *Transaction() const {
		return own ? own->Handle() : txn;
	}
	bool UsesTables() const {
		return !tables.empty();
	}
	//! SQL with the tables in the place of parameters.
	string Name(string sql) const;
	idx_t rows = 0;
	idx_t bytes = 0;

private:
	bool MakeParameters(const vector<shared_ptr<SentRows>> &sent);

	od_remote_txn *txn;
	unique_ptr<ServerTransaction> own;
	vector<string> tables;
};

//! Gives what SCAN gives, once all rows of CHILD are in ROWS.
unique_ptr<LogicalOperator> PlanSentRows(shared_ptr<SentRows> rows, unique_ptr<LogicalOperator> scan,
                                         unique_ptr<LogicalOperator> child);
//! True if OP is one of these.
bool IsSentRows(const LogicalOperator &op);

} // namespace openduck

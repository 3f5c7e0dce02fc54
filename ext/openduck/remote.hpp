//===----------------------------------------------------------------------===//
// openduck/remote.hpp: a remote database as DuckDB's classes see it, and the scan of what it holds
//===----------------------------------------------------------------------===//
#pragma once

#include "common/throw.hpp"
#include "duckdb.hpp"
#include "duckdb/common/types/column/column_data_collection.hpp"
#include "duckdb/execution/operator/scan/physical_table_scan.hpp"
#include "duckdb/function/table_function.hpp"

extern "C" {
#include "query/client.h"
}

namespace openduck {
using namespace duckdb; // NOLINT: every name here is DuckDB's or ours

class OpenDuckCatalog;
class OpenDuckTransaction;

struct RemoteColumn {
	string name;
	LogicalType type;
};

//! One remote database: endpoint, token, name. Shared by the catalog and by the scans that outlive it.
class Remote {
public:
	//! Takes OPTIONS (releases them also on failure).
	static shared_ptr<Remote> Create(od_remote_options &options);
	~Remote();

	od_remote *Handle() const {
		return handle;
	}
	string Authority() const; // "127.0.0.1:7878"
	string Database() const;  // the name at the server

	//! Whether its statements may read rows that they bring along (openduck_rows, docs/protocol.md), as far as is known.
	bool TakesRows() const {
		return takes_rows;
	}
	void SetTakesNoRows() {
		takes_rows = false;
	}

	//! Runs SQL and fetches all its rows as TYPES; for catalog questions. EXPECTED_VERSION 0: any. *VERSION (may be
	//! null) gets the catalog version that it ran against. Interruptible by CONTEXT (may be null). Runs in TXN; null: by
	//! itself. LAYOUT (may be null) gets the bytes of the database's layout; empty: it has none.
	unique_ptr<ColumnDataCollection> Query(optional_ptr<ClientContext> context, const od_remote_txn *txn,
	                                       const string &sql, const vector<LogicalType> &types, uint64_t *version,
	                                       string *layout = nullptr);
	//! The columns that SQL would give with the values PARAMETERS, without running it. Types come from the server's text,
	//! bound with CONTEXT.
	vector<RemoteColumn> Describe(ClientContext &context, const od_remote_txn *txn, const string &sql,
	                              uint64_t *version, od_slice parameters = {nullptr, 0});

private:
	explicit Remote(od_remote *handle_p) : handle(handle_p) {
	}
	od_remote *handle;
	atomic<bool> takes_rows {true};
};

//! Throws a BinderException when ALIAS is not attached or is not an openduck database. (Implemented beside the catalog
//! class.)
OpenDuckCatalog &CatalogOfAlias(ClientContext &context, const string &alias);

//! What a scan reads: a table or view of an attached catalog, or a query's text.
struct RemoteScanSource {
	shared_ptr<Remote> remote;
	//! Of the user, whose transaction at the server the scan runs in if there is one; not OWNED: it runs by itself.
	weak_ptr<OpenDuckTransaction> transaction;
	bool owned = false;
	//! A quoted name ("db"."schema"."table"), used as FROM item; empty if QUERY is set.
	string relation;
	//! A whole statement, sent as it is when nothing is pushed into it.
	string query;
	vector<RemoteColumn> columns;
	//! The catalog version that COLUMNS were read at; 0: not checked.
	uint64_t catalog_version = 0;
	optional_idx estimated_rows;
	//! The entry, for table scans (get_bind_info, EXPLAIN); null for queries and views.
	optional_ptr<TableCatalogEntry> entry;

	void SetTransaction(OpenDuckTransaction &transaction);
	//! Whether both are read in the same transaction, or neither in one.
	bool SharesTransaction(const RemoteScanSource &other) const;
};

//! The one table function behind every remote read: projection, filter and limit pushdown, parallel scan with order
//! kept by batch index, EXPLAIN and EXPLAIN ANALYZE lines, cancel.
TableFunction RemoteScanFunction();
unique_ptr<FunctionData> RemoteScanBind(RemoteScanSource source);

//! Sends the query of a planned scan ahead of its execution and waits for the first answer, so that a catalog that changed
//! since the statement was bound is found while the statement can still be bound again. The started stream waits in CONTEXT's
//! state for the scan's init; QueryEnd drops what was not used.
enum class RemoteStart : uint8_t { STARTED, STALE_CATALOG };
RemoteStart RemoteScanStart(ClientContext &context, const PhysicalTableScan &scan);
//! All remote scans of a physical plan, the one that runs first (build sides before probe sides) first.
vector<const_reference<PhysicalTableScan>> RemoteScans(const PhysicalOperator &plan);
//! Drops streams that RemoteScanStart left and no scan took.
void RemoteScanDropUnused(ClientContext &context);

//! What the extension registers of this half: settings, table functions, the optimizer pass that pushes limits.
void RegisterOptions(ExtensionLoader &loader);
void RegisterRemoteFunctions(ExtensionLoader &loader);
void RegisterOptimizer(ExtensionLoader &loader);
//! The settings as CONTEXT sees them, in milliseconds, as od_remote_options wants them.
int64_t ConnectTimeoutMs(ClientContext &context);
int64_t ExecuteTimeoutMs(ClientContext &context);

//! What the server is asked to do in the client's place, each with what stands before it.
enum class PushdownLevel : uint8_t {
	OFF,  // choose columns
	SCAN, // leave out rows of a table
	FULL  // whatever is exactly the same there
};
//! The setting openduck_pushdown.
PushdownLevel CurrentPushdown(ClientContext &context);

} // namespace openduck

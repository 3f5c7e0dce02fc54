#include "openduck/refresh.hpp"

#include "openduck/default_database.hpp"
#include "openduck/forward.hpp"
#include "openduck/scan.hpp"
#include "openduck/transaction.hpp"
#include "openduck/write.hpp"

#include "duckdb/common/error_data.hpp"
#include "duckdb/execution/operator/scan/physical_table_scan.hpp"
#include "duckdb/execution/physical_operator.hpp"
#include "duckdb/main/client_context.hpp"
#include "duckdb/main/client_context_state.hpp"
#include "duckdb/main/connection_manager.hpp"
#include "duckdb/main/database_manager.hpp"
#include "duckdb/main/prepared_statement_data.hpp"
#include "duckdb/main/valid_checker.hpp"
#include "duckdb/planner/extension_callback.hpp"
#include "duckdb/transaction/meta_transaction.hpp"

namespace openduck {

namespace {

constexpr const char *STATE_NAME = "openduck_refresh";

//! Functions that list what all databases hold, while the statement runs.
bool IsListing(const string &function) {
	static constexpr const char *NAMES[] = {"duckdb_tables",      "duckdb_columns", "duckdb_views",
	                                        "duckdb_schemas",     "duckdb_types",   "duckdb_sequences",
	                                        "duckdb_constraints", "duckdb_indexes", "duckdb_functions"};
	for (auto name : NAMES) {
		if (function == name) {
			return true;
		}
	}
	return false;
}

bool HasListing(const PhysicalOperator &op) {
	if (op.type == PhysicalOperatorType::TABLE_SCAN && IsListing(op.Cast<PhysicalTableScan>().function.name)) {
		return true;
	}
	for (auto &child : op.GetChildren()) {
		if (HasListing(child.get())) {
			return true;
		}
	}
	return false;
}

typedef vector<reference<OpenDuckTransaction>> transactions_t;

void AddTransaction(transactions_t &result, OpenDuckTransaction &transaction) {
	for (auto &known : result) {
		if (RefersToSameObject(known.get(), transaction)) {
			return;
		}
	}
	result.push_back(transaction);
}

//! The transactions that have begun on remote databases.
transactions_t BegunTransactions(ClientContext &context) {
	transactions_t result;
	if (!context.transaction.HasActiveTransaction()) {
		return result;
	}
	auto &meta = MetaTransaction::Get(context);
	for (auto &database : meta.OpenedTransactions()) {
		if (database.get().IsSystem() || database.get().IsTemporary() ||
		    !OpenDuckCatalog::Is(database.get().GetCatalog())) {
			continue;
		}
		auto transaction = meta.TryGetTransaction(database.get());
		if (transaction) {
			result.push_back(transaction->Cast<OpenDuckTransaction>());
		}
	}
	return result;
}

//! Watches over the statements of one connection.
class RefreshState : public ClientContextState {
public:
	RefreshState(ClientContext &context, shared_ptr<OpenDuckStorageInfo> info)
	    : info(std::move(info)), forward(ForwardState::Get(context)) {
	}

	//! DuckDB asks before it binds a statement for the first time.
	bool CanRequestRebind() override {
		if (info->attached == 0) {
			return false;
		}
		forward->BeginPlanning();
		return true;
	}

	void QueryBegin(ClientContext &context) override {
		executing = false;
		listing = false;
		if (info->attached == 0) {
			return;
		}
		for (auto &transaction : BegunTransactions(context)) {
			transaction.get().BeginStatement();
		}
	}

	void QueryEnd(ClientContext &context, optional_ptr<ErrorData> error) override {
		executing = false;
		listing = false;
		if (info->attached == 0 || !context.transaction.HasActiveTransaction() ||
		    !ValidChecker::IsInvalidated(context.ActiveTransaction())) {
			return;
		}
		for (auto &transaction : BegunTransactions(context)) {
			transaction.get().Abort();
		}
	}

	//! A statement could not be bound: perhaps the server knows its names, or they are in the catalog as it is now.
	RebindQueryInfo OnPlanningError(ClientContext &context, SQLStatement &statement, ErrorData &error) override {
		switch (forward->Decide(context, statement, error)) {
		case ForwardState::Decision::FORWARD:
			return RebindQueryInfo::ATTEMPT_TO_REBIND;
		case ForwardState::Decision::OURS:
			return Confirmed(context);
		default:
			return PerhapsChanged(context, error);
		}
	}

	//! A name was not found, or did not fit: perhaps it would be in the catalog as it is now.
	RebindQueryInfo PerhapsChanged(ClientContext &context, ErrorData &error) {
		switch (error.Type()) {
		case ExceptionType::IO:
		case ExceptionType::INTERRUPT:
		case ExceptionType::PERMISSION:
		case ExceptionType::PARSER:
		case ExceptionType::NOT_IMPLEMENTED:
			return RebindQueryInfo::DO_NOT_REBIND;
		default:
			break;
		}
		auto result = RebindQueryInfo::DO_NOT_REBIND;
		try {
			for (auto &transaction : BegunTransactions(context)) {
				if ((transaction.get().Touched() || transaction.get().Missed()) &&
				    (transaction.get().TakeMixed() || !transaction.get().Confirm(context, false))) {
					result = RebindQueryInfo::ATTEMPT_TO_REBIND;
				}
			}
		} catch (std::exception &) {
			// The server is away; the statement's own error says more.
			return RebindQueryInfo::DO_NOT_REBIND;
		}
		return result == RebindQueryInfo::ATTEMPT_TO_REBIND ? BindAgain(context) : result;
	}

	RebindQueryInfo OnFinalizePrepare(ClientContext &context, PreparedStatementData &prepared,
	                                  PreparedStatementMode mode) override {
		forward->EndPlanning();
		if (info->attached == 0) {
			return RebindQueryInfo::DO_NOT_REBIND;
		}
		// Not all uses of a name are noted by DuckDB; without that a prepared statement would outlive what it uses.
		for (auto &transaction : BegunTransactions(context)) {
			auto &catalog = transaction.get().catalog;
			auto &properties = prepared.properties;
			auto known = properties.read_databases.count(catalog.GetName()) > 0 ||
			             properties.modified_databases.count(catalog.GetName()) > 0;
			if (transaction.get().Touched() && !known) {
				properties.RegisterDBRead(catalog, context);
			}
		}
		if (mode != PreparedStatementMode::PREPARE_AND_EXECUTE && !executing) {
			return RebindQueryInfo::DO_NOT_REBIND;
		}
		return Check(context, prepared);
	}

	RebindQueryInfo OnRebindPreparedStatement(ClientContext &context, BindPreparedStatementCallbackInfo &callback,
	                                          RebindQueryInfo current_rebind) override {
		RequireAttached(context, callback.prepared_statement);
		return RebindQueryInfo::DO_NOT_REBIND;
	}

	RebindQueryInfo OnExecutePrepared(ClientContext &context, PreparedStatementCallbackInfo &callback,
	                                  RebindQueryInfo current_rebind) override {
		RequireAttached(context, callback.prepared_statement);
		if (info->attached == 0) {
			return RebindQueryInfo::DO_NOT_REBIND;
		}
		// If it is bound again, here or by another's wish, OnFinalizePrepare comes for a statement that is to run.
		executing = true;
		if (current_rebind == RebindQueryInfo::ATTEMPT_TO_REBIND) {
			return RebindQueryInfo::DO_NOT_REBIND;
		}
		return Check(context, callback.prepared_statement);
	}

	bool Lists() const {
		return listing;
	}

private:
	//! DuckDB says so itself, but not of statements that are bound again at every use, as those with a remote scan are.
	static void RequireAttached(ClientContext &context, PreparedStatementData &prepared) {
		if (!prepared.properties.always_require_rebind) {
			return;
		}
		for (auto &read : prepared.properties.read_databases) {
			if (!DatabaseManager::Get(context).GetDatabase(context, read.first)) {
				throw BinderException("Prepared statement requires database %s but it was not attached", read.first);
			}
		}
	}

	//! Is what the statement was bound against still true? Its first remote scan of each database tells, and is on its
	//! way then; a database without one is asked.
	RebindQueryInfo Check(ClientContext &context, PreparedStatementData &prepared) {
		// PREPARE only notes the statement; it is looked at when it is executed.
		if (!prepared.physical_plan || prepared.statement_type == StatementType::PREPARE_STATEMENT) {
			return RebindQueryInfo::DO_NOT_REBIND;
		}
		BeginRemoteWrites(context, prepared.physical_plan->Root(), prepared.properties);
		auto transactions = Involved(context, prepared);
		listing = HasListing(prepared.physical_plan->Root());
		if (listing) {
			RefreshListed(context, transactions);
		}
		bool stale = false;
		auto scans = RemoteScans(prepared.physical_plan->Root());
		for (auto &transaction : transactions) {
			if (transaction.get().TakeMixed()) {
				stale = true;
				continue;
			}
			if (RunsForwarded(prepared.physical_plan->Root(), transaction.get().catalog.GetRemote())) {
				continue;
			}
			auto scan = FirstScan(scans, transaction.get().catalog);
			if (!scan) {
				stale |= !transaction.get().Confirm(context, true);
			} else if (RemoteScanStart(context, *scan) == RemoteStart::STALE_CATALOG) {
				transaction.get().Drop();
				stale = true;
			} else {
				transaction.get().SetConfirmed();
				Release(scans, transaction.get().catalog);
			}
		}
		if (!stale) {
			return RebindQueryInfo::DO_NOT_REBIND;
		}
		RemoteScanDropUnused(context);
		return BindAgain(context);
	}

	//! Binding was broken off, and will not be again: what it goes by must be true now. It writes, in steps.
	static RebindQueryInfo Confirmed(ClientContext &context) {
		for (auto &transaction : BegunTransactions(context)) {
			if (transaction.get().Touched()) {
				transaction.get().Server(context, ServerUse::STEPS);
				transaction.get().TakeMixed();
				transaction.get().Confirm(context, false);
			}
		}
		return BindAgain(context);
	}

	//! There is no third time, so nothing is checked at the second: not even of a database that has not changed yet.
	static RebindQueryInfo BindAgain(ClientContext &context) {
		for (auto &transaction : BegunTransactions(context)) {
			transaction.get().SetRebinding();
		}
		return RebindQueryInfo::ATTEMPT_TO_REBIND;
	}

	//! The remote databases whose names the statement depends on.
	static transactions_t Involved(ClientContext &context, PreparedStatementData &prepared) {
		transactions_t result;
		for (auto &transaction : BegunTransactions(context)) {
			if (transaction.get().Touched()) {
				AddTransaction(result, transaction.get());
			}
		}
		auto &manager = DatabaseManager::Get(context);
		auto add = [&](optional_ptr<AttachedDatabase> database) {
			if (database && !database->IsSystem() && !database->IsTemporary() &&
			    OpenDuckCatalog::Is(database->GetCatalog())) {
				AddTransaction(result, OpenDuckTransaction::Get(context, database->GetCatalog()));
			}
		};
		for (auto &read : prepared.properties.read_databases) {
			add(manager.GetDatabase(context, read.first));
		}
		for (auto &modified : prepared.properties.modified_databases) {
			add(manager.GetDatabase(context, modified.first));
		}
		return result;
	}

	//! A list shows every database. One that the transaction has not used gets no transaction for that: DuckDB would not
	//! bear its name to be given to another while this one lasts.
	static void RefreshListed(ClientContext &context, transactions_t &transactions) {
		auto &meta = MetaTransaction::Get(context);
		for (auto &database : DatabaseManager::Get(context).GetDatabases(context)) {
			if (database->IsSystem() || database->IsTemporary() || !OpenDuckCatalog::Is(database->GetCatalog())) {
				continue;
			}
			auto transaction = meta.TryGetTransaction(*database);
			if (transaction) {
				AddTransaction(transactions, transaction->Cast<OpenDuckTransaction>());
				continue;
			}
			auto &catalog = database->GetCatalog().Cast<OpenDuckCatalog>();
			auto current = catalog.Current();
			if (current && catalog.RemoteVersion(context, nullptr) != current->version) {
				catalog.Invalidate(*current);
			}
		}
	}

	//! A change from now on is no reason to fail: what the other scans get is compared with the columns that were bound.
	static void Release(vector<const_reference<PhysicalTableScan>> &scans, OpenDuckCatalog &catalog) {
		for (auto &scan : scans) {
			auto &source = scan.get().bind_data->Cast<RemoteScanBindData>().source;
			if (source.remote == catalog.SharedRemote()) {
				source.catalog_version = 0;
			}
		}
	}

	static optional_ptr<const PhysicalTableScan> FirstScan(vector<const_reference<PhysicalTableScan>> &scans,
	                                                       OpenDuckCatalog &catalog) {
		for (auto &scan : scans) {
			auto &source = scan.get().bind_data->Cast<RemoteScanBindData>().source;
			if (source.remote == catalog.SharedRemote() && source.catalog_version != 0) {
				return scan.get();
			}
		}
		return nullptr;
	}

	shared_ptr<OpenDuckStorageInfo> info;
	shared_ptr<ForwardState> forward;
	//! Between OnExecutePrepared and the statement's end.
	bool executing = false;
	//! From when the statement is bound to its end: it shows what all databases hold.
	atomic<bool> listing {false};
};

class RefreshCallback : public ExtensionCallback {
public:
	explicit RefreshCallback(shared_ptr<OpenDuckStorageInfo> info) : info(std::move(info)) {
	}

	void OnConnectionOpened(ClientContext &context) override {
		if (!context.registered_state->Get<RefreshState>(STATE_NAME)) {
			context.registered_state->Insert(STATE_NAME, make_shared_ptr<RefreshState>(context, info));
		}
		if (info->attached > 0) {
			BeginInDefaultDatabase(context);
		}
	}

private:
	shared_ptr<OpenDuckStorageInfo> info;
};

} // namespace

bool ListsDatabases(ClientContext &context) {
	auto state = context.registered_state->Get<RefreshState>(STATE_NAME);
	return state && state->Lists();
}

void RegisterRefresh(DatabaseInstance &db, shared_ptr<OpenDuckStorageInfo> info) {
	auto callback = make_shared_ptr<RefreshCallback>(info);
	ExtensionCallback::Register(DBConfig::GetConfig(db), callback);
	for (auto &context : ConnectionManager::Get(db).GetConnectionList()) {
		callback->OnConnectionOpened(*context);
	}
}

} // namespace openduck

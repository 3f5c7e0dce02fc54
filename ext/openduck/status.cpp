//===----------------------------------------------------------------------===//
// openduck/status.cpp: openduck_status, openduck_workers, openduck_queries: what the servers of attached databases say
//===----------------------------------------------------------------------===//
#include "openduck/status.hpp"

#include "duckdb/function/function_set.hpp"
#include "duckdb/function/table_function.hpp"
#include "duckdb/main/attached_database.hpp"
#include "duckdb/main/database_manager.hpp"
#include "openduck/catalog.hpp"

namespace openduck {

static constexpr int64_t STATUS_TIMEOUT_MS = 5000;

//! One answer, released with the object.
class ServerStatus {
public:
	ServerStatus(ClientContext &context, Remote &remote) {
		od_interrupt interrupt = {[](void *arg) { return static_cast<ClientContext *>(arg)->interrupted.load(); },
		                          &context};
		od_error err = {};
		if (od_remote_status(remote.Handle(), STATUS_TIMEOUT_MS, interrupt, &status, &err) != OD_OK) {
			ThrowError(err);
		}
	}
	~ServerStatus() {
		od_status_release(&status);
	}
	ServerStatus(const ServerStatus &) = delete;
	ServerStatus &operator=(const ServerStatus &) = delete;

	od_status status = {};
};

using status_rows_t = vector<vector<Value>>;

//! One of the three functions: its columns after `database_name`, and the rows that an answer gives.
struct StatusFunctionInfo : public TableFunctionInfo {
	const char *name;
	vector<std::pair<const char *, LogicalType>> columns;
	void (*append)(const od_status &status, const Value &database, status_rows_t &rows);
};

struct StatusBindData : public TableFunctionData {
	explicit StatusBindData(const StatusFunctionInfo &info_p) : info(info_p) {
	}
	const StatusFunctionInfo &info;
	//! Names of attached databases, and where they are.
	vector<std::pair<string, shared_ptr<Remote>>> remotes;
};

struct StatusState : public GlobalTableFunctionState {
	status_rows_t rows;
	idx_t next = 0;
};

static Value Texts(const char *const *texts, size_t count) {
	vector<Value> values;
	for (size_t i = 0; i < count; i++) {
		values.emplace_back(texts[i]);
	}
	return Value::LIST(LogicalType::VARCHAR, std::move(values));
}

//! Empty texts are what nobody told.
static Value Text(const char *text) {
	return text && *text ? Value(text) : Value(LogicalType::VARCHAR);
}

//===--------------------------------------------------------------------===//
// The rows
//===--------------------------------------------------------------------===//
static void AppendStatus(const od_status &status, const Value &database, status_rows_t &rows) {
	rows.push_back({database, Text(status.role), Text(status.version), Text(status.duckdb_version),
	                Value::INTERVAL(Interval::FromMicro(NumericCast<int64_t>(status.uptime_seconds) * 1000000)),
	                Value::BOOLEAN(status.draining), Value::UINTEGER(status.in_flight),
	                Value::UINTEGER(status.max_in_flight), Value::UINTEGER(status.queued),
	                Value::UINTEGER(status.max_queued), Value::UINTEGER(status.transactions),
	                Value::UBIGINT(status.executions_total), Value::UBIGINT(status.errors_total),
	                Value::UBIGINT(status.cancelled_total), Texts(status.databases, status.database_count)});
}

static void AppendWorkers(const od_status &status, const Value &database, status_rows_t &rows) {
	for (size_t i = 0; i < status.worker_count; i++) {
		auto &worker = status.workers[i];
		rows.push_back({database, Text(worker.worker_id), Text(worker.endpoint), Value::BOOLEAN(worker.healthy),
		                Value::UINTEGER(worker.in_flight), Texts(worker.databases, worker.database_count)});
	}
}

static void AppendQueries(const od_status &status, const Value &database, status_rows_t &rows) {
	for (size_t i = 0; i < status.running_count; i++) {
		auto &query = status.running[i];
		rows.push_back({database, Text(query.execution_id), Text(query.database),
		                Value(query.waiting ? "waiting" : "running"),
		                Value::INTERVAL(Interval::FromMicro(NumericCast<int64_t>(query.elapsed_ms) * 1000)),
		                Value::UBIGINT(query.bytes_sent), Text(query.worker), Text(query.sql)});
	}
}

//===--------------------------------------------------------------------===//
// The functions
//===--------------------------------------------------------------------===//
static void AddAll(ClientContext &context, StatusBindData &data) {
	for (auto &database : DatabaseManager::Get(context).GetDatabases(context)) {
		if (!database->IsSystem() && !database->IsTemporary() && OpenDuckCatalog::Is(database->GetCatalog())) {
			data.remotes.emplace_back(database->GetName(),
			                          database->GetCatalog().Cast<OpenDuckCatalog>().SharedRemote());
		}
	}
}

static unique_ptr<FunctionData> StatusBind(ClientContext &context, TableFunctionBindInput &input,
                                           vector<LogicalType> &types, vector<string> &names) {
	auto &info = input.info->Cast<StatusFunctionInfo>();
	auto data = make_uniq<StatusBindData>(info);
	if (input.inputs.empty()) {
		AddAll(context, *data);
	} else if (input.inputs[0].IsNull()) {
		throw BinderException("%s: the database cannot be NULL", info.name);
	} else {
		auto alias = input.inputs[0].GetValue<string>();
		data->remotes.emplace_back(alias, CatalogOfAlias(context, alias).SharedRemote());
	}
	names.emplace_back("database_name");
	types.push_back(LogicalType::VARCHAR);
	for (auto &column : info.columns) {
		names.emplace_back(column.first);
		types.push_back(column.second);
	}
	return std::move(data);
}

static unique_ptr<GlobalTableFunctionState> StatusInit(ClientContext &context, TableFunctionInitInput &input) {
	auto &data = input.bind_data->Cast<StatusBindData>();
	auto state = make_uniq<StatusState>();
	for (auto &remote : data.remotes) {
		ServerStatus answer(context, *remote.second);
		data.info.append(answer.status, Value(remote.first), state->rows);
	}
	return std::move(state);
}

static void StatusScan(ClientContext &context, TableFunctionInput &input, DataChunk &output) {
	auto &state = input.global_state->Cast<StatusState>();
	idx_t count = 0;
	for (; state.next < state.rows.size() && count < STANDARD_VECTOR_SIZE; state.next++, count++) {
		auto &row = state.rows[state.next];
		for (idx_t i = 0; i < row.size(); i++) {
			output.SetValue(i, count, row[i]);
		}
	}
	output.SetCardinality(count);
}

static void Register(ExtensionLoader &loader, shared_ptr<StatusFunctionInfo> info) {
	TableFunctionSet set(info->name);
	for (auto &arguments : vector<vector<LogicalType>> {{}, {LogicalType::VARCHAR}}) {
		TableFunction function(info->name, arguments, StatusScan, StatusBind, StatusInit);
		function.function_info = info;
		set.AddFunction(function);
	}
	loader.RegisterFunction(set);
}

void RegisterStatusFunctions(ExtensionLoader &loader) {
	auto names = LogicalType::LIST(LogicalType::VARCHAR);
	auto status = make_shared_ptr<StatusFunctionInfo>();
	status->name = "openduck_status";
	status->columns = {{"role", LogicalType::VARCHAR},
	                   {"version", LogicalType::VARCHAR},
	                   {"duckdb_version", LogicalType::VARCHAR},
	                   {"uptime", LogicalType::INTERVAL},
	                   {"draining", LogicalType::BOOLEAN},
	                   {"in_flight", LogicalType::UINTEGER},
	                   {"max_in_flight", LogicalType::UINTEGER},
	                   {"queued", LogicalType::UINTEGER},
	                   {"max_queued", LogicalType::UINTEGER},
	                   {"transactions", LogicalType::UINTEGER},
	                   {"executions_total", LogicalType::UBIGINT},
	                   {"errors_total", LogicalType::UBIGINT},
	                   {"cancelled_total", LogicalType::UBIGINT},
	                   {"databases", names}};
	status->append = AppendStatus;
	Register(loader, status);

	auto workers = make_shared_ptr<StatusFunctionInfo>();
	workers->name = "openduck_workers";
	workers->columns = {{"worker_id", LogicalType::VARCHAR},
	                    {"endpoint", LogicalType::VARCHAR},
	                    {"healthy", LogicalType::BOOLEAN},
	                    {"in_flight", LogicalType::UINTEGER},
	                    {"databases", names}};
	workers->append = AppendWorkers;
	Register(loader, workers);

	auto queries = make_shared_ptr<StatusFunctionInfo>();
	queries->name = "openduck_queries";
	queries->columns = {{"execution_id", LogicalType::VARCHAR}, {"remote_database", LogicalType::VARCHAR},
	                    {"state", LogicalType::VARCHAR},        {"elapsed", LogicalType::INTERVAL},
	                    {"bytes_sent", LogicalType::UBIGINT},   {"worker", LogicalType::VARCHAR},
	                    {"sql", LogicalType::VARCHAR}};
	queries->append = AppendQueries;
	Register(loader, queries);
}

} // namespace openduck

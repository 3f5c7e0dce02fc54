#include "storage/functions.hpp"

#include "common/throw.hpp"

#include "storage/seal.hpp"

#include "duckdb/common/exception/binder_exception.hpp"
#include "duckdb/function/function_set.hpp"
#include "duckdb/function/table_function.hpp"
#include "duckdb/main/client_data.hpp"

namespace openduck {

using rows_t = vector<vector<Value>>;

struct StorageFunctionInput {
	ClientContext &context;
	StorageState &state;
	const vector<Value> &arguments;
	const named_parameter_map_t &named;
};

//! One function: what it returns, and what it does when it runs.
struct StorageFunctionInfo : public TableFunctionInfo {
	const char *name;
	vector<std::pair<const char *, LogicalType>> columns;
	rows_t (*run)(StorageFunctionInput input);
	shared_ptr<StorageState> state;
};

struct StorageFunctionData : public TableFunctionData {
	StorageFunctionData(const StorageFunctionInfo &info_p, TableFunctionBindInput &input)
	    : info(info_p), arguments(input.inputs), named(input.named_parameters) {
	}
	const StorageFunctionInfo &info;
	vector<Value> arguments;
	named_parameter_map_t named;
};

struct StorageFunctionState : public GlobalTableFunctionState {
	bool has_run = false;
	rows_t rows;
	idx_t next = 0;
};

//===--------------------------------------------------------------------===//
// Arguments
//===--------------------------------------------------------------------===//
static string TextParameter(const StorageFunctionInput &input, const char *key) {
	auto entry = input.named.find(key);
	return entry == input.named.end() || entry->second.IsNull() ? string() : entry->second.ToString();
}

static bool Flag(const StorageFunctionInput &input, const char *key) {
	auto entry = input.named.find(key);
	return entry != input.named.end() && !entry->second.IsNull() && entry->second.GetValue<bool>();
}

//! The store that a call without a database is about.
static StorageLocation StoreLocation(const StorageFunctionInput &input) {
	StorageLocation location;
	location.data_dir = TextParameter(input, "data_dir");
	location.secret = TextParameter(input, "secret");
	location.blob_url = TextParameter(input, "blob_url");
	return StorageLocation::Resolve(location, input.context.client_data->file_opener.get());
}

//! NAME is an attached database, a path, or a database in the store of the other arguments.
static StorageLocation DatabaseLocation(const StorageFunctionInput &input, const string &name) {
	StorageLocation location;
	if (StorageLocation::IsOne(name)) {
		return StorageLocation::Resolve(name, input.context.client_data->file_opener.get());
	}
	if (LocationOfAttached(input.context, name, location)) {
		return location;
	}
	location = StoreLocation(input);
	location.database = name;
	return location;
}

static shared_ptr<Store> OpenStore(const StorageFunctionInput &input, const StorageLocation &location) {
	return input.state.OpenStore(location, false);
}

static void Check(od_storage_code code, const od_storage_error &err, const string &what) {
	if (code != OD_STORAGE_OK) {
		ThrowStorageError(err, what);
	}
}

//===--------------------------------------------------------------------===//
// The functions
//===--------------------------------------------------------------------===//
static rows_t Seal(StorageFunctionInput input) {
	auto name = input.arguments[0].ToString();
	auto sealed = SealDatabase(input.context, input.state, name);
	return {{Value(name), Value(sealed.snapshot), Value::BOOLEAN(sealed.checkpointed)}};
}

static rows_t Snapshots(StorageFunctionInput input) {
	rows_t rows;
	auto one = !input.arguments.empty();
	auto location = one ? DatabaseLocation(input, input.arguments[0].ToString()) : StoreLocation(input);
	auto store = OpenStore(input, location);
	auto add = [](void *arg, const od_storage_snapshot *snapshot) {
		auto created = Value::TIMESTAMP(timestamp_t(snapshot->created_ms * Interval::MICROS_PER_MSEC));
		static_cast<rows_t *>(arg)->push_back(
		    {Value(snapshot->id), Value(snapshot->database), Value(snapshot->layer), created});
		return 0;
	};
	od_storage_error err = {};
	Check(od_store_snapshots(store->Handle(), one ? location.database.c_str() : nullptr, add, &rows, &err), err,
	      "cannot list the snapshots in '" + location.data_dir + "'");
	return rows;
}

static rows_t DropSnapshot(StorageFunctionInput input) {
	auto id = input.arguments[0].ToString();
	auto store = OpenStore(input, StoreLocation(input));
	od_storage_error err = {};
	Check(od_store_drop_snapshot(store->Handle(), id.c_str(), &err), err, "cannot drop the snapshot");
	return {{Value(id)}};
}

static rows_t Clone(StorageFunctionInput input) {
	auto id = input.arguments[0].ToString();
	auto name = input.arguments[1].ToString();
	auto store = OpenStore(input, StoreLocation(input));
	od_storage_error err = {};
	Check(od_store_clone(store->Handle(), id.c_str(), name.c_str(), &err), err, "cannot clone the snapshot");
	return {{Value(name), Value(id)}};
}

static rows_t Gc(StorageFunctionInput input) {
	rows_t rows;
	auto store = OpenStore(input, StoreLocation(input));
	auto add = [](void *arg, const od_storage_garbage *garbage) {
		static_cast<rows_t *>(arg)->push_back(
		    {Value(garbage->layer), Value(garbage->reason), Value::UBIGINT(garbage->bytes)});
		return 0;
	};
	od_storage_error err = {};
	Check(od_store_gc(store->Handle(), Flag(input, "dry_run"), add, &rows, nullptr, &err), err,
	      "cannot collect garbage");
	return rows;
}

//! NULL: there is nothing to compare with.
static Value Ratio(uint64_t of, uint64_t to) {
	return to == 0 ? Value(LogicalType::DOUBLE) : Value::DOUBLE(double(of) / double(to));
}

static rows_t Storage(StorageFunctionInput input) {
	rows_t rows;
	auto one = !input.arguments.empty();
	auto location = one ? DatabaseLocation(input, input.arguments[0].ToString()) : StoreLocation(input);
	auto store = OpenStore(input, location);
	auto add = [](void *arg, const od_storage_status *status) {
		static_cast<rows_t *>(arg)->push_back(
		    {Value(status->database), Value::BOOLEAN(status->has_writer != 0), Value::UBIGINT(status->snapshots),
		     Value::UBIGINT(status->layers), Value::UBIGINT(status->mergeable), Value::UBIGINT(status->stored_bytes),
		     Value::UBIGINT(status->data_bytes), Ratio(status->stored_bytes, status->data_bytes),
		     Ratio(status->read_bytes, status->data_bytes)});
		return 0;
	};
	od_storage_error err = {};
	Check(od_store_status(store->Handle(), one ? location.database.c_str() : nullptr, add, &rows, &err), err,
	      "cannot look at the layers in '" + location.data_dir + "'");
	return rows;
}

static rows_t Compact(StorageFunctionInput input) {
	struct Merges {
		ClientContext &context;
		rows_t rows;
	} merges {input.context, {}};
	auto one = !input.arguments.empty();
	auto location = one ? DatabaseLocation(input, input.arguments[0].ToString()) : StoreLocation(input);
	auto store = OpenStore(input, location);
	auto add = [](void *arg, const od_storage_merge *merge) {
		auto &to = *static_cast<Merges *>(arg);
		if (merge->done) {
			to.rows.push_back({Value(merge->layer), Value::UBIGINT(merge->layers), Value::UBIGINT(merge->bytes_before),
			                   Value::UBIGINT(merge->bytes_after)});
		}
		return to.context.interrupted ? 1 : 0;
	};
	od_storage_error err = {};
	Check(od_store_compact(store->Handle(), one ? location.database.c_str() : nullptr, Flag(input, "whole"), add,
	                       &merges, &err),
	      err, "cannot merge layers");
	return merges.rows;
}

static rows_t Tier(StorageFunctionInput input) {
	struct Sent {
		ClientContext &context;
		rows_t rows;
	} sent {input.context, {}};
	auto store = OpenStore(input, StoreLocation(input));
	auto add = [](void *arg, const od_storage_tiered *tiered) {
		auto &to = *static_cast<Sent *>(arg);
		to.rows.push_back({Value(tiered->layer), Value::UBIGINT(tiered->bytes)});
		return to.context.interrupted ? 1 : 0;
	};
	od_storage_error err = {};
	Check(od_store_tier(store->Handle(), add, &sent, &err), err, "cannot send layers to the store's blob_url");
	return sent.rows;
}

static rows_t Far(StorageFunctionInput input) {
	auto store = OpenStore(input, StoreLocation(input));
	od_storage_tier_status s = {};
	od_storage_error err = {};
	Check(od_store_tier_status(store->Handle(), &s, &err), err, "cannot look at the store's blob_url");
	auto failure =
	    s.last_error[0] ? Value(ForeignText(s.last_error, strlen(s.last_error))) : Value(LogicalType::VARCHAR);
	return {{Value::UBIGINT(s.layers), Value::UBIGINT(s.bytes), Value::UBIGINT(s.far_layers),
	         Value::UBIGINT(s.far_bytes), Value::UBIGINT(s.near_layers), Value::UBIGINT(s.near_bytes),
	         Value::UBIGINT(s.fetches), Value::UBIGINT(s.fetched_bytes), failure}};
}

static rows_t Verify(StorageFunctionInput input) {
	rows_t rows;
	auto store = OpenStore(input, StoreLocation(input));
	auto add = [](void *arg, const od_storage_check *check) {
		auto problem = check->problem ? Value(check->problem) : Value(LogicalType::VARCHAR);
		static_cast<rows_t *>(arg)->push_back({Value(check->layer), problem, Value::UBIGINT(check->bytes)});
		return 0;
	};
	od_storage_error err = {};
	auto code = od_store_verify(store->Handle(), add, &rows, &err);
	// What is damaged is in the rows.
	Check(code == OD_STORAGE_CORRUPT ? OD_STORAGE_OK : code, err, "cannot verify the layers");
	return rows;
}

//===--------------------------------------------------------------------===//
// For DuckDB
//===--------------------------------------------------------------------===//
static unique_ptr<FunctionData> Bind(ClientContext &context, TableFunctionBindInput &input, vector<LogicalType> &types,
                                     vector<string> &names) {
	auto &info = input.info->Cast<StorageFunctionInfo>();
	for (auto &argument : input.inputs) {
		if (argument.IsNull()) {
			throw BinderException("%s: an argument cannot be NULL", info.name);
		}
	}
	for (auto &column : info.columns) {
		names.emplace_back(column.first);
		types.push_back(column.second);
	}
	return make_uniq<StorageFunctionData>(info, input);
}

static unique_ptr<GlobalTableFunctionState> Init(ClientContext &context, TableFunctionInitInput &input) {
	return make_uniq<StorageFunctionState>();
}

static void Scan(ClientContext &context, TableFunctionInput &input, DataChunk &output) {
	auto &state = input.global_state->Cast<StorageFunctionState>();
	if (!state.has_run) {
		auto &data = input.bind_data->Cast<StorageFunctionData>();
		state.has_run = true;
		state.rows = data.info.run({context, *data.info.state, data.arguments, data.named});
	}
	idx_t count = 0;
	for (; state.next < state.rows.size() && count < STANDARD_VECTOR_SIZE; state.next++, count++) {
		auto &row = state.rows[state.next];
		for (idx_t i = 0; i < row.size(); i++) {
			output.SetValue(i, count, row[i]);
		}
	}
	output.SetCardinality(count);
}

static void Register(ExtensionLoader &loader, const StorageFunctionInfo &description,
                     const vector<vector<LogicalType>> &overloads, const char *flag = nullptr, bool of_a_store = true) {
	auto info = make_shared_ptr<StorageFunctionInfo>(description);
	TableFunctionSet set(info->name);
	for (auto &arguments : overloads) {
		TableFunction function(info->name, arguments, Scan, Bind, Init);
		function.function_info = info;
		if (of_a_store) {
			function.named_parameters["data_dir"] = LogicalType::VARCHAR;
			function.named_parameters["secret"] = LogicalType::VARCHAR;
			function.named_parameters["blob_url"] = LogicalType::VARCHAR;
		}
		if (flag) {
			function.named_parameters[flag] = LogicalType::BOOLEAN;
		}
		set.AddFunction(function);
	}
	loader.RegisterFunction(set);
}

static StorageFunctionInfo Describe(const shared_ptr<StorageState> &state, const char *name,
                                    rows_t (*run)(StorageFunctionInput),
                                    vector<std::pair<const char *, LogicalType>> columns) {
	StorageFunctionInfo info;
	info.name = name;
	info.columns = std::move(columns);
	info.run = run;
	info.state = state;
	return info;
}

void RegisterSeal(ExtensionLoader &loader, shared_ptr<StorageState> state) {
	auto text = LogicalType::VARCHAR;
	Register(loader,
	         Describe(state, "openduck_seal", Seal,
	                  {{"database_name", text}, {"snapshot", text}, {"checkpointed", LogicalType::BOOLEAN}}),
	         {{text}}, nullptr, false);
}

void RegisterStoreFunctions(ExtensionLoader &loader, shared_ptr<StorageState> state) {
	auto text = LogicalType::VARCHAR;
	auto number = LogicalType::UBIGINT;
	Register(loader,
	         Describe(state, "openduck_snapshots", Snapshots,
	                  {{"snapshot", text}, {"database", text}, {"layer", text}, {"created", LogicalType::TIMESTAMP}}),
	         {{}, {text}});
	Register(loader, Describe(state, "openduck_drop_snapshot", DropSnapshot, {{"snapshot", text}}), {{text}});
	Register(loader, Describe(state, "openduck_clone", Clone, {{"database", text}, {"snapshot", text}}),
	         {{text, text}});
	Register(loader, Describe(state, "openduck_gc", Gc, {{"layer", text}, {"reason", text}, {"bytes", number}}), {{}},
	         "dry_run");
	Register(loader,
	         Describe(state, "openduck_compact", Compact,
	                  {{"layer", text}, {"layers", number}, {"bytes_before", number}, {"bytes_after", number}}),
	         {{}, {text}}, "whole");
	Register(loader,
	         Describe(state, "openduck_storage", Storage,
	                  {{"database", text},
	                   {"has_writer", LogicalType::BOOLEAN},
	                   {"snapshots", number},
	                   {"layers", number},
	                   {"mergeable", number},
	                   {"stored_bytes", number},
	                   {"data_bytes", number},
	                   {"space", LogicalType::DOUBLE},
	                   {"reading", LogicalType::DOUBLE}}),
	         {{}, {text}});
	Register(loader, Describe(state, "openduck_tier", Tier, {{"layer", text}, {"bytes", number}}), {{}});
	Register(loader,
	         Describe(state, "openduck_far", Far,
	                  {{"layers", number},
	                   {"bytes", number},
	                   {"far_layers", number},
	                   {"far_bytes", number},
	                   {"near_layers", number},
	                   {"near_bytes", number},
	                   {"fetches", number},
	                   {"fetched_bytes", number},
	                   {"last_error", text}}),
	         {{}});
	Register(loader,
	         Describe(state, "openduck_verify", Verify, {{"layer", text}, {"problem", text}, {"bytes", number}}), {{}});
}

} // namespace openduck

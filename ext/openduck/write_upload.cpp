#include "openduck/write_upload.hpp"

#include "duckdb/execution/executor.hpp"
#include "duckdb/parallel/async_result.hpp"
#include "duckdb/parallel/pipeline.hpp"
#include "duckdb/parser/keyword_helper.hpp"

namespace openduck {

static string Identifier(const string &name) {
	return KeywordHelper::WriteQuoted(name, '"');
}

static string TypeSql(const LogicalType &type, bool keep_json);

static string FieldsSql(const child_list_t<LogicalType> &fields, bool keep_json) {
	string result;
	for (auto &field : fields) {
		result += (result.empty() ? "(" : ", ") + Identifier(field.first) + " " + TypeSql(field.second, keep_json);
	}
	return result + ")";
}

static string EnumSql(const LogicalType &type) {
	string result = "ENUM(";
	auto values = FlatVector::GetData<string_t>(EnumType::GetValuesInsertOrder(type));
	for (idx_t i = 0; i < EnumType::GetSize(type); i++) {
		result += (i ? ", " : "") + KeywordHelper::WriteQuoted(values[i].GetString(), '\'');
	}
	return result + ")";
}

static string TypeSql(const LogicalType &type, bool keep_json) {
	if (keep_json && type.IsJSONType()) {
		return "JSON";
	}
	switch (type.id()) {
	case LogicalTypeId::DECIMAL:
		return StringUtil::Format("DECIMAL(%d,%d)", DecimalType::GetWidth(type), DecimalType::GetScale(type));
	case LogicalTypeId::ENUM:
		return EnumSql(type);
	case LogicalTypeId::LIST:
		return TypeSql(ListType::GetChildType(type), keep_json) + "[]";
	case LogicalTypeId::ARRAY:
		return TypeSql(ArrayType::GetChildType(type), keep_json) + "[" + to_string(ArrayType::GetSize(type)) + "]";
	case LogicalTypeId::MAP:
		return "MAP(" + TypeSql(MapType::KeyType(type), keep_json) + ", " +
		       TypeSql(MapType::ValueType(type), keep_json) + ")";
	case LogicalTypeId::STRUCT:
		return "STRUCT" + FieldsSql(StructType::GetChildTypes(type), keep_json);
	case LogicalTypeId::UNION:
		return "UNION" + FieldsSql(UnionType::CopyMemberTypes(type), keep_json);
	case LogicalTypeId::SQLNULL:
		return "\"NULL\"";
	default:
		return EnumUtil::ToString(type.id());
	}
}

string StagedTypeSql(const LogicalType &type) {
	return TypeSql(type, false);
}

string CreatedTypeSql(const LogicalType &type) {
	return TypeSql(type, true);
}

//===--------------------------------------------------------------------===//
// RowUpload
//===--------------------------------------------------------------------===//
RowUpload::RowUpload(ClientContext &context, shared_ptr<Remote> remote_p, const od_remote_txn *txn, string table_p,
                     const StagedColumns &columns, string statement_p, uint64_t version)
    : context(context), remote(std::move(remote_p)), txn(txn), table(std::move(table_p)),
      statement(std::move(statement_p)), version(version), names(columns.names) {
	for (auto &type : columns.types) {
		sql_types.push_back(StagedTypeSql(type));
	}
	od_error err = {};
	ThrowIfFailed(od_msg_pool_create(MAX_WAITING / 2, &pool, &err), err);
}

RowUpload::~RowUpload() {
	for (auto &entry : waiting) {
		for (auto payload : entry.second) {
			od_msg_unref(payload);
		}
	}
	od_ingest_free(ingest);
	od_msg_pool_free(pool);
}

bool RowUpload::Interrupted(void *arg) {
	auto &upload = *static_cast<RowUpload *>(arg);
	return upload.context.interrupted || Executor::Get(upload.context).HasError();
}

void RowUpload::Open() {
	vector<od_wire_column> columns;
	for (idx_t i = 0; i < names.size(); i++) {
		od_wire_column column = {};
		column.name = od_slice_of(names[i].data(), names[i].size());
		column.sql_type = od_slice_of(sql_types[i].data(), sql_types[i].size());
		columns.push_back(column);
	}
	od_ingest_options options = {};
	options.staging_table = od_slice_of(table.data(), table.size());
	options.columns = columns.data();
	options.column_count = columns.size();
	options.format = OD_FORMAT_NATIVE;
	options.statement = od_slice_of(statement.data(), statement.size());
	options.expected_catalog_version = version;
	options.interrupt.check = Interrupted;
	options.interrupt.arg = this;
	od_error err = {};
	if (od_ingest_open(remote->Handle(), txn, &options, &ingest, &err) != OD_OK) {
		ThrowError(err);
	}
}

bool RowUpload::Send(od_msg *payload, int64_t wait_ms) {
	if (!ingest) {
		Open();
	}
	od_error err = {};
	bool again = false;
	ThrowIfFailed(od_ingest_send_within(ingest, payload, wait_ms, &again, &err), err);
	return !again;
}

void RowUpload::Unblock() {
	if (behind && !error.HasError()) {
		if (!awaited && !blocked.empty()) {
			blocked.back().Callback();
			blocked.pop_back();
		}
		return;
	}
	for (auto &state : blocked) {
		state.Callback();
	}
	blocked.clear();
}

od_msg *RowUpload::TakeNext() {
	auto first = waiting.begin();
	auto payload = first->second.front();
	first->second.pop_front();
	if (first->second.empty()) {
		waiting.erase(first);
	}
	waiting_bytes -= od_msg_len(payload);
	return payload;
}

void RowUpload::Drain(std::unique_lock<mutex> &guard, int64_t wait_ms, idx_t enough) {
	if (sending) {
		return;
	}
	sending = true;
	auto until = od_deadline_in_ms(wait_ms);
	bool passed = false;
	while (!error.HasError() && !passed && (behind || HasNext())) {
		auto payload = behind ? nullptr : TakeNext();
		auto left = od_deadline_poll_ms(until);
		guard.unlock();
		ErrorData failure;
		bool written = false;
		try {
			written = Send(payload, left);
		} catch (std::exception &ex) {
			failure = ErrorData(ex);
		}
		od_msg_unref(payload);
		guard.lock();
		behind = !written;
		passed = !written || (wait_ms > 0 && waiting_bytes <= enough);
		if (failure.HasError()) {
			error = std::move(failure);
		} else if (waiting_bytes <= MAX_WAITING) {
			Unblock();
		}
	}
	sending = false;
	// Whoever waits for the sender looks for himself whether he is the next.
	Unblock();
}

void RowUpload::Raise(std::unique_lock<mutex> &guard, idx_t min, int64_t wait_ms) {
	if (min > min_batch) {
		min_batch = min;
		Unblock();
	}
	Drain(guard, wait_ms, 0);
	if (error.HasError()) {
		error.Throw();
	}
}

//! How long a task waits for the server before DuckDB may look whether it should.
static constexpr int64_t WAIT_MS = 50;

void RowUpload::AwaitRoom() {
	std::unique_lock<mutex> guard(lock);
	Drain(guard, WAIT_MS, MAX_WAITING / 2);
	awaited = false;
	Unblock();
}

bool RowUpload::MustWait(ExecutionContext &execution, idx_t batch, idx_t min, InterruptState &state) {
	class AwaitTask : public AsyncTask {
	public:
		explicit AwaitTask(RowUpload &upload) : upload(upload) {
		}
		void Execute() override {
			upload.AwaitRoom();
		}

	private:
		RowUpload &upload;
	};

	std::unique_lock<mutex> guard(lock);
	Raise(guard, min, 0);
	if (waiting_bytes <= MAX_WAITING || (batch <= min_batch && !sending && !behind)) {
		return false;
	}
	if (behind && !awaited) {
		awaited = true;
		vector<unique_ptr<AsyncTask>> tasks;
		tasks.push_back(make_uniq<AwaitTask>(*this));
		AsyncResult(std::move(tasks)).ScheduleTasks(state, execution.pipeline->executor);
	} else {
		blocked.push_back(state);
	}
	return true;
}

void RowUpload::Push(idx_t batch, od_msg *payload) {
	std::unique_lock<mutex> guard(lock);
	waiting[batch].push_back(payload);
	waiting_bytes += od_msg_len(payload);
	Raise(guard, min_batch, 0);
}

void RowUpload::Advance(idx_t min) {
	std::unique_lock<mutex> guard(lock);
	Raise(guard, min, 0);
}

bool RowUpload::Finish(int64_t wait_ms, idx_t &rows) {
	rows = 0;
	{
		std::unique_lock<mutex> guard(lock);
		Raise(guard, NumericLimits<idx_t>::Maximum(), wait_ms);
		if (behind || HasNext()) {
			return false;
		}
	}
	if (!ingest) {
		return true;
	}
	uint64_t told = 0;
	bool again = false;
	od_error err = {};
	ThrowIfFailed(od_ingest_finish_within(ingest, wait_ms, &told, &again, &err), err);
	rows = told;
	return !again;
}

//===--------------------------------------------------------------------===//
// RowEncoder
//===--------------------------------------------------------------------===//
RowEncoder::RowEncoder(RowUpload &upload, const StagedColumns &columns)
    : upload(upload), writer(columns.shown, columns.types, upload.Pool()) {
	writer.SendDictionaries();
	for (auto &type : columns.types) {
		variable |= !TypeIsConstantSize(type.InternalType());
	}
}

void RowEncoder::Append(DataChunk &chunk, const vector<idx_t> &from, idx_t batch_p) {
	batch = batch_p;
	AppendRows(chunk, from, 0, chunk.size());
}

void RowEncoder::AppendRows(DataChunk &chunk, const vector<idx_t> &from, idx_t first, idx_t count) {
	if (!writer.Takes(chunk, from, first, count)) {
		Flush();
	}
	if (variable) {
		// A payload has to stay below the limit of a message, so long rows go few at a time.
		auto size = writer.Measure(chunk, from, first, count);
		if (size > TARGET * 4 && count > 1) {
			AppendRows(chunk, from, first, count / 2);
			AppendRows(chunk, from, first + count / 2, count - count / 2);
			return;
		}
		if (writer.Rows() > 0 && writer.Bytes() + size > TARGET * 4) {
			Flush();
		}
	}
	writer.Append(chunk, from, first, count);
	if (writer.Bytes() >= TARGET) {
		Flush();
	}
}

void RowEncoder::Flush() {
	if (writer.Rows() > 0) {
		upload.Push(batch, writer.Flush());
	}
}

} // namespace openduck

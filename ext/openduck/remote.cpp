//===----------------------------------------------------------------------===//
// openduck/remote.cpp: questions to a remote database whose answers are needed at once
//===----------------------------------------------------------------------===//
#include "openduck/remote.hpp"

#include "duckdb/execution/executor.hpp"
#include "openduck/remote_type.hpp"
#include "openduck/scan.hpp"

extern "C" {
#include "base/uuid.h"
}

namespace openduck {

//===--------------------------------------------------------------------===//
// RemoteStream
//===--------------------------------------------------------------------===//
RemoteStream::~RemoteStream() {
	od_result_free(result);
}

bool RemoteStream::Interrupted(void *arg) {
	auto &stream = *static_cast<RemoteStream *>(arg);
	if (!stream.context) {
		return false;
	}
	if (stream.context->interrupted) {
		return true;
	}
	return stream.watch_executor && Executor::Get(*stream.context).HasError();
}

unique_ptr<RemoteStream> RemoteStream::Start(optional_ptr<ClientContext> context, Remote &remote,
                                             const od_remote_txn *txn, const string &sql, uint64_t catalog_version,
                                             bool describe_only, od_slice parameters, bool wants_layout, bool divides) {
	auto stream = make_uniq<RemoteStream>();
	stream->context = context;
	stream->remote = remote;
	auto statement_id = context ? RemoteClientState::Get(*context)->StatementId() : string();
	od_remote_query query = {};
	query.sql = od_slice_of(sql.data(), sql.size());
	query.format = OD_FORMAT_NATIVE;
	query.describe_only = describe_only;
	query.expected_catalog_version = catalog_version;
	query.statement_id = statement_id.empty() ? nullptr : statement_id.c_str();
	query.interrupt.check = Interrupted;
	query.interrupt.arg = stream.get();
	query.txn = txn;
	query.parameters = parameters;
	query.wants_layout = wants_layout;
	query.divides = divides;
	od_error err = {};
	if (od_remote_execute(remote.Handle(), &query, &stream->result, &err) != OD_OK) {
		ThrowError(err);
	}
	return stream;
}

unique_ptr<RemoteStream> RemoteStream::Follow() {
	auto stream = make_uniq<RemoteStream>();
	stream->context = context;
	stream->remote = remote;
	stream->watch_executor = watch_executor;
	auto statement_id = context ? RemoteClientState::Get(*context)->StatementId() : string();
	od_remote_query query = {};
	query.statement_id = statement_id.empty() ? nullptr : statement_id.c_str();
	query.interrupt.check = Interrupted;
	query.interrupt.arg = stream.get();
	query.follows = od_result_execution_id(result);
	od_error err = {};
	ThrowIfFailed(od_remote_execute(remote->Handle(), &query, &stream->result, &err), err);
	return stream;
}

od_code RemoteStream::TryNext(RemotePayload &payload, od_error &err) {
	payload = RemotePayload();
	return od_result_next(result, &payload.owner, &payload.bytes, &err);
}

bool RemoteStream::Next(RemotePayload &payload) {
	od_error err = {};
	ThrowIfFailed(TryNext(payload, err), err);
	return payload.owner != nullptr;
}

od_code RemoteStream::TryNextWithin(int64_t wait_ms, RemotePayload &payload, Got &got, od_error &err) {
	bool again = false;
	payload = RemotePayload();
	auto code = od_result_next_within(result, wait_ms, &payload.owner, &payload.bytes, &again, &err);
	got = again ? Got::NOTHING_YET : payload.owner ? Got::PAYLOAD : Got::END;
	return code;
}

RemoteStream::Got RemoteStream::NextWithin(int64_t wait_ms, RemotePayload &payload) {
	od_error err = {};
	auto got = Got::NOTHING_YET;
	ThrowIfFailed(TryNextWithin(wait_ms, payload, got, err), err);
	return got;
}

uint64_t RemoteStream::Place() const {
	return od_result_place(result);
}

uint64_t RemoteStream::Payloads() const {
	return od_result_payloads(result);
}

void RemoteStream::ReadEnd(int64_t wait_ms) {
	RemotePayload payload;
	auto got = Got::END;
	od_error err = {};
	context = nullptr;
	if (TryNextWithin(wait_ms, payload, got, err) == OD_OK) {
		od_msg_unref(payload.owner);
	}
}

void RemoteStream::Heard() {
	od_result_heard(result);
}

uint64_t RemoteStream::Bytes() const {
	return od_result_bytes(result);
}

string RemoteStream::Layout() const {
	auto bytes = od_result_layout(result);
	return bytes.len == 0 ? string() : string(reinterpret_cast<const char *>(bytes.data), bytes.len);
}

uint64_t RemoteStream::CatalogVersion() const {
	return od_result_catalog_version(result);
}

//===--------------------------------------------------------------------===//
// RemoteClientState
//===--------------------------------------------------------------------===//
shared_ptr<RemoteClientState> RemoteClientState::Get(ClientContext &context) {
	return context.registered_state->GetOrCreate<RemoteClientState>("openduck_remote");
}

string RemoteClientState::StatementId() {
	lock_guard<mutex> guard(lock);
	if (statement_id.empty()) {
		char text[OD_UUID_TEXT_SIZE];
		od_uuid_format(od_uuid_random(), text);
		statement_id = text;
	}
	return statement_id;
}

void RemoteClientState::Put(const FunctionData &bind_data, unique_ptr<StartedScan> scan) {
	lock_guard<mutex> guard(lock);
	started[&bind_data] = std::move(scan);
}

unique_ptr<StartedScan> RemoteClientState::Take(const FunctionData &bind_data) {
	lock_guard<mutex> guard(lock);
	auto entry = started.find(&bind_data);
	if (entry == started.end()) {
		return nullptr;
	}
	auto result = std::move(entry->second);
	started.erase(entry);
	return result;
}

void RemoteClientState::DropStarted() {
	unordered_map<const FunctionData *, unique_ptr<StartedScan>> dropped;
	lock_guard<mutex> guard(lock);
	dropped.swap(started);
}

void RemoteClientState::QueryEnd() {
	DropStarted();
	lock_guard<mutex> guard(lock);
	statement_id.clear();
}

//===--------------------------------------------------------------------===//
// Remote
//===--------------------------------------------------------------------===//
shared_ptr<Remote> Remote::Create(od_remote_options &options) {
	od_remote *handle = nullptr;
	od_error err = {};
	auto code = od_remote_create(&options, &handle, &err);
	od_remote_options_release(&options);
	if (code != OD_OK) {
		ThrowError(err);
	}
	return shared_ptr<Remote>(new Remote(handle));
}

Remote::~Remote() {
	od_remote_unref(handle);
}

string Remote::Authority() const {
	return od_remote_authority(handle);
}

string Remote::Database() const {
	return od_remote_database(handle);
}

unique_ptr<ColumnDataCollection> Remote::Query(optional_ptr<ClientContext> context, const od_remote_txn *txn,
                                               const string &sql, const vector<LogicalType> &types, uint64_t *version,
                                               string *layout) {
	auto stream = RemoteStream::Start(context, *this, txn, sql, 0, false, {nullptr, 0}, layout != nullptr);
	auto &allocator = Allocator::DefaultAllocator();
	auto result = make_uniq<ColumnDataCollection>(allocator, types);
	vector<string> names;
	for (idx_t i = 0; i < types.size(); i++) {
		names.push_back("#" + to_string(i + 1));
	}
	NativeReader reader(std::move(names), types);
	DataChunk chunk;
	chunk.Initialize(allocator, types);
	ColumnDataAppendState append;
	result->InitializeAppend(append);
	RemotePayload payload;
	while (stream->Next(payload)) {
		reader.Start(payload.owner, payload.bytes);
		while (reader.Next() > 0) {
			chunk.Reset();
			reader.Read(chunk);
			result->Append(append, chunk);
		}
	}
	if (version) {
		*version = stream->CatalogVersion();
	}
	if (layout) {
		*layout = stream->Layout();
	}
	return result;
}

vector<RemoteColumn> Remote::Describe(ClientContext &context, const od_remote_txn *txn, const string &sql,
                                      uint64_t *version, od_slice parameters) {
	auto stream = RemoteStream::Start(&context, *this, txn, sql, 0, true, parameters);
	vector<RemoteColumn> result;
	RemotePayload payload;
	while (stream->Next(payload)) {
		MessageBuffer keep(payload.owner);
		if (!result.empty()) {
			continue;
		}
		for (auto &column : ReadDescription(payload.bytes)) {
			RemoteColumn entry;
			entry.name = column.first;
			try {
				entry.type = ParseRemoteType(context, column.second);
			} catch (std::exception &ex) {
				throw BinderException("column '%s' has the remote type %s, which is not known here: %s", column.first,
				                      column.second.empty() ? string("(none)") : column.second,
				                      ErrorData(ex).RawMessage());
			}
			result.push_back(std::move(entry));
		}
	}
	if (version) {
		*version = stream->CatalogVersion();
	}
	return result;
}

} // namespace openduck

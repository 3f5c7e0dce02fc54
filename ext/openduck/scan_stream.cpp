//===----------------------------------------------------------------------===//
// openduck/scan_stream.cpp: one stream's payloads, dealt out to the threads of a scan
//===----------------------------------------------------------------------===//
#include "openduck/scan.hpp"

#include "duckdb/storage/storage_info.hpp"

#include <chrono>

namespace openduck {

//! A run's share of the client's memory.
static constexpr idx_t MAX_RUN_BYTES = idx_t(24) << 20;
//! How long a thread waits for a payload before DuckDB may look whether it should.
static constexpr int64_t WAIT_MS = 50;

StartedScan::~StartedScan() {
	od_msg_unref(first.owner);
}

//===--------------------------------------------------------------------===//
// Rows of a payload, without decoding it
//===--------------------------------------------------------------------===//
namespace {

//! As much of an IPC stream's flatbuffers as leads to the record batch's length. Returns 0 where anything is unusual: the
//! number only decides how payloads are dealt out, and the decoder checks them.
class BatchPeek {
public:
	explicit BatchPeek(od_slice payload) : data(payload.data), size(payload.len) {
	}

	idx_t Rows() const {
		idx_t schema, batch;
		idx_t next = Message(0, schema);
		if (next == 0 || Message(next, batch) == 0) {
			return 0;
		}
		// Message: version, header_type, header, bodyLength; RecordBatch: length, ...
		auto header = Field(batch, 2);
		if (header == 0) {
			return 0;
		}
		uint32_t step;
		if (!Get(header, step)) {
			return 0;
		}
		auto length = Field(header + step, 0);
		int64_t rows = 0;
		if (length == 0 || !Get(length, rows) || rows < 0) {
			return 0;
		}
		return idx_t(rows);
	}

private:
	template <class T>
	bool Get(idx_t at, T &value) const {
		if (at > size || size - at < sizeof(T)) {
			return false;
		}
		memcpy(&value, data + at, sizeof(T));
		return true;
	}

	//! The table of the message at AT; returns where the next one is (body-less messages only), 0 on failure.
	idx_t Message(idx_t at, idx_t &table) const {
		uint32_t mark, length, root;
		if (!Get(at, mark) || mark != 0xFFFFFFFF || !Get(at + 4, length) || length == 0 || !Get(at + 8, root)) {
			return 0;
		}
		table = at + 8 + root;
		return at + 8 + length;
	}

	//! Where the field INDEX of the table at AT lies; 0 if it has none.
	idx_t Field(idx_t table, idx_t index) const {
		int32_t back;
		if (!Get(table, back) || int64_t(table) < back) {
			return 0;
		}
		auto vtable = idx_t(int64_t(table) - back);
		uint16_t vtable_size, offset;
		if (!Get(vtable, vtable_size) || vtable_size < 6 + 2 * index || !Get(vtable + 4 + 2 * index, offset)) {
			return 0;
		}
		return offset ? table + offset : 0;
	}

	const uint8_t *data;
	idx_t size;
};

} // namespace

//===--------------------------------------------------------------------===//
// PayloadQueue
//===--------------------------------------------------------------------===//
PayloadQueue::Run::~Run() {
	for (auto &payload : queue) {
		od_msg_unref(payload.owner);
	}
}

void PayloadQueue::Push(const RemotePayload &payload, bool end) {
	lock_guard<mutex> guard(lock);
	if (end) {
		finished = true;
		return;
	}
	if (!filling) {
		filling = make_shared_ptr<Run>();
		filling->index = run_count++;
	}
	Add(payload);
}

void PayloadQueue::Add(const RemotePayload &payload) {
	auto rows = BatchPeek(payload.bytes).Rows();
	filling->queue.push_back(payload);
	filling->rows += rows;
	filling->bytes += payload.bytes.len;
	// Full if one more like this one would not fit into a row group.
	filling->full = rows == 0 || filling->rows + rows > DEFAULT_ROW_GROUP_SIZE || filling->bytes > MAX_RUN_BYTES;
}

RemoteStream::Got PayloadQueue::Take(ClientContext &context, shared_ptr<Run> &run, RemotePayload &payload) {
	std::unique_lock<mutex> guard(lock);
	while (true) {
		if (error.HasError()) {
			error.Throw();
		}
		if (!run && filling && !filling->owned) {
			// What was received before any thread asked.
			filling->owned = true;
			run = filling;
		}
		if (run && !run->queue.empty()) {
			payload = run->queue.front();
			run->queue.pop_front();
			return RemoteStream::Got::PAYLOAD;
		}
		if (finished) {
			return RemoteStream::Got::END;
		}
		if (run && run->full) {
			run = nullptr;
		}
		// A thread that has left (its LIMIT is reached) needs no more of its run; nobody else may go on with it, since two
		// threads must not give rows of one batch.
		auto abandoned = filling && filling.use_count() == 1;
		if (!run && (!filling || filling->full || abandoned)) {
			run = make_shared_ptr<Run>();
			run->index = run_count++;
			run->owned = true;
			filling = run;
		}
		auto waited = fetching ? changed.wait_for(guard, std::chrono::milliseconds(WAIT_MS)) == std::cv_status::timeout
		                       : !Fetch(guard);
		if (context.interrupted) {
			throw InterruptException();
		}
		if (waited) {
			return RemoteStream::Got::NOTHING_YET;
		}
	}
}

bool PayloadQueue::Fetch(std::unique_lock<mutex> &guard) {
	fetching = true;
	guard.unlock();
	RemotePayload fetched;
	auto got = RemoteStream::Got::END;
	ErrorData failure;
	try {
		got = stream->NextWithin(WAIT_MS, fetched);
	} catch (std::exception &ex) {
		failure = ErrorData(ex);
	}
	guard.lock();
	fetching = false;
	bytes = stream->Bytes();
	if (failure.HasError()) {
		error = std::move(failure);
	} else if (got == RemoteStream::Got::PAYLOAD) {
		Add(fetched);
	} else if (got == RemoteStream::Got::END) {
		finished = true;
	}
	changed.notify_all();
	return got != RemoteStream::Got::NOTHING_YET;
}

uint64_t PayloadQueue::Bytes() {
	lock_guard<mutex> guard(lock);
	return bytes;
}

} // namespace openduck

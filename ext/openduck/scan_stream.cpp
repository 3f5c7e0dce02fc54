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
//! The same where there are several streams, of which another one may have a payload; unless none had any for a while.
static constexpr int64_t SHORT_WAIT_MS = 2;
static constexpr idx_t SHORT_WAITS = 20;
//! How long the end of a stream that is needed no more is waited for.
static constexpr int64_t END_WAIT_MS = 10;
//! A further stream is worth its connection once so much of the result has come.
static constexpr uint64_t FOLLOW_BYTES = uint64_t(8) << 20;
//! As much may wait for payloads that stand before it.
static constexpr idx_t MAX_EARLY_BYTES = idx_t(32) << 20;

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

PayloadQueue::PayloadQueue(unique_ptr<RemoteStream> stream, idx_t max_streams_p) : max_streams(max_streams_p) {
	sources.push_back(make_uniq<Source>());
	sources[0]->stream = std::move(stream);
}

PayloadQueue::~PayloadQueue() {
	// A stream that has told its end leaves a connection that can be used again.
	for (idx_t i = 1; i < sources.size() && Finished(); i++) {
		if (!sources[i]->ended && sources[i]->stream) {
			sources[i]->stream->ReadEnd(END_WAIT_MS);
		}
	}
	for (auto &entry : early) {
		od_msg_unref(entry.second.owner);
	}
}

void PayloadQueue::Push(const RemotePayload &payload, bool end) {
	lock_guard<mutex> guard(lock);
	if (end) {
		End(*sources[0]);
		return;
	}
	filling = make_shared_ptr<Run>();
	filling->index = run_count++;
	Receive(*sources[0], payload);
	Deal();
}

void PayloadQueue::Receive(Source &source, const RemotePayload &payload) {
	// Without places there is one stream.
	auto place = source.stream->Place();
	places_told = place != 0;
	if (place == 0 && sources.size() == 1) {
		place = source.place + 1;
	}
	if (place <= source.place || place < next_place || !early.emplace(place, payload).second) {
		od_msg_unref(payload.owner);
		throw IOException("the server sent a damaged result: a payload stands at place %llu, which cannot be", place);
	}
	source.place = place;
	early_bytes += payload.bytes.len;
	for (auto &other : sources) {
		other->missed = 0;
		if (other->stream) {
			other->stream->Heard();
		}
	}
}

void PayloadQueue::End(Source &source) {
	source.ended = true;
	auto &first = *sources[0];
	if (&source != &first) {
		return;
	}
	auto told = first.stream ? first.stream->Payloads() : 0;
	if (sources.size() > 1 && told == 0) {
		throw IOException("the server sent a damaged result: it does not tell how many payloads there are");
	}
	total = told > 0 ? told : first.place;
}

bool PayloadQueue::Finished() const {
	return sources[0]->ended && next_place > total && early.empty();
}

bool PayloadQueue::IsLost() const {
	if ((sources[0]->ended && next_place > total) || early.count(next_place)) {
		return false;
	}
	for (auto &source : sources) {
		if (!source->ended && source->place < next_place) {
			return false;
		}
	}
	return true;
}

void PayloadQueue::Deal() {
	while (filling && !filling->full && !early.empty() && early.begin()->first == next_place) {
		auto payload = early.begin()->second;
		early.erase(early.begin());
		early_bytes -= payload.bytes.len;
		next_place++;
		Add(payload);
	}
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
	auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(WAIT_MS);
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
		if (Finished()) {
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
			Deal();
			if (!run->queue.empty()) {
				continue;
			}
		}
		auto source = Choose();
		auto waited = source ? !Fetch(guard, *source)
		                     : changed.wait_for(guard, std::chrono::milliseconds(WAIT_MS)) == std::cv_status::timeout;
		if (context.interrupted) {
			throw InterruptException();
		}
		// Waits are short where there are several streams; giving the thread back after each would cost more than it.
		if (waited && std::chrono::steady_clock::now() >= until) {
			return RemoteStream::Got::NOTHING_YET;
		}
	}
}

bool PayloadQueue::MayFollow() const {
	auto &first = *sources[0];
	if (first.ended || first.place == 0 || follower_error.HasError() || sources.size() >= max_streams ||
	    early_bytes > MAX_EARLY_BYTES) {
		return false;
	}
	return places_told && TotalBytes() >= FOLLOW_BYTES;
}

uint64_t PayloadQueue::MaxPlace() const {
	uint64_t place = 0;
	for (auto &source : sources) {
		place = MaxValue(place, source->place);
	}
	return place;
}

uint64_t PayloadQueue::TotalBytes() const {
	uint64_t bytes = 0;
	for (auto &source : sources) {
		bytes += source->bytes;
	}
	return bytes;
}

optional_ptr<PayloadQueue::Source> PayloadQueue::Choose() {
	optional_ptr<Source> best;
	for (auto &source : sources) {
		// With much to put in order, only those are read that may have what is next.
		if (source->busy || source->ended || (early_bytes > MAX_EARLY_BYTES && source->place >= next_place)) {
			continue;
		}
		if (!best || source->missed < best->missed || (source->missed == best->missed && source->place < best->place)) {
			best = *source;
		}
	}
	if (!best && MayFollow()) {
		sources.push_back(make_uniq<Source>());
		best = *sources.back();
	}
	return best;
}

void PayloadQueue::Open(std::unique_lock<mutex> &guard, Source &source) {
	unique_ptr<RemoteStream> stream;
	ErrorData failure;
	auto &first = *sources[0]->stream;
	guard.unlock();
	try {
		stream = first.Follow();
	} catch (std::exception &ex) {
		failure = ErrorData(ex);
	}
	guard.lock();
	source.stream = std::move(stream);
	if (failure.HasError()) {
		// The result comes without it.
		source.ended = true;
		follower_error = std::move(failure);
	}
}

bool PayloadQueue::Fetch(std::unique_lock<mutex> &guard, Source &source) {
	source.busy = true;
	if (!source.stream) {
		Open(guard, source);
		source.busy = false;
		changed.notify_all();
		return true;
	}
	auto &stream = *source.stream;
	auto wait_ms = sources.size() > 1 && source.missed < SHORT_WAITS ? SHORT_WAIT_MS : WAIT_MS;
	guard.unlock();
	RemotePayload fetched;
	auto got = RemoteStream::Got::END;
	ErrorData failure;
	try {
		got = stream.NextWithin(wait_ms, fetched);
	} catch (std::exception &ex) {
		failure = ErrorData(ex);
	}
	guard.lock();
	source.busy = false;
	source.bytes = stream.Bytes();
	try {
		if (failure.HasError() && &source == sources[0].get()) {
			error = std::move(failure);
		} else if (failure.HasError()) {
			source.ended = true;
			follower_error = std::move(failure);
		} else if (got == RemoteStream::Got::PAYLOAD) {
			Receive(source, fetched);
			Deal();
		} else if (got == RemoteStream::Got::END) {
			End(source);
		} else {
			source.missed++;
		}
		if (sources[0]->ended && MaxPlace() > total) {
			throw IOException("the server sent a damaged result: more payloads than the %llu that it tells", total);
		}
		if (!error.HasError() && IsLost()) {
			if (follower_error.HasError()) {
				follower_error.Throw();
			}
			throw IOException("the server's result was cut: payload %llu did not come on any of its %llu streams",
			                  next_place, sources.size());
		}
	} catch (std::exception &ex) {
		error = ErrorData(ex);
	}
	changed.notify_all();
	return got != RemoteStream::Got::NOTHING_YET;
}

uint64_t PayloadQueue::Bytes() {
	lock_guard<mutex> guard(lock);
	return TotalBytes();
}

idx_t PayloadQueue::Streams() {
	lock_guard<mutex> guard(lock);
	return sources.size();
}

} // namespace openduck

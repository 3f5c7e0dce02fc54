#include "vgi/streams.hpp"

namespace vgi {

using Clock = std::chrono::steady_clock;

//! How long a thread leaves a stream to the one that reads from it before it looks whether that still does.
static constexpr std::chrono::milliseconds LOOK_AGAIN(10);

ScanStreams::ScanStreams(od_vgi_scan *first, idx_t count) {
	auto allowed = od_vgi_scan_max_workers(first);
	count = MaxValue<idx_t>(1, allowed < 1 ? 1 : MinValue<idx_t>(count, idx_t(allowed)));
	for (idx_t i = 0; i < count; i++) {
		streams.push_back(make_uniq<Stream>());
	}
	streams[0]->scan = first;
}

ScanStreams::~ScanStreams() {
	// The first one last: the others were made of it.
	for (auto stream = streams.rbegin(); stream != streams.rend(); ++stream) {
		od_vgi_scan_close((*stream)->scan);
	}
}

bool ScanStreams::IsDue(idx_t at) const {
	return at == 0 || batches >= at * BATCHES_PER_STREAM;
}

//! While it lives, its thread alone reads from the stream.
class ScanStreams::Turn {
public:
	Turn(ClientContext &context, Stream &stream) : stream(stream) {
		std::unique_lock<mutex> guard(stream.lock);
		while (stream.reading) {
			stream.changed.wait_for(guard, LOOK_AGAIN);
			if (context.interrupted) {
				throw InterruptException();
			}
		}
		stream.reading = true;
	}
	~Turn() {
		lock_guard<mutex> guard(stream.lock);
		stream.reading = false;
		if (stream.ended) {
			stream.changed.notify_all();
		} else if (calls_another) {
			stream.changed.notify_one();
		}
	}
	Turn(const Turn &) = delete;

	//! The next one may begin at once, and does not have to look itself whether it can.
	bool calls_another = true;

private:
	Stream &stream;
};

void ScanStreams::Read(Stream &stream, Reader &reader) {
	if (!stream.scan && !stream.ended) {
		stream.ended = first_ended;
		if (!stream.ended) {
			stream.failure = od_vgi_scan_share(streams[0]->scan, &stream.scan, &stream.why);
			stream.ended = stream.failure != OD_OK;
		}
	}
	while (!stream.ended && reader.taken.size() < BATCHES_AT_ONCE) {
		if (!reader.taken.empty() && !od_vgi_scan_is_ready(stream.scan)) {
			return;
		}
		auto rows = make_shared_ptr<ArrowArrayWrapper>();
		stream.failure = od_vgi_scan_next(stream.scan, &rows->arrow_array, &stream.why);
		if (stream.failure != OD_OK || !rows->arrow_array.release) {
			stream.ended = true;
			first_ended = first_ended || (stream.failure == OD_OK && &stream == streams[0].get());
		} else if (rows->arrow_array.length > 0) {
			reader.taken.push_back({std::move(rows), ++batches}); // in the stream's order
		}
	}
}

//! A stream's rows are for one thread as long as that waits for them more than it works on them: to hand it on for each batch would have two
//! threads woken by turns for what one can do. Others wait, and look from time to time.
void ScanStreams::TakeFrom(ClientContext &context, Stream &stream, Reader &reader) {
	auto back = Clock::now();
	Turn turn(context, stream);
	auto begun = Clock::now();
	Read(stream, reader);
	auto now = Clock::now();
	reader.waited = reader.waited / 2 + (now - begun);
	reader.worked = reader.has_left ? reader.worked / 2 + (back - reader.left) : reader.waited;
	reader.left = now;
	reader.has_left = true;
	turn.calls_another = reader.worked >= reader.waited;
	if (reader.taken.empty() && stream.failure != OD_OK) {
		auto failure = stream.failure;
		stream.failure = OD_OK;
		ThrowIfFailed(failure, stream.why);
	}
}

bool ScanStreams::Next(ClientContext &context, Reader &reader, ScanBatch &out) {
	auto from = IsDue(reader.stream) ? reader.stream : 0;
	for (idx_t tried = 0; reader.taken.empty() && tried < streams.size(); tried++) {
		TakeFrom(context, *streams[from], reader);
		if (reader.taken.empty()) {
			from = (from + 1) % streams.size();
			reader.stream = from;
		}
	}
	if (reader.taken.empty()) {
		return false;
	}
	out = std::move(reader.taken.front());
	reader.taken.pop_front();
	return true;
}

} // namespace vgi

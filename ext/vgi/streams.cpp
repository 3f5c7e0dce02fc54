#include "vgi/streams.hpp"

namespace vgi {

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

bool ScanStreams::NextOf(Stream &stream, ArrowArrayWrapper &out, idx_t &batch) {
	od_error err = {};
	lock_guard<mutex> guard(stream.lock);
	if (!stream.scan && !stream.ended) {
		if (first_ended) {
			stream.ended = true;
			return false;
		}
		auto code = od_vgi_scan_share(streams[0]->scan, &stream.scan, &err);
		stream.ended = code != OD_OK;
		ThrowIfFailed(code, err);
	}
	while (!stream.ended) {
		auto code = od_vgi_scan_next(stream.scan, &out.arrow_array, &err);
		stream.ended = code != OD_OK || !out.arrow_array.release;
		ThrowIfFailed(code, err);
		if (stream.ended) {
			break;
		}
		if (out.arrow_array.length > 0) {
			batch = ++batches; // in the stream's order
			return true;
		}
		out.arrow_array.release(&out.arrow_array);
	}
	first_ended = first_ended || &stream == streams[0].get();
	return false;
}

bool ScanStreams::Next(idx_t &at, ArrowArrayWrapper &out, idx_t &batch) {
	auto from = IsDue(at) ? at : 0;
	for (idx_t tried = 0; tried < streams.size(); tried++) {
		if (NextOf(*streams[from], out, batch)) {
			return true;
		}
		from = (from + 1) % streams.size();
		at = from;
	}
	return false;
}

} // namespace vgi

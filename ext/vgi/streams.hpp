//===----------------------------------------------------------------------===//
// vgi/streams.hpp: the rows of one scan, in as many streams as its worker allows
//===----------------------------------------------------------------------===//
#pragma once

#include "vgi/remote.hpp"

#include "duckdb/common/arrow/arrow_wrapper.hpp"

namespace vgi {

//! Threads read from the streams of a scan, each from one of its own as far as there are. Another stream costs the worker a
//! session, and perhaps a process: it is opened once the scan has shown to be long. Thread: any.
class ScanStreams {
public:
	//! Batches that the scan gives for each further stream.
	static constexpr idx_t BATCHES_PER_STREAM = 8;

	//! Takes FIRST. At most COUNT streams, and as many as the worker says.
	ScanStreams(od_vgi_scan *first, idx_t count);
	~ScanStreams();
	ScanStreams(const ScanStreams &) = delete;

	//! The stream for another thread.
	idx_t Assign() {
		return next_thread++ % streams.size();
	}
	//! The next batch with rows, from stream AT, or from another one if that has ended; false at the end of all. BATCH grows.
	bool Next(idx_t &at, ArrowArrayWrapper &out, idx_t &batch);

private:
	struct Stream {
		mutex lock; //!< guards the fields below, also while a batch is waited for
		od_vgi_scan *scan = nullptr;
		bool ended = false;
	};

	//! Whether stream AT is there, or is to be opened by now.
	bool IsDue(idx_t at) const;
	bool NextOf(Stream &stream, ArrowArrayWrapper &out, idx_t &batch);

	vector<unique_ptr<Stream>> streams;
	atomic<idx_t> next_thread {0};
	atomic<idx_t> batches {0};
	//! The first stream has ended: rows that no stream has taken yet there are none.
	atomic<bool> first_ended {false};
};

} // namespace vgi

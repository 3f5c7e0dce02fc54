//===----------------------------------------------------------------------===//
// vgi/streams.hpp: the rows of one scan, in as many streams as its worker allows
//===----------------------------------------------------------------------===//
#pragma once

#include "vgi/remote.hpp"

#include "duckdb/common/arrow/arrow_wrapper.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>

namespace vgi {

//! Rows that came, and their place among the scan's.
struct ScanBatch {
	shared_ptr<ArrowArrayWrapper> rows;
	idx_t index;
};

//! Threads read from the streams of a scan, each from one of its own as far as there are. Another stream costs the worker a
//! session, and perhaps a process: it is opened once the scan has shown to be long. Thread: any.
class ScanStreams {
public:
	//! Batches that the scan gives for each further stream.
	static constexpr idx_t BATCHES_PER_STREAM = 8;
	//! Batches that a thread takes at once, as far as they are there.
	static constexpr idx_t BATCHES_AT_ONCE = 8;

	//! One thread's part.
	class Reader {
		friend class ScanStreams;
		idx_t stream = 0;
		std::deque<ScanBatch> taken;
		//! When it left with what it took last.
		std::chrono::steady_clock::time_point left;
		bool has_left = false;
		//! Of late: how long it worked on rows, and how long it waited for them.
		std::chrono::nanoseconds worked {0};
		std::chrono::nanoseconds waited {0};
	};

	//! Takes FIRST. At most COUNT streams, and as many as the worker says.
	ScanStreams(od_vgi_scan *first, idx_t count);
	~ScanStreams();
	ScanStreams(const ScanStreams &) = delete;

	//! Gives READER, another thread's, its stream.
	void Assign(Reader &reader) {
		reader.stream = next_thread++ % streams.size();
	}
	//! The next batch with rows, of the reader's stream, or of another one if that has ended; false at the end of all. The batches of a
	//! reader have growing indexes.
	bool Next(ClientContext &context, Reader &reader, ScanBatch &out);

private:
	struct Stream {
		mutex lock; //!< guards READING
		std::condition_variable changed;
		bool reading = false; //!< some thread is, which alone uses the fields below
		od_vgi_scan *scan = nullptr;
		bool ended = false;
		//! What it failed with after batches that a reader took; told to who reads next.
		od_code failure = OD_OK;
		od_error why = {};
	};

	//! Whether stream AT is there, or is to be opened by now.
	bool IsDue(idx_t at) const;
	class Turn;

	//! What is there, at least one batch unless the stream is at its end.
	void Read(Stream &stream, Reader &reader);
	void TakeFrom(ClientContext &context, Stream &stream, Reader &reader);

	vector<unique_ptr<Stream>> streams;
	atomic<idx_t> next_thread {0};
	atomic<idx_t> batches {0};
	//! The first stream has ended: rows that no stream has taken yet there are none.
	atomic<bool> first_ended {false};
};

} // namespace vgi

//===----------------------------------------------------------------------===//
// openduck/write_work.hpp: waiting for the server at the end of a pipeline
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/parallel/event.hpp"
#include "duckdb/parallel/pipeline.hpp"

namespace openduck {
using namespace duckdb; // NOLINT

//! Does a part of the work, waiting for the server no longer than WAIT_MS where that can be helped. True: all is done.
typedef std::function<bool(int64_t wait_ms)> remote_step_t;

//! Does STEP's work when PIPELINE, whose finalize is EVENT, is done, before what comes after it. A client that looks for
//! tasks in the meantime sleeps instead of spinning, and DuckDB's other threads remain free.
void DoRemoteWork(Pipeline &pipeline, Event &event, remote_step_t step);

} // namespace openduck

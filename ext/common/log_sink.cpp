//===----------------------------------------------------------------------===//
// common/log_sink.cpp: the rooms' log lines never reach the host's stderr
//===----------------------------------------------------------------------===//
#include "common/log_sink.hpp"

extern "C" {
#include "base/log.h"
}

namespace openduck {

//! The sink is one for the process, and a process may hold several DuckDB instances: a line has no instance to go to.
//! What a user must know travels as an error.
static void Discard(void *, od_log_level, const char *, const char *) {
}

void SilenceLog() {
	od_log_set_sink(Discard, nullptr);
}

} // namespace openduck

// server/run_here.hpp: openduck_run where nobody has taken it out of the statement: in views and macros.
#pragma once

#include "duckdb.hpp"

namespace openduck {

//! Makes openduck_run known in an instance. A call at one of PLACES (OD_RUN_LOCAL, OD_RUN_REMOTE) or AUTO becomes its query, which then is
//! bound as if it stood there; others are errors, and so are all without PLACES.
void InstallRun(duckdb::ClientContext &context, unsigned places);

} // namespace openduck

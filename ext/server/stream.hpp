// server/stream.hpp: rows that arrive while a statement reads them, as the table function openduck_stream.
#pragma once

#include "duckdb.hpp"
#include "query/engine.h"

namespace openduck {

void InstallStream(duckdb::ClientContext &context);
//! What openduck_stream() gives in CONTEXT from now on, once; null: nothing
void SetStream(duckdb::ClientContext &context, const od_stream_source *source);

} // namespace openduck

// server/outline.hpp: what a statement is made of, as DuckDB's parser sees it.
#pragma once

#include "duckdb.hpp"
#include "query/engine.h"

namespace openduck {

//! Tells SINK what SQL is made of, from the top down. Throws DuckDB's exceptions, and a BinderException for an openduck_run that
//! cannot be one.
void Outline(const duckdb::string &sql, const od_outline_sink &sink);

} // namespace openduck

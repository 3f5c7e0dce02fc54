//===----------------------------------------------------------------------===//
// common/plan_copies.hpp: plans of functions that DuckDB cannot write
//===----------------------------------------------------------------------===//
#pragma once

#include "common/throw.hpp"

#include "duckdb/function/table_function.hpp"

namespace openduck {

//! DuckDB copies and compares plans by writing them, and what it would write of a function of a catalog's is neither what is bound nor at
//! which catalog: two tables would be one. Such plans say that they cannot be written, and stay as they are.
void RefuseCopies(TableFunction &function);
[[noreturn]] void RefuseToWrite();

} // namespace openduck

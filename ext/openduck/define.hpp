//===----------------------------------------------------------------------===//
// openduck/define.hpp: definitions that reach the catalog without a statement
//===----------------------------------------------------------------------===//
#pragma once

#include "openduck/catalog.hpp"

#include "duckdb/parser/parsed_data/create_info.hpp"

namespace openduck {

//! Has the server carry out INFO, which names things as the session of CONTEXT does: a relation of DuckDB's API that
//! becomes a view, for one. (What is written as a statement is forwarded before it comes so far.) Throws BinderException if
//! INFO uses what the server does not have, or the server's error.
void DefineAtServer(ClientContext &context, OpenDuckCatalog &catalog, const CreateInfo &info);

} // namespace openduck

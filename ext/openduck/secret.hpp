//===----------------------------------------------------------------------===//
// openduck/secret.hpp: CREATE SECRET (TYPE openduck, ENDPOINT ..., TOKEN ...)
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/main/extension/extension_loader.hpp"
#include "duckdb/main/secret/secret.hpp"

namespace openduck {
using namespace duckdb; // NOLINT: every name here is DuckDB's or ours

void RegisterSecret(ExtensionLoader &loader);

//! The secret of NAME, or with an empty NAME the one whose scope fits PATH best; null if there is none. A NAME that does not
//! exist or is of another type throws.
unique_ptr<KeyValueSecret> FindSecret(ClientContext &context, const string &name, const string &path);

} // namespace openduck

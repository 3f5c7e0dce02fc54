//===----------------------------------------------------------------------===//
// common/throw.hpp: an od_error becomes the DuckDB exception of its kind
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"

extern "C" {
#include "base/error.h"
}

namespace openduck {
using namespace duckdb; // NOLINT: every name here is DuckDB's or ours

//! Throws ERR as the DuckDB exception of its kind. A remote INTERNAL becomes an IOException that keeps the word, since an
//! InternalException would invalidate the user's instance.
[[noreturn]] void ThrowError(const od_error &err);
//! Nothing if CODE is OD_OK.
inline void ThrowIfFailed(od_code code, const od_error &err) {
	if (code != OD_OK) {
		ThrowError(err);
	}
}
//! The statement was bound against a catalog that is no more, and it is too late to bind it again.
[[noreturn]] void ThrowCatalogChanged();
//! Text off the wire, fit for a message: what is not UTF-8 is replaced.
string ForeignText(const char *data, idx_t size);

} // namespace openduck

//===----------------------------------------------------------------------===//
// openduck/tls.hpp: what an https:// endpoint is checked with, and what is shown to it
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"

extern "C" {
#include "query/client.h"
}

namespace openduck {
using namespace duckdb; // NOLINT: every name here is DuckDB's or ours

//! Paths of PEM files; empty: none.
struct TlsFiles {
	string ca;
	string cert;
	string key;

	//! Of $OPENDUCK_TLS_CA, $OPENDUCK_TLS_CERT and $OPENDUCK_TLS_KEY.
	static TlsFiles FromEnvironment();
};

//! Reads FILES for the endpoint of OPTIONS if it is https://; else nothing is done. Throws when they cannot be used, and then leaves
//! OPTIONS to the caller as they were.
void SetTls(od_remote_options &options, const TlsFiles &files);

} // namespace openduck

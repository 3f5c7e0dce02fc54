// ext/server/limit.hpp: holds the statements of a connection to the rights of who runs them.
#pragma once

#include "duckdb.hpp"

struct od_rights;

namespace openduck {

//! Has every plan of CONTEXT's instance looked at, once it is bound and before anything of it runs
void InstallLimit(duckdb::ClientContext &context);
//! From now on CONTEXT's statements may do what RIGHTS allows, which outlives that; nullptr: everything. Nothing of it runs meanwhile.
//! Where they may not use its default database, names without one are those of temporary objects, for good.
void SetLimit(duckdb::ClientContext &context, const od_rights *rights);

} // namespace openduck

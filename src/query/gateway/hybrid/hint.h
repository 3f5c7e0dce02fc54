/* Finds the openduck_run calls of a statement, and those in their texts, by DuckDB's own parser. */
#ifndef OD_QUERY_GATEWAY_HYBRID_HINT_H
#define OD_QUERY_GATEWAY_HYBRID_HINT_H

#include "query/engine.h"
#include "query/gateway/hybrid/plan.h"

enum { HINT_DEEPEST = 16, HINT_MOST = 64 }; /* calls in each other's texts, calls of one statement */

/* False: SQL certainly has no call, so there is no need to parse it. */
bool hint_may_be(od_slice sql);
/* Fills *out, which the caller releases, with the plan of SQL before anything is decided: AUTO is AUTO, and there is no bridge. Its
 * fragment_count is 1 if there is no call. On failure it is empty.
 *   errors of DuckDB's parser, or of a call that cannot be one: in the statement, or in a text of a call, which is named */
OD_MUST_CHECK od_code hint_read(const od_engine *engine, od_slice sql, plan *out, od_error *err);

#endif

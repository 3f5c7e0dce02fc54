/* query/engine, inside: rows that a statement brings along, as the table function openduck_rows(BLOB). */
#ifndef OD_QUERY_ENGINE_ROWS_H
#define OD_QUERY_ENGINE_ROWS_H

#include <duckdb.h>

#include "base/error.h"

/* Makes openduck_rows known to the instance of CONNECTION. Its argument is a NATIVE payload of at most one batch (docs/protocol.md), mostly
 * the value of a parameter; its result the rows in it. Columns can have the types that the payload's signatures tell whole. */
OD_MUST_CHECK od_code od_rows_install(duckdb_connection connection, od_error *err);

#endif

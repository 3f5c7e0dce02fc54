/* query/engine, inside: the values of a statement's parameters. */
#ifndef OD_QUERY_ENGINE_PARAMETERS_H
#define OD_QUERY_ENGINE_PARAMETERS_H

#include "query/engine/engine_internal.h"

typedef struct od_parameters od_parameters;

/* From PAYLOAD (borrowed for the call), an IPC stream of one row. Whole types in it may be prepared on CONNECTION, which is idle.
 *   OD_E_INVALID           not one row, or a type that is not told   OD_E_CORRUPT
 *   OD_E_NOT_IMPLEMENTED   HOST is NULL */
OD_MUST_CHECK od_code od_parameters_read(const od_engine_host *host, duckdb_connection connection, od_slice payload,
                                         od_parameters **out, od_error *err);
void od_parameters_free(od_parameters *parameters); /* NULL allowed */
/* Gives STATEMENT these values and no others. REPEATS: a parameter may be in it twice (see od_engine_host.rebind).
 * PARAMETERS may be NULL: none, and what is missing DuckDB tells when it is run. OD_E_INVALID: missing or too many, in DuckDB's words. */
OD_MUST_CHECK od_code od_parameters_bind(const od_parameters *parameters, duckdb_prepared_statement statement,
                                         bool repeats, od_error *err);
/* As od_parameters_bind; and STATEMENT's columns become those that it has with these values. CONNECTION is idle. */
OD_MUST_CHECK od_code od_parameters_describe(const od_parameters *parameters, duckdb_connection connection,
                                             duckdb_prepared_statement statement, od_error *err);

#endif

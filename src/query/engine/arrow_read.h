/* query/engine, inside: plain Arrow arrays into DuckDB's chunks, by DuckDB's own conversion. */
#ifndef OD_QUERY_ENGINE_ARROW_READ_H
#define OD_QUERY_ENGINE_ARROW_READ_H

#include <duckdb.h>

#include "arrow/c_data.h"
#include "base/error.h"
#include "query/engine.h"

/* The types that SCHEMA (borrowed for the call) has in DuckDB; the caller destroys. */
OD_MUST_CHECK od_code od_arrow_types(duckdb_connection connection, const struct ArrowSchema *schema,
                                     duckdb_arrow_converted_schema *out, od_error *err);

/* Some rows of an array, from which it borrows. */
typedef struct {
    struct ArrowArray array;
} od_arrow_part;

/* Rows [FIRST, FIRST + COUNT) of WHOLE. Released in any case. */
OD_MUST_CHECK od_code od_arrow_part_make(const struct ArrowArray *whole, int64_t first, int64_t count,
                                         od_arrow_part *out, od_error *err);
void od_arrow_part_release(od_arrow_part *part);
/* PART and what it borrows from have to outlive the chunk, whose vectors are flat.
 *   OD_E_CORRUPT   a value that its type does not have
 *   OD_E_NOT_IMPLEMENTED   HOST is NULL */
OD_MUST_CHECK od_code od_arrow_part_chunk(const od_arrow_part *part, const od_engine_host *host,
                                          duckdb_connection connection, duckdb_arrow_converted_schema types,
                                          duckdb_data_chunk *out, od_error *err);

/* arrow_check.c: makes the vectors of CHUNK, which DuckDB made of Arrow arrays, flat, and looks through their values. Errors as above. */
OD_MUST_CHECK od_code od_arrow_chunk_check(const od_engine_host *host, duckdb_data_chunk chunk, od_error *err);

#endif

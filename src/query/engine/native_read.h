/* query/engine, inside: the NATIVE format (docs/protocol.md), from a payload into DuckDB's vectors. */
#ifndef OD_QUERY_ENGINE_NATIVE_READ_H
#define OD_QUERY_ENGINE_NATIVE_READ_H

#include "arrow/ipc_read.h"
#include "query/engine/native_internal.h"

typedef struct od_native_reader od_native_reader;

/* NAMES is borrowed for the call, TYPES for longer. OD_E_NOT_IMPLEMENTED: a type that NATIVE lacks. */
OD_MUST_CHECK od_code od_native_reader_create(const char *const *names, duckdb_logical_type *types, size_t count,
                                              od_native_reader **out, od_error *err);
void od_native_reader_free(od_native_reader *reader); /* NULL allowed */
/* OD_E_INVALID names the column that differs. */
OD_MUST_CHECK od_code od_native_reader_check(const od_native_reader *reader, const struct ArrowSchema *schema,
                                             od_error *err);
/* Rows [FIRST, FIRST + COUNT) of BATCH, whose SCHEMA was checked, into CHUNK, which is empty. Strings of CHUNK lie in the payload.
 *   OD_E_CORRUPT   a value that its type does not have */
OD_MUST_CHECK od_code od_native_reader_fill(const od_native_reader *reader, const struct ArrowSchema *schema,
                                            const od_batch *batch, idx_t first, idx_t count, duckdb_data_chunk chunk,
                                            od_error *err);

/* native_check.c */
bool od_geometry_valid(const uint8_t *data, size_t len);

typedef enum { OD_TEXT_ANY, OD_TEXT_UTF8, OD_TEXT_BIT, OD_TEXT_BIGNUM, OD_TEXT_GEOMETRY } od_text;

/* Of a value that DuckDB holds as a string; CHECK is an od_text. OD_E_CORRUPT says what is wrong. */
OD_MUST_CHECK od_code od_text_check(uint8_t check, const uint8_t *value, size_t len, od_error *err);

/* DuckDB writes a time's text with no look at its hour: one outside of a day would be read and written out of bounds. */
typedef enum { OD_TIME_US, OD_TIME_NS, OD_TIME_TZ } od_time;

/* VALUE is that of a TIME, TIME_NS or TIMETZ as DuckDB holds it; 24:00 is the last. */
bool od_time_valid(od_time kind, uint64_t value);

/* native_variant.c: rows [FIRST, FIRST + COUNT) of a column of VARIANTs, those that VALIDITY (NULL: all) has. */
bool od_variants_valid(const od_column *column, idx_t first, idx_t count, const uint64_t *validity);

#endif

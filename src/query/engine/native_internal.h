/* query/engine, inside: the NATIVE format (docs/protocol.md), from DuckDB's vectors straight into a payload.
 *
 * A payload is built in two passes over the held chunks: adding a chunk measures it exactly, writing copies every value once. */
#ifndef OD_QUERY_ENGINE_NATIVE_INTERNAL_H
#define OD_QUERY_ENGINE_NATIVE_INTERNAL_H

#include <duckdb.h>

#include "arrow/ipc_write.h"
#include "base/buf.h"

typedef enum {
    OD_FIELD_FIXED,  /* validity, values of `width` bytes */
    OD_FIELD_TEXT,   /* validity, offsets, bytes */
    OD_FIELD_LIST,   /* validity, offsets; one child */
    OD_FIELD_ARRAY,  /* validity; one child, `width` values each */
    OD_FIELD_STRUCT, /* validity; children */
    OD_FIELD_NULL    /* as FIXED of 4 bytes, nothing valid */
} od_field_kind;

/* One field of the flattened type tree, depth first: a field's first child follows it. */
typedef struct {
    od_field_kind kind;
    uint32_t width;
    uint32_t child_count;
    uint32_t next; /* index of the field after this one's subtree */
} od_field;

/* Appends the fields of TYPE and makes OUT its schema. PATH names the column for the error of a type that the format lacks. */
OD_MUST_CHECK od_code od_native_field(const char *name, const char *path, duckdb_logical_type type, od_buf *fields,
                                      struct ArrowSchema *out, od_error *err);

/* The type that FIELD's signatures tell; the caller destroys. OD_E_INVALID: they tell none, or not all of it (ENUM, VARIANT). */
OD_MUST_CHECK od_code od_native_type(const struct ArrowSchema *field, duckdb_logical_type *out, od_error *err);

typedef struct od_native od_native;

/* NAMES and TYPES are borrowed for the call. */
OD_MUST_CHECK od_code od_native_create(const char *const *names, duckdb_logical_type *types, size_t count,
                                       od_native **out, od_error *err);
void od_native_free(od_native *native);
/* True if NATIVE is for columns of these types and names. */
bool od_native_fits(const od_native *native, const char *const *names, const duckdb_logical_type *types, size_t count);
const struct ArrowSchema *od_native_schema(const od_native *native);

/* Measures rows [FIRST, FIRST + COUNT) of CHUNK as further rows of the next payload. CHUNK must live, unchanged, until the payload is
 * written or these rows are dropped. */
OD_MUST_CHECK od_code od_native_add(od_native *native, duckdb_data_chunk chunk, idx_t first, idx_t count,
                                    od_error *err);
/* Undoes the last _add. */
void od_native_drop(od_native *native);
/* The size of the payload that _write would give now. */
size_t od_native_size(const od_native *native);
/* The name of the top-level column with the most bytes in the last _add, for messages. */
const char *od_native_widest(const od_native *native);
/* Writes the payload and starts an empty one; without rows, the schema alone. */
OD_MUST_CHECK od_code od_native_write(od_native *native, od_msg **out, od_error *err);
/* Forgets all that was added. */
void od_native_reset(od_native *native);

#endif

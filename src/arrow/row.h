/* arrow/row.h: one row as an Arrow IPC stream, made by hand, column by column.
 *
 * The first failure sticks: what is added after it does nothing, and od_row_finish tells it. One thread. */
#ifndef OD_ARROW_ROW_H
#define OD_ARROW_ROW_H

#include "arrow/c_data.h"
#include "arrow/ipc_write.h"
#include "base/buf.h"

typedef struct od_row od_row;

OD_MUST_CHECK od_code od_row_create(od_row **out, od_error *err);
void od_row_free(od_row *row); /* NULL allowed */

/* A column may be declared not null, which says nothing of the value: */
typedef enum { OD_ROW_NULLABLE, OD_ROW_NOT_NULL } od_row_null;

/* VALUE's data NULL: a null. Bytes are copied. */
void od_row_text(od_row *row, const char *name, od_row_null null, od_slice value);
void od_row_binary(od_row *row, const char *name, od_row_null null, od_slice value);
void od_row_large_binary(od_row *row, const char *name, od_row_null null, od_slice value);
/* A dictionary<int16, utf8> of one value. */
void od_row_symbol(od_row *row, const char *name, od_row_null null, od_slice value);
/* A dictionary<int32, binary> of one value. */
void od_row_shared_binary(od_row *row, const char *name, od_row_null null, od_slice value);
void od_row_bool(od_row *row, const char *name, bool value);                              /* not null */
void od_row_int64(od_row *row, const char *name, od_row_null null, const int64_t *value); /* NULL: a null */
void od_row_int32(od_row *row, const char *name, od_row_null null, int32_t value);
/* Lists. COUNT items; ITEMS NULL: a null list. */
void od_row_text_list(od_row *row, const char *name, od_row_null null, const od_slice *items, size_t count);
void od_row_binary_list(od_row *row, const char *name, od_row_null null, const od_slice *items, size_t count);
void od_row_int64_list(od_row *row, const char *name, od_row_null null, const int64_t *items, size_t count);
void od_row_int32_list(od_row *row, const char *name, od_row_null null, const int32_t *items, size_t count);
/* Lists of lists, not null: LISTS[i] has COUNTS[i] items. */
void od_row_text_lists(od_row *row, const char *name, const od_slice *const *lists, const size_t *counts, size_t count);
void od_row_int32_lists(od_row *row, const char *name, const int32_t *const *lists, const size_t *counts, size_t count);
/* A column of one value that the caller has: SCHEMA is copied (but for its name: NAME), ARRAY is taken (its release becomes NULL, on
 * failure too). */
void od_row_array(od_row *row, const char *name, const struct ArrowSchema *schema, struct ArrowArray *array);
/* A map<utf8, utf8>; a key is not null. */
void od_row_text_map(od_row *row, const char *name, od_row_null null, const od_ipc_pair *items, size_t count);
/* A column of TYPE that says nothing: a null if it may be one, else no items, no bytes, 0 or false. TYPE is a letter of the C data
 * interface (b c s i l C S I L f g u U z Z), "@" a timestamp in UTC, "[T" a list, "{KV" a map, "<IT" a dictionary of indices I,
 * "(name:T,name:T)" a struct; "!T" is not null. */
void od_row_blank(od_row *row, const char *name, od_row_null null, const char *type);
bool od_row_has(const od_row *row, const char *name);
/* A struct without fields. */
void od_row_empty_struct(od_row *row, const char *name);
/* As od_row_text, not null, but as the first column. */
void od_row_prepend_text(od_row *row, const char *name, od_slice value);
/* Metadata: of the schema itself (COLUMN NULL), or of a column that was added. */
void od_row_metadata(od_row *row, const char *column, const char *key, od_slice value);

/* The stream of schema, the one batch (PAIRS: its message's own metadata) and the end mark. The row is empty again. */
OD_MUST_CHECK od_code od_row_finish(od_row *row, const od_ipc_pair *pairs, size_t pair_count, od_msg **out,
                                    od_error *err);

#endif

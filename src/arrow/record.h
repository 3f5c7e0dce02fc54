/* arrow/record.h: small Arrow IPC streams read value by value, columns found by name.
 *
 * For records that a peer sends as streams of one batch: whatever a schema declares, a value may be null or a column absent, and both
 * read as "absent". All is checked before it is read (arrow/ipc_read.h). One thread. */
#ifndef OD_ARROW_RECORD_H
#define OD_ARROW_RECORD_H

#include <stdint.h>

#include "arrow/c_data.h"
#include "base/buf.h"

typedef struct od_record od_record;

/* Reads PAYLOAD, which is copied: a stream of exactly one record batch.
 *   OD_E_CORRUPT, OD_E_TOO_LARGE, OD_E_NOT_IMPLEMENTED  as od_ipc_reader_next_array */
OD_MUST_CHECK od_code od_record_of_payload(od_slice payload, od_record **out, od_error *err);
/* As a record: SCHEMA is copied, ARRAY, which an od_ipc_reader gave, is taken (its release becomes NULL, on failure too). */
OD_MUST_CHECK od_code od_record_wrap(const struct ArrowSchema *schema, struct ArrowArray *array, od_record **out,
                                     od_error *err);
void od_record_free(od_record *record); /* NULL allowed */
int64_t od_record_rows(const od_record *record);
const struct ArrowSchema *od_record_schema(const od_record *record);
/* Moves schema and data out, as of the C data interface; the record may then only be freed. */
void od_record_take(od_record *record, struct ArrowSchema *schema, struct ArrowArray *array);

/* A bare schema message, or a stream's, in PAYLOAD. */
OD_MUST_CHECK od_code od_record_schema_only(od_slice payload, struct ArrowSchema *out, od_error *err);

/* One value; it lives as long as its record. `view` NULL: absent. */
typedef struct {
    const void *view, *field;
    int64_t at;
} od_cell;

/* ROW is below od_record_rows. */
od_cell od_record_cell(const od_record *record, const char *name, int64_t row);

/* Of an absent value: no bytes (data NULL), 0, false, no items. A value of another type is OD_E_CORRUPT, with the column's name. */
OD_MUST_CHECK od_code od_cell_bytes(od_cell cell, od_slice *out,
                                    od_error *err);                           /* text or binary, also in a dictionary */
OD_MUST_CHECK od_code od_cell_int(od_cell cell, int64_t *out, od_error *err); /* integers of any width, timestamps */
OD_MUST_CHECK od_code od_cell_bool(od_cell cell, bool *out, od_error *err);
OD_MUST_CHECK od_code od_cell_count(od_cell cell, int64_t *out, od_error *err); /* of a list's or map's items */
od_cell od_cell_item(od_cell cell, int64_t i);                                  /* I is below od_cell_count */
od_cell od_cell_child(od_cell cell, const char *name);                          /* of a struct */
od_cell
od_cell_union(od_cell cell); /* of a union: the value that it is, of whatever type; absent where it names none */
/* The value as a number, as near as a double comes to it: of integers, floats, dates and times as their integers.
 * FORMAT: as of the C data interface, as long as the record. False: absent, or another type. */
bool od_cell_double(od_cell cell, double *out, const char **format);
/* Of a map's item, whatever the two are called. */
od_cell od_cell_key(od_cell item);
od_cell od_cell_value(od_cell item);

#endif

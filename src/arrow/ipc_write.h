/* arrow/ipc_write.h: whole Arrow IPC streams, with one copy of the data.
 *
 * A writer serves payloads of one schema, one after another. Two ways to fill a payload: the caller lays out one record batch
 * and writes its body in place (od_ipc_writer_layout), or hands over arrays (od_ipc_writer_add, then _flush). One thread. */
#ifndef OD_ARROW_IPC_WRITE_H
#define OD_ARROW_IPC_WRITE_H

#include <stdint.h>

#include "arrow/c_data.h"
#include "base/buf.h"

typedef struct od_ipc_writer od_ipc_writer;

/* One a field, depth first. */
typedef struct {
    int64_t length;
    int64_t null_count;
} od_ipc_node;

/* One a buffer, in the order of the fields; OFFSET is from the body's start. */
typedef struct {
    int64_t offset;
    int64_t length;
} od_ipc_span;

/* A layout: what a record batch's metadata says. */
typedef struct {
    int64_t rows;
    const od_ipc_node *nodes;
    size_t node_count;
    const od_ipc_span *spans;
    size_t span_count;
    size_t body_len; /* a multiple of 8 */
} od_ipc_layout;

/* An entry of a message's own metadata. */
typedef struct {
    od_slice key, value;
} od_ipc_pair;

/* SCHEMA is a struct; it is borrowed and must outlive the writer. OD_E_NOT_IMPLEMENTED: a type that IPC does not have. */
OD_MUST_CHECK od_code od_ipc_writer_create(const struct ArrowSchema *schema, od_ipc_writer **out, od_error *err);
void od_ipc_writer_free(od_ipc_writer *writer); /* NULL allowed */
/* What od_ipc_writer_layout makes comes from POOL, which is borrowed; NULL (as at first): from none. */
void od_ipc_writer_pool(od_ipc_writer *writer, od_msg_pool *pool);

/* Makes a payload of the schema, one record batch and the end mark. The batch's body, LAYOUT->body_len bytes at BODY_AT (a multiple
 * of 64), is left for the caller to fill, padding too, before the message is shared. */
OD_MUST_CHECK od_code od_ipc_writer_layout(od_ipc_writer *writer, const od_ipc_layout *layout, od_msg **out,
                                           size_t *body_at, od_error *err);
/* How long od_ipc_writer_layout's message would be, metadata estimated from above. */
size_t od_ipc_writer_layout_size(const od_ipc_writer *writer, size_t node_count, size_t span_count, size_t body_len);
/* A payload of the schema and the end mark alone. */
OD_MUST_CHECK od_code od_ipc_writer_empty(od_ipc_writer *writer, od_msg **out, od_error *err);

/* Takes ARRAY (its release becomes NULL, on failure too): one record batch of the next payload. OD_E_CORRUPT if it does not fit
 * the schema. */
OD_MUST_CHECK od_code od_ipc_writer_add(od_ipc_writer *writer, struct ArrowArray *array, od_error *err);
/* As _add, with metadata of the record batch's message: PAIRS are copied. */
OD_MUST_CHECK od_code od_ipc_writer_add_with(od_ipc_writer *writer, struct ArrowArray *array, const od_ipc_pair *pairs,
                                             size_t pair_count, od_error *err);
/* The next payload's bytes by what has been added. */
size_t od_ipc_writer_pending(const od_ipc_writer *writer);
/* Takes the array added last out of the next payload again; only once after an _add. */
void od_ipc_writer_drop(od_ipc_writer *writer);
/* Makes a payload of all that was added since the last one: schema, dictionaries, batches, end mark. */
OD_MUST_CHECK od_code od_ipc_writer_flush(od_ipc_writer *writer, od_msg **out, od_error *err);

/* A stream written piece by piece: as _flush, but with the schema and the end mark only where PARTS says so. */
enum { OD_IPC_PART_SCHEMA = 1, OD_IPC_PART_END = 2 };
OD_MUST_CHECK od_code od_ipc_writer_flush_part(od_ipc_writer *writer, unsigned parts, od_msg **out, od_error *err);

#endif

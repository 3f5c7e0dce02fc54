/* arrow/ipc_read.h: one Arrow IPC stream in memory, read without copies and without trust.
 *
 * A payload is one whole IPC stream: schema, record batches, end mark (Arrow columnar format, "IPC streaming format").
 * Everything is checked before it is shown: metadata by the flatbuffer verifier, every buffer against the payload's end,
 * offsets monotonic and inside their data, lengths against each other. What is shown borrows the payload.
 * One reader, one thread; a reader serves one stream after another. */
#ifndef OD_ARROW_IPC_READ_H
#define OD_ARROW_IPC_READ_H

#include <stdint.h>

#include "arrow/c_data.h"
#include "base/buf.h"

typedef struct od_ipc_reader od_ipc_reader;

/* A column as it lies in the payload. Buffers are NULL where the layout has none (no nulls: no validity). */
typedef struct od_column {
    int64_t length;
    int64_t null_count;      /* as counted by the writer, -1 unknown */
    const uint8_t *validity; /* a bit per row, 1 = valid, least significant first, from bit 0 */
    const uint8_t *data;     /* fixed-width values; for utf8, binary and list: the int32 offsets (length + 1 of them) */
    const uint8_t *bytes;    /* utf8, binary: what the offsets point into */
    int64_t bytes_len;
    int64_t child_count;
    struct od_column *children; /* list, fixed-size list: one; struct: one a field */
} od_column;

typedef struct {
    int64_t rows;
    int64_t column_count;
    od_column *columns; /* lives until the next od_ipc_reader_next or _start */
} od_batch;

OD_MUST_CHECK od_code od_ipc_reader_create(od_ipc_reader **out, od_error *err);
void od_ipc_reader_free(od_ipc_reader *reader);

/* Begins PAYLOAD (borrowed until the next start or free) and reads its schema. If its schema bytes are those of the payload
 * before, *same_schema (may be NULL) is true and the schema is not decoded again.
 *   OD_E_CORRUPT   not an IPC stream, cut, inconsistent; names the offset
 *   OD_E_TOO_LARGE   more than 16 MiB of metadata in one message
 *   OD_E_NOT_IMPLEMENTED   a layout that is not read (views, run-end encoding, compression, big-endian) */
OD_MUST_CHECK od_code od_ipc_reader_start(od_ipc_reader *reader, od_slice payload, bool *same_schema, od_error *err);
/* The schema, owned by the reader, valid until a start with another schema. */
const struct ArrowSchema *od_ipc_reader_schema(const od_ipc_reader *reader);
/* The next record batch; *out is NULL after the last. Dictionary-encoded columns are refused here: see _next_array. */
OD_MUST_CHECK od_code od_ipc_reader_next(od_ipc_reader *reader, const od_batch **out, od_error *err);
/* How many rows the batches of PAYLOAD, which was just started, say that they have, without a look at their data. May be followed by
 * _next. OD_E_CORRUPT, OD_E_TOO_LARGE as _next. */
OD_MUST_CHECK od_code od_ipc_reader_count(od_ipc_reader *reader, int64_t *rows, od_error *err);
/* As _next, but as an ArrowArray of its own, dictionaries included, that keeps OWNER (a message holding the payload)
 * alive until it is released: for consumers of the C data interface. out->release is NULL after the last batch. */
OD_MUST_CHECK od_code od_ipc_reader_next_array(od_ipc_reader *reader, od_msg *owner, struct ArrowArray *out,
                                               od_error *err);

/* ---- a stream that comes message by message ----
 *
 * Of each message first its head, the 8 bytes of its prefix and then its metadata, goes to od_ipc_reader_peek, which says how much
 * body follows. The schema's message is then what od_ipc_reader_start takes, and each other's what od_ipc_reader_feed takes. */

typedef enum { OD_IPC_SCHEMA, OD_IPC_BATCH, OD_IPC_DICTIONARY, OD_IPC_OTHER } od_ipc_type;

typedef struct {
    od_ipc_type type;
    int64_t rows; /* of a batch */
    size_t body_len;
} od_ipc_head;

/* What a message's prefix of 8 bytes says: how long its metadata is; 0: it is the end mark.
 * OD_E_CORRUPT, OD_E_TOO_LARGE as of _start. */
OD_MUST_CHECK od_code od_ipc_prefix(const uint8_t prefix[8], size_t *metadata_len, od_error *err);
/* Verifies HEAD. Neither the schema nor the batch that is shown change. OD_E_CORRUPT, OD_E_NOT_IMPLEMENTED. */
OD_MUST_CHECK od_code od_ipc_reader_peek(od_ipc_reader *reader, od_slice head, od_ipc_head *out, od_error *err);
/* The value of KEY in the metadata of the message peeked last, borrowed until the next peek; data NULL: it has none. */
od_slice od_ipc_reader_pair(const od_ipc_reader *reader, const char *key);
/* Goes on with the stream by one MESSAGE, head and body, borrowed until the next. A batch's is then what od_ipc_reader_next or
 * _next_array show; a dictionary's is stored at once (OWNER as of _next_array). */
OD_MUST_CHECK od_code od_ipc_reader_feed(od_ipc_reader *reader, od_slice message, od_msg *owner, od_error *err);

/* A field's metadata value of KEY, borrowed from the schema; len 0 and data NULL if it has none. */
od_slice od_schema_metadata(const struct ArrowSchema *field, const char *key);

#endif

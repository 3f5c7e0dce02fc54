/* arrow/ipc_internal.h: what this room adds to nanoarrow's IPC decoder and encoder, private to it.
 *
 * nanoarrow trusts parts of what a peer says: sums of offsets that overflow, negative lengths, dictionaries with too few buffers.
 * The functions here check those first. They are in one translation unit with nanoarrow_ipc.c, whose static functions they need. */
#ifndef OD_ARROW_IPC_INTERNAL_H
#define OD_ARROW_IPC_INTERNAL_H

#include <nanoarrow/nanoarrow.h>
#include <nanoarrow/nanoarrow_ipc.h>

#include "arrow/ipc_write.h"

/* No array that is read has more rows. */
#define OD_IPC_MAX_ROWS INT32_MAX
/* No message has more metadata: enough for 300,000 columns. */
#define OD_IPC_MAX_METADATA (16U << 20)
/* nanoarrow looks each of a schema's dictionaries up among all. */
#define OD_IPC_MAX_DICTIONARIES 4096

/* Verifies and decodes the message in HEADER (prefix included, 8-aligned). LENGTH is the metadata's length as the prefix says it; the
 * caller has checked that it lies within HEADER. */
ArrowErrorCode od_unit_header(struct ArrowIpcDecoder *decoder, struct ArrowBufferView header, struct ArrowError *why);
/* The value of KEY in the metadata of the message that HEADER, which was verified, is itself; data NULL: it has none. */
od_slice od_unit_pair(struct ArrowBufferView header, const char *key);
/* Checks the record or dictionary batch just decoded against its body's length. */
ArrowErrorCode od_unit_check(struct ArrowIpcDecoder *decoder, struct ArrowIpcDictionaries *dictionaries,
                             int64_t body_len, struct ArrowError *why);
/* Of the record batch just checked. */
int64_t od_unit_rows(const struct ArrowIpcDecoder *decoder);
/* A view of the batch just checked; buffers that are not 8-aligned are copied to memory of the decoder's. Fully validated. */
ArrowErrorCode od_unit_view(struct ArrowIpcDecoder *decoder, struct ArrowBufferView body, struct ArrowArrayView **out,
                            struct ArrowError *why);
/* As od_unit_view, as an array that keeps SHARED (an nanoarrow shared buffer that holds the body) alive. */
ArrowErrorCode od_unit_array(struct ArrowIpcDecoder *decoder, struct ArrowBuffer *shared,
                             struct ArrowIpcDictionaries *dictionaries, struct ArrowArray *out, struct ArrowError *why);
/* ipc_array.c. Whether batches of SCHEMA, which has no dictionaries, have nothing but columns without children. */
bool od_flat_fits(const struct ArrowSchema *schema);
/* VIEW, of such a batch, validated, as an array that keeps OWNER, in which its BODY is. out->release NULL: buffers were copied elsewhere. */
ArrowErrorCode od_flat_array(const struct ArrowArrayView *view, struct ArrowBufferView body, od_msg *owner,
                             struct ArrowArray *out);
/* Stores the dictionary batch just checked. */
ArrowErrorCode od_unit_dictionary(struct ArrowIpcDecoder *decoder, struct ArrowBuffer *shared,
                                  struct ArrowIpcDictionaries *dictionaries, struct ArrowError *why);

typedef struct {
    int64_t rows;
    const od_ipc_node *nodes;
    size_t node_count;
    const od_ipc_span *spans;
    size_t span_count;
    int64_t body_len;
    const int64_t *dictionary_id; /* NULL: a record batch */
    const od_ipc_pair *pairs;     /* the message's own metadata */
    size_t pair_count;
} od_unit_batch;

/* Encodes a batch's metadata; ArrowIpcEncoderFinalizeBuffer then gives its bytes. */
ArrowErrorCode od_unit_encode(struct ArrowIpcEncoder *encoder, const od_unit_batch *batch, struct ArrowError *why);
/* The id of FIELD's dictionary in the schema that was encoded last; false if it has none. */
bool od_unit_dictionary_id(const struct ArrowIpcEncoder *encoder, const struct ArrowSchema *field, int64_t *id);

#endif

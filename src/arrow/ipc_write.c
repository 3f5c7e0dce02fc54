#include "arrow/ipc_write.h"

#include <errno.h>
#include <string.h>

#include "arrow/ipc_internal.h"
#include "base/alloc.h"
#include "base/banned.h"

/* A message waiting for the next flush: its head's bytes, then its buffers, each padded to 8. */
typedef struct {
    size_t head_at, head_len;
    size_t part, part_count;
    size_t body_len;
} pending_message;

struct od_ipc_writer {
    struct ArrowIpcEncoder encoder;
    struct ArrowArrayView view; /* of the array added last */
    const struct ArrowSchema *schema;
    od_msg_pool *pool; /* borrowed; NULL: none */
    od_buf schema_bytes;
    struct ArrowBuffer head; /* scratch */
    /* what _add collects for _flush */
    od_buf arrays;   /* struct ArrowArray */
    od_buf messages; /* pending_message */
    od_buf heads;
    od_buf parts; /* od_slice */
    od_buf nodes, spans;
    size_t pending;
    struct {
        size_t messages, heads, parts, pending;
    } mark; /* before the last _add */
};

static const uint8_t end_mark[8] = {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0};

static size_t pad_to(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static od_code na_fail(ArrowErrorCode rc, const struct ArrowError *why, od_error *err)
{
    od_code code = rc == ENOTSUP ? OD_E_NOT_IMPLEMENTED : rc == ENOMEM ? OD_E_NO_MEMORY : OD_E_CORRUPT;
    return od_fail(err, code, "arrow: %s", why->message[0] ? why->message : "the data cannot be written");
}

od_code od_ipc_writer_create(const struct ArrowSchema *schema, od_ipc_writer **out, od_error *err)
{
    *out = NULL;
    struct ArrowError why = {{0}};
    od_ipc_writer *writer = od_calloc(1, sizeof *writer);
    if (writer == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    writer->schema = schema;
    ArrowBufferInit(&writer->head);
    ArrowArrayViewInitFromType(&writer->view, NANOARROW_TYPE_UNINITIALIZED);
    ArrowErrorCode na = ArrowIpcEncoderInit(&writer->encoder);
    if (na == NANOARROW_OK)
        na = ArrowIpcEncoderEncodeSchema(&writer->encoder, schema, &why);
    if (na == NANOARROW_OK)
        na = ArrowIpcEncoderFinalizeBuffer(&writer->encoder, 1, &writer->head);
    od_code rc = na == NANOARROW_OK
                     ? od_buf_append(&writer->schema_bytes, writer->head.data, (size_t)writer->head.size_bytes, err)
                     : na_fail(na, &why, err);
    if (rc != OD_OK) {
        od_ipc_writer_free(writer);
        return rc;
    }
    *out = writer;
    return OD_OK;
}

static void forget_pending(od_ipc_writer *writer)
{
    struct ArrowArray *arrays = (struct ArrowArray *)(void *)writer->arrays.data;
    for (size_t i = 0; i < writer->arrays.len / sizeof *arrays; i++)
        arrays[i].release(&arrays[i]);
    writer->arrays.len = writer->messages.len = writer->heads.len = writer->parts.len = 0;
    writer->pending = 0;
}

void od_ipc_writer_free(od_ipc_writer *writer)
{
    if (writer == NULL)
        return;
    forget_pending(writer);
    if (writer->encoder.private_data != NULL)
        ArrowIpcEncoderReset(&writer->encoder);
    ArrowArrayViewReset(&writer->view);
    ArrowBufferReset(&writer->head);
    od_buf *bufs[] = {&writer->schema_bytes, &writer->arrays, &writer->messages, &writer->heads,
                      &writer->parts,        &writer->nodes,  &writer->spans};
    for (size_t i = 0; i < sizeof bufs / sizeof bufs[0]; i++)
        od_buf_release(bufs[i]);
    od_free(writer);
}

void od_ipc_writer_pool(od_ipc_writer *writer, od_msg_pool *pool)
{
    writer->pool = pool;
}

static od_code encode_head(od_ipc_writer *writer, const od_unit_batch *batch, od_error *err)
{
    struct ArrowError why = {{0}};
    writer->head.size_bytes = 0;
    ArrowErrorCode na = od_unit_encode(&writer->encoder, batch, &why);
    if (na == NANOARROW_OK)
        na = ArrowIpcEncoderFinalizeBuffer(&writer->encoder, 1, &writer->head);
    return na == NANOARROW_OK ? OD_OK : na_fail(na, &why, err);
}

size_t od_ipc_writer_layout_size(const od_ipc_writer *writer, size_t node_count, size_t span_count, size_t body_len)
{
    return writer->schema_bytes.len + 256 + 16 * (node_count + span_count) + body_len + sizeof end_mark;
}

od_code od_ipc_writer_layout(od_ipc_writer *writer, const od_ipc_layout *layout, od_msg **out, size_t *body_at,
                             od_error *err)
{
    *out = NULL;
    od_unit_batch batch = {.rows = layout->rows,
                           .nodes = layout->nodes,
                           .node_count = layout->node_count,
                           .spans = layout->spans,
                           .span_count = layout->span_count,
                           .body_len = (int64_t)layout->body_len};
    od_code rc = encode_head(writer, &batch, err);
    if (rc != OD_OK)
        return rc;
    size_t schema_len = writer->schema_bytes.len, head_len = (size_t)writer->head.size_bytes;
    size_t body = pad_to(schema_len + head_len, 64);
    od_msg *msg;
    rc = od_msg_pool_take(writer->pool, body + layout->body_len + sizeof end_mark, 0, &msg, err);
    if (rc != OD_OK)
        return rc;
    uint8_t *p = od_msg_data(msg);
    memcpy(p, writer->schema_bytes.data, schema_len);
    memcpy(p + schema_len, writer->head.data, head_len);
    memset(p + schema_len + head_len, 0, body - schema_len - head_len);
    uint32_t metadata = (uint32_t)(body - schema_len - 8); /* padding counts as metadata */
    for (int i = 0; i < 4; i++)
        p[schema_len + 4 + (size_t)i] = (uint8_t)(metadata >> (8 * i));
    memcpy(p + body + layout->body_len, end_mark, sizeof end_mark);
    *out = msg;
    *body_at = body;
    return OD_OK;
}

od_code od_ipc_writer_empty(od_ipc_writer *writer, od_msg **out, od_error *err)
{
    *out = NULL;
    od_msg *msg;
    od_code rc = od_msg_create(writer->schema_bytes.len + sizeof end_mark, 0, &msg, err);
    if (rc != OD_OK)
        return rc;
    memcpy(od_msg_data(msg), writer->schema_bytes.data, writer->schema_bytes.len);
    memcpy(od_msg_data(msg) + writer->schema_bytes.len, end_mark, sizeof end_mark);
    *out = msg;
    return OD_OK;
}

/* ---- arrays ---- */

/* NOLINTBEGIN(misc-no-recursion): as deep as the schema */
/* Lists VIEW and what lies below it: nodes, spans, and parts. *body grows. */
static od_code list(od_ipc_writer *writer, const struct ArrowArrayView *view, size_t *body, od_error *err)
{
    /* All of the null type are null, whatever the array says: DuckDB says that none is. */
    od_ipc_node node = {view->length, view->storage_type == NANOARROW_TYPE_NA ? view->length : view->null_count};
    od_code rc = od_buf_append(&writer->nodes, &node, sizeof node, err);
    for (int i = 0; i < NANOARROW_MAX_FIXED_BUFFERS && rc == OD_OK; i++) {
        if (view->layout.buffer_type[i] == NANOARROW_BUFFER_TYPE_NONE)
            break;
        const struct ArrowBufferView *buffer = &view->buffer_views[i];
        size_t len = buffer->data.data != NULL && buffer->size_bytes > 0 ? (size_t)buffer->size_bytes : 0;
        od_ipc_span span = {(int64_t)*body, (int64_t)len};
        od_slice part = od_slice_of(buffer->data.data, len);
        rc = od_buf_append(&writer->spans, &span, sizeof span, err);
        if (rc == OD_OK && len > 0)
            rc = od_buf_append(&writer->parts, &part, sizeof part, err);
        *body += pad_to(len, 8);
    }
    for (int64_t i = 0; i < view->n_children && rc == OD_OK; i++)
        rc = list(writer, view->children[i], body, err);
    return rc;
}
/* NOLINTEND(misc-no-recursion) */

/* Adds the message of COUNT arrays; WHAT has its rows, its dictionary and its pairs. */
static od_code add_message(od_ipc_writer *writer, struct ArrowArrayView *const *columns, int64_t count,
                           const od_unit_batch *what, od_error *err)
{
    od_code rc = OD_OK;
    size_t body = 0, first_part = writer->parts.len / sizeof(od_slice);
    writer->nodes.len = writer->spans.len = 0;
    for (int64_t i = 0; i < count; i++)
        OD_TRY(list(writer, columns[i], &body, err));
    od_unit_batch batch = *what;
    batch.nodes = (const od_ipc_node *)(const void *)writer->nodes.data;
    batch.node_count = writer->nodes.len / sizeof(od_ipc_node);
    batch.spans = (const od_ipc_span *)(const void *)writer->spans.data;
    batch.span_count = writer->spans.len / sizeof(od_ipc_span);
    batch.body_len = (int64_t)body;
    OD_TRY(encode_head(writer, &batch, err));
    pending_message message = {.head_at = writer->heads.len,
                               .head_len = (size_t)writer->head.size_bytes,
                               .part = first_part,
                               .part_count = writer->parts.len / sizeof(od_slice) - first_part,
                               .body_len = body};
    OD_TRY(od_buf_append(&writer->heads, writer->head.data, message.head_len, err));
    OD_TRY(od_buf_append(&writer->messages, &message, sizeof message, err));
    writer->pending += message.head_len + body;
out:
    return rc;
}

/* NOLINTBEGIN(misc-no-recursion): as deep as the schema */
/* The dictionaries of the columns below, inner ones first. */
static od_code add_dictionaries(od_ipc_writer *writer, const struct ArrowSchema *field,
                                const struct ArrowArrayView *view, od_error *err)
{
    od_code rc = OD_OK;
    for (int64_t i = 0; i < view->n_children; i++)
        OD_TRY(add_dictionaries(writer, field->children[i], view->children[i], err));
    if (view->dictionary != NULL) {
        int64_t id;
        OD_TRY(add_dictionaries(writer, field->dictionary, view->dictionary, err));
        if (!od_unit_dictionary_id(&writer->encoder, field, &id))
            return od_fail(err, OD_E_INTERNAL, "arrow: a dictionary without an id");
        od_unit_batch what = {.rows = view->dictionary->length, .dictionary_id = &id};
        OD_TRY(add_message(writer, &view->dictionary, 1, &what, err));
    }
out:
    return rc;
}
/* NOLINTEND(misc-no-recursion) */

od_code od_ipc_writer_add(od_ipc_writer *writer, struct ArrowArray *array, od_error *err)
{
    return od_ipc_writer_add_with(writer, array, NULL, 0, err);
}

od_code od_ipc_writer_add_with(od_ipc_writer *writer, struct ArrowArray *array, const od_ipc_pair *pairs,
                               size_t pair_count, od_error *err)
{
    od_code rc = OD_OK;
    struct ArrowError why = {{0}};
    struct ArrowArray taken = *array;
    array->release = NULL;
    ArrowErrorCode na = NANOARROW_OK;
    if (writer->view.storage_type == NANOARROW_TYPE_UNINITIALIZED)
        na = ArrowArrayViewInitFromSchema(&writer->view, writer->schema, &why);
    if (na == NANOARROW_OK)
        na = ArrowArrayViewSetArray(&writer->view, &taken, &why);
    if (na == NANOARROW_OK && writer->view.offset != 0)
        na = EINVAL;
    bool first = writer->arrays.len == 0;
    rc = na == NANOARROW_OK ? od_buf_append(&writer->arrays, &taken, sizeof taken, err) : na_fail(na, &why, err);
    if (rc != OD_OK) {
        taken.release(&taken);
        return rc;
    }
    writer->mark.messages = writer->messages.len;
    writer->mark.heads = writer->heads.len;
    writer->mark.parts = writer->parts.len;
    writer->mark.pending = writer->pending;
    /* On a failure below the array stays until the next flush or free. */
    if (first)
        OD_TRY(add_dictionaries(writer, writer->schema, &writer->view, err));
    od_unit_batch what = {.rows = writer->view.length, .pairs = pairs, .pair_count = pair_count};
    OD_TRY(add_message(writer, writer->view.children, writer->view.n_children, &what, err));
out:
    return rc;
}

size_t od_ipc_writer_pending(const od_ipc_writer *writer)
{
    return writer->schema_bytes.len + writer->pending + sizeof end_mark;
}

void od_ipc_writer_drop(od_ipc_writer *writer)
{
    writer->arrays.len -= sizeof(struct ArrowArray);
    struct ArrowArray *last = (struct ArrowArray *)(void *)(writer->arrays.data + writer->arrays.len);
    last->release(last);
    writer->messages.len = writer->mark.messages;
    writer->heads.len = writer->mark.heads;
    writer->parts.len = writer->mark.parts;
    writer->pending = writer->mark.pending;
}

od_code od_ipc_writer_flush(od_ipc_writer *writer, od_msg **out, od_error *err)
{
    return od_ipc_writer_flush_part(writer, OD_IPC_PART_SCHEMA | OD_IPC_PART_END, out, err);
}

od_code od_ipc_writer_flush_part(od_ipc_writer *writer, unsigned parts, od_msg **out, od_error *err)
{
    *out = NULL;
    od_msg *msg;
    size_t schema_len = parts & OD_IPC_PART_SCHEMA ? writer->schema_bytes.len : 0;
    size_t end_len = parts & OD_IPC_PART_END ? sizeof end_mark : 0;
    od_code rc = od_msg_create(schema_len + writer->pending + end_len, 0, &msg, err);
    if (rc != OD_OK)
        return rc;
    uint8_t *p = od_msg_data(msg);
    memcpy(p, writer->schema_bytes.data, schema_len);
    p += schema_len;
    const pending_message *messages = (const pending_message *)(const void *)writer->messages.data;
    const od_slice *buffers = (const od_slice *)(const void *)writer->parts.data;
    for (size_t i = 0; i < writer->messages.len / sizeof *messages; i++) {
        memcpy(p, writer->heads.data + messages[i].head_at, messages[i].head_len);
        p += messages[i].head_len;
        for (size_t k = 0; k < messages[i].part_count; k++) {
            od_slice part = buffers[messages[i].part + k];
            size_t padded = pad_to(part.len, 8);
            memcpy(p, part.data, part.len);
            memset(p + part.len, 0, padded - part.len);
            p += padded;
        }
    }
    memcpy(p, end_mark, end_len);
    forget_pending(writer);
    *out = msg;
    return OD_OK;
}

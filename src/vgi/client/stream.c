#include <string.h>

#include "arrow/schema.h"
#include "vgi/client/client_internal.h"

#include "base/banned.h"

enum { PREFIX = 8, ALIGNMENT = 64 };

od_code od_vgi_stream_init(od_vgi_stream *stream, od_vgi *vgi, od_vgi_source *source, od_error *err)
{
    *stream = (od_vgi_stream){.vgi = vgi, .source = source};
    return od_ipc_reader_create(&stream->reader, err);
}

void od_vgi_stream_release(od_vgi_stream *stream)
{
    od_ipc_reader_free(stream->reader);
    od_buf_release(&stream->head);
    od_buf_release(&stream->cursor);
    od_buf_release(&stream->call);
    *stream = (od_vgi_stream){0};
}

od_code od_vgi_source_end(const od_vgi_source *source, od_error *err)
{
    if (source->link == NULL && source->memory.len > 0)
        return od_fail(err, OD_E_CORRUPT, "%zu bytes too many in the worker's answer", source->memory.len);
    return OD_OK;
}

static od_code read_bytes(od_vgi_source *source, void *to, size_t len, const od_vgi_wait *wait, od_error *err)
{
    if (source->link != NULL)
        return od_vgi_link_read(source->link, to, len, wait, err);
    if (source->memory.len < len)
        return od_fail(err, OD_E_CONNECTION_LOST, "the worker's answer ends before it is complete");
    if (len > 0)
        memcpy(to, source->memory.data, len);
    source->memory = od_slice_of(source->memory.data + len, source->memory.len - len);
    return OD_OK;
}

/* The head of the next message, in stream->head; *len 0: the end mark. */
static od_code read_head(od_vgi_stream *stream, const od_vgi_wait *wait, size_t *len, od_error *err)
{
    size_t metadata;
    od_code rc;

    *len = 0;
    stream->head.len = 0;
    OD_TRY(od_buf_reserve(&stream->head, PREFIX, err));
    OD_TRY(read_bytes(stream->source, stream->head.data, PREFIX, wait, err));
    OD_TRY(od_ipc_prefix(stream->head.data, &metadata, err));
    if (metadata == 0)
        return OD_OK;
    stream->head.len = PREFIX;
    OD_TRY(od_buf_reserve(&stream->head, metadata, err));
    OD_TRY(read_bytes(stream->source, stream->head.data + PREFIX, metadata, wait, err));
    *len = stream->head.len = PREFIX + metadata;
out:
    return rc;
}

/* The whole MESSAGE, its body aligned, as long as there is OUT. */
static od_code read_message(od_vgi_stream *stream, const od_vgi_wait *wait, size_t body, od_slice *message,
                            od_msg **out, od_error *err)
{
    size_t head = stream->head.len;
    od_code rc;

    *out = NULL;
    stream->message_len = head + body;
    if (body > OD_VGI_MAX_BODY)
        return od_fail(err, OD_E_TOO_LARGE, "the worker sends a batch of %zu bytes, above the limit of %zu", body,
                       OD_VGI_MAX_BODY);
    if (stream->source->link != NULL && od_vgi_link_lend(stream->source->link, head, body, message, out))
        return OD_OK;
    rc = od_msg_create(head + body, (unsigned)((ALIGNMENT - head % ALIGNMENT) % ALIGNMENT), out, err);
    if (rc != OD_OK)
        return rc;
    memcpy(od_msg_data(*out), stream->head.data, head);
    *message = od_slice_of(od_msg_data(*out), head + body);
    rc = read_bytes(stream->source, od_msg_data(*out) + head, body, wait, err);
    if (rc != OD_OK) {
        od_msg_unref(*out);
        *out = NULL;
    }
    return rc;
}

/* ---- what is no data ---- */

/* The code that a worker's own words for a failure come nearest to. */
static od_code fault_code(const od_vgi_stream *stream)
{
    static const struct {
        const char *kind;
        od_code code;
    } kinds[] = {
        {"method_not_implemented", OD_E_NOT_IMPLEMENTED},
        {"protocol_version_mismatch", OD_E_PROTOCOL},
        {"protocol_not_specified", OD_E_PROTOCOL},
        {"protocol_not_supported", OD_E_PROTOCOL},
    };
    od_slice kind = od_ipc_reader_pair(stream->reader, "vgi_rpc.error_kind");

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (od_slice_equal(kind, od_slice_str(kinds[i].kind)))
            return kinds[i].code;
    return OD_E_UNKNOWN;
}

/* Over HTTP: how the next request finds its place. *FOUND: the batch has that. */
static od_code keep_place(od_vgi_stream *stream, bool *found, od_error *err)
{
    od_slice cursor = od_ipc_reader_pair(stream->reader, "vgi_rpc.stream_state#b64");
    od_slice call = od_ipc_reader_pair(stream->reader, "vgi_rpc.call_state#b64");
    od_code rc = OD_OK;

    *found = cursor.data != NULL;
    if (cursor.data != NULL) {
        stream->cursor.len = 0;
        OD_TRY(od_buf_append(&stream->cursor, cursor.data, cursor.len, err));
    }
    if (call.data != NULL) {
        stream->call.len = 0;
        OD_TRY(od_buf_append(&stream->call, call.data, call.len, err));
    }
out:
    return rc;
}

/* Whether the batch of no rows that was peeked is a word of the worker's; then it is dealt with. */
static od_code hear(od_vgi_stream *stream, bool *heard, od_error *err)
{
    od_slice level = od_ipc_reader_pair(stream->reader, "vgi_rpc.log_level");
    od_slice text = od_ipc_reader_pair(stream->reader, "vgi_rpc.log_message");

    *heard = false;
    if (level.data == NULL) {
        if (od_ipc_reader_pair(stream->reader, "vgi_rpc.location").data != NULL)
            return od_fail(err, OD_E_NOT_IMPLEMENTED, "the worker keeps its answer in a storage of its own");
        return OD_OK;
    }
    *heard = true;
    if (od_slice_equal(level, od_slice_str("EXCEPTION"))) {
        if (!stream->failed)
            (void)od_fail(&stream->fault, fault_code(stream), "the worker says: %.*s", (int)text.len,
                          text.len > 0 ? (const char *)text.data : "");
        stream->failed = true;
    } else if (stream->vgi->options.log != NULL) {
        stream->vgi->options.log(stream->vgi->options.log_arg, level, text);
    }
    return OD_OK;
}

/* ---- messages ---- */

static od_code begin(od_vgi_stream *stream, const od_ipc_head *head, od_error *err)
{
    if (head->type != OD_IPC_SCHEMA || head->body_len > 0)
        return od_fail(err, OD_E_CORRUPT, "the worker's answer does not start with a schema");
    od_code rc = od_ipc_reader_start(stream->reader, od_slice_of(stream->head.data, stream->head.len), NULL, err);
    stream->begun = rc == OD_OK;
    return rc;
}

/* One message after the schema; a batch of data goes to OUT. */
static od_code take(od_vgi_stream *stream, const od_ipc_head *head, const od_vgi_wait *wait, struct ArrowArray *out,
                    od_error *err)
{
    od_msg *owner = NULL;
    od_slice message;
    bool heard = false, place = false;
    od_code rc = OD_OK;

    if (head->type != OD_IPC_BATCH && head->type != OD_IPC_DICTIONARY)
        return od_fail(err, OD_E_CORRUPT, "the worker's answer has a message of another type");
    if (head->type == OD_IPC_BATCH)
        OD_TRY(keep_place(stream, &place, err));
    if (head->type == OD_IPC_BATCH && head->rows == 0)
        OD_TRY(hear(stream, &heard, err));
    heard = heard || (place && head->rows == 0);
    OD_TRY(read_message(stream, wait, head->body_len, &message, &owner, err));
    if (heard)
        goto out;
    OD_TRY(od_ipc_reader_feed(stream->reader, message, owner, err));
    if (head->type == OD_IPC_BATCH)
        OD_TRY(od_ipc_reader_next_array(stream->reader, owner, out, err));
out:
    od_msg_unref(owner);
    return rc;
}

od_code od_vgi_stream_next(od_vgi_stream *stream, const od_vgi_wait *wait, struct ArrowArray *out, od_error *err)
{
    od_code rc = OD_OK;

    *out = (struct ArrowArray){0};
    while (!stream->ended && out->release == NULL) {
        od_ipc_head head;
        size_t len;

        OD_TRY(read_head(stream, wait, &len, err));
        if (len == 0) {
            stream->ended = true;
            if (!stream->begun)
                OD_TRY(od_fail(err, OD_E_CORRUPT, "the worker's answer has no schema"));
            break;
        }
        OD_TRY(od_ipc_reader_peek(stream->reader, od_slice_of(stream->head.data, len), &head, err));
        OD_TRY(stream->begun ? take(stream, &head, wait, out, err) : begin(stream, &head, err));
    }
out:
    return rc;
}

od_code od_vgi_stream_finish(od_vgi_stream *stream, const od_vgi_wait *wait, od_error *err)
{
    struct ArrowArray array;
    od_code rc = OD_OK;

    while (rc == OD_OK && !stream->ended) {
        rc = od_vgi_stream_next(stream, wait, &array, err);
        if (rc == OD_OK && array.release != NULL) {
            array.release(&array);
            rc = od_fail(err, OD_E_PROTOCOL, "the worker's answer has more than one batch of data");
        }
    }
    if (rc == OD_OK && stream->failed) {
        if (err != NULL)
            *err = stream->fault;
        rc = stream->fault.code;
    }
    return rc;
}

#include "arrow/ipc_read.h"

#include <errno.h>
#include <string.h>

#include "arrow/ipc_internal.h"
#include "base/alloc.h"
#include "base/banned.h"

struct od_ipc_reader {
    struct ArrowIpcDecoder decoder;
    struct ArrowSchema schema;
    struct ArrowIpcDictionaries dictionaries; /* private_data NULL: none */
    bool has_dictionaries;
    bool is_flat;        /* no column has children or a dictionary */
    char refused[128];   /* why _next cannot show this schema; "" if it can */
    od_buf schema_bytes; /* the schema message as it came */
    od_slice payload;
    size_t at;      /* of the next message */
    bool ended;     /* the end mark was read */
    bool piecewise; /* the payload is one message of a stream: it ends without an end mark */
    od_buf header;  /* an aligned copy of a misaligned header */
    od_buf peeked;  /* the head of the message peeked last */
    bool is_peeked; /* the decoder has what that says */
    od_batch batch;
    od_column *columns; /* all columns, nested ones too; batch.columns is the first */
};

/* One message of the stream. */
typedef struct {
    size_t at;
    od_slice whole; /* prefix and metadata */
    size_t body_at, body_len;
} od_message;

static const int32_t empty_offsets[2] = {0, 0};

od_code od_ipc_reader_create(od_ipc_reader **out, od_error *err)
{
    *out = NULL;
    od_ipc_reader *reader = od_calloc(1, sizeof *reader);
    if (reader == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    if (ArrowIpcDecoderInit(&reader->decoder) != NANOARROW_OK) {
        od_free(reader);
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    }
    reader->ended = true;
    *out = reader;
    return OD_OK;
}

static void forget_schema(od_ipc_reader *reader)
{
    if (reader->schema.release != NULL)
        ArrowSchemaRelease(&reader->schema);
    if (reader->dictionaries.private_data != NULL)
        ArrowIpcDictionariesReset(&reader->dictionaries);
    memset(&reader->schema, 0, sizeof reader->schema);
    memset(&reader->dictionaries, 0, sizeof reader->dictionaries);
    od_free(reader->columns);
    reader->columns = NULL;
    reader->schema_bytes.len = 0;
    reader->batch = (od_batch){0};
}

void od_ipc_reader_free(od_ipc_reader *reader)
{
    if (reader == NULL)
        return;
    forget_schema(reader);
    ArrowIpcDecoderReset(&reader->decoder);
    od_buf_release(&reader->schema_bytes);
    od_buf_release(&reader->header);
    od_buf_release(&reader->peeked);
    od_free(reader);
}

static od_code na_fail(const od_ipc_reader *reader, size_t at, ArrowErrorCode rc, const struct ArrowError *why,
                       od_error *err)
{
    (void)reader;
    od_code code = rc == ENOTSUP ? OD_E_NOT_IMPLEMENTED : rc == ENOMEM ? OD_E_NO_MEMORY : OD_E_CORRUPT;
    return od_fail(err, code, "arrow stream: %s (message at offset %zu)",
                   why->message[0] ? why->message : "it cannot be read", at);
}

static uint32_t read_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Finds the message at reader->at; *end for the end mark. The metadata is then decoded. */
static od_code next_message(od_ipc_reader *reader, od_message *out, bool *end, od_error *err)
{
    od_slice all = reader->payload;
    size_t at = reader->at, left = all.len - at;
    *end = reader->piecewise && left == 0;
    if (*end)
        return OD_OK;
    if (left < 4)
        return od_fail(err, OD_E_CORRUPT, "arrow stream: it is cut at offset %zu, before its end mark", at);
    uint32_t mark = read_u32(all.data + at);
    if (mark == 0) {
        *end = true;
        return OD_OK;
    }
    if (mark != UINT32_MAX)
        return od_fail(err, OD_E_CORRUPT, "arrow stream: no message starts at offset %zu", at);
    if (left < 8)
        return od_fail(err, OD_E_CORRUPT, "arrow stream: it is cut at offset %zu, in a message's head", at);
    uint32_t len = read_u32(all.data + at + 4);
    if (len == 0) {
        *end = true;
        return OD_OK;
    }
    if (len > left - 8 || len > INT32_MAX - 8)
        return od_fail(err, OD_E_CORRUPT, "arrow stream: it is cut at offset %zu, in %u bytes of metadata", at, len);
    if (len > OD_IPC_MAX_METADATA)
        return od_fail(err, OD_E_TOO_LARGE, "arrow stream: %u bytes of metadata at offset %zu, above the limit of %u",
                       len, at, OD_IPC_MAX_METADATA);
    *out = (od_message){.at = at, .whole = od_slice_of(all.data + at, 8 + (size_t)len), .body_at = at + 8 + len};
    const uint8_t *header = out->whole.data;
    bool known = reader->is_peeked && reader->peeked.len == out->whole.len &&
                 memcmp(reader->peeked.data, header, out->whole.len) == 0;
    reader->is_peeked = false;
    if (!known && ((uintptr_t)header & 7) != 0) {
        reader->header.len = 0;
        od_code rc = od_buf_append(&reader->header, header, out->whole.len, err);
        if (rc != OD_OK)
            return rc;
        header = reader->header.data;
    }
    struct ArrowError why = {{0}};
    struct ArrowBufferView view = {{header}, (int64_t)out->whole.len};
    ArrowErrorCode na = known ? NANOARROW_OK : od_unit_header(&reader->decoder, view, &why);
    if (na != NANOARROW_OK)
        return na_fail(reader, at, na, &why, err);
    int64_t body = reader->decoder.body_size_bytes;
    if (body < 0 || (uint64_t)body > all.len - out->body_at)
        return od_fail(err, OD_E_CORRUPT, "arrow stream: it is cut at offset %zu, in a body of %lld bytes",
                       out->body_at, (long long)body);
    out->body_len = (size_t)body;
    reader->at = out->body_at + out->body_len;
    return OD_OK;
}

/* ---- schema ---- */

static bool shown(const struct ArrowSchema *field)
{
    struct ArrowSchemaView view;
    struct ArrowError why;
    if (field->dictionary != NULL || ArrowSchemaViewInit(&view, field, &why) != NANOARROW_OK)
        return false;
    switch (view.storage_type) {
    case NANOARROW_TYPE_LARGE_STRING:
    case NANOARROW_TYPE_LARGE_BINARY:
    case NANOARROW_TYPE_LARGE_LIST:
    case NANOARROW_TYPE_SPARSE_UNION:
    case NANOARROW_TYPE_DENSE_UNION:
    case NANOARROW_TYPE_RUN_END_ENCODED:
    case NANOARROW_TYPE_STRING_VIEW:
    case NANOARROW_TYPE_BINARY_VIEW:
    case NANOARROW_TYPE_LIST_VIEW:
    case NANOARROW_TYPE_LARGE_LIST_VIEW:
        return false;
    default:
        return true;
    }
}

/* NOLINTBEGIN(misc-no-recursion): as deep as the schema, which the verifier bounds */
static size_t count_columns(const struct ArrowSchema *field)
{
    size_t n = 0;
    for (int64_t i = 0; i < field->n_children; i++)
        n += 1 + count_columns(field->children[i]);
    return n;
}

static bool any_dictionary(const struct ArrowSchema *field)
{
    bool found = field->dictionary != NULL;
    for (int64_t i = 0; i < field->n_children && !found; i++)
        found = any_dictionary(field->children[i]);
    return found;
}

/* Gives the children of FIELD their places, siblings side by side, and notes the first that cannot be shown. */
static od_column *place(od_ipc_reader *reader, const struct ArrowSchema *field, od_column **next)
{
    od_column *first = *next;
    *next += field->n_children;
    for (int64_t i = 0; i < field->n_children; i++) {
        const struct ArrowSchema *child = field->children[i];
        if (!shown(child) && reader->refused[0] == '\0')
            (void)snprintf(reader->refused, sizeof reader->refused, "'%.60s' (format %.20s%s)",
                           child->name ? child->name : "", child->format, child->dictionary ? ", dictionary" : "");
        first[i].child_count = child->n_children;
        first[i].children = place(reader, child, next);
    }
    return first;
}
/* NOLINTEND(misc-no-recursion) */

static od_code decode_schema(od_ipc_reader *reader, const od_message *message, od_error *err)
{
    struct ArrowError why = {{0}};
    struct ArrowIpcDictionaryEncodings encodings;
    if (reader->decoder.endianness != NANOARROW_IPC_ENDIANNESS_LITTLE)
        return od_fail(err, OD_E_NOT_IMPLEMENTED, "arrow stream: big-endian data are not read");
    ArrowErrorCode na =
        ArrowIpcDecoderDecodeSchemaWithDictionaries(&reader->decoder, &reader->schema, &encodings, &why);
    if (na != NANOARROW_OK) {
        reader->schema.release = NULL;
        return na_fail(reader, message->at, na, &why, err);
    }
    reader->has_dictionaries = any_dictionary(&reader->schema);
    reader->is_flat = od_flat_fits(&reader->schema);
    if (reader->has_dictionaries)
        na = ArrowIpcDictionariesInit(&reader->dictionaries, &encodings, &why);
    if (na != NANOARROW_OK)
        reader->dictionaries.private_data = NULL;
    else
        na = ArrowIpcDecoderSetSchemaWithDictionaries(&reader->decoder, &reader->schema, &encodings, &why);
    ArrowIpcDictionaryEncodingsReset(&encodings);
    if (na != NANOARROW_OK)
        return na_fail(reader, message->at, na, &why, err);
    (void)ArrowIpcDecoderSetEndianness(&reader->decoder, NANOARROW_IPC_ENDIANNESS_LITTLE);
    size_t n = count_columns(&reader->schema);
    reader->columns = od_calloc(n ? n : 1, sizeof *reader->columns);
    if (reader->columns == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    od_column *next = reader->columns;
    reader->refused[0] = '\0';
    reader->batch.columns = place(reader, &reader->schema, &next);
    reader->batch.column_count = reader->schema.n_children;
    return od_buf_append(&reader->schema_bytes, message->whole.data, message->whole.len, err);
}

od_code od_ipc_reader_start(od_ipc_reader *reader, od_slice payload, bool *same_schema, od_error *err)
{
    if (same_schema != NULL)
        *same_schema = false;
    reader->payload = payload;
    reader->at = 0;
    reader->piecewise = false;
    reader->ended = true; /* until the schema is read: a failed start shows no batch */
    const od_buf *known = &reader->schema_bytes;
    bool same = known->len > 0 && payload.len >= known->len && memcmp(known->data, payload.data, known->len) == 0;
    if (same && !reader->has_dictionaries) {
        reader->at = known->len; /* a schema has no body */
    } else {
        od_message message;
        bool end;
        od_code rc = next_message(reader, &message, &end, err);
        if (rc == OD_OK && (end || reader->decoder.message_type != NANOARROW_IPC_MESSAGE_TYPE_SCHEMA))
            rc = od_fail(err, OD_E_CORRUPT, "arrow stream: it does not start with a schema (offset 0)");
        if (rc == OD_OK) {
            forget_schema(reader);
            rc = decode_schema(reader, &message, err);
        }
        if (rc == OD_OK && message.body_len > 0)
            rc = od_fail(err, OD_E_CORRUPT, "arrow stream: its schema has a body (offset %zu)", message.body_at);
        if (rc != OD_OK) {
            forget_schema(reader);
            return rc;
        }
    }
    reader->ended = false;
    if (same_schema != NULL)
        *same_schema = same;
    return OD_OK;
}

const struct ArrowSchema *od_ipc_reader_schema(const od_ipc_reader *reader)
{
    return reader->schema.release != NULL ? &reader->schema : NULL;
}

/* ---- batches ---- */

/* NOLINTBEGIN(misc-no-recursion): as deep as the schema, which the verifier bounds */
static void show(const struct ArrowArrayView *view, od_column *out)
{
    out->length = view->length;
    out->null_count = view->null_count;
    out->validity = out->data = out->bytes = NULL;
    out->bytes_len = 0;
    for (int i = 0; i < NANOARROW_MAX_FIXED_BUFFERS; i++) {
        const struct ArrowBufferView *buffer = &view->buffer_views[i];
        const uint8_t *data = buffer->size_bytes > 0 ? buffer->data.as_uint8 : NULL;
        switch (view->layout.buffer_type[i]) {
        case NANOARROW_BUFFER_TYPE_VALIDITY:
            out->validity = view->null_count != 0 ? data : NULL;
            break;
        case NANOARROW_BUFFER_TYPE_DATA_OFFSET:
            /* An array without values may come without offsets. */
            out->data = view->length > 0 ? data : (const uint8_t *)empty_offsets;
            break;
        case NANOARROW_BUFFER_TYPE_DATA:
            if (i == 2) {
                out->bytes = data;
                out->bytes_len = view->length > 0 ? buffer->size_bytes : 0;
            } else {
                out->data = data != NULL ? data : (const uint8_t *)empty_offsets;
            }
            break;
        default:
            break;
        }
    }
    for (int64_t i = 0; i < out->child_count; i++)
        show(view->children[i], &out->children[i]);
}
/* NOLINTEND(misc-no-recursion) */

/* The next batch's message, dictionaries on the way stored; *end after the last. HOLD makes a shared buffer of a body. */
static od_code next_batch(od_ipc_reader *reader, od_message *message, bool *end, od_error *err)
{
    od_code rc = next_message(reader, message, end, err);
    if (rc != OD_OK || *end)
        return rc;
    enum ArrowIpcMessageType type = reader->decoder.message_type;
    if (type != NANOARROW_IPC_MESSAGE_TYPE_RECORD_BATCH && type != NANOARROW_IPC_MESSAGE_TYPE_DICTIONARY_BATCH)
        return od_fail(err, OD_E_CORRUPT, "arrow stream: a message of another type at offset %zu", message->at);
    struct ArrowError why = {{0}};
    if (type == NANOARROW_IPC_MESSAGE_TYPE_DICTIONARY_BATCH && !reader->has_dictionaries)
        return od_fail(err, OD_E_CORRUPT, "arrow stream: a dictionary that the schema does not have at offset %zu",
                       message->at);
    ArrowErrorCode na = od_unit_check(&reader->decoder, &reader->dictionaries, (int64_t)message->body_len, &why);
    return na == NANOARROW_OK ? OD_OK : na_fail(reader, message->at, na, &why, err);
}

od_code od_ipc_reader_count(od_ipc_reader *reader, int64_t *rows, od_error *err)
{
    size_t start = reader->at;
    od_message message;
    bool end = reader->ended;
    od_code rc = OD_OK;
    *rows = 0;
    while (rc == OD_OK && !end) {
        rc = next_batch(reader, &message, &end, err);
        if (rc == OD_OK && !end && reader->decoder.message_type == NANOARROW_IPC_MESSAGE_TYPE_RECORD_BATCH)
            *rows += od_unit_rows(&reader->decoder);
    }
    reader->at = start;
    reader->ended = reader->ended || rc != OD_OK;
    return rc;
}

od_code od_ipc_reader_next(od_ipc_reader *reader, const od_batch **out, od_error *err)
{
    *out = NULL;
    if (reader->ended)
        return OD_OK;
    if (reader->refused[0] != '\0')
        return od_fail(err, OD_E_NOT_IMPLEMENTED, "arrow stream: the layout of column %s is not read", reader->refused);
    od_message message;
    bool end;
    od_code rc = next_batch(reader, &message, &end, err);
    if (rc != OD_OK || end) {
        reader->ended = true;
        return rc;
    }
    struct ArrowError why = {{0}};
    struct ArrowBufferView body = {{reader->payload.data + message.body_at}, (int64_t)message.body_len};
    struct ArrowArrayView *view;
    ArrowErrorCode na = od_unit_view(&reader->decoder, body, &view, &why);
    if (na != NANOARROW_OK) {
        reader->ended = true;
        return na_fail(reader, message.at, na, &why, err);
    }
    reader->batch.rows = view->length;
    for (int64_t i = 0; i < reader->batch.column_count; i++) {
        if (view->children[i]->length != view->length) {
            reader->ended = true;
            return od_fail(err, OD_E_CORRUPT,
                           "arrow stream: column %lld is not as long as its batch (message at offset %zu)",
                           (long long)i, message.at);
        }
        show(view->children[i], &reader->batch.columns[i]);
    }
    *out = &reader->batch;
    return OD_OK;
}

static void unref_owner(struct ArrowBufferAllocator *allocator, uint8_t *ptr, int64_t size)
{
    (void)ptr;
    (void)size;
    od_msg_unref(allocator->private_data);
}

/* A shared buffer of MESSAGE's body that holds a reference of OWNER. */
static ArrowErrorCode hold(const od_ipc_reader *reader, const od_message *message, od_msg *owner,
                           struct ArrowBuffer *shared)
{
    struct ArrowBuffer own;
    ArrowBufferInit(&own);
    own.data = (uint8_t *)(uintptr_t)(reader->payload.data + message->body_at);
    own.size_bytes = own.capacity_bytes = (int64_t)message->body_len;
    own.allocator = ArrowBufferDeallocator(unref_owner, od_msg_ref(owner));
    ArrowErrorCode rc = ArrowSharedBufferInit(shared, &own);
    if (rc != NANOARROW_OK)
        ArrowBufferReset(&own);
    return rc;
}

static ArrowErrorCode make_flat(od_ipc_reader *reader, const od_message *message, od_msg *owner, struct ArrowArray *out,
                                struct ArrowError *why)
{
    struct ArrowBufferView body = {{reader->payload.data + message->body_at}, (int64_t)message->body_len};
    struct ArrowArrayView *view;
    ArrowErrorCode na = od_unit_view(&reader->decoder, body, &view, why);

    return na == NANOARROW_OK ? od_flat_array(view, body, owner, out) : na;
}

/* The dictionary just checked is stored; a batch goes to OUT. */
static ArrowErrorCode make_array(od_ipc_reader *reader, const od_message *message, bool dictionary, od_msg *owner,
                                 struct ArrowArray *out, struct ArrowError *why)
{
    struct ArrowIpcDictionaries *dictionaries = reader->has_dictionaries ? &reader->dictionaries : NULL;
    struct ArrowBuffer shared;
    ArrowErrorCode na = reader->is_flat ? make_flat(reader, message, owner, out, why) : NANOARROW_OK;

    if (na != NANOARROW_OK || out->release != NULL)
        return na;
    na = hold(reader, message, owner, &shared);
    if (na == NANOARROW_OK) {
        na = dictionary ? od_unit_dictionary(&reader->decoder, &shared, dictionaries, why)
                        : od_unit_array(&reader->decoder, &shared, dictionaries, out, why);
        ArrowBufferReset(&shared);
    }
    return na;
}

od_code od_ipc_reader_next_array(od_ipc_reader *reader, od_msg *owner, struct ArrowArray *out, od_error *err)
{
    memset(out, 0, sizeof *out);
    while (!reader->ended) {
        od_message message;
        bool end;
        od_code rc = next_batch(reader, &message, &end, err);
        if (rc != OD_OK || end) {
            reader->ended = true;
            return rc;
        }
        bool dictionary = reader->decoder.message_type == NANOARROW_IPC_MESSAGE_TYPE_DICTIONARY_BATCH;
        struct ArrowError why = {{0}};
        ArrowErrorCode na = make_array(reader, &message, dictionary, owner, out, &why);
        if (na != NANOARROW_OK) {
            reader->ended = true;
            return na_fail(reader, message.at, na, &why, err);
        }
        if (!dictionary)
            return OD_OK;
    }
    return OD_OK;
}

/* ---- message by message ---- */

od_code od_ipc_prefix(const uint8_t prefix[8], size_t *metadata_len, od_error *err)
{
    uint32_t len = read_u32(prefix + 4);
    *metadata_len = 0;
    if (read_u32(prefix) != UINT32_MAX)
        return od_fail(err, OD_E_CORRUPT, "arrow stream: no message starts where one is due");
    if (len > OD_IPC_MAX_METADATA)
        return od_fail(err, OD_E_TOO_LARGE, "arrow stream: %u bytes of metadata, above the limit of %u", len,
                       OD_IPC_MAX_METADATA);
    *metadata_len = len;
    return OD_OK;
}

static struct ArrowBufferView peeked(const od_ipc_reader *reader)
{
    return (struct ArrowBufferView){{reader->peeked.data}, (int64_t)reader->peeked.len};
}

od_code od_ipc_reader_peek(od_ipc_reader *reader, od_slice head, od_ipc_head *out, od_error *err)
{
    struct ArrowError why = {{0}};
    reader->peeked.len = 0;
    reader->is_peeked = false;
    od_code rc = od_buf_append(&reader->peeked, head.data, head.len, err);
    if (rc != OD_OK)
        return rc;
    ArrowErrorCode na = od_unit_header(&reader->decoder, peeked(reader), &why);
    if (na != NANOARROW_OK) {
        reader->peeked.len = 0;
        return na_fail(reader, 0, na, &why, err);
    }
    if (reader->decoder.body_size_bytes < 0)
        return od_fail(err, OD_E_CORRUPT, "arrow stream: a body of %lld bytes",
                       (long long)reader->decoder.body_size_bytes);
    reader->is_peeked = true;
    *out = (od_ipc_head){.type = OD_IPC_OTHER, .body_len = (size_t)reader->decoder.body_size_bytes};
    switch (reader->decoder.message_type) {
    case NANOARROW_IPC_MESSAGE_TYPE_SCHEMA:
        out->type = OD_IPC_SCHEMA;
        break;
    case NANOARROW_IPC_MESSAGE_TYPE_RECORD_BATCH:
        out->type = OD_IPC_BATCH;
        out->rows = od_unit_rows(&reader->decoder);
        break;
    case NANOARROW_IPC_MESSAGE_TYPE_DICTIONARY_BATCH:
        out->type = OD_IPC_DICTIONARY;
        break;
    default:
        break;
    }
    return OD_OK;
}

od_slice od_ipc_reader_pair(const od_ipc_reader *reader, const char *key)
{
    return reader->peeked.len > 0 ? od_unit_pair(peeked(reader), key) : (od_slice){NULL, 0};
}

od_code od_ipc_reader_feed(od_ipc_reader *reader, od_slice message, od_msg *owner, od_error *err)
{
    if (reader->schema.release == NULL)
        return od_fail(err, OD_E_CORRUPT, "arrow stream: data before the schema");
    reader->payload = message;
    reader->at = 0;
    reader->piecewise = true;
    reader->ended = false;
    struct ArrowArray none;
    return reader->decoder.message_type == NANOARROW_IPC_MESSAGE_TYPE_DICTIONARY_BATCH
               ? od_ipc_reader_next_array(reader, owner, &none, err)
               : OD_OK;
}

od_slice od_schema_metadata(const struct ArrowSchema *field, const char *key)
{
    struct ArrowStringView value = {NULL, 0};
    if (field->metadata == NULL || ArrowMetadataGetValue(field->metadata, ArrowCharView(key), &value) != NANOARROW_OK)
        return (od_slice){NULL, 0};
    return od_slice_of(value.data, value.data != NULL ? (size_t)value.size_bytes : 0);
}

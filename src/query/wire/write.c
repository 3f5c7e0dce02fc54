/* The messages of transactions and of IngestData: read without a copy, so by hand. */
#include "query/wire.h"

#include "base/pb.h"
#include "query/wire/detail.h"

#include "base/alloc.h"
#include "base/banned.h"

/* ---- two texts: BeginTransactionRequest, CommitTransactionRequest, RollbackTransactionRequest ---- */

static od_code encode_pair(od_slice first, od_slice second, od_msg **out, od_error *err)
{
    uint8_t *at;
    od_code rc;

    *out = NULL;
    if (first.len > OD_RPC_MAX_MESSAGE / 4 || second.len > OD_RPC_MAX_MESSAGE / 4)
        return od_fail(err, OD_E_TOO_LARGE, "a request is too large");
    rc = od_msg_create(first.len + second.len + (size_t)2 * PB_FIELD_MAX, 0, out, err);
    if (rc != OD_OK)
        return rc;
    at = pb_put_bytes(od_msg_data(*out), 1, first);
    at = pb_put_bytes(at, 2, second);
    od_msg_truncate(*out, (size_t)(at - od_msg_data(*out)));
    return OD_OK;
}

static od_code decode_pair(od_slice message, const char *name, od_slice *first, od_slice *second, od_error *err)
{
    pb_reader reader = pb_reader_of(message);
    pb_field field;
    od_code rc;

    *first = *second = (od_slice){0};
    while (pb_next(&reader, &field, &rc, err)) {
        if (field.type == PB_BYTES && field.field == 1)
            rc = pb_text(&field, name, first, err);
        else if (field.type == PB_BYTES && field.field == 2)
            rc = pb_text(&field, "access_token", second, err);
        if (rc != OD_OK)
            return rc;
    }
    return rc;
}

od_code od_begin_request_encode(const od_begin_request *request, od_msg **out, od_error *err)
{
    return encode_pair(request->database, request->access_token, out, err);
}

od_code od_begin_request_decode(od_slice message, od_begin_request *out, od_error *err)
{
    return decode_pair(message, "database", &out->database, &out->access_token, err);
}

od_code od_end_request_encode(const od_end_request *request, od_msg **out, od_error *err)
{
    return encode_pair(request->transaction_id, request->access_token, out, err);
}

od_code od_end_request_decode(od_slice message, od_end_request *out, od_error *err)
{
    return decode_pair(message, "transaction_id", &out->transaction_id, &out->access_token, err);
}

/* ---- the replies ---- */

/* Field numbers; 0: the reply has no such field. */
static const struct {
    uint32_t transaction_id, error, catalog_version, rows;
} reply_fields[] = {
    [OD_REPLY_BEGIN] = {1, 2, 3, 0},
    [OD_REPLY_COMMIT] = {0, 1, 2, 0},
    [OD_REPLY_ROLLBACK] = {0, 1, 0, 0},
    [OD_REPLY_INGEST] = {0, 2, 3, 1},
};

od_code od_write_reply_encode(od_reply_kind kind, const od_write_reply *reply, od_msg **out, od_error *err)
{
    uint8_t detail[WIRE_DETAIL_MAX];
    size_t detail_len = reply->failed ? wire_put_detail(detail, &reply->error, reply->execution_id) : 0;
    uint8_t *at;
    od_code rc;

    rc = od_msg_create(detail_len + sizeof reply->transaction_id + (size_t)4 * PB_FIELD_MAX, 0, out, err);
    if (rc != OD_OK)
        return rc;
    at = od_msg_data(*out);
    if (reply_fields[kind].transaction_id)
        at = pb_put_bytes(at, reply_fields[kind].transaction_id, od_slice_str(reply->transaction_id));
    if (reply_fields[kind].rows)
        at = pb_put_number(at, reply_fields[kind].rows, reply->rows);
    if (reply->failed)
        at = pb_put_bytes_always(at, reply_fields[kind].error, od_slice_of(detail, detail_len));
    if (reply_fields[kind].catalog_version)
        at = pb_put_number(at, reply_fields[kind].catalog_version, reply->catalog_version);
    od_msg_truncate(*out, (size_t)(at - od_msg_data(*out)));
    return OD_OK;
}

static od_code take_id(od_slice bytes, char *out, od_error *err)
{
    if (bytes.len >= OD_EXECUTION_ID_SIZE || (bytes.len > 0 && memchr(bytes.data, 0, bytes.len)))
        return od_fail(err, OD_E_PROTOCOL, "a transaction id is too long or holds a NUL");
    if (bytes.len > 0)
        memcpy(out, bytes.data, bytes.len);
    out[bytes.len] = '\0';
    return OD_OK;
}

od_code od_write_reply_decode(od_reply_kind kind, od_slice message, od_write_reply *out, od_error *err)
{
    pb_reader reader = pb_reader_of(message);
    pb_field field;
    od_code rc;

    *out = (od_write_reply){0};
    while (pb_next(&reader, &field, &rc, err)) {
        if (field.type == PB_BYTES && field.field == reply_fields[kind].transaction_id) {
            rc = take_id(field.bytes, out->transaction_id, err);
        } else if (field.type == PB_BYTES && field.field == reply_fields[kind].error) {
            out->failed = true;
            rc = wire_take_detail(field.bytes, &out->error, out->execution_id, err);
        } else if (field.type == PB_VARINT && field.field == reply_fields[kind].catalog_version) {
            out->catalog_version = field.number;
        } else if (field.type == PB_VARINT && field.field == reply_fields[kind].rows) {
            out->rows = field.number;
        }
        if (rc != OD_OK)
            return rc;
    }
    return rc;
}

/* ---- IngestChunk ---- */

enum { CHUNK_METADATA = 1, CHUNK_BATCH };
enum {
    META_DATABASE = 1,
    META_TABLE,
    META_COLUMN,
    META_TRANSACTION,
    META_TOKEN,
    META_EXECUTION,
    META_FORMAT,
    META_STATEMENT,
    META_CATALOG_VERSION
};

static size_t column_len(const od_wire_column *column)
{
    uint8_t scratch[PB_FIELD_MAX];
    size_t len = 0;

    if (column->name.len > 0)
        len += 1 + (size_t)(pb_put_varint(scratch, column->name.len) - scratch) + column->name.len;
    if (column->sql_type.len > 0)
        len += 1 + (size_t)(pb_put_varint(scratch, column->sql_type.len) - scratch) + column->sql_type.len;
    return len;
}

static uint8_t *put_metadata(uint8_t *at, const od_ingest_metadata *m)
{
    at = pb_put_bytes(at, META_DATABASE, m->database);
    at = pb_put_bytes(at, META_TABLE, m->staging_table);
    for (size_t i = 0; i < m->column_count; i++) {
        at = pb_put_varint(at, META_COLUMN << 3 | PB_BYTES);
        at = pb_put_varint(at, column_len(&m->columns[i]));
        at = pb_put_bytes(at, 1, m->columns[i].name);
        at = pb_put_bytes(at, 2, m->columns[i].sql_type);
    }
    at = pb_put_bytes(at, META_TRANSACTION, m->transaction_id);
    at = pb_put_bytes(at, META_TOKEN, m->access_token);
    at = pb_put_bytes(at, META_EXECUTION, m->execution_id);
    at = pb_put_number(at, META_FORMAT, (uint64_t)m->format);
    at = pb_put_bytes(at, META_STATEMENT, m->statement);
    return pb_put_number(at, META_CATALOG_VERSION, m->expected_catalog_version);
}

od_code od_ingest_metadata_encode(const od_ingest_metadata *metadata, od_msg **out, od_error *err)
{
    const od_ingest_metadata *m = metadata;
    const od_slice texts[] = {m->database,     m->staging_table, m->transaction_id,
                              m->access_token, m->execution_id,  m->statement};
    size_t size = (size_t)10 * PB_FIELD_MAX, inner;
    od_msg *body = NULL;
    uint8_t *at;
    od_code rc;

    *out = NULL;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        size += texts[i].len < OD_RPC_MAX_MESSAGE ? texts[i].len : OD_RPC_MAX_MESSAGE;
    for (size_t i = 0; i < m->column_count && size < OD_RPC_MAX_MESSAGE; i++)
        size += m->columns[i].name.len + m->columns[i].sql_type.len + (size_t)3 * PB_FIELD_MAX;
    if (size >= OD_RPC_MAX_MESSAGE)
        return od_fail(err, OD_E_TOO_LARGE, "the columns of an ingest are above the limit of %zu bytes",
                       OD_RPC_MAX_MESSAGE);
    OD_TRY(od_msg_create(size, 0, &body, err));
    inner = (size_t)(put_metadata(od_msg_data(body), m) - od_msg_data(body));
    OD_TRY(od_msg_create(inner + PB_FIELD_MAX, 0, out, err));
    at = pb_put_bytes_always(od_msg_data(*out), CHUNK_METADATA, od_slice_of(od_msg_data(body), inner));
    od_msg_truncate(*out, (size_t)(at - od_msg_data(*out)));

out:
    od_msg_unref(body);
    return rc;
}

od_code od_ingest_batch(od_msg *payload, od_rpc_out *out, od_error *err)
{
    size_t len = od_msg_len(payload);
    uint8_t *at = out->head;

    if (len > OD_RPC_MAX_MESSAGE - OD_CHUNK_HEAD)
        return od_fail(err, OD_E_TOO_LARGE, "a message of %zu bytes is above the limit of %zu", len,
                       OD_RPC_MAX_MESSAGE - OD_CHUNK_HEAD);
    at = pb_put_varint(at, CHUNK_BATCH << 3 | PB_BYTES);
    at = pb_put_padded(at, (uint32_t)len + 5);
    at = pb_put_varint(at, 1U << 3 | PB_BYTES);
    at = pb_put_padded(at, (uint32_t)len);
    out->head_len = (size_t)(at - out->head);
    out->body = payload;
    out->offset = 0;
    out->len = len;
    out->tail_len = 0;
    return OD_OK;
}

static od_code read_column(od_slice bytes, od_wire_column *out, od_error *err)
{
    return decode_pair(bytes, "column", &out->name, &out->sql_type, err);
}

static od_code add_column(od_buf *columns, od_slice bytes, od_error *err)
{
    od_wire_column column;
    od_code rc = read_column(bytes, &column, err);

    if (rc == OD_OK && columns->len / sizeof column >= OD_INGEST_MAX_COLUMNS)
        rc = od_fail(err, OD_E_TOO_LARGE, "an ingest of more than %d columns", OD_INGEST_MAX_COLUMNS);
    return rc == OD_OK ? od_buf_append(columns, &column, sizeof column, err) : rc;
}

static od_code read_field(const pb_field *field, od_ingest_metadata *m, od_buf *columns, od_error *err)
{
    if (field->type == PB_VARINT && field->field == META_FORMAT) {
        if (field->number > OD_FORMAT_NATIVE)
            return od_fail(err, OD_E_INVALID, "format %llu is not known here", (unsigned long long)field->number);
        m->format = (od_format)field->number;
        return OD_OK;
    }
    if (field->type == PB_VARINT && field->field == META_CATALOG_VERSION)
        m->expected_catalog_version = field->number;
    if (field->type != PB_BYTES)
        return OD_OK;
    switch (field->field) {
    case META_STATEMENT:
        return pb_text(field, "statement", &m->statement, err);
    case META_DATABASE:
        return pb_text(field, "database", &m->database, err);
    case META_TABLE:
        return pb_text(field, "staging_table", &m->staging_table, err);
    case META_COLUMN:
        return add_column(columns, field->bytes, err);
    case META_TRANSACTION:
        return pb_text(field, "transaction_id", &m->transaction_id, err);
    case META_TOKEN:
        return pb_text(field, "access_token", &m->access_token, err);
    case META_EXECUTION:
        return pb_text(field, "execution_id", &m->execution_id, err);
    default:
        return OD_OK;
    }
}

static od_code read_metadata(od_slice bytes, od_ingest_metadata *out, od_error *err)
{
    pb_reader reader = pb_reader_of(bytes);
    od_ingest_metadata m = {0};
    od_buf columns = {0};
    pb_field field;
    od_code rc;

    while (pb_next(&reader, &field, &rc, err)) {
        rc = read_field(&field, &m, &columns, err);
        if (rc != OD_OK)
            break;
    }
    if (rc != OD_OK) {
        od_buf_release(&columns);
        return rc;
    }
    m.owned = columns.data;
    m.columns = (const od_wire_column *)(const void *)columns.data;
    m.column_count = columns.len / sizeof(od_wire_column);
    *out = m;
    return OD_OK;
}

static od_code read_payload(od_slice bytes, od_slice *out, od_error *err)
{
    pb_reader reader = pb_reader_of(bytes);
    pb_field field;
    od_code rc;

    *out = od_slice_of("", 0);
    while (pb_next(&reader, &field, &rc, err)) {
        if (field.type == PB_BYTES && field.field == 1)
            *out = field.bytes;
    }
    return rc;
}

od_code od_ingest_chunk_decode(od_slice message, od_ingest_chunk *out, od_error *err)
{
    pb_reader reader = pb_reader_of(message);
    od_slice bytes = {0};
    uint32_t kind = 0;
    pb_field field;
    od_code rc;

    *out = (od_ingest_chunk){0};
    while (pb_next(&reader, &field, &rc, err)) {
        if (field.type != PB_BYTES || (field.field != CHUNK_METADATA && field.field != CHUNK_BATCH))
            continue;
        if (kind != 0)
            return od_fail(err, OD_E_PROTOCOL, "a chunk holds more than one part");
        kind = field.field;
        bytes = field.bytes;
    }
    if (rc != OD_OK)
        return rc;
    out->is_metadata = kind == CHUNK_METADATA;
    if (kind == CHUNK_METADATA)
        return read_metadata(bytes, &out->metadata, err);
    if (kind == CHUNK_BATCH)
        return read_payload(bytes, &out->payload, err);
    return od_fail(err, OD_E_PROTOCOL, "a chunk holds neither metadata nor a batch");
}

void od_ingest_chunk_release(od_ingest_chunk *chunk)
{
    od_free(chunk->metadata.owned);
    chunk->metadata = (od_ingest_metadata){0};
}

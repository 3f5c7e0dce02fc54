/* ExecuteFragmentChunk: it carries the data, so it is read and written without a copy of the payload. */
#include "query/wire.h"

#include "base/pb.h"
#include "query/wire/detail.h"

#include "base/utf8.h"
#include "base/banned.h"

enum { ARROW_BATCH = 1, ERROR_TEXT = 2, FINISHED = 3, ERROR_DETAIL = 4, CATALOG_VERSION = 5, LAYOUT = 6 };
enum { PLACE = 7, PAYLOADS = 8 };
enum { DETAIL_KIND = 1, DETAIL_MESSAGE, DETAIL_SQL_STATE, DETAIL_EXECUTION_ID, DETAIL_CODE };

enum { HEAD_INNER = 5 };          /* the payload's own tag and length */
enum { TAIL_MAX = 2 * (1 + 10) }; /* catalog_version, place */

/* ---- writing ---- */

od_code od_chunk_batch(od_msg *payload, size_t offset, size_t len, const od_chunk_told *told, od_rpc_out *out,
                       od_error *err)
{
    uint8_t *at = out->head;

    if (len > OD_RPC_MAX_MESSAGE - OD_CHUNK_HEAD - TAIL_MAX)
        return od_fail(err, OD_E_TOO_LARGE, "a result message of %zu bytes is above the limit of %zu", len,
                       OD_RPC_MAX_MESSAGE - OD_CHUNK_HEAD - TAIL_MAX);
    if (offset > od_msg_len(payload) || len > od_msg_len(payload) - offset)
        return od_fail(err, OD_E_INVALID, "a batch lies outside of its message");
    at = pb_put_varint(at, ARROW_BATCH << 3 | PB_BYTES);
    at = pb_put_padded(at, (uint32_t)len + HEAD_INNER);
    at = pb_put_varint(at, 1U << 3 | PB_BYTES);
    at = pb_put_padded(at, (uint32_t)len);
    out->head_len = (size_t)(at - out->head);
    out->body = payload;
    out->offset = offset;
    out->len = len;
    at = pb_put_number(out->tail, CATALOG_VERSION, told->catalog_version);
    at = pb_put_number(at, PLACE, told->place);
    out->tail_len = (size_t)(at - out->tail);
    return OD_OK;
}

void od_chunk_finished(uint64_t catalog_version, uint64_t payloads, od_rpc_out *out)
{
    uint8_t *at = pb_put_number(out->head, FINISHED, 1);

    at = pb_put_number(at, CATALOG_VERSION, catalog_version);
    at = pb_put_number(at, PAYLOADS, payloads);
    out->head_len = (size_t)(at - out->head);
    out->body = NULL;
    out->offset = out->len = out->tail_len = 0;
}

od_code od_chunk_layout(od_slice layout, od_msg **out, od_error *err)
{
    od_msg *msg;
    uint8_t *at;
    od_code rc;

    *out = NULL;
    if (layout.len > OD_RPC_MAX_MESSAGE - PB_FIELD_MAX)
        return od_fail(err, OD_E_TOO_LARGE, "a layout of %zu bytes is above the limit of %zu", layout.len,
                       OD_RPC_MAX_MESSAGE - PB_FIELD_MAX);
    rc = od_msg_create(layout.len + PB_FIELD_MAX, 0, &msg, err);
    if (rc != OD_OK)
        return rc;
    at = pb_put_bytes_always(od_msg_data(msg), LAYOUT, layout);
    od_msg_truncate(msg, (size_t)(at - od_msg_data(msg)));
    *out = msg;
    return OD_OK;
}

void od_rpc_out_whole(od_msg *message, od_rpc_out *out)
{
    out->head_len = out->tail_len = out->offset = 0;
    out->body = message;
    out->len = od_msg_len(message);
}

/* Makes TEXT valid UTF-8 of at most SIZE - 1 bytes: a proto3 string that is not breaks its readers. */
static od_slice clean_text(const char *text, char *out, size_t size)
{
    size_t len = strnlen(text, size - 1);

    memcpy(out, text, len);
    out[len] = '\0';
    for (size_t i = 0; i < len;) {
        size_t whole = od_utf8_len((const uint8_t *)out + i, len - i);

        if (whole == 0) {
            out[i] = '?';
            whole = 1;
        }
        i += whole;
    }
    return od_slice_of(out, len);
}

static size_t put_detail(uint8_t *detail, const od_error *what, od_slice text, od_slice id)
{
    uint8_t *at = detail;

    at = pb_put_number(at, DETAIL_KIND, (uint64_t)what->kind);
    at = pb_put_bytes(at, DETAIL_MESSAGE, text);
    if (what->sqlstate[0])
        at = pb_put_bytes(at, DETAIL_SQL_STATE, od_slice_of(what->sqlstate, strnlen(what->sqlstate, 5)));
    at = pb_put_bytes(at, DETAIL_EXECUTION_ID, id);
    if (what->code != OD_OK)
        at = pb_put_bytes(at, DETAIL_CODE, od_slice_str(od_code_name(what->code)));
    return (size_t)(at - detail);
}

od_code od_chunk_error(const od_error *what, const char *execution_id, uint64_t catalog_version, od_msg **out,
                       od_error *err)
{
    char message[OD_ERROR_MESSAGE_SIZE], id_text[OD_EXECUTION_ID_SIZE];
    uint8_t detail[OD_ERROR_MESSAGE_SIZE + OD_EXECUTION_ID_SIZE + 6 * PB_FIELD_MAX + 64];
    od_slice text = clean_text(what->message, message, sizeof message);
    od_slice id = clean_text(execution_id ? execution_id : "", id_text, sizeof id_text);
    size_t detail_len = put_detail(detail, what, text, id);
    od_msg *msg;
    uint8_t *at;
    od_code rc;

    *out = NULL;
    rc = od_msg_create(text.len + detail_len + (size_t)3 * PB_FIELD_MAX, 0, &msg, err);
    if (rc != OD_OK)
        return rc;
    at = pb_put_bytes_always(od_msg_data(msg), ERROR_TEXT, text);
    at = pb_put_bytes_always(at, ERROR_DETAIL, od_slice_of(detail, detail_len));
    at = pb_put_number(at, CATALOG_VERSION, catalog_version);
    od_msg_truncate(msg, (size_t)(at - od_msg_data(msg)));
    *out = msg;
    return OD_OK;
}

/* ---- reading ---- */

typedef struct {
    bool present;
    uint64_t kind;
    od_slice message, sql_state, execution_id, code;
} error_detail;

static od_code read_batch(od_slice bytes, od_slice *payload, od_error *err)
{
    pb_reader reader = pb_reader_of(bytes);
    pb_field field;
    od_code rc;

    while (pb_next(&reader, &field, &rc, err)) {
        if (field.field == 1 && field.type == PB_BYTES)
            *payload = field.bytes;
    }
    return rc;
}

static od_code read_detail(od_slice bytes, error_detail *out, od_error *err)
{
    pb_reader reader = pb_reader_of(bytes);
    pb_field field;
    od_code rc;

    out->present = true;
    while (pb_next(&reader, &field, &rc, err)) {
        if (field.type == PB_VARINT && field.field == DETAIL_KIND)
            out->kind = field.number;
        else if (field.type != PB_BYTES)
            continue;
        else if (field.field == DETAIL_MESSAGE)
            out->message = field.bytes;
        else if (field.field == DETAIL_SQL_STATE)
            out->sql_state = field.bytes;
        else if (field.field == DETAIL_EXECUTION_ID)
            out->execution_id = field.bytes;
        else if (field.field == DETAIL_CODE)
            out->code = field.bytes;
    }
    return rc;
}

/* Copies TEXT up to SIZE - 1 bytes; a NUL inside ends it. */
static void copy_text(od_slice text, char *out, size_t size)
{
    size_t len = text.len < size - 1 ? text.len : size - 1;

    if (len > 0)
        memcpy(out, text.data, len);
    out[len] = '\0';
}

/* The error of a chunk: DETAIL if it came, LEGACY text alone else. */
static void fill_error(const error_detail *detail, od_slice legacy, od_chunk *out)
{
    char message[OD_ERROR_MESSAGE_SIZE + 4], state[6];
    od_kind kind = OD_KIND_IO;
    od_code code;

    if (!detail->present) {
        copy_text(legacy, message, sizeof message);
        od_fail(&out->error, OD_E_IO, "%s", message);
        return;
    }
    if (detail->kind > OD_KIND_NONE && detail->kind <= OD_KIND_INTERNAL)
        kind = (od_kind)detail->kind;
    copy_text(detail->message.len > 0 ? detail->message : legacy, message, sizeof message);
    copy_text(detail->sql_state.len == 5 ? detail->sql_state : od_slice_str(""), state, sizeof state);
    od_error_from_wire(&out->error, kind, state, message);
    code = od_code_named((const char *)detail->code.data, detail->code.len);
    if (code != OD_OK) {
        out->error.code = code;
        out->error.retriable = od_code_retriable(code);
    }
    copy_text(detail->execution_id, out->execution_id, sizeof out->execution_id);
}

/* What a chunk holds, before it is known which member of the oneof is the last. */
typedef struct {
    od_chunk_kind kind;
    od_slice payload, legacy;
    error_detail detail;
    uint64_t catalog_version, place, payloads;
    od_slice layout;
} chunk_parts;

static od_code read_part(const pb_field *field, chunk_parts *parts, od_error *err)
{
    if (field->type == PB_BYTES && field->field == ARROW_BATCH) {
        /* The same member twice is merged, another one in between replaces it. */
        if (parts->kind != OD_CHUNK_BATCH)
            parts->payload = od_slice_of("", 0);
        parts->kind = OD_CHUNK_BATCH;
        return read_batch(field->bytes, &parts->payload, err);
    }
    if (field->type == PB_BYTES && field->field == ERROR_TEXT) {
        parts->kind = OD_CHUNK_ERROR;
        parts->legacy = field->bytes;
    } else if (field->type == PB_VARINT && field->field == FINISHED) {
        parts->kind = field->number != 0 ? OD_CHUNK_FINISHED : OD_CHUNK_NONE;
    } else if (field->type == PB_BYTES && field->field == ERROR_DETAIL) {
        return read_detail(field->bytes, &parts->detail, err);
    } else if (field->type == PB_VARINT && field->field == CATALOG_VERSION) {
        parts->catalog_version = field->number;
    } else if (field->type == PB_VARINT && field->field == PLACE) {
        parts->place = field->number;
    } else if (field->type == PB_VARINT && field->field == PAYLOADS) {
        parts->payloads = field->number;
    } else if (field->type == PB_BYTES && field->field == LAYOUT) {
        parts->layout = field->bytes;
    }
    return OD_OK;
}

od_code od_chunk_decode(od_slice message, od_chunk *out, od_error *err)
{
    pb_reader reader = pb_reader_of(message);
    chunk_parts parts = {0};
    pb_field field;
    od_code rc;

    *out = (od_chunk){.kind = OD_CHUNK_NONE};
    while (pb_next(&reader, &field, &rc, err)) {
        rc = read_part(&field, &parts, err);
        if (rc != OD_OK)
            return rc;
    }
    if (rc != OD_OK)
        return rc;
    out->kind = parts.kind;
    out->catalog_version = parts.catalog_version;
    out->layout = parts.layout;
    out->place = parts.place;
    out->payloads = parts.payloads;
    /* A peer that leaves out the legacy text still has told an error. */
    if (parts.kind == OD_CHUNK_NONE && parts.detail.present)
        out->kind = OD_CHUNK_ERROR;
    if (out->kind == OD_CHUNK_BATCH)
        out->payload = parts.payload;
    else if (out->kind == OD_CHUNK_ERROR)
        fill_error(&parts.detail, parts.legacy, out);
    return OD_OK;
}

/* ---- the typed error alone ---- */

size_t wire_put_detail(uint8_t *at, const od_error *what, const char *execution_id)
{
    char message[OD_ERROR_MESSAGE_SIZE], id_text[OD_EXECUTION_ID_SIZE];
    od_slice text = clean_text(what->message, message, sizeof message);
    od_slice id = clean_text(execution_id ? execution_id : "", id_text, sizeof id_text);

    return put_detail(at, what, text, id);
}

od_code wire_take_detail(od_slice bytes, od_error *out, char *id, od_error *err)
{
    error_detail detail = {0};
    od_chunk chunk = {0};
    od_code rc = read_detail(bytes, &detail, err);

    if (rc != OD_OK)
        return rc;
    fill_error(&detail, od_slice_str(""), &chunk);
    *out = chunk.error;
    memcpy(id, chunk.execution_id, sizeof chunk.execution_id);
    return OD_OK;
}

/* ExecuteFragmentRequest and CancelRequest: read without a copy, so by hand. */
#include "query/wire.h"

#include "base/pb.h"

#include "base/banned.h"

enum {
    PLAN = 1,
    DATABASE,
    SNAPSHOT_ID,
    ACCESS_TOKEN,
    EXECUTION_ID,
    COMPUTE_CONTEXT,
    TRANSACTION_ID,
    RESULT_FORMAT,
    DESCRIBE_ONLY,
    EXPECTED_CATALOG_VERSION,
    STATEMENT_ID,
    PARAMETERS,
    WANTS_LAYOUT,
    DIVIDES,
    FOLLOWS
};

/* A message of at most SIZE bytes, to be cut. */
static od_code begin(size_t size, od_msg **msg, od_error *err)
{
    if (size > OD_RPC_MAX_MESSAGE)
        return od_fail(err, OD_E_TOO_LARGE, "a request of %zu bytes is above the limit of %zu", size,
                       OD_RPC_MAX_MESSAGE);
    return od_msg_create(size, 0, msg, err);
}

static void end(od_msg *msg, const uint8_t *at, od_msg **out)
{
    od_msg_truncate(msg, (size_t)(at - od_msg_data(msg)));
    *out = msg;
}

static bool request_size(const od_execute_request *r, size_t *size)
{
    const size_t lens[] = {r->plan.len,         r->database.len,        r->snapshot_id.len,    r->access_token.len,
                           r->execution_id.len, r->compute_context.len, r->transaction_id.len, r->statement_id.len,
                           r->parameters.len,   r->follows.len};

    *size = (size_t)FOLLOWS * PB_FIELD_MAX;
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
        if (lens[i] > OD_RPC_MAX_MESSAGE)
            return false;
        *size += lens[i];
    }
    return true;
}

od_code od_execute_request_encode(const od_execute_request *request, od_msg **out, od_error *err)
{
    const od_execute_request *r = request;
    od_msg *msg;
    uint8_t *at;
    size_t size;
    od_code rc;

    *out = NULL;
    if (!request_size(r, &size))
        return od_fail(err, OD_E_TOO_LARGE, "a request is above the limit of %zu bytes", OD_RPC_MAX_MESSAGE);
    rc = begin(size, &msg, err);
    if (rc != OD_OK)
        return rc;
    at = pb_put_bytes(od_msg_data(msg), PLAN, r->plan);
    at = pb_put_bytes(at, DATABASE, r->database);
    if (r->snapshot_id.data)
        at = pb_put_bytes_always(at, SNAPSHOT_ID, r->snapshot_id);
    at = pb_put_bytes(at, ACCESS_TOKEN, r->access_token);
    at = pb_put_bytes(at, EXECUTION_ID, r->execution_id);
    at = pb_put_bytes(at, COMPUTE_CONTEXT, r->compute_context);
    at = pb_put_bytes(at, TRANSACTION_ID, r->transaction_id);
    at = pb_put_number(at, RESULT_FORMAT, (uint64_t)r->format);
    at = pb_put_number(at, DESCRIBE_ONLY, r->describe_only);
    at = pb_put_number(at, EXPECTED_CATALOG_VERSION, r->expected_catalog_version);
    at = pb_put_bytes(at, STATEMENT_ID, r->statement_id);
    at = pb_put_bytes(at, PARAMETERS, r->parameters);
    at = pb_put_number(at, WANTS_LAYOUT, r->wants_layout);
    at = pb_put_number(at, DIVIDES, r->divides);
    at = pb_put_bytes(at, FOLLOWS, r->follows);
    end(msg, at, out);
    return OD_OK;
}

static od_code request_text(const pb_field *field, od_execute_request *r, od_error *err)
{
    switch (field->field) {
    case PLAN: /* bytes: what they are is the engine's matter */
        r->plan = field->bytes;
        return OD_OK;
    case DATABASE:
        return pb_text(field, "database", &r->database, err);
    case SNAPSHOT_ID:
        return pb_text(field, "snapshot_id", &r->snapshot_id, err);
    case ACCESS_TOKEN:
        return pb_text(field, "access_token", &r->access_token, err);
    case EXECUTION_ID:
        return pb_text(field, "execution_id", &r->execution_id, err);
    case COMPUTE_CONTEXT:
        return pb_text(field, "compute_context", &r->compute_context, err);
    case TRANSACTION_ID:
        return pb_text(field, "transaction_id", &r->transaction_id, err);
    case STATEMENT_ID:
        return pb_text(field, "statement_id", &r->statement_id, err);
    case PARAMETERS:
        r->parameters = field->bytes;
        return OD_OK;
    case FOLLOWS:
        return pb_text(field, "follows", &r->follows, err);
    default:
        return OD_OK;
    }
}

static od_code request_number(const pb_field *field, od_execute_request *r, od_error *err)
{
    switch (field->field) {
    case RESULT_FORMAT:
        if (field->number > OD_FORMAT_NATIVE)
            return od_fail(err, OD_E_INVALID, "result_format %llu is not known here",
                           (unsigned long long)field->number);
        r->format = (od_format)field->number;
        return OD_OK;
    case DESCRIBE_ONLY:
        r->describe_only = field->number != 0;
        return OD_OK;
    case EXPECTED_CATALOG_VERSION:
        r->expected_catalog_version = field->number;
        return OD_OK;
    case WANTS_LAYOUT:
        r->wants_layout = field->number != 0;
        return OD_OK;
    case DIVIDES:
        r->divides = field->number != 0;
        return OD_OK;
    default:
        return OD_OK;
    }
}

od_code od_execute_request_decode(od_slice message, od_execute_request *out, od_error *err)
{
    pb_reader reader = pb_reader_of(message);
    od_execute_request r = {0};
    pb_field field;
    od_code rc;

    *out = r;
    while (pb_next(&reader, &field, &rc, err)) {
        if (field.type == PB_BYTES)
            rc = request_text(&field, &r, err);
        else if (field.type == PB_VARINT)
            rc = request_number(&field, &r, err);
        if (rc != OD_OK)
            return rc;
    }
    if (rc == OD_OK)
        *out = r;
    return rc;
}

od_code od_execute_request_identify(od_msg *message, const od_execute_request *request, const char *execution_id,
                                    od_msg **owner, od_rpc_out *out, od_error *err)
{
    od_slice id = od_slice_str(execution_id);
    od_execute_request named = *request;
    od_code rc;

    if (request->execution_id.data || id.len + PB_FIELD_MAX > sizeof out->head) {
        named.execution_id = id;
        rc = od_execute_request_encode(&named, owner, err);
        if (rc == OD_OK)
            od_rpc_out_whole(*owner, out);
        return rc;
    }
    /* A field may stand anywhere, so the id goes in front and the message itself stays as it came. */
    *owner = od_msg_ref(message);
    od_rpc_out_whole(message, out);
    out->head_len = (size_t)(pb_put_bytes(out->head, EXECUTION_ID, id) - out->head);
    return OD_OK;
}

/* ---- CancelRequest, CancelReply ---- */

od_code od_cancel_request_encode(const od_cancel_request *request, od_msg **out, od_error *err)
{
    od_msg *msg;
    uint8_t *at;
    od_code rc;

    *out = NULL;
    if (request->execution_id.len > OD_RPC_MAX_MESSAGE / 4 || request->access_token.len > OD_RPC_MAX_MESSAGE / 4)
        return od_fail(err, OD_E_TOO_LARGE, "a cancel request is too large");
    rc = begin(request->execution_id.len + request->access_token.len + (size_t)2 * PB_FIELD_MAX, &msg, err);
    if (rc != OD_OK)
        return rc;
    at = pb_put_bytes(od_msg_data(msg), 1, request->execution_id);
    at = pb_put_bytes(at, 2, request->access_token);
    end(msg, at, out);
    return OD_OK;
}

od_code od_cancel_request_decode(od_slice message, od_cancel_request *out, od_error *err)
{
    pb_reader reader = pb_reader_of(message);
    od_cancel_request r = {0};
    pb_field field;
    od_code rc;

    *out = r;
    while (pb_next(&reader, &field, &rc, err)) {
        if (field.type == PB_BYTES && field.field == 1)
            rc = pb_text(&field, "execution_id", &r.execution_id, err);
        else if (field.type == PB_BYTES && field.field == 2)
            rc = pb_text(&field, "access_token", &r.access_token, err);
        if (rc != OD_OK)
            return rc;
    }
    if (rc == OD_OK)
        *out = r;
    return rc;
}

/* CancelReply, RegisterWorkerReply and HeartbeatReply are all one bool in field 1. */
od_code od_flag_reply_encode(bool flag, od_msg **out, od_error *err)
{
    od_msg *msg;
    od_code rc;

    *out = NULL;
    rc = begin(PB_FIELD_MAX, &msg, err);
    if (rc == OD_OK)
        end(msg, pb_put_number(od_msg_data(msg), 1, flag), out);
    return rc;
}

od_code od_flag_reply_decode(od_slice message, bool *flag, od_error *err)
{
    pb_reader reader = pb_reader_of(message);
    bool value = false;
    pb_field field;
    od_code rc;

    *flag = false;
    while (pb_next(&reader, &field, &rc, err)) {
        if (field.type == PB_VARINT && field.field == 1)
            value = field.number != 0;
    }
    if (rc == OD_OK)
        *flag = value;
    return rc;
}

od_code od_cancel_reply_encode(bool acknowledged, od_msg **out, od_error *err)
{
    return od_flag_reply_encode(acknowledged, out, err);
}

od_code od_cancel_reply_decode(od_slice message, bool *acknowledged, od_error *err)
{
    return od_flag_reply_decode(message, acknowledged, err);
}

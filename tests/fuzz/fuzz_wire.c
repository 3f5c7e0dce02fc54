/* Every message that a peer may send, read from any bytes; what is read is written and read again. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "query/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads every byte, so that a slice past the message is seen. */
static unsigned touch(od_slice slice)
{
    unsigned sum = 0;

    for (size_t i = 0; i < slice.len; i++)
        sum += slice.data[i];
    return sum;
}

static unsigned request(od_slice bytes)
{
    od_execute_request r, again;
    od_msg *msg = NULL;
    unsigned sum;

    if (od_execute_request_decode(bytes, &r, NULL) != OD_OK)
        return 0;
    sum = touch(r.plan) + touch(r.database) + touch(r.snapshot_id) + touch(r.execution_id) + touch(r.statement_id) +
          touch(r.parameters);
    if (od_execute_request_encode(&r, &msg, NULL) == OD_OK) {
        if (od_execute_request_decode(od_slice_of(od_msg_data(msg), od_msg_len(msg)), &again, NULL) != OD_OK ||
            !od_slice_equal(r.plan, again.plan) || !od_slice_equal(r.parameters, again.parameters) ||
            r.format != again.format)
            __builtin_trap();
        od_msg_unref(msg);
    }
    return sum;
}

static unsigned chunk(od_slice bytes)
{
    od_chunk c, again;
    od_msg *msg = NULL;
    unsigned sum = 0;

    if (od_chunk_decode(bytes, &c, NULL) != OD_OK)
        return 0;
    if (c.kind == OD_CHUNK_BATCH)
        sum = touch(c.payload);
    if (c.kind == OD_CHUNK_ERROR && od_chunk_error(&c.error, c.execution_id, c.catalog_version, &msg, NULL) == OD_OK) {
        if (od_chunk_decode(od_slice_of(od_msg_data(msg), od_msg_len(msg)), &again, NULL) != OD_OK ||
            again.kind != OD_CHUNK_ERROR || again.error.code != c.error.code || again.error.kind != c.error.kind)
            __builtin_trap();
        od_msg_unref(msg);
    }
    return sum;
}

static bool same_columns(const od_ingest_metadata *a, const od_ingest_metadata *b)
{
    bool same = a->column_count == b->column_count;

    for (size_t i = 0; same && i < a->column_count; i++)
        same = od_slice_equal(a->columns[i].name, b->columns[i].name) &&
               od_slice_equal(a->columns[i].sql_type, b->columns[i].sql_type);
    return same;
}

static unsigned ingest(od_slice bytes)
{
    od_ingest_chunk c, again;
    const od_ingest_metadata *m = &c.metadata;
    od_msg *msg = NULL;
    unsigned sum = 0;

    if (od_ingest_chunk_decode(bytes, &c, NULL) == OD_OK && !c.is_metadata)
        sum = touch(c.payload);
    else if (c.is_metadata && od_ingest_metadata_encode(m, &msg, NULL) == OD_OK) {
        sum = touch(m->database) + touch(m->staging_table) + touch(m->transaction_id) + touch(m->execution_id);
        if (od_ingest_chunk_decode(od_slice_of(od_msg_data(msg), od_msg_len(msg)), &again, NULL) != OD_OK ||
            !again.is_metadata || !same_columns(m, &again.metadata) ||
            !od_slice_equal(m->statement, again.metadata.statement) || m->format != again.metadata.format ||
            m->expected_catalog_version != again.metadata.expected_catalog_version)
            __builtin_trap();
        od_ingest_chunk_release(&again);
        od_msg_unref(msg);
    }
    od_ingest_chunk_release(&c);
    return sum;
}

static unsigned writes(od_slice bytes)
{
    static const od_reply_kind kinds[] = {OD_REPLY_BEGIN, OD_REPLY_COMMIT, OD_REPLY_ROLLBACK, OD_REPLY_INGEST};
    od_begin_request begin;
    od_end_request end;
    od_write_reply reply, again;
    unsigned sum = ingest(bytes);

    if (od_begin_request_decode(bytes, &begin, NULL) == OD_OK)
        sum += touch(begin.database) + touch(begin.access_token);
    if (od_end_request_decode(bytes, &end, NULL) == OD_OK)
        sum += touch(end.transaction_id) + touch(end.access_token);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        od_msg *msg = NULL;

        if (od_write_reply_decode(kinds[i], bytes, &reply, NULL) != OD_OK ||
            od_write_reply_encode(kinds[i], &reply, &msg, NULL) != OD_OK)
            continue;
        if (od_write_reply_decode(kinds[i], od_slice_of(od_msg_data(msg), od_msg_len(msg)), &again, NULL) != OD_OK ||
            again.failed != reply.failed || again.rows != reply.rows ||
            again.catalog_version != reply.catalog_version || strcmp(again.transaction_id, reply.transaction_id) != 0)
            __builtin_trap();
        od_msg_unref(msg);
    }
    return sum;
}

static volatile unsigned sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    od_slice bytes = od_slice_of(data, size);
    unsigned sum = request(bytes) + chunk(bytes) + writes(bytes);
    od_registration registration;
    od_cancel_request cancel;
    od_heartbeat heartbeat;
    od_status status;
    bool flag;

    if (od_cancel_request_decode(bytes, &cancel, NULL) == OD_OK)
        sum += touch(cancel.execution_id) + touch(cancel.access_token);
    if (od_cancel_reply_decode(bytes, &flag, NULL) == OD_OK)
        sum += flag;
    if (od_registration_decode(bytes, &registration, NULL) == OD_OK)
        od_registration_release(&registration);
    if (od_heartbeat_decode(bytes, &heartbeat, NULL) == OD_OK)
        od_heartbeat_release(&heartbeat);
    if (od_status_decode(bytes, &status, NULL) == OD_OK)
        od_status_release(&status);
    sink = sum;
    return 0;
}

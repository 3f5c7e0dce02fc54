#include "query/client.h"

#include "query/client/client_internal.h"

#include "base/alloc.h"
#include "base/deadline.h"
#include "base/uuid.h"
#include "base/banned.h"

/* How long a stream that has told its end is waited for, so that its connection can be used again. */
enum { END_WAIT_MS = 200 };

struct od_result {
    od_remote *remote;
    od_call *call;
    bool finished;
    bool failed;
    od_error error;            /* if failed: what further calls return too */
    _Atomic int64_t waited_ns; /* for the next chunk, in earlier calls */
    uint64_t catalog_version, place, payloads;
    od_msg *layout_owner; /* NULL: none was told */
    od_slice layout;
    char execution_id[OD_EXECUTION_ID_SIZE];
};

static od_code name_execution(const char *wanted, char *out, size_t size, od_error *err)
{
    if (!wanted) {
        od_uuid_format(od_uuid_random(), out);
        return OD_OK;
    }
    if (strlen(wanted) >= size)
        return od_fail(err, OD_E_INVALID, "an execution id of %zu bytes is above the limit of %zu", strlen(wanted),
                       size - 1);
    memcpy(out, wanted, strlen(wanted) + 1);
    return OD_OK;
}

od_code od_remote_execute(od_remote *remote, const od_remote_query *query, od_result **out, od_error *err)
{
    od_execute_request request = {
        .plan = query->sql,
        .database = od_slice_str(remote->database),
        .snapshot_id = remote->snapshot ? od_slice_str(remote->snapshot) : (od_slice){0},
        .access_token = remote_token(remote),
        .format = query->format,
        .describe_only = query->describe_only,
        .expected_catalog_version = query->expected_catalog_version,
        .statement_id = od_slice_str(query->statement_id),
        .transaction_id = od_slice_str(query->txn ? od_remote_txn_id(query->txn) : NULL),
        .parameters = query->parameters,
        .wants_layout = query->wants_layout,
        .divides = query->divides,
        .follows = od_slice_str(query->follows),
    };
    od_result *result;
    od_msg *msg = NULL;
    od_rpc_out bytes;
    od_code rc;

    *out = NULL;
    result = od_calloc(1, sizeof *result);
    if (!result)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a result");
    result->remote = od_remote_ref(remote);
    OD_TRY(name_execution(query->execution_id, result->execution_id, sizeof result->execution_id, err));
    request.execution_id = od_slice_str(result->execution_id);
    OD_TRY(od_execute_request_encode(&request, &msg, err));
    od_rpc_out_whole(msg, &bytes);
    /* No deadline for the call itself: a stream may run as long as it delivers. */
    OD_TRY(od_call_open(remote->channel, OD_PATH_EXECUTE, OD_DEADLINE_NEVER, OD_CHUNK_SKEW, query->interrupt,
                        &result->call, err));
    OD_TRY(od_call_send(result->call, &bytes, true, od_deadline_in_ms(remote->execute_timeout_ms), err));
    *out = result;
    result = NULL;

out:
    od_msg_unref(msg);
    if (rc != OD_OK && (result->call || rc != OD_E_UNAVAILABLE))
        remote_name_error(remote, result->execution_id, err);
    od_result_free(result);
    return rc;
}

static od_code fail_result(od_result *result, const od_error *why, od_error *err)
{
    result->failed = true;
    result->error = *why;
    remote_name_error(result->remote, result->execution_id, &result->error);
    if (err)
        *err = result->error;
    return result->error.code;
}

/* Reads what follows the last chunk that matters, so that the stream is not reset after its work is done. */
static void read_end(od_result *result)
{
    od_deadline wait = od_deadline_in_ms(END_WAIT_MS);
    od_msg *msg = NULL;

    while (od_call_recv(result->call, &msg, wait, NULL) == OD_OK && msg) {
        od_msg_unref(msg);
        msg = NULL;
    }
}

/* UNTIL: when the caller wants to be asked again; *again is then true, and there is no message. */
static od_code receive(od_result *result, od_deadline until, od_msg **msg, bool *again, od_error *err)
{
    int64_t limit = result->remote->execute_timeout_ms, start = od_clock_ns();
    od_deadline end = od_deadline_in_ms(limit), wait;
    od_code rc;

    if (limit >= 0)
        end.at_ns -= atomic_load(&result->waited_ns);
    wait = od_deadline_min(end, until);
    rc = od_call_recv(result->call, msg, wait, err);
    if (rc == OD_E_TIMEOUT && od_deadline_passed(end)) {
        /* Without an owner that waits, the work is of no use. */
        od_call_cancel(result->call);
        return od_fail(err, OD_E_TIMEOUT, "timed out: no answer within %lld ms", (long long)limit);
    }
    if (rc == OD_E_TIMEOUT && od_deadline_passed(wait)) {
        atomic_fetch_add(&result->waited_ns, od_clock_ns() - start);
        *again = true;
        return OD_OK;
    }
    atomic_store(&result->waited_ns, 0);
    if (rc == OD_OK && !*msg)
        return od_fail(err, OD_E_CONNECTION_LOST, "the stream ended without 'finished'");
    return rc;
}

static od_code next(od_result *result, od_deadline until, od_msg **owner, od_slice *payload, bool *again, od_error *err)
{
    od_error why;
    od_chunk chunk;
    od_msg *msg;
    od_code rc;

    *again = false;
    *owner = NULL;
    *payload = (od_slice){0};
    if (result->failed) {
        if (err)
            *err = result->error;
        return result->error.code;
    }
    while (!result->finished) {
        msg = NULL;
        rc = receive(result, until, &msg, again, &why);
        if (*again)
            return OD_OK;
        if (rc == OD_OK)
            rc = od_chunk_decode(od_slice_of(od_msg_data(msg), od_msg_len(msg)), &chunk, &why);
        if (rc != OD_OK) {
            od_msg_unref(msg);
            return fail_result(result, &why, err);
        }
        if (chunk.catalog_version != 0)
            result->catalog_version = chunk.catalog_version;
        if (chunk.layout.data && !result->layout_owner) {
            result->layout_owner = od_msg_ref(msg);
            result->layout = chunk.layout;
        }
        if (chunk.kind == OD_CHUNK_BATCH) {
            result->place = chunk.place;
            *owner = msg;
            *payload = chunk.payload;
            return OD_OK;
        }
        od_msg_unref(msg);
        result->finished = chunk.kind == OD_CHUNK_FINISHED;
        result->payloads = chunk.payloads;
        if (result->finished || chunk.kind == OD_CHUNK_ERROR)
            read_end(result);
        if (chunk.kind == OD_CHUNK_ERROR)
            return fail_result(result, &chunk.error, err);
    }
    return OD_OK;
}

od_code od_result_next(od_result *result, od_msg **owner, od_slice *payload, od_error *err)
{
    bool again;

    return next(result, OD_DEADLINE_NEVER, owner, payload, &again, err);
}

od_code od_result_next_within(od_result *result, int64_t wait_ms, od_msg **owner, od_slice *payload, bool *again,
                              od_error *err)
{
    return next(result, od_deadline_in_ms(wait_ms), owner, payload, again, err);
}

uint64_t od_result_place(const od_result *result)
{
    return result->place;
}

uint64_t od_result_payloads(const od_result *result)
{
    return result->payloads;
}

void od_result_heard(od_result *result)
{
    atomic_store(&result->waited_ns, 0);
}

bool od_result_ready(od_result *result)
{
    return result->finished || result->failed || od_call_ready(result->call);
}

const char *od_result_execution_id(const od_result *result)
{
    return result->execution_id;
}

uint64_t od_result_catalog_version(const od_result *result)
{
    return result->catalog_version;
}

od_slice od_result_layout(const od_result *result)
{
    return result->layout;
}

uint64_t od_result_bytes(const od_result *result)
{
    return od_call_bytes_received(result->call);
}

void od_result_cancel(od_result *result)
{
    od_call_cancel(result->call);
}

void od_result_free(od_result *result)
{
    if (!result)
        return;
    od_call_free(result->call);
    od_msg_unref(result->layout_owner);
    od_remote_unref(result->remote);
    od_free(result);
}

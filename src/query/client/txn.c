/* A transaction at a server, and the connection that stands for it. */
#include "query/client.h"

#include "query/client/client_internal.h"

#include "base/alloc.h"
#include "base/banned.h"

struct od_remote_txn {
    od_remote *remote;
    od_pin *pin;
    bool over;
    uint64_t catalog_version;
    char id[OD_EXECUTION_ID_SIZE];
};

static od_slice msg_bytes(od_msg *msg)
{
    return od_slice_of(od_msg_data(msg), od_msg_len(msg));
}

/* Sends REQUEST as the one of CALL and reads the one reply. */
static od_code ask(od_call *call, od_msg *request, od_deadline deadline, od_reply_kind kind, od_write_reply *reply,
                   od_error *err)
{
    od_msg *answer = NULL, *more = NULL;
    od_rpc_out out;
    od_code rc;

    od_rpc_out_whole(request, &out);
    OD_TRY(od_call_send(call, &out, true, deadline, err));
    OD_TRY(od_call_recv(call, &answer, deadline, err));
    if (answer)
        OD_TRY(od_call_recv(call, &more, deadline, err));
    if (!answer || more)
        rc = od_fail(err, OD_E_PROTOCOL, "the server answered with %s message", answer ? "more than one" : "no");
    else
        rc = od_write_reply_decode(kind, msg_bytes(answer), reply, err);

out:
    od_msg_unref(answer);
    od_msg_unref(more);
    return rc;
}

static od_code told(const od_write_reply *reply, od_error *err)
{
    if (!reply->failed)
        return OD_OK;
    if (err)
        *err = reply->error;
    return reply->error.code;
}

od_code od_remote_txn_begin(od_remote *remote, od_interrupt interrupt, od_remote_txn **out, od_error *err)
{
    const od_begin_request begin = {od_slice_str(remote->database), remote_token(remote)};
    od_deadline deadline = od_deadline_in_ms(remote->execute_timeout_ms);
    od_remote_txn *txn = od_calloc(1, sizeof *txn);
    od_write_reply reply;
    od_msg *request = NULL;
    od_call *call = NULL;
    bool connected = false;
    od_code rc;

    *out = NULL;
    if (!txn)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a transaction");
    txn->remote = od_remote_ref(remote);
    txn->over = true;
    OD_TRY(od_begin_request_encode(&begin, &request, err));
    OD_TRY(od_call_open(remote->channel, OD_PATH_BEGIN, deadline, 0, interrupt, &call, err));
    connected = true;
    OD_TRY(ask(call, request, deadline, OD_REPLY_BEGIN, &reply, err));
    OD_TRY(told(&reply, err));
    txn->catalog_version = reply.catalog_version;
    memcpy(txn->id, reply.transaction_id, sizeof txn->id);
    txn->pin = od_call_free_pin(call);
    call = NULL;
    if (!txn->pin || !txn->id[0]) {
        rc = txn->pin ? od_fail(err, OD_E_PROTOCOL, "the server began a transaction without an id")
                      : od_fail(err, OD_E_CONNECTION_LOST, "the connection of the transaction is lost");
        goto out;
    }
    txn->over = false;
    *out = txn;
    txn = NULL;

out:
    od_msg_unref(request);
    od_call_free(call);
    od_remote_txn_free(txn);
    if (rc != OD_OK && (connected || rc != OD_E_UNAVAILABLE))
        remote_name_error(remote, NULL, err);
    return rc;
}

od_code od_remote_txn_join(od_remote *remote, od_slice id, od_remote_txn **out, od_error *err)
{
    od_remote_txn *txn;

    *out = NULL;
    if (id.len == 0 || id.len >= sizeof txn->id)
        return od_fail(err, OD_E_INVALID, "a transaction_id has 1 to %d bytes", OD_EXECUTION_ID_SIZE - 1);
    txn = od_calloc(1, sizeof *txn);
    if (!txn)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a transaction");
    txn->remote = od_remote_ref(remote);
    txn->over = true; /* for who joined it */
    memcpy(txn->id, id.data, id.len);
    *out = txn;
    return OD_OK;
}

const char *od_remote_txn_id(const od_remote_txn *txn)
{
    return txn->id;
}

uint64_t od_remote_txn_catalog_version(const od_remote_txn *txn)
{
    return txn->catalog_version;
}

static od_code end(od_remote_txn *txn, const char *path, od_reply_kind kind, od_interrupt interrupt, od_error *err)
{
    const od_end_request end_request = {od_slice_str(txn->id), remote_token(txn->remote)};
    od_deadline deadline = od_deadline_in_ms(txn->remote->execute_timeout_ms);
    od_write_reply reply = {0};
    od_msg *request = NULL;
    od_call *call = NULL;
    od_code rc;

    if (txn->over)
        return od_fail(err, OD_E_NO_TRANSACTION, "the transaction is over");
    OD_TRY(od_end_request_encode(&end_request, &request, err));
    OD_TRY(od_pin_call(txn->pin, path, deadline, interrupt, &call, err));
    OD_TRY(ask(call, request, deadline, kind, &reply, err));
    txn->over = true;
    if (reply.catalog_version)
        txn->catalog_version = reply.catalog_version;
    OD_TRY(told(&reply, err));

out:
    od_msg_unref(request);
    od_call_free(call);
    if (rc == OD_E_CONNECTION_LOST && !txn->over) {
        txn->over = true;
        if (kind == OD_REPLY_COMMIT && call)
            od_error_prefix(err, "whether the transaction was committed is not known");
        else
            od_error_prefix(err, "the transaction was rolled back");
    }
    if (rc != OD_OK)
        remote_name_error(txn->remote, NULL, err);
    return rc;
}

od_code od_remote_txn_commit(od_remote_txn *txn, od_interrupt interrupt, od_error *err)
{
    return end(txn, OD_PATH_COMMIT, OD_REPLY_COMMIT, interrupt, err);
}

od_code od_remote_txn_rollback(od_remote_txn *txn, od_interrupt interrupt, od_error *err)
{
    return end(txn, OD_PATH_ROLLBACK, OD_REPLY_ROLLBACK, interrupt, err);
}

void od_remote_txn_free(od_remote_txn *txn)
{
    if (!txn)
        return;
    od_pin_free(txn->pin, txn->over);
    od_remote_unref(txn->remote);
    od_free(txn);
}

/* ---- ingest ---- */

struct od_ingest {
    od_remote *remote;
    od_call *call;
    bool alone;  /* a statement in a transaction of its own */
    bool closed; /* our side */
    bool ended;  /* the reply was read, or cannot come */
    od_deadline
        patience; /* how long what was sent last may take: a payload until it is written, the end until its reply */
    od_code code;
    od_error error;
    uint64_t rows, catalog_version;
};

/* Reads the reply, which ends the call. If it does not come until UNTIL but may come yet, *again is true and nothing has happened. */
static od_code await_reply(od_ingest *ingest, od_deadline until, bool *again, od_error *err)
{
    od_deadline wait = od_deadline_in_ms(ingest->remote->execute_timeout_ms);
    od_msg *answer = NULL, *more = NULL;
    od_write_reply reply = {0};
    od_error why = {0};
    od_code rc;

    rc = od_call_recv(ingest->call, &answer, od_deadline_min(until, wait), &why);
    *again = rc == OD_E_TIMEOUT && !od_deadline_passed(wait) && !od_deadline_passed(ingest->patience);
    if (*again)
        return OD_OK;
    if (rc != OD_OK)
        goto out;
    if (!answer) {
        rc = od_fail(&why, OD_E_PROTOCOL, "the server answered with no message");
        goto out;
    }
    OD_TRY(od_write_reply_decode(OD_REPLY_INGEST, msg_bytes(answer), &reply, &why));
    OD_TRY(told(&reply, &why));
    OD_TRY(od_call_recv(ingest->call, &more, wait, &why));

out:
    od_msg_unref(answer);
    od_msg_unref(more);
    ingest->ended = true;
    ingest->rows = reply.rows;
    ingest->catalog_version = reply.catalog_version;
    ingest->code = rc;
    if (rc != OD_OK) {
        if (rc == OD_E_CONNECTION_LOST && ingest->alone)
            od_error_prefix(&why, "whether the statement took place is not known");
        remote_name_error(ingest->remote, NULL, &why);
        ingest->error = why;
        if (err)
            *err = why;
    }
    return rc;
}

static od_code read_reply(od_ingest *ingest, od_error *err)
{
    bool again;
    return await_reply(ingest, OD_DEADLINE_NEVER, &again, err);
}

/* OUT: NULL: what is left of the last one. If it is not all written until UNTIL, *again is true. */
static od_code send(od_ingest *ingest, const od_rpc_out *out, od_deadline until, bool *again, od_error *err)
{
    od_deadline wait;
    od_code rc;

    if (out)
        ingest->patience = od_deadline_in_ms(ingest->remote->execute_timeout_ms);
    wait = od_deadline_min(until, ingest->patience);
    rc = out ? od_call_send(ingest->call, out, false, wait, err) : od_call_flush(ingest->call, wait, err);
    *again = rc == OD_E_TIMEOUT && !od_deadline_passed(ingest->patience);
    if (rc == OD_OK || *again)
        return OD_OK;
    /* Why the server took no more is told by its reply, if that came. */
    if (od_call_ready(ingest->call) && read_reply(ingest, err) != OD_OK)
        return ingest->code;
    remote_name_error(ingest->remote, NULL, err);
    return rc;
}

od_code od_ingest_open(od_remote *remote, const od_remote_txn *txn, const od_ingest_options *options, od_ingest **out,
                       od_error *err)
{
    const od_ingest_metadata metadata = {
        .database = od_slice_str(remote->database),
        .staging_table = options->staging_table,
        .columns = options->columns,
        .column_count = options->column_count,
        .transaction_id = od_slice_str(txn ? txn->id : NULL),
        .access_token = remote_token(remote),
        .format = options->format,
        .statement = options->statement,
        .expected_catalog_version = options->expected_catalog_version,
    };
    od_ingest *ingest = od_calloc(1, sizeof *ingest);
    od_msg *head = NULL;
    od_rpc_out bytes;
    bool again;
    od_code rc;

    *out = NULL;
    if (!ingest)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for an ingest");
    ingest->remote = od_remote_ref(remote);
    ingest->alone = !txn;
    ingest->patience = OD_DEADLINE_NEVER;
    OD_TRY(od_ingest_metadata_encode(&metadata, &head, err));
    OD_TRY(od_call_open(remote->channel, OD_PATH_INGEST, OD_DEADLINE_NEVER, 0, options->interrupt, &ingest->call, err));
    od_rpc_out_whole(head, &bytes);
    OD_TRY(send(ingest, &bytes, OD_DEADLINE_NEVER, &again, err));
    *out = ingest;
    ingest = NULL;

out:
    od_msg_unref(head);
    od_ingest_free(ingest);
    return rc;
}

static od_code send_until(od_ingest *ingest, od_msg *payload, od_deadline until, bool *again, od_error *err)
{
    od_rpc_out out;
    od_code rc;

    *again = false;
    if (!ingest->ended && od_call_ready(ingest->call) && read_reply(ingest, err) != OD_OK)
        return ingest->code;
    if (ingest->ended) {
        if (ingest->code == OD_OK)
            return od_fail(err, OD_E_PROTOCOL, "the server ended the ingest before its last chunk");
        if (err)
            *err = ingest->error;
        return ingest->code;
    }
    if (!payload)
        return send(ingest, NULL, until, again, err);
    rc = od_ingest_batch(payload, &out, err);
    return rc == OD_OK ? send(ingest, &out, until, again, err) : rc;
}

od_code od_ingest_send(od_ingest *ingest, od_msg *payload, od_error *err)
{
    bool again;
    return send_until(ingest, payload, OD_DEADLINE_NEVER, &again, err);
}

od_code od_ingest_send_within(od_ingest *ingest, od_msg *payload, int64_t wait_ms, bool *again, od_error *err)
{
    return send_until(ingest, payload, od_deadline_in_ms(wait_ms), again, err);
}

od_code od_ingest_finish_within(od_ingest *ingest, int64_t wait_ms, uint64_t *rows, bool *again, od_error *err)
{
    od_code rc = OD_OK;

    *rows = 0;
    *again = false;
    if (!ingest->ended && !ingest->closed) {
        ingest->patience = od_deadline_in_ms(ingest->remote->execute_timeout_ms);
        rc = od_call_half_close(ingest->call, ingest->patience, err);
        ingest->closed = rc == OD_OK;
    }
    if (rc == OD_OK && !ingest->ended)
        rc = await_reply(ingest, od_deadline_min(ingest->patience, od_deadline_in_ms(wait_ms)), again, err);
    else if (rc == OD_OK) {
        rc = ingest->code;
        if (rc != OD_OK && err)
            *err = ingest->error;
    }
    *rows = ingest->rows;
    return rc;
}

od_code od_ingest_finish(od_ingest *ingest, uint64_t *rows, od_error *err)
{
    bool again;
    return od_ingest_finish_within(ingest, -1, rows, &again, err);
}

uint64_t od_ingest_catalog_version(const od_ingest *ingest)
{
    return ingest->catalog_version;
}

void od_ingest_free(od_ingest *ingest)
{
    if (!ingest)
        return;
    od_call_free(ingest->call);
    od_remote_unref(ingest->remote);
    od_free(ingest);
}

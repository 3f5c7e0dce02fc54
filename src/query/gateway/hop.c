/* BeginTransaction, CommitTransaction, RollbackTransaction, IngestData: from the client to one worker, and the answer back.
 *
 * A message more is asked for only when the worker's side has room: the backpressure of an ingest passes through. */
#include "query/gateway/flow.h"

#include "base/alloc.h"
#include "query/gateway/head.h"
#include "query/gateway/kept.h"
#include "query/gateway/outward.h"
#include "base/banned.h"

typedef struct {
    od_gateway *gateway;
    od_rpc_call *call;
    atomic_uint refs; /* one for each call */
    bool first;       /* its first message has come */
    od_reply_kind kind;
    worker_entry *worker;
    worker_entry *tried[FLOW_TRIES]; /* in vain, before WORKER */
    size_t tried_count;
    pin *pin;      /* all but Begin */
    bool reserved; /* Begin: one of the bounded number */
    bool alone;    /* an ingest that is a transaction of its own */
    od_rpc_call *upstream;
    od_msg *request; /* the first message, if it has to be kept */
    od_slice token;  /* borrows it */
    od_rights *rights;
    od_msg *reply;
    kept kept; /* of an ingest that is alone */
    bool upstream_gone;
    bool asked, waits; /* the client's next message: it is to come; it is not asked for until there is room */
    bool half_closed;  /* by the client */
} hop;

/* All events of a hop come on one loop, so nothing is locked. */

/* No transaction has begun: that is counted before its client knows. */
static void give_back(hop *h)
{
    if (h->reserved)
        pins_release(h->gateway->pins);
    h->reserved = false;
}

static void unref(hop *h)
{
    if (atomic_fetch_sub(&h->refs, 1) != 1)
        return;
    give_back(h);
    pin_leave(h->pin);
    worker_entry_unref(h->worker);
    for (size_t i = 0; i < h->tried_count; i++)
        worker_entry_unref(h->tried[i]);
    od_rpc_call_unref(h->upstream);
    od_msg_unref(h->request);
    od_rights_unref(h->rights);
    kept_release(&h->kept);
    od_msg_unref(h->reply);
    od_rpc_call_unref(h->call);
    od_free(h);
}

/* ---- answers ---- */

static void note(hop *h, const od_error *why)
{
    failures_add(&h->gateway->failures, h->call, h->rights, "", od_slice_of("", 0), why);
}

static void refuse(hop *h, int status, const char *text)
{
    od_error why;

    od_fail(&why, od_code_from_grpc_status(status), "%s", text);
    note(h, &why);
    give_back(h);
    od_rpc_call_finish(h->call, status, text);
}

/* An error of the transaction, not of the call. */
static void fail(hop *h, const od_error *why)
{
    od_write_reply reply = {.failed = true, .error = *why};
    od_msg *msg = NULL;
    od_rpc_out out;
    od_error err;
    od_code rc = od_write_reply_encode(h->kind, &reply, &msg, &err);

    note(h, why);
    give_back(h);
    od_rpc_call_mark(h->call, why->code);
    if (rc == OD_OK) {
        od_rpc_out_whole(msg, &out);
        rc = od_rpc_call_reply(h->call, &out, OD_GRPC_OK, NULL, &err);
    }
    od_msg_unref(msg);
    if (rc != OD_OK)
        refuse(h, od_code_grpc_status(rc), err.message);
}

/* ---- the worker's side ---- */

static void upstream_message(void *user, od_rpc_call *call, od_msg *msg)
{
    hop *h = user;

    od_msg_unref(h->reply);
    h->reply = msg;
    od_rpc_call_next(call);
}

/* Looks at the worker's answer. If it has begun a transaction: from now on its calls go there. */
static od_code read_reply(hop *h, od_error *err)
{
    od_write_reply reply;
    od_code rc = od_write_reply_decode(h->kind, od_slice_of(od_msg_data(h->reply), od_msg_len(h->reply)), &reply, err);

    if (rc == OD_OK && reply.failed) {
        note(h, &reply.error);
        give_back(h);
        od_rpc_call_mark(h->call, reply.error.code);
    }
    if (rc != OD_OK || reply.failed || h->kind != OD_REPLY_BEGIN)
        return rc;
    h->reserved = false;
    return pins_add(h->gateway->pins, &(pin_of){od_slice_str(reply.transaction_id), h->token, h->rights, h->worker},
                    h->call, err);
}

static void pass_reply(hop *h)
{
    od_rpc_out out;
    od_error err;
    od_code rc = OD_OK;

    if (!h->reply)
        rc = od_fail(&err, OD_E_PROTOCOL, "worker '%s' answered with no message", h->worker->endpoint.authority);
    if (rc == OD_OK)
        rc = read_reply(h, &err);
    if (rc == OD_OK) {
        od_rpc_out_whole(h->reply, &out);
        rc = od_rpc_call_reply(h->call, &out, OD_GRPC_OK, NULL, &err);
    }
    if (rc != OD_OK)
        refuse(h, od_code_grpc_status(rc), err.message);
}

/* Nothing was done: its worker could not be asked. */
static void refuse_unreached(hop *h, od_code code, const char *why)
{
    od_error err;

    od_fail(&err, code, "worker '%s': %s", h->worker->endpoint.authority, why);
    refuse(h, od_code_grpc_status(code), err.message);
}

static void pass_failure(hop *h, od_rpc_call *call, const od_error *why)
{
    const char *text = NULL;
    int status = od_rpc_call_status(call, &text);
    od_error err;

    if (why->code == OD_E_CONNECTION_LOST || why->code == OD_E_UNAVAILABLE) {
        od_fail(&err, OD_E_CONNECTION_LOST, "worker '%s' was lost: %s", h->worker->endpoint.authority,
                h->kind == OD_REPLY_COMMIT || h->alone ? "whether the transaction was committed is not known"
                                                       : "the transaction is rolled back");
        if (h->kind == OD_REPLY_BEGIN || (h->alone && why->code == OD_E_UNAVAILABLE))
            refuse_unreached(h, OD_E_UNAVAILABLE, why->message);
        else
            fail(h, &err);
        return;
    }
    refuse(h, status != OD_GRPC_OK ? status : od_code_grpc_status(why->code), text && text[0] ? text : why->message);
}

static bool try_elsewhere(hop *h, const od_error *why);

static void upstream_gone(void *user, od_rpc_call *call, const od_error *why)
{
    hop *h = user;

    h->upstream_gone = true;
    if (h->alone) {
        worker_entry_leave(h->worker);
        flow_unpark(h->gateway);
    }
    if (why && (why->code == OD_E_UNAVAILABLE || why->code == OD_E_CONNECTION_LOST))
        worker_entry_failed(h->worker, od_clock_ns());
    else
        worker_entry_answered(h->worker);
    /* Before the client knows: the id is not to be used again. */
    if (h->pin && (h->kind == OD_REPLY_COMMIT || h->kind == OD_REPLY_ROLLBACK))
        pin_forget(h->pin);
    if (why && try_elsewhere(h, why)) {
        unref(h);
        return;
    }
    if (why)
        pass_failure(h, call, why);
    else
        pass_reply(h);
    unref(h);
}

static void ask_client(hop *h)
{
    h->asked = true;
    od_rpc_call_next(h->call);
}

static void upstream_writable(void *user, od_rpc_call *call)
{
    hop *h = user;

    (void)call;
    if (!h->waits)
        return;
    h->waits = false;
    ask_client(h);
}

static const od_rpc_events upstream_events = {
    .on_message = upstream_message, .on_writable = upstream_writable, .on_gone = upstream_gone};

/* ---- the client's side ---- */

/* Asks the client for its next message, or waits for room. */
static void go_on(hop *h)
{
    if (h->asked || h->half_closed)
        return;
    h->waits = !od_rpc_call_room(h->upstream);
    if (!h->waits)
        ask_client(h);
}

/* Sends MSG on, and asks for one more where there may be more. */
static void pass_on(hop *h, od_msg *msg)
{
    od_rpc_out out;

    od_rpc_out_whole(msg, &out);
    if (h->kind != OD_REPLY_INGEST) {
        if (od_rpc_call_send_last(h->upstream, &out, NULL) == OD_OK)
            od_rpc_call_next(h->upstream);
        return;
    }
    if (h->alone)
        kept_add(&h->kept, msg);
    if (od_rpc_call_send(h->upstream, &out, NULL) == OD_OK)
        go_on(h);
}

static bool is_local(const hop *h, const head *what)
{
    const od_gateway *g = h->gateway;

    if (!g->worker || h->pin)
        return false;
    return (h->kind != OD_REPLY_BEGIN && !what->alone) || what->database.len == 0 ||
           od_engine_has_database(g->engine, what->database) || registry_count(g->registry) == 0;
}

static od_code pick_worker(hop *h, const head *what, od_error *err)
{
    const od_gateway *g = h->gateway;
    const tiers_request request = {.sql = what->statement, .database = what->database, .insist = true};
    reading read = {0};
    od_code rc =
        tiers_choose(&g->tiers, g->registry, g->host, &request, &read, h->tried, h->tried_count, &h->worker, err);

    reading_release(&read);
    /* What runs in a transaction counts, not the transaction. */
    if (rc == OD_OK && !h->alone)
        worker_entry_leave(h->worker);
    return rc;
}

/* The worker that it goes to. */
static od_code choose(hop *h, const head *what, od_error *err)
{
    od_code rc;

    if (h->kind != OD_REPLY_BEGIN && !what->alone) {
        if (!h->pin && what->id.len == 0)
            return od_fail(err, OD_E_INVALID, "a transaction_id is missing");
        if (!h->pin)
            return pins_unknown(what->id, err);
        h->worker = worker_entry_ref(h->pin->worker);
        return OD_OK;
    }
    rc = pick_worker(h, what, err);
    if (rc == OD_OK && !what->alone) {
        rc = pins_reserve(h->gateway->pins, err);
        h->reserved = rc == OD_OK;
    }
    return rc;
}

static od_code open_upstream(hop *h, od_error *err)
{
    od_code rc;

    od_rpc_call_unref(h->upstream);
    h->upstream = NULL;
    atomic_fetch_add(&h->refs, 1);
    rc = od_rpc_call_open(h->call, &h->worker->endpoint, od_rpc_call_path(h->call), od_rpc_call_deadline(h->call),
                          &upstream_events, h, &h->upstream, err);
    if (rc != OD_OK) {
        if (h->alone)
            worker_entry_leave(h->worker);
        unref(h);
        return rc;
    }
    h->upstream_gone = false;
    if (h->kind == OD_REPLY_INGEST)
        od_rpc_call_next(h->upstream); /* the answer may come at any time */
    return OD_OK;
}

/* Sends again what a worker that could not be reached has not had. */
static void send_kept(hop *h)
{
    od_rpc_out out;

    for (size_t i = 0; i < h->kept.count; i++) {
        od_rpc_out_whole(h->kept.list[i], &out);
        if (od_rpc_call_send(h->upstream, &out, NULL) != OD_OK)
            return;
    }
    if (h->half_closed)
        od_rpc_call_half_close(h->upstream);
    else
        go_on(h);
}

/* Whether another worker may do what failed for the reason WHY: a transaction that was lost while it began is undone, and rows have
 * to be there still. */
static bool may_try_elsewhere(const hop *h, const od_error *why)
{
    if (h->reply || h->tried_count == FLOW_TRIES || od_rpc_call_is_gone(h->call))
        return false;
    if (h->kind == OD_REPLY_BEGIN)
        return why->code == OD_E_UNAVAILABLE || why->code == OD_E_CONNECTION_LOST;
    return h->alone && why->code == OD_E_UNAVAILABLE && !h->kept.gone;
}

static bool try_elsewhere(hop *h, const od_error *why)
{
    od_error err;
    head what;

    if (!may_try_elsewhere(h, why) || head_read(h->kind, h->request, &what, &err) != OD_OK)
        return false;
    h->tried[h->tried_count++] = h->worker;
    h->worker = NULL;
    if (pick_worker(h, &what, &err) != OD_OK) {
        h->worker = h->tried[--h->tried_count];
        return false;
    }
    if (open_upstream(h, &err) != OD_OK)
        refuse_unreached(h, err.code, err.message);
    else if (h->alone)
        send_kept(h);
    else
        pass_on(h, h->request);
    return true;
}

/* Takes MSG as workers are to get it; *what borrows that. */
static od_code keep_request(hop *h, od_msg *msg, head *what, od_error *err)
{
    od_code rc = OD_OK;

    if (h->pin)
        rc = od_rights_check_transaction(h->rights, h->pin->rights, err);
    if (rc == OD_OK)
        rc = outward_head(h->gateway, h->rights, h->kind, msg, &h->request, err);
    if (rc == OD_OK)
        rc = head_read(h->kind, h->request, what, err);
    if (rc == OD_OK)
        h->token = what->token;
    return rc;
}

/* Nothing more is done for it. */
static void withdraw(hop *h)
{
    od_rpc_call_fail(h->call, OD_GRPC_UNAUTHENTICATED, OD_E_UNAUTHENTICATED, FLOW_WITHDRAWN);
    od_rpc_call_cancel(h->upstream);
}

static void begin(hop *h, od_msg *msg)
{
    od_gateway *g = h->gateway;
    od_error err;
    head what;
    od_code rc = head_read(h->kind, msg, &what, &err);

    if (rc != OD_OK) {
        refuse(h, OD_GRPC_INVALID_ARGUMENT, err.message);
        return;
    }
    rc = od_tokens_find(g->tokens, what.token, &h->rights, &err);
    if (rc == OD_OK)
        rc = od_rights_check_database(h->rights, what.database, &err);
    if (rc != OD_OK) {
        note(h, &err);
        od_rpc_call_fail(h->call, od_code_grpc_status(rc), rc, err.message);
        return;
    }
    h->alone = what.alone;
    if ((h->kind == OD_REPLY_BEGIN || h->alone) && atomic_load(&g->draining)) {
        refuse(h, OD_GRPC_UNAVAILABLE, "the server is shutting down");
        return;
    }
    h->pin = pins_use(g->pins, what.id);
    if (is_local(h, &what)) {
        od_worker_take(g->worker, h->call, msg, h->rights);
        unref(h);
        return;
    }
    rc = keep_request(h, msg, &what, &err);
    if (rc == OD_OK)
        rc = choose(h, &what, &err);
    if (rc == OD_OK) {
        rc = open_upstream(h, &err);
        if (rc == OD_OK)
            pass_on(h, h->request);
        else
            refuse_unreached(h, rc, err.message);
    } else if (rc == OD_E_BUSY || (h->kind != OD_REPLY_BEGIN && !h->alone))
        fail(h, &err);
    else
        refuse(h, od_code_grpc_status(rc), err.message);
}

static void on_message(void *user, od_rpc_call *call, od_msg *msg)
{
    hop *h = user;

    (void)call;
    h->asked = false;
    if (!h->first) {
        h->first = true;
        begin(h, msg);
    } else if (h->upstream && !h->upstream_gone) {
        if (od_rights_withdrawn(h->rights))
            withdraw(h);
        else
            pass_on(h, msg);
    }
    od_msg_unref(msg);
}

static void on_half_close(void *user, od_rpc_call *call)
{
    hop *h = user;

    h->half_closed = true;
    if (!h->first)
        od_rpc_call_finish(call, OD_GRPC_INVALID_ARGUMENT, "the request is missing");
    else if (h->upstream && !h->upstream_gone && h->kind == OD_REPLY_INGEST)
        od_rpc_call_half_close(h->upstream);
}

static void on_gone(void *user, od_rpc_call *call, const od_error *why)
{
    hop *h = user;

    (void)call;
    /* An ingest without its client is dropped; what begins or ends a transaction goes on, and is undone if nobody learns of it. */
    if (why && h->upstream && !h->upstream_gone && h->kind == OD_REPLY_INGEST)
        od_rpc_call_cancel(h->upstream);
    unref(h);
}

static const od_rpc_events client_events = {
    .on_message = on_message, .on_half_close = on_half_close, .on_gone = on_gone};

void hop_open(void *service, od_rpc_call *call)
{
    const char *path = od_rpc_call_path(call);
    hop *h = od_calloc(1, sizeof *h);

    if (!h) {
        od_rpc_call_finish(call, OD_GRPC_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    h->gateway = service;
    h->call = od_rpc_call_ref(call);
    h->kind = strcmp(path, OD_PATH_BEGIN) == 0      ? OD_REPLY_BEGIN
              : strcmp(path, OD_PATH_COMMIT) == 0   ? OD_REPLY_COMMIT
              : strcmp(path, OD_PATH_ROLLBACK) == 0 ? OD_REPLY_ROLLBACK
                                                    : OD_REPLY_INGEST;
    atomic_init(&h->refs, 1);
    od_rpc_call_bind(call, &client_events, h);
    ask_client(h);
}

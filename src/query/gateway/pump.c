/* The way to a worker and back. Chunks pass as they are; one more is asked for only while the client takes them. */
#include "query/gateway/flow.h"

#include "base/alloc.h"
#include "query/gateway/outward.h"
#include "base/banned.h"

static void relay(flow *f, const od_error *last);

/* ---- a worker in this process ---- */

static void local_over(void *arg, const od_error *error)
{
    flow *f = arg;

    flow_forget(f);
    atomic_store(&f->answered, true);
    if (!error)
        return;
    flow_count(f, error->code == OD_E_CANCELLED);
    if (!atomic_load(&f->abandoned))
        flow_note(f, error);
}

static void local_done(void *arg, const od_worker_outcome *outcome)
{
    flow *f = arg;

    atomic_store(&f->bytes, outcome->bytes);
    flow_close_end(f);
}

const od_worker_run_events flow_local_events = {.on_over = local_over, .on_done = local_done};

void flow_take_run(flow *f, od_worker_run *run)
{
    od_code stop;

    pthread_mutex_lock(&f->lock);
    f->run = run;
    stop = f->stop;
    pthread_mutex_unlock(&f->lock);
    if (stop != OD_OK)
        od_worker_run_cancel(run, stop, od_code_text(stop));
}

void flow_end_empty(flow *f)
{
    od_rpc_out out;

    flow_forget(f);
    if (atomic_exchange(&f->answered, true))
        return;
    od_chunk_finished(0, 0, &out);
    if (od_rpc_call_reply(f->call, &out, OD_GRPC_OK, NULL, NULL) != OD_OK)
        od_rpc_call_finish(f->call, OD_GRPC_INTERNAL, "the end of the stream cannot be sent");
}

static void start_local(flow *f)
{
    od_worker_run *run = NULL;
    od_error err;

    if (od_worker_run_start(f->gateway->worker, f->call, f->request, f->id, f->rights, &flow_local_events, f, &run,
                            &err) != OD_OK) {
        flow_fail(f, &err);
        flow_close_end(f);
        return;
    }
    flow_take_run(f, run);
}

/* ---- a remote one ---- */

/* A chunk's first field, as a tag of protobuf. */
enum { TAG_ERROR = 0x12, TAG_FINISHED = 0x18 }; /* the legacy text; `finished` */

static int first_tag(od_msg *msg)
{
    return od_msg_len(msg) > 0 ? od_msg_data(msg)[0] : 0;
}

/* Whoever opened CALL may be on another thread, and not have kept it yet (keep_upstream): a client that has room again must find
 * it, or nothing more would be asked for. No other attempt follows once a message has come. */
static void note_upstream(flow *f, od_rpc_call *call)
{
    od_rpc_call *old;

    pthread_mutex_lock(&f->lock);
    old = f->upstream;
    f->upstream = od_rpc_call_ref(call);
    pthread_mutex_unlock(&f->lock);
    od_rpc_call_unref(old);
}

/* What one stream of a result gets, the others do not wait for. */
static void note_heard(flow *f)
{
    int64_t now_ns = od_clock_ns(), heard;

    atomic_store_explicit(&f->heard_ns, now_ns, memory_order_relaxed);
    if (!f->leader)
        return;
    heard = atomic_load_explicit(&f->leader->heard_ns, memory_order_relaxed);
    if (heard != 0)
        atomic_compare_exchange_strong(&f->leader->heard_ns, &heard, now_ns);
}

static void note_chunk(flow *f, od_msg *msg)
{
    od_chunk chunk;
    od_error err;

    if (od_chunk_decode(od_slice_of(od_msg_data(msg), od_msg_len(msg)), &chunk, &err) == OD_OK &&
        chunk.kind == OD_CHUNK_ERROR)
        flow_note(f, &chunk.error);
}

static void upstream_message(void *user, od_rpc_call *call, od_msg *msg)
{
    flow *f = user;
    od_rpc_out out;

    if (!atomic_exchange(&f->streamed, true)) {
        worker_entry_answered(f->worker);
        note_upstream(f, call);
    }
    note_heard(f);
    atomic_fetch_add_explicit(&f->bytes, od_msg_len(msg), memory_order_relaxed);
    if (f->leader)
        atomic_fetch_add_explicit(&f->leader->bytes, od_msg_len(msg), memory_order_relaxed);
    if (first_tag(msg) == TAG_ERROR) {
        flow_count(f, false);
        od_rpc_call_mark(f->call, OD_E_INTERNAL); /* whichever it is */
        note_chunk(f, msg);
    }
    if (first_tag(msg) == TAG_ERROR || first_tag(msg) == TAG_FINISHED)
        flow_forget(f);
    if (!atomic_load(&f->answered)) {
        od_rpc_out_whole(msg, &out);
        /* If the client is gone, its own on_gone stops the worker. */
        if (od_rpc_call_send(f->call, &out, NULL) == OD_OK && !od_rpc_call_room(f->call))
            atomic_store(&f->paused, true);
    }
    od_msg_unref(msg);
    if (!atomic_load(&f->paused))
        od_rpc_call_next(call);
}

void flow_resume(flow *f)
{
    od_rpc_call *upstream = NULL;

    if (!atomic_exchange(&f->paused, false))
        return;
    atomic_store_explicit(&f->heard_ns, od_clock_ns(), memory_order_relaxed);
    pthread_mutex_lock(&f->lock);
    if (f->upstream)
        upstream = od_rpc_call_ref(f->upstream);
    pthread_mutex_unlock(&f->lock);
    if (upstream)
        od_rpc_call_next(upstream);
    od_rpc_call_unref(upstream);
}

/* The worker's stream ended badly: its own status is passed on, a lost connection becomes an error of the execution,
 * which peers of the earlier protocol see as well. */
static void pass_failure(flow *f, od_rpc_call *call, const od_error *why)
{
    const char *text = NULL;
    int status = od_rpc_call_status(call, &text);
    od_error err;

    if (why->code == OD_E_CONNECTION_LOST || (why->code == OD_E_UNAVAILABLE && atomic_load(&f->streamed))) {
        od_fail(&err, OD_E_CONNECTION_LOST, "worker '%s' was lost", f->worker->endpoint.authority);
        flow_fail(f, &err);
    } else if (why->code == OD_E_UNAVAILABLE) {
        od_fail(&err, OD_E_UNAVAILABLE, "worker '%s': %s", f->worker->endpoint.authority, why->message);
        flow_refuse(f, OD_E_UNAVAILABLE, err.message);
    } else {
        flow_refuse_with(f, status != OD_GRPC_OK ? status : od_code_grpc_status(why->code), why->code,
                         text && text[0] ? text : why->message);
    }
}

static void read_statement(flow *f)
{
    reading_take(&f->reading, f->gateway->host, f->asked.plan, f->asked.database);
}

/* Whether another worker may have what failed for the reason WHY. Nothing of the answer has come; and either the worker never
 * had the request, or it does no harm if it ran. */
static bool may_try_again(flow *f, const od_error *why)
{
    if (!why || f->pin || flow_is_follower(f) || f->tried_count >= FLOW_TRIES || atomic_load(&f->streamed) ||
        atomic_load(&f->answered))
        return false;
    if (why->code == OD_E_UNAVAILABLE)
        return true;
    if (why->code != OD_E_CONNECTION_LOST)
        return false;
    if (!f->asked.describe_only)
        read_statement(f);
    return f->asked.describe_only || f->reading.only_reads;
}

/* A follower is with its leader's worker, and takes nothing of its room. */
static void leave_worker(const flow *f, worker_entry *worker)
{
    if (!flow_is_follower(f))
        worker_entry_leave(worker);
}

static void upstream_gone(void *user, od_rpc_call *call, const od_error *why)
{
    flow *f = user;
    od_gateway *g = f->gateway;

    atomic_store(&f->heard_ns, 0);
    leave_worker(f, f->worker);
    if (why && (why->code == OD_E_UNAVAILABLE || why->code == OD_E_CONNECTION_LOST))
        worker_entry_failed(f->worker, od_clock_ns());
    if (may_try_again(f, why)) {
        relay(f, why);
        flow_unpark(g);
        return;
    }
    flow_forget(f);
    if (why)
        pass_failure(f, call, why);
    else if (!atomic_exchange(&f->answered, true))
        od_rpc_call_finish(f->call, OD_GRPC_OK, NULL);
    flow_close_end(f);
    flow_unpark(g);
}

static const od_rpc_events upstream_events = {.on_message = upstream_message, .on_gone = upstream_gone};

/* Takes WORKER as the one that F is with. False: F shall end. */
static bool take_worker(flow *f, worker_entry *worker, unsigned *attempt)
{
    bool go;

    pthread_mutex_lock(&f->lock);
    go = f->stop == OD_OK;
    if (f->worker)
        f->tried[f->tried_count++] = f->worker;
    f->worker = worker;
    *attempt = ++f->attempt;
    pthread_mutex_unlock(&f->lock);
    return go;
}

/* Keeps UPSTREAM as that of ATTEMPT, unless it has failed and a later one is there already. */
static void keep_upstream(flow *f, od_rpc_call *upstream, unsigned attempt)
{
    od_rpc_call *old = upstream;
    od_code stop;

    pthread_mutex_lock(&f->lock);
    if (f->attempt == attempt) {
        old = f->upstream;
        f->upstream = upstream;
    }
    stop = f->stop;
    pthread_mutex_unlock(&f->lock);
    if (stop != OD_OK)
        od_rpc_call_cancel(upstream);
    od_rpc_call_unref(old);
}

static od_code open_upstream(flow *f, worker_entry *worker, unsigned attempt, od_error *err)
{
    od_rpc_call *upstream = NULL;
    od_msg *owner = NULL;
    od_rpc_out out;
    od_code rc;

    OD_TRY(outward_request(f, &owner, &out, err));
    atomic_store(&f->heard_ns, od_clock_ns());
    rc = od_rpc_call_open(f->call, &worker->endpoint, OD_PATH_EXECUTE, od_rpc_call_deadline(f->call), &upstream_events,
                          f, &upstream, err);
    if (rc != OD_OK)
        goto out;
    /* From here on upstream_gone has the worker end. A failed send is told by it too. */
    if (od_rpc_call_send_last(upstream, &out, NULL) == OD_OK)
        od_rpc_call_next(upstream);
    keep_upstream(f, upstream, attempt);

out:
    od_msg_unref(owner);
    return rc;
}

/* The worker that F goes to, entered: that of its transaction, or the best of all but TRIED. */
static od_code choose(flow *f, worker_entry *const *tried, size_t count, worker_entry **out, od_error *err)
{
    const od_gateway *g = f->gateway;
    /* The scans of a statement may wait for each other, so they must not wait for each other's room at a worker. */
    const tiers_request request = {.sql = f->asked.plan,
                                   .database = f->asked.database,
                                   .compute_context = f->asked.compute_context,
                                   .insist = f->ticket.joined};

    if (f->pin) {
        *out = worker_entry_ref(f->pin->worker);
        worker_entry_enter(*out, true);
        return OD_OK;
    }
    return tiers_choose(&g->tiers, g->registry, g->host, &request, &f->reading, tried, count, out, err);
}

/* Sends F to WORKER, which is entered unless F is a follower. */
static od_code send_to(flow *f, worker_entry *worker, od_error *err)
{
    unsigned attempt;
    od_code rc;

    if (take_worker(f, worker, &attempt))
        rc = open_upstream(f, worker, attempt, err);
    else
        rc = od_fail(err, OD_E_CANCELLED, "%s", od_code_text(OD_E_CANCELLED));
    if (rc != OD_OK) {
        leave_worker(f, worker);
        flow_unpark(f->gateway);
    }
    return rc;
}

/* Sends F to a worker that it has not been at yet, or has it wait for one that has room; closes the worker end if there is
 * none. LAST: why the last one failed. */
static void relay(flow *f, const od_error *last)
{
    worker_entry *worker, *tried[FLOW_TRIES + 1];
    uint64_t releases = flow_releases(f->gateway);
    size_t count;
    od_error err;
    od_code rc;

    pthread_mutex_lock(&f->lock);
    count = f->tried_count;
    memcpy((void *)tried, (void *)f->tried, count * sizeof *tried);
    if (f->worker)
        tried[count++] = f->worker;
    pthread_mutex_unlock(&f->lock);
    rc = choose(f, tried, count, &worker, &err);
    if (rc == OD_E_BUSY) {
        flow_park(f, releases);
        return;
    }
    if (rc == OD_E_UNAVAILABLE && last)
        od_fail(&err, OD_E_UNAVAILABLE, "worker '%s': %s", tried[count - 1]->endpoint.authority, last->message);
    if (rc == OD_OK)
        rc = send_to(f, worker, &err);
    if (rc == OD_OK)
        return;
    if (rc == OD_E_CANCELLED)
        flow_fail(f, &err);
    else
        flow_refuse(f, rc, err.message);
    flow_close_end(f);
}

void flow_send_to(flow *f, worker_entry *worker)
{
    od_error err;
    od_code rc;

    rc = send_to(f, worker, &err);
    if (rc == OD_OK)
        return;
    flow_refuse(f, rc, err.message);
    flow_close_end(f);
}

void flow_restart(flow *f)
{
    bool stopped;

    pthread_mutex_lock(&f->lock);
    stopped = f->stop != OD_OK;
    pthread_mutex_unlock(&f->lock);
    if (stopped) {
        flow_close_end(f);
        return;
    }
    flow_ref(f);
    relay(f, NULL);
    flow_unref(f);
}

/* In a transaction: where that is, and nowhere else. */
static void start_pinned(flow *f)
{
    od_error err;

    if (f->pin && od_rights_check_transaction(f->rights, f->pin->rights, &err) != OD_OK) {
        flow_refuse(f, err.code, err.message);
        flow_close_end(f);
    } else if (f->pin) {
        relay(f, NULL);
    } else if (f->gateway->worker) {
        start_local(f);
    } else {
        pins_unknown(f->asked.transaction_id, &err);
        flow_fail(f, &err);
        flow_close_end(f);
    }
}

/* Where it is stopped already, nothing is started. */
static bool is_stopped(flow *f)
{
    bool stopped;

    pthread_mutex_lock(&f->lock);
    stopped = f->stop != OD_OK;
    pthread_mutex_unlock(&f->lock);
    return stopped;
}

/* The message with the layout of DATABASE; NULL: it has none, or memory is out. */
static od_msg *layout_of(od_gateway *g, od_slice database)
{
    od_msg *msg = NULL;

    pthread_mutex_lock(&g->layout_lock);
    for (size_t i = 0; i < g->layout_count && !msg; i++)
        if (od_slice_equal(od_slice_str(g->layouts[i].database), database) &&
            od_chunk_layout(g->layouts[i].layout, &msg, NULL) != OD_OK)
            break;
    pthread_mutex_unlock(&g->layout_lock);
    return msg;
}

/* Tells the client of F what its database is made of, before anything else. That it asked for nothing, or is gone, is no failure. */
static void tell_layout(flow *f)
{
    od_msg *msg = f->asked.wants_layout ? layout_of(f->gateway, f->asked.database) : NULL;
    od_rpc_out out;

    if (!msg)
        return;
    od_rpc_out_whole(msg, &out);
    (void)(od_rpc_call_send(f->call, &out, NULL) == OD_OK); /* a client that is gone is told of by on_gone */
    od_msg_unref(msg);
}

void flow_start(flow *f)
{
    if (is_stopped(f)) {
        flow_close_end(f);
        return;
    }
    tell_layout(f);
    if (hybrid_wants(f))
        hybrid_start(f);
    else
        flow_start_routed(f);
}

void flow_start_routed(flow *f)
{
    const od_gateway *g = f->gateway;

    if (is_stopped(f)) {
        flow_close_end(f);
        return;
    }
    /* The worker may be done, and the end closed on another thread, before it is even noted who the worker is. */
    flow_ref(f);
    if (f->asked.transaction_id.len > 0)
        f->pin = pins_use(g->pins, f->asked.transaction_id);
    if (f->asked.transaction_id.len > 0) {
        start_pinned(f);
        flow_unref(f);
        return;
    }
    /* What the local worker does not serve goes to a remote one if there is any; else its engine says what is wrong. */
    if (g->worker && (f->asked.database.len == 0 || od_engine_has_database(g->engine, f->asked.database) ||
                      registry_count(g->registry) == 0))
        start_local(f);
    else
        relay(f, NULL);
    flow_unref(f);
}

/* ---- cancelling at a remote worker ---- */

typedef struct {
    flow *flow;
    bool acknowledged;
    flow_cancel_done done;
    void *arg;
} cancel_job;

static void cancel_message(void *user, od_rpc_call *call, od_msg *msg)
{
    cancel_job *job = user;

    if (od_cancel_reply_decode(od_slice_of(od_msg_data(msg), od_msg_len(msg)), &job->acknowledged, NULL) != OD_OK)
        job->acknowledged = false;
    od_msg_unref(msg);
    od_rpc_call_next(call);
}

static void cancel_gone(void *user, od_rpc_call *call, const od_error *why)
{
    cancel_job *job = user;
    bool told = !why;

    (void)call;
    /* A worker that did not know it (yet) is told by the reset of the stream; one that cannot be asked is not told. */
    if (!told || !job->acknowledged)
        flow_end(job->flow, OD_E_CANCELLED, od_code_text(OD_E_CANCELLED));
    job->done(job->arg, told);
    flow_unref(job->flow);
    od_free(job);
}

static const od_rpc_events cancel_events = {.on_message = cancel_message, .on_gone = cancel_gone};

void flow_cancel_remote(flow *f, od_rpc_call *call, od_slice token, flow_cancel_done done, void *arg)
{
    const od_cancel_request request = {od_slice_str(f->id), token};
    cancel_job *job = od_calloc(1, sizeof *job);
    od_rpc_call *upstream = NULL;
    worker_entry *worker;
    od_msg *msg = NULL;
    od_endpoint endpoint;
    od_rpc_out out;
    od_code rc = OD_E_NO_MEMORY;

    pthread_mutex_lock(&f->lock);
    worker = f->worker;
    if (worker)
        endpoint = worker->endpoint;
    pthread_mutex_unlock(&f->lock);
    if (!job || !worker)
        goto out;
    *job = (cancel_job){.flow = flow_ref(f), .done = done, .arg = arg};
    OD_TRY(od_cancel_request_encode(&request, &msg, NULL));
    OD_TRY(od_rpc_call_open(call, &endpoint, OD_PATH_CANCEL, od_deadline_in_ms(f->gateway->cancel_timeout_ms),
                            &cancel_events, job, &upstream, NULL));
    od_rpc_out_whole(msg, &out);
    if (od_rpc_call_send_last(upstream, &out, NULL) == OD_OK)
        od_rpc_call_next(upstream);

out:
    od_msg_unref(msg);
    od_rpc_call_unref(upstream);
    if (rc == OD_OK)
        return;
    if (job && job->flow)
        flow_unref(job->flow);
    od_free(job);
    flow_end(f, OD_E_CANCELLED, od_code_text(OD_E_CANCELLED));
    done(arg, false);
}

#include "query/gateway/flow.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/banned.h"

od_code flow_create(od_gateway *gateway, od_rpc_call *call, flow **out, od_error *err)
{
    flow *f = od_calloc(1, sizeof *f);

    *out = NULL;
    if (!f)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for an execution");
    f->gateway = gateway;
    f->call = od_rpc_call_ref(call);
    f->ticket.owner = f;
    f->start_ns = od_clock_ns();
    atomic_init(&f->refs, 1);
    atomic_init(&f->ends, 1);
    pthread_mutex_init(&f->lock, NULL);
    *out = f;
    return OD_OK;
}

bool flow_is_follower(const flow *f)
{
    return f->asked.follows.len > 0;
}

flow *flow_ref(flow *f)
{
    atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
    return f;
}

static void flow_free(flow *f)
{
    od_rpc_call_unref(f->upstream);
    od_worker_run_unref(f->run);
    hybrid_run_free(f->hybrid);
    worker_entry_unref(f->worker);
    reading_release(&f->reading);
    od_rights_unref(f->rights);
    pin_leave(f->pin);
    for (size_t i = 0; i < f->tried_count; i++)
        worker_entry_unref(f->tried[i]);
    od_rpc_call_unref(f->call);
    od_msg_unref(f->request);
    pthread_mutex_destroy(&f->lock);
    od_free(f);
}

void flow_unref(flow *f)
{
    flow *leader;

    for (; f && atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) == 1; f = leader) {
        leader = f->leader;
        flow_free(f);
    }
}

/* ---- the map ---- */

static flow **bucket_of(od_gateway *gateway, const char *id)
{
    uint32_t hash = 2166136261U;

    for (; *id; id++)
        hash = (hash ^ (uint8_t)*id) * 16777619U;
    return &gateway->map[hash % FLOW_BUCKETS];
}

static flow *map_get(od_gateway *gateway, const char *id)
{
    for (flow *f = *bucket_of(gateway, id); f; f = f->map_next) {
        if (strcmp(f->id, id) == 0)
            return f;
    }
    return NULL;
}

/* With the map's lock held. */
static void map_remove(flow *f)
{
    flow **at;

    if (!f->mapped)
        return;
    for (at = bucket_of(f->gateway, f->id); *at != f; at = &(*at)->map_next)
        ;
    *at = f->map_next;
    f->mapped = false;
    f->gateway->map_count--;
}

void flow_forget(flow *f)
{
    pthread_mutex_lock(&f->gateway->map_lock);
    map_remove(f);
    pthread_mutex_unlock(&f->gateway->map_lock);
}

od_code flow_map_add(flow *f, od_error *err)
{
    od_gateway *g = f->gateway;
    flow **bucket = bucket_of(g, f->id);
    od_code rc = OD_OK;

    pthread_mutex_lock(&g->map_lock);
    if (map_get(g, f->id)) {
        rc = od_fail(err, OD_E_EXISTS, "execution '%s' is running already", f->id);
    } else {
        f->map_next = *bucket;
        *bucket = f;
        f->mapped = f->counted = true;
        g->map_count++;
        atomic_fetch_add(&g->live, 1);
    }
    pthread_mutex_unlock(&g->map_lock);
    return rc;
}

flow *flow_map_find(od_gateway *gateway, const char *id)
{
    flow *f;

    pthread_mutex_lock(&gateway->map_lock);
    f = map_get(gateway, id);
    if (f)
        flow_ref(f);
    pthread_mutex_unlock(&gateway->map_lock);
    return f;
}

flow **flow_map_list(od_gateway *gateway, size_t *count)
{
    flow **list;
    size_t n = 0;

    pthread_mutex_lock(&gateway->map_lock);
    list = od_calloc(gateway->map_count + 1, sizeof *list);
    for (size_t i = 0; list && i < FLOW_BUCKETS; i++) {
        for (flow *f = gateway->map[i]; f; f = f->map_next)
            list[n++] = flow_ref(f);
    }
    pthread_mutex_unlock(&gateway->map_lock);
    *count = n;
    return list;
}

uint64_t flow_bytes(flow *f)
{
    const od_worker_run *run;

    pthread_mutex_lock(&f->lock);
    run = f->run; /* lives as long as the flow */
    pthread_mutex_unlock(&f->lock);
    return run ? od_worker_run_bytes(run) : atomic_load(&f->bytes);
}

/* ---- the end ---- */

/* The one place where an execution leaves. */
static void flow_leave(flow *f)
{
    od_gateway *g = f->gateway;

    flow_forget(f);
    if (!flow_is_follower(f) && od_log_enabled(OD_LOG_DEBUG, "gateway")) {
        char id[2 * OD_EXECUTION_ID_SIZE];

        od_log(OD_LOG_DEBUG, "gateway", "execution ended", "exec=%s token=%s ms=%lld bytes=%llu failed=%d cancelled=%d",
               od_log_quote(f->id, id, sizeof id), od_rights_name(f->rights),
               (long long)((od_clock_ns() - f->start_ns) / 1000000), (unsigned long long)atomic_load(&f->bytes),
               atomic_load(&f->failed), atomic_load(&f->cancelled));
    }
    flow_start_all(admit_leave(g->admit, &f->ticket));
    atomic_fetch_sub(&g->live, f->counted);
}

void flow_start_all(ticket *granted)
{
    for (ticket *t = granted, *next; t; t = next) {
        next = t->next;
        t->next = NULL;
        flow_turn(t->owner);
    }
}

void flow_turn(flow *f)
{
    od_histogram_observe_ns(f->gateway->stats.queue_wait, od_clock_ns() - f->start_ns);
    flow_start(f);
}

void flow_close_end(flow *f)
{
    if (atomic_fetch_sub(&f->ends, 1) == 1)
        flow_leave(f);
    flow_unref(f);
}

bool flow_refuse(flow *f, od_code code, const char *text)
{
    return flow_refuse_with(f, od_code_grpc_status(code), code, text);
}

void flow_count(flow *f, bool cancelled)
{
    od_gateway *g = f->gateway;

    /* Its leader fails, and is counted. */
    if (!flow_is_follower(f) && !atomic_exchange(cancelled ? &f->cancelled : &f->failed, true))
        atomic_fetch_add(cancelled ? &g->cancelled : &g->errors, 1);
}

void flow_note(flow *f, const od_error *why)
{
    if (flow_is_follower(f))
        return;
    failures_add(&f->gateway->failures, f->call, f->rights, f->id, f->asked.database, why);
}

bool flow_refuse_with(flow *f, int status, od_code code, const char *text)
{
    od_error why;

    if (atomic_exchange(&f->answered, true))
        return false;
    flow_count(f, false);
    od_fail(&why, code, "%s", text);
    flow_note(f, &why);
    flow_forget(f);
    od_rpc_call_fail(f->call, status, code, text);
    return true;
}

static bool tell_failure(flow *f, const od_error *why)
{
    od_msg *msg = NULL;
    od_rpc_out out;
    od_code rc;

    if (atomic_exchange(&f->answered, true))
        return false;
    flow_count(f, why->code == OD_E_CANCELLED);
    flow_note(f, why);
    od_rpc_call_mark(f->call, why->code);
    rc = od_chunk_error(why, f->id, 0, &msg, NULL);
    if (rc == OD_OK) {
        od_rpc_out_whole(msg, &out);
        rc = od_rpc_call_send(f->call, &out, NULL);
    }
    if (rc == OD_OK) {
        od_chunk_finished(0, 0, &out);
        rc = od_rpc_call_reply(f->call, &out, OD_GRPC_OK, NULL, NULL);
    }
    od_msg_unref(msg);
    if (rc != OD_OK)
        od_rpc_call_fail(f->call, od_code_grpc_status(why->code), why->code, why->message);
    return true;
}

bool flow_fail(flow *f, const od_error *why)
{
    flow_forget(f);
    return tell_failure(f, why);
}

void flow_stop(flow *f, od_code code, bool abandoned, const char *why)
{
    od_rpc_call *upstream = NULL;
    od_worker_run *run;
    hybrid_run *fragments;

    if (abandoned)
        atomic_store(&f->abandoned, true);
    pthread_mutex_lock(&f->lock);
    if (f->stop == OD_OK)
        f->stop = code;
    if (f->upstream)
        upstream = od_rpc_call_ref(f->upstream);
    run = f->run; /* lives as long as the flow */
    fragments = f->hybrid;
    pthread_mutex_unlock(&f->lock);
    if (upstream)
        od_rpc_call_cancel(upstream);
    if (fragments)
        hybrid_stop(fragments);
    if (run && abandoned)
        od_worker_run_abandon(run, why);
    else if (run)
        od_worker_run_cancel(run, code, why);
    od_rpc_call_unref(upstream);
    if (flow_withdraw(f))
        flow_close_end(f);
}

void flow_end(flow *f, od_code code, const char *why)
{
    bool waited = admit_withdraw(f->gateway->admit, &f->ticket);
    bool local;
    od_error err;

    pthread_mutex_lock(&f->lock);
    local = f->run != NULL;
    pthread_mutex_unlock(&f->lock);
    od_fail(&err, code, "%s", why);
    /* A worker of this process tells the client itself, after what it has sent already. A remote one's stream is reset, and
     * how that ends must not come first. */
    if (!local)
        tell_failure(f, &err);
    flow_stop(f, code, false, why);
    if (waited)
        flow_close_end(f);
}

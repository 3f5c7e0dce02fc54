/* The gateway's doors: what comes in, and in which order it is looked at. */
#include "query/gateway.h"

#include <arpa/inet.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/uuid.h"
#include "query/gateway/flow.h"
#include "base/banned.h"

enum { DEFAULT_IN_FLIGHT = 64, DEFAULT_QUEUED = 256, DEFAULT_QUEUE_MS = 30000, DEFAULT_EXECUTE_MS = 300000 };
enum { DEFAULT_CANCEL_MS = 10000, DEFAULT_PROBE_MS = 5000, FIRST_PROBE_MS = 2000 };
enum { DEFAULT_TRANSACTIONS = 256, DEFAULT_IDLE_MS = 300000, DEFAULT_EVICT_MS = 90000 };

/* ---- create, free ---- */

static od_code copy_secret(od_secret *to, const od_secret *from, od_error *err)
{
    return from && from->len > 0 ? od_secret_set(to, od_slice_of(from->value, from->len), err) : OD_OK;
}

static od_code take_tokens(od_gateway *g, const od_gateway_options *options, od_error *err)
{
    const od_tokens_options own = {.token = options->token, .worker_token = options->register_token};
    od_code rc = options->tokens ? OD_OK : od_tokens_create(&own, &g->own_tokens, err);

    g->tokens = options->tokens ? options->tokens : g->own_tokens;
    return rc;
}

static unsigned slots_of(const od_gateway_options *options)
{
    return options->max_in_flight ? options->max_in_flight : DEFAULT_IN_FLIGHT;
}

static unsigned queue_of(const od_gateway_options *options)
{
    return options->max_queued > 0 ? (unsigned)options->max_queued : options->max_queued < 0 ? 0 : DEFAULT_QUEUED;
}

static int64_t queue_ms_of(const od_gateway_options *options)
{
    return options->queue_timeout_ms > 0   ? options->queue_timeout_ms
           : options->queue_timeout_ms < 0 ? 0
                                           : DEFAULT_QUEUE_MS;
}

/* Of a transaction or an upload at the worker of this process. */
static void note_failure(void *arg, const od_rpc_call *call, const od_rights *rights, const od_error *why)
{
    od_gateway *g = arg;

    failures_add(&g->failures, call, rights, "", od_slice_of("", 0), why);
}

od_code od_gateway_create(const od_gateway_options *options, od_gateway **out, od_error *err)
{
    od_gateway *g = od_calloc(1, sizeof *g);
    od_code rc;

    *out = NULL;
    if (!g)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a gateway");
    pthread_mutex_init(&g->map_lock, NULL);
    pthread_mutex_init(&g->layout_lock, NULL);
    pthread_mutex_init(&g->park_lock, NULL);
    pthread_mutex_init(&g->failures.lock, NULL);
    atomic_init(&g->queue_timeout_ms, queue_ms_of(options));
    g->execute_timeout_ms = options->execute_timeout_ms ? options->execute_timeout_ms : DEFAULT_EXECUTE_MS;
    g->cancel_timeout_ms = options->cancel_timeout_ms ? options->cancel_timeout_ms : DEFAULT_CANCEL_MS;
    g->worker = options->worker;
    g->engine = options->engine;
    g->host = options->host;
    g->layouts = options->layouts;
    g->layout_count = options->layout_count;
    g->version = options->version ? options->version : "";
    g->start_ns = od_clock_ns();
    OD_TRY(copy_secret(&g->token, options->token, err));
    OD_TRY(take_tokens(g, options, err));
    OD_TRY(admit_create(slots_of(options), queue_of(options), &g->admit, err));
    OD_TRY(pins_create(options->max_transactions ? options->max_transactions : DEFAULT_TRANSACTIONS,
                       options->transaction_idle_ms ? options->transaction_idle_ms : DEFAULT_IDLE_MS, &g->pins, err));
    if (options->hybrid)
        OD_TRY(hybrid_create(options->hybrid, options->tls, slots_of(options), &g->hybrid, err));
    OD_TRY(registry_create(options->workers, options->worker_count,
                           options->evict_ms ? options->evict_ms : DEFAULT_EVICT_MS, &g->registry, err));
    OD_TRY(gateway_stats_init(g, options->metrics, err));
    OD_TRY(
        tiers_make(options->providers, options->provider_count, options->tiers, options->tier_count, &g->tiers, err));
    OD_TRY(janitor_start(g, err));
    if (g->worker)
        od_worker_watch_failures(g->worker, note_failure, g);
    if (!g->worker && options->probe_ms >= 0) {
        OD_TRY(prober_start(g->registry, &g->token, options->tls,
                            options->probe_ms ? options->probe_ms : DEFAULT_PROBE_MS, &g->prober, err));
        prober_wait(g->prober, od_deadline_in_ms(FIRST_PROBE_MS));
    }
    *out = g;
    g = NULL;

out:
    od_gateway_free(g);
    return rc;
}

od_code od_gateway_reconfigure(od_gateway *gateway, const od_gateway_options *options, od_error *err)
{
    ticket *granted;
    od_code rc = admit_resize(gateway->admit, slots_of(options), queue_of(options), &granted, err);

    if (rc != OD_OK)
        return rc;
    atomic_store(&gateway->queue_timeout_ms, queue_ms_of(options));
    pthread_mutex_lock(&gateway->layout_lock);
    gateway->layouts = options->layouts;
    gateway->layout_count = options->layout_count;
    pthread_mutex_unlock(&gateway->layout_lock);
    flow_start_all(granted);
    return OD_OK;
}

void od_gateway_free(od_gateway *gateway)
{
    if (!gateway)
        return;
    hybrid_free(gateway->hybrid); /* first: its statements use all of the rest */
    prober_stop(gateway->prober);
    janitor_stop(gateway);
    admit_free(gateway->admit);
    pins_free(gateway->pins);
    registry_free(gateway->registry);
    od_secret_release(&gateway->token);
    od_tokens_free(gateway->own_tokens);
    pthread_mutex_destroy(&gateway->map_lock);
    pthread_mutex_destroy(&gateway->layout_lock);
    pthread_mutex_destroy(&gateway->park_lock);
    pthread_mutex_destroy(&gateway->failures.lock);
    od_free(gateway);
}

od_code od_gateway_rights(od_gateway *gateway, od_slice token, od_rights **out, od_error *err)
{
    return od_tokens_find(gateway->tokens, token, out, err);
}

void od_gateway_drain(od_gateway *gateway)
{
    atomic_store(&gateway->draining, true);
}

void od_gateway_withdraw(od_gateway *gateway)
{
    size_t count;
    flow **list = flow_map_list(gateway, &count);

    for (size_t i = 0; i < count; i++) {
        if (od_rights_withdrawn(list[i]->rights))
            flow_end(list[i], OD_E_UNAUTHENTICATED, FLOW_WITHDRAWN);
        flow_unref(list[i]);
    }
    od_free((void *)list);
    pins_withdraw(gateway->pins);
    if (gateway->worker)
        od_worker_withdraw(gateway->worker);
}

void od_gateway_cancel_all(od_gateway *gateway, od_code code, const char *why)
{
    size_t count;
    flow **list = flow_map_list(gateway, &count);

    for (size_t i = 0; i < count; i++) {
        flow_end(list[i], code, why);
        flow_unref(list[i]);
    }
    od_free((void *)list);
}

bool od_gateway_cancel(od_gateway *gateway, const char *execution_id, const char *why)
{
    flow *f = flow_map_find(gateway, execution_id);

    if (!f)
        return false;
    flow_end(f, OD_E_CANCELLED, why);
    flow_unref(f);
    return true;
}

unsigned od_gateway_in_flight(od_gateway *gateway)
{
    return admit_count(gateway->admit).in_flight;
}

unsigned od_gateway_queued(od_gateway *gateway)
{
    return admit_count(gateway->admit).queued;
}

size_t od_gateway_executions(od_gateway *gateway)
{
    return atomic_load(&gateway->live);
}

unsigned od_gateway_transactions(od_gateway *gateway)
{
    return pins_count(gateway->pins);
}

/* ---- ExecuteFragment ---- */

/* Takes the request in. A code other than OD_OK refuses it with *why. */
static od_code accept_request(flow *f, od_error *why)
{
    const od_gateway *g = f->gateway;
    od_slice id;
    od_code rc =
        od_execute_request_decode(od_slice_of(od_msg_data(f->request), od_msg_len(f->request)), &f->asked, why);

    if (rc != OD_OK)
        return OD_E_INVALID;
    rc = od_tokens_find(g->tokens, f->asked.access_token, &f->rights, why);
    if (rc == OD_OK)
        rc = od_rights_check_database(f->rights, f->asked.database, why);
    if (rc != OD_OK)
        return rc;
    if (atomic_load(&g->draining)) {
        od_fail(why, OD_E_UNAVAILABLE, "the server is shutting down");
        return OD_E_UNAVAILABLE;
    }
    id = f->asked.execution_id;
    if (id.len >= sizeof f->id || (id.len > 0 && memchr(id.data, 0, id.len))) {
        od_fail(why, OD_E_INVALID, "execution_id is above %d bytes or holds a NUL", OD_EXECUTION_ID_SIZE - 1);
        return OD_E_INVALID;
    }
    f->named = id.len == 0;
    if (f->named)
        od_uuid_format(od_uuid_random(), f->id);
    else
        memcpy(f->id, id.data, id.len);
    rc = flow_map_add(f, why);
    /* Whoever withdraws rights ends what is in the map, so it has to be looked at once it is there. */
    if (rc == OD_OK && od_rights_withdrawn(f->rights))
        rc = od_fail(why, OD_E_UNAUTHENTICATED, "%s", FLOW_WITHDRAWN);
    return rc;
}

static void admit_flow(flow *f)
{
    od_gateway *g = f->gateway;
    od_deadline own = od_rpc_call_deadline(f->call);
    od_deadline until = od_deadline_min(od_deadline_in_ms(atomic_load(&g->queue_timeout_ms)), own);
    admit_counts counts;
    /* Those of one transaction take turns anyway, and must not wait for each other's slots. */
    od_slice group = f->asked.transaction_id.len > 0 ? f->asked.transaction_id : f->asked.statement_id;
    char text[200];

    /* The worker end is open from here; whoever starts, expires or withdraws the ticket closes it. */
    flow_ref(f);
    atomic_fetch_add(&f->ends, 1);
    atomic_fetch_add(&g->total, 1);
    switch (admit_enter(g->admit, &f->ticket, group, until)) {
    case ADMIT_RUN:
        flow_turn(f);
        break;
    case ADMIT_WAIT:
        janitor_nudge(g);
        break;
    case ADMIT_FULL:
        counts = admit_count(g->admit);
        od_counter_add(g->stats.refused_full, 1);
        snprintf(text, sizeof text,
                 "%u executions run and %u wait, which are the limits (OPENDUCK_MAX_IN_FLIGHT, "
                 "OPENDUCK_MAX_QUEUED)",
                 counts.max_in_flight, counts.max_queued);
        flow_refuse(f, OD_E_BUSY, text);
        flow_close_end(f);
        break;
    }
}

static void on_message(void *user, od_rpc_call *call, od_msg *msg)
{
    flow *f = user;
    od_error why;
    od_code rc;

    (void)call;
    if (f->request) { /* one was asked for; a second one never comes */
        od_msg_unref(msg);
        return;
    }
    f->request = msg;
    rc = accept_request(f, &why);
    if (rc != OD_OK)
        flow_refuse(f, rc, why.message);
    else if (f->asked.follows.len > 0)
        flow_follow(f);
    else
        admit_flow(f);
}

static void on_half_close(void *user, od_rpc_call *call)
{
    flow *f = user;

    (void)call;
    if (!f->request)
        flow_refuse(f, OD_E_INVALID, "the request is missing");
}

static void on_writable(void *user, od_rpc_call *call)
{
    (void)call;
    flow_resume(user);
}

static void on_gone(void *user, od_rpc_call *call, const od_error *why)
{
    flow *f = user;

    (void)call;
    if (why) {
        if (!atomic_exchange(&f->answered, true))
            flow_count(f, true);
        flow_stop(f, why->code, true, "the client went away");
        if (admit_withdraw(f->gateway->admit, &f->ticket))
            flow_close_end(f);
    }
    flow_close_end(f);
}

static const od_rpc_events client_events = {
    .on_message = on_message, .on_half_close = on_half_close, .on_writable = on_writable, .on_gone = on_gone};

static void execute_open(void *service, od_rpc_call *call)
{
    od_error err;
    flow *f;

    if (flow_create(service, call, &f, &err) != OD_OK) {
        od_rpc_call_fail(call, OD_GRPC_RESOURCE_EXHAUSTED, OD_E_NO_MEMORY, err.message);
        return;
    }
    od_rpc_call_bind(call, &client_events, f);
    od_rpc_call_next(call);
}

/* ---- the methods ---- */

const od_rpc_method *od_gateway_methods(size_t *count)
{
    static const od_rpc_method methods[] = {
        {.path = OD_PATH_EXECUTE, .on_open = execute_open},
        {.path = OD_PATH_CANCEL, .on_open = control_open},
        {.path = OD_PATH_REGISTER, .on_open = control_open},
        {.path = OD_PATH_HEARTBEAT, .on_open = control_open},
        {.path = OD_PATH_STATUS, .on_open = control_open},
        {.path = OD_PATH_INGEST, .on_open = hop_open, .skew = OD_CHUNK_SKEW},
        {.path = OD_PATH_BEGIN, .on_open = hop_open},
        {.path = OD_PATH_COMMIT, .on_open = hop_open},
        {.path = OD_PATH_ROLLBACK, .on_open = hop_open},
    };

    *count = sizeof methods / sizeof *methods;
    return methods;
}

/* ---- where to listen ---- */

static bool loopback(const char *host)
{
    struct in6_addr six;
    struct in_addr four;

    if (strcmp(host, "localhost") == 0)
        return true;
    if (inet_pton(AF_INET, host, &four) == 1)
        return ntohl(four.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, host, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

/* The host of "HOST:PORT", without brackets. */
static bool host_of(const char *listen, char *host, size_t size)
{
    const char *colon = strrchr(listen, ':');
    size_t len;

    if (!colon || colon == listen || !colon[1])
        return false;
    len = (size_t)(colon - listen);
    if (listen[0] == '[' && colon[-1] == ']') {
        listen++;
        len -= 2;
    }
    if (len == 0 || len >= size)
        return false;
    memcpy(host, listen, len);
    host[len] = '\0';
    return true;
}

bool od_listen_is_loopback(const char *listen)
{
    char host[256];

    return host_of(listen, host, sizeof host) && loopback(host);
}

od_code od_listen_check(const char *listen, const od_secret *token, od_error *err)
{
    char host[256];

    if (!host_of(listen, host, sizeof host))
        return od_fail(err, OD_E_INVALID, "'%s' is no address to listen on: HOST:PORT is", listen);
    if ((!token || token->len == 0) && !loopback(host))
        return od_fail(err, OD_E_INVALID,
                       "without a token only a loopback address can be listened on, not '%s': set OPENDUCK_TOKEN",
                       host);
    return OD_OK;
}

#include "query/gateway/registry.h"

#include <arpa/inet.h>
#include <pthread.h>

#include "base/alloc.h"
#include "base/deadline.h"
#include "base/log.h"
#include "base/banned.h"

enum { NAME_MAX_BYTES = 256, DATABASES_MAX = 4096, BACKOFF_STEPS = 5 };
#define SECOND_NS INT64_C(1000000000)

/* LOCK guards the list, not what is in it. */
struct registry {
    pthread_mutex_t lock;
    worker_entry **list;
    route_worker *routes; /* scratch for route_pick, as long as the list */
    size_t count, cap;
    uint64_t turn;
};

/* ---- one worker ---- */

static void entry_free(worker_entry *w)
{
    for (size_t i = 0; i < w->database_count; i++)
        od_free(w->databases[i]);
    od_free((void *)w->databases);
    od_free(w->compute_context);
    od_free(w->id);
    od_free(w);
}

void worker_entry_unref(worker_entry *worker)
{
    if (worker && atomic_fetch_sub_explicit(&worker->refs, 1, memory_order_acq_rel) == 1)
        entry_free(worker);
}

static worker_entry *entry_ref(worker_entry *worker)
{
    atomic_fetch_add_explicit(&worker->refs, 1, memory_order_relaxed);
    return worker;
}

bool worker_entry_healthy(const worker_entry *worker, int64_t now_ns)
{
    return atomic_load(&worker->down_until_ns) <= now_ns && !atomic_load(&worker->silent);
}

void worker_entry_failed(worker_entry *worker, int64_t now_ns)
{
    unsigned n = atomic_fetch_add(&worker->failures, 1);
    int64_t pause = n < BACKOFF_STEPS ? SECOND_NS << n : 30 * SECOND_NS;

    atomic_store(&worker->down_until_ns, now_ns + pause);
    if (n == 0)
        od_log(OD_LOG_WARN, "gateway", "worker unreachable", "worker=%s", worker->endpoint.authority);
}

void worker_entry_answered(worker_entry *worker)
{
    if (atomic_load_explicit(&worker->failures, memory_order_relaxed) == 0)
        return;
    atomic_store(&worker->failures, 0);
    atomic_store(&worker->down_until_ns, 0);
    od_log(OD_LOG_INFO, "gateway", "worker reachable again", "worker=%s", worker->endpoint.authority);
}

static od_code entry_make(const od_registration *what, const od_endpoint *endpoint, bool fixed, int64_t now_ns,
                          worker_entry **out, od_error *err)
{
    worker_entry *w = od_calloc(1, sizeof *w);
    const char *id = what->worker_id && what->worker_id[0] ? what->worker_id : endpoint->authority;
    bool ok;

    *out = NULL;
    if (!w)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a worker");
    atomic_init(&w->refs, 1);
    atomic_init(&w->seen_ns, now_ns);
    w->fixed = fixed;
    w->endpoint = *endpoint;
    w->max_concurrency = what->max_concurrency;
    w->id = od_strdup(id);
    w->compute_context = od_strdup(what->compute_context ? what->compute_context : "");
    w->databases = od_calloc(what->database_count + 1, sizeof *w->databases);
    ok = w->id && w->compute_context && w->databases;
    for (size_t i = 0; ok && i < what->database_count; i++) {
        w->databases[i] = od_strdup(what->databases[i]);
        w->database_count = i + 1;
        ok = w->databases[i] != NULL;
    }
    if (!ok) {
        entry_free(w);
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a worker");
    }
    *out = w;
    return OD_OK;
}

static bool entry_declares(const worker_entry *w, const od_registration *what, const od_endpoint *endpoint)
{
    if (w->database_count != what->database_count || w->max_concurrency != what->max_concurrency ||
        strcmp(w->endpoint.authority, endpoint->authority) != 0 ||
        strcmp(w->compute_context, what->compute_context) != 0)
        return false;
    for (size_t i = 0; i < w->database_count; i++) {
        if (strcmp(w->databases[i], what->databases[i]) != 0)
            return false;
    }
    return true;
}

/* ---- the list; with the lock held ---- */

static od_code list_add(registry *r, worker_entry *w, od_error *err)
{
    if (r->count == REGISTRY_MAX)
        return od_fail(err, OD_E_BUSY, "%d workers are known, which is the limit", REGISTRY_MAX);
    if (r->count == r->cap) {
        size_t cap = r->cap ? r->cap * 2 : 8;
        worker_entry **list = od_realloc((void *)r->list, cap * sizeof *list);
        route_worker *routes;

        if (list)
            r->list = list;
        routes = list ? od_realloc(r->routes, cap * sizeof *routes) : NULL;
        if (!routes)
            return od_fail(err, OD_E_NO_MEMORY, "out of memory for a list of workers");
        r->routes = routes;
        r->cap = cap;
    }
    r->list[r->count++] = w;
    return OD_OK;
}

static void list_remove(registry *r, size_t at)
{
    worker_entry_unref(r->list[at]);
    memmove((void *)(r->list + at), (void *)(r->list + at + 1), (r->count - at - 1) * sizeof *r->list);
    r->count--;
}

od_code registry_create(const od_endpoint *fixed, size_t count, registry **out, od_error *err)
{
    const od_registration nothing = {.compute_context = ""};
    registry *r = od_calloc(1, sizeof *r);
    worker_entry *w;
    od_code rc = OD_OK;

    *out = NULL;
    if (!r)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a registry");
    pthread_mutex_init(&r->lock, NULL);
    for (size_t i = 0; i < count; i++) {
        OD_TRY(entry_make(&nothing, &fixed[i], true, 0, &w, err));
        rc = list_add(r, w, err);
        if (rc != OD_OK) {
            worker_entry_unref(w);
            goto out;
        }
    }
    *out = r;
    r = NULL;

out:
    registry_free(r);
    return rc;
}

void registry_free(registry *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->count; i++)
        worker_entry_unref(r->list[i]);
    od_free((void *)r->list);
    od_free(r->routes);
    pthread_mutex_destroy(&r->lock);
    od_free(r);
}

/* ---- registration ---- */

/* An address that means "all of this host" is one to listen on, not to dial. */
static bool unspecified(const char *host)
{
    struct in6_addr six;
    struct in_addr four;

    if (inet_pton(AF_INET, host, &four) == 1)
        return four.s_addr == htonl(INADDR_ANY);
    return inet_pton(AF_INET6, host, &six) == 1 && IN6_IS_ADDR_UNSPECIFIED(&six);
}

static bool too_long(const char *text)
{
    return strlen(text) > NAME_MAX_BYTES;
}

static od_code check_registration(const od_registration *what, od_endpoint *endpoint, od_error *err)
{
    od_code rc;

    if (!what->endpoint[0])
        return od_fail(err, OD_E_INVALID, "endpoint is required");
    rc = od_endpoint_parse(od_slice_str(what->endpoint), endpoint, err);
    if (rc != OD_OK) {
        od_error_prefix(err, "endpoint of worker");
        return rc;
    }
    if (endpoint->port == 0 || unspecified(endpoint->host))
        return od_fail(err, OD_E_INVALID,
                       "endpoint '%s' cannot be dialled; the worker's --advertise says which one can",
                       endpoint->authority);
    if (too_long(what->worker_id) || too_long(what->compute_context) || what->database_count > DATABASES_MAX)
        return od_fail(err, OD_E_INVALID, "worker_id, compute_context or databases are above their limits");
    for (size_t i = 0; i < what->database_count; i++) {
        if (too_long(what->databases[i]))
            return od_fail(err, OD_E_INVALID, "a database name is above %d bytes", NAME_MAX_BYTES);
    }
    return OD_OK;
}

/* Takes out what W replaces: the entry of the same id, and a fixed one of the same address. */
static void replace_old(registry *r, const worker_entry *w)
{
    for (size_t i = r->count; i-- > 0;) {
        const worker_entry *old = r->list[i];

        /* A fixed one stays if the registered one goes by eviction: so it is only hidden, by registry_pick. */
        if (!old->fixed && strcmp(old->id, w->id) == 0)
            list_remove(r, i);
    }
}

od_code registry_register(registry *r, const od_registration *registration, int64_t now_ns, od_error *err)
{
    worker_entry *w = NULL;
    od_endpoint endpoint;
    char quoted[600];
    od_code rc;

    rc = check_registration(registration, &endpoint, err);
    if (rc == OD_OK)
        rc = entry_make(registration, &endpoint, false, now_ns, &w, err);
    if (rc != OD_OK)
        return rc;
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->count; i++) {
        if (!r->list[i]->fixed && strcmp(r->list[i]->id, w->id) == 0 &&
            entry_declares(r->list[i], registration, &endpoint)) {
            /* The same again: it keeps its counts. It may have been restarted, so it is dialled at once. */
            atomic_store(&r->list[i]->seen_ns, now_ns);
            atomic_store(&r->list[i]->down_until_ns, 0);
            atomic_store(&r->list[i]->failures, 0);
            pthread_mutex_unlock(&r->lock);
            worker_entry_unref(w);
            return OD_OK;
        }
    }
    replace_old(r, w);
    rc = list_add(r, w, err);
    pthread_mutex_unlock(&r->lock);
    if (rc != OD_OK)
        worker_entry_unref(w);
    else
        od_log(OD_LOG_INFO, "gateway", "worker registered", "worker=%s endpoint=%s",
               od_log_quote(registration->worker_id, quoted, sizeof quoted), endpoint.authority);
    return rc;
}

bool registry_heartbeat(registry *r, const char *worker_id, int64_t now_ns)
{
    bool known = false;

    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->count && worker_id[0]; i++) {
        if (!r->list[i]->fixed && strcmp(r->list[i]->id, worker_id) == 0) {
            atomic_store(&r->list[i]->seen_ns, now_ns);
            known = true;
        }
    }
    pthread_mutex_unlock(&r->lock);
    return known;
}

bool registry_leave(registry *r, const char *worker_id)
{
    char quoted[600];
    bool known = false;

    pthread_mutex_lock(&r->lock);
    for (size_t i = r->count; i-- > 0;) {
        if (!r->list[i]->fixed && strcmp(r->list[i]->id, worker_id) == 0) {
            list_remove(r, i);
            known = true;
        }
    }
    pthread_mutex_unlock(&r->lock);
    if (known)
        od_log(OD_LOG_INFO, "gateway", "worker left", "worker=%s", od_log_quote(worker_id, quoted, sizeof quoted));
    return known;
}

/* ---- fixed workers ---- */

static void set_silent(worker_entry *w, bool silent, const char *why)
{
    char quoted[1200];
    bool was = atomic_exchange(&w->silent, silent);

    if (silent && !was && atomic_load(&w->failures) == 0)
        od_log(OD_LOG_WARN, "gateway", "worker unreachable", "worker=%s why=%s", w->endpoint.authority,
               od_log_quote(why, quoted, sizeof quoted));
    if (silent)
        return;
    if (was && atomic_load(&w->failures) == 0)
        od_log(OD_LOG_INFO, "gateway", "worker reachable again", "worker=%s", w->endpoint.authority);
    worker_entry_answered(w);
}

void registry_probed(registry *r, const od_endpoint *endpoint, const od_registration *found, const char *why,
                     int64_t now_ns)
{
    worker_entry *fresh = NULL;

    /* Without memory for what is new, the worker stays what it was until the next probe. */
    if (found && entry_make(found, endpoint, true, now_ns, &fresh, NULL) != OD_OK)
        return;
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->count; i++) {
        worker_entry *w = r->list[i];

        if (!w->fixed || strcmp(w->endpoint.authority, endpoint->authority) != 0)
            continue;
        set_silent(w, !found, why);
        if (fresh && !entry_declares(w, found, endpoint)) {
            r->list[i] = entry_ref(fresh);
            worker_entry_unref(w);
        }
    }
    pthread_mutex_unlock(&r->lock);
    worker_entry_unref(fresh);
}

unsigned registry_evict(registry *r, int64_t now_ns)
{
    unsigned evicted = 0;

    pthread_mutex_lock(&r->lock);
    for (size_t i = r->count; i-- > 0;) {
        if (r->list[i]->fixed || now_ns - atomic_load(&r->list[i]->seen_ns) < REGISTRY_EVICT_NS)
            continue;
        od_log(OD_LOG_WARN, "gateway", "worker evicted", "worker=%s", r->list[i]->endpoint.authority);
        list_remove(r, i);
        evicted++;
    }
    pthread_mutex_unlock(&r->lock);
    return evicted;
}

size_t registry_count(registry *r)
{
    size_t count;

    pthread_mutex_lock(&r->lock);
    count = r->count;
    pthread_mutex_unlock(&r->lock);
    return count;
}

/* ---- choosing ---- */

/* A fixed entry whose address has registered too is left to the registered one, which knows its databases. */
static bool hidden(const registry *r, const worker_entry *w)
{
    if (!w->fixed)
        return false;
    for (size_t i = 0; i < r->count; i++) {
        if (!r->list[i]->fixed && strcmp(r->list[i]->endpoint.authority, w->endpoint.authority) == 0)
            return true;
    }
    return false;
}

static bool was_tried(const worker_entry *w, worker_entry *const *tried, size_t tried_count)
{
    for (size_t i = 0; i < tried_count; i++) {
        if (tried[i] == w)
            return true;
    }
    return false;
}

static void describe(const registry *r, const worker_entry *w, bool tried, int64_t now_ns, route_worker *out)
{
    *out = (route_worker){
        .databases = (const char *const *)w->databases,
        .database_count = w->database_count,
        .compute_context = w->compute_context,
        .healthy = worker_entry_healthy(w, now_ns),
        .full = w->max_concurrency > 0 && atomic_load(&w->in_flight) >= w->max_concurrency,
        .tried = tried || hidden(r, w),
    };
}

static od_code no_worker(int verdict, const route_wish *wish, od_error *err)
{
    if (verdict == ROUTE_NO_WORKER)
        return od_fail(
            err, OD_E_PRECONDITION,
            "no workers available; start one with 'openduck worker --gateway URL', or name some with --workers");
    if (verdict == ROUTE_NO_DATABASE)
        return od_fail(err, OD_E_NOT_FOUND, "no worker serves database '%.*s'", (int)wish->database.len,
                       (const char *)wish->database.data);
    return od_fail(err, OD_E_UNAVAILABLE, "no worker can be reached");
}

od_code registry_pick(registry *r, const route_wish *wish, worker_entry *const *tried, size_t tried_count,
                      int64_t now_ns, worker_entry **out, od_error *err)
{
    int at;

    *out = NULL;
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->count; i++)
        describe(r, r->list[i], was_tried(r->list[i], tried, tried_count), now_ns, &r->routes[i]);
    at = route_pick(r->routes, r->count, wish, r->turn++);
    if (at >= 0)
        *out = entry_ref(r->list[at]);
    pthread_mutex_unlock(&r->lock);
    return at >= 0 ? OD_OK : no_worker(at, wish, err);
}

worker_entry **registry_list(registry *r, size_t *count)
{
    worker_entry **list;

    pthread_mutex_lock(&r->lock);
    list = od_calloc(r->count + 1, sizeof *list);
    *count = list ? r->count : 0;
    for (size_t i = 0; i < *count; i++)
        list[i] = entry_ref(r->list[i]);
    pthread_mutex_unlock(&r->lock);
    return list;
}

void registry_list_free(worker_entry **list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        worker_entry_unref(list[i]);
    od_free((void *)list);
}

#include "query/gateway/registry.h"

#include <arpa/inet.h>
#include <pthread.h>

#include "base/alloc.h"
#include "base/log.h"
#include "query/gateway/roster.h"
#include "base/banned.h"

enum { NAME_MAX_BYTES = 256, NAMES_MAX = 4096 };

/* LOCK guards what follows, and the entries' parts that say so. */
struct registry {
    int64_t evict_ns;
    atomic_uint_fast64_t turn;
    pthread_mutex_t lock;
    roster *roster; /* replaced, never changed */
};

roster *registry_roster(registry *r)
{
    roster *list;

    pthread_mutex_lock(&r->lock);
    list = r->roster;
    atomic_fetch_add_explicit(&list->refs, 1, memory_order_relaxed);
    pthread_mutex_unlock(&r->lock);
    return list;
}

uint64_t registry_turn(registry *r)
{
    return atomic_fetch_add(&r->turn, 1) + 1;
}

/* With the lock held: FRESH (NULL: nobody) in the place of OLD (NULL: at the end). */
static od_code change(registry *r, const worker_entry *old, worker_entry *fresh, od_error *err)
{
    roster *list;

    if (!old && r->roster && r->roster->count == REGISTRY_MAX)
        return od_fail(err, OD_E_BUSY, "%d workers are known, which is the limit", REGISTRY_MAX);
    list = roster_make(r->roster, old, fresh);
    if (!list)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a list of workers");
    roster_unref(r->roster);
    r->roster = list;
    return OD_OK;
}

od_code registry_create(const od_endpoint *fixed, size_t count, int64_t evict_ms, registry **out, od_error *err)
{
    const od_registration nothing = {.compute_context = ""};
    registry *r = od_calloc(1, sizeof *r);
    worker_entry *w = NULL;
    od_code rc = OD_OK;

    *out = NULL;
    if (!r)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a registry");
    pthread_mutex_init(&r->lock, NULL);
    r->evict_ns = evict_ms * 1000000;
    OD_TRY(change(r, NULL, NULL, err));
    for (size_t i = 0; i < count; i++) {
        OD_TRY(worker_entry_make(&nothing, &fixed[i], true, 0, &w, err));
        rc = change(r, NULL, w, err);
        worker_entry_unref(w);
        OD_TRY(rc);
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
    roster_unref(r->roster);
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
    return text && strlen(text) > NAME_MAX_BYTES;
}

static od_code check_names(const char *const *names, size_t count, const char *what, od_error *err)
{
    if (count > NAMES_MAX)
        return od_fail(err, OD_E_INVALID, "more than %d %s", NAMES_MAX, what);
    for (size_t i = 0; i < count; i++) {
        if (too_long(names[i]))
            return od_fail(err, OD_E_INVALID, "one of the %s is above %d bytes", what, NAME_MAX_BYTES);
    }
    return OD_OK;
}

od_code registry_check(const od_registration *what, od_endpoint *endpoint, od_error *err)
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
    if (too_long(what->worker_id) || too_long(what->compute_context))
        return od_fail(err, OD_E_INVALID, "worker_id or compute_context is above %d bytes", NAME_MAX_BYTES);
    rc = check_names(what->databases, what->database_count, "databases", err);
    return rc == OD_OK ? check_names(what->tables, what->table_count, "tables", err) : rc;
}

/* The entry that registered as ID; NULL: none. With the lock held. */
static worker_entry *find_id(const registry *r, const char *id)
{
    for (size_t i = 0; i < r->roster->count; i++) {
        worker_entry *w = r->roster->seats[i].worker;

        if (!w->fixed && strcmp(w->id, id) == 0)
            return w;
    }
    return NULL;
}

static worker_entry *find_endpoint(const registry *r, const char *authority)
{
    for (size_t i = 0; i < r->roster->count; i++) {
        worker_entry *w = r->roster->seats[i].worker;

        if (!w->fixed && strcmp(w->endpoint.authority, authority) == 0)
            return w;
    }
    return NULL;
}

/* With the lock held. */
static od_code enter(registry *r, worker_entry *w, od_error *err)
{
    const worker_entry *same_id = find_id(r, w->id), *same_place;
    od_code rc = change(r, same_id, w, err);

    if (rc != OD_OK)
        return rc;
    /* At one endpoint there is one worker: who was there under another name is gone. */
    same_place = find_endpoint(r, w->endpoint.authority);
    return same_place && same_place != w ? change(r, same_place, NULL, err) : OD_OK;
}

/* The same again: it keeps its counts. It may have been restarted, so it is dialled at once. */
static void renew(worker_entry *known, int64_t now_ns)
{
    atomic_store(&known->seen_ns, now_ns);
    atomic_store(&known->down_until_ns, 0);
    atomic_store(&known->failures, 0);
    atomic_store(&known->silent, false);
}

od_code registry_register(registry *r, const od_registration *registration, int64_t now_ns, od_error *err)
{
    worker_entry *w = NULL, *known;
    od_endpoint endpoint;
    char quoted[600];
    bool again;
    od_code rc;

    rc = registry_check(registration, &endpoint, err);
    if (rc == OD_OK)
        rc = worker_entry_make(registration, &endpoint, false, now_ns, &w, err);
    if (rc != OD_OK)
        return rc;
    w->probe_due_ns = now_ns;
    pthread_mutex_lock(&r->lock);
    known = find_id(r, w->id);
    again = known && worker_entry_declares(known, registration, &endpoint);
    if (again)
        renew(known, now_ns);
    else
        rc = enter(r, w, err);
    pthread_mutex_unlock(&r->lock);
    if (rc == OD_OK && !again)
        od_log(OD_LOG_INFO, "gateway", "worker registered", "worker=%s endpoint=%s",
               od_log_quote(w->id, quoted, sizeof quoted), endpoint.authority);
    worker_entry_unref(w);
    return rc;
}

bool registry_heartbeat(registry *r, const char *worker_id, int64_t now_ns)
{
    worker_entry *w;

    pthread_mutex_lock(&r->lock);
    w = worker_id[0] ? find_id(r, worker_id) : NULL;
    if (w)
        atomic_store(&w->seen_ns, now_ns);
    pthread_mutex_unlock(&r->lock);
    return w != NULL;
}

bool registry_leave(registry *r, const char *worker_id)
{
    const worker_entry *w;
    char quoted[600];
    bool known;

    pthread_mutex_lock(&r->lock);
    w = find_id(r, worker_id);
    known = w && change(r, w, NULL, NULL) == OD_OK;
    pthread_mutex_unlock(&r->lock);
    if (known)
        od_log(OD_LOG_INFO, "gateway", "worker left", "worker=%s", od_log_quote(worker_id, quoted, sizeof quoted));
    return known;
}

unsigned registry_evict(registry *r, int64_t now_ns)
{
    unsigned evicted = 0;

    pthread_mutex_lock(&r->lock);
    for (size_t i = r->roster->count; i-- > 0;) {
        worker_entry *w = r->roster->seats[i].worker;

        if (w->fixed || now_ns - atomic_load(&w->seen_ns) < r->evict_ns)
            continue;
        od_log(OD_LOG_WARN, "gateway", "worker evicted", "worker=%s", w->endpoint.authority);
        evicted += change(r, w, NULL, NULL) == OD_OK;
    }
    pthread_mutex_unlock(&r->lock);
    return evicted;
}

size_t registry_count(registry *r)
{
    size_t count;

    pthread_mutex_lock(&r->lock);
    count = r->roster->count;
    pthread_mutex_unlock(&r->lock);
    return count;
}

worker_entry **registry_list(registry *r, size_t *count)
{
    roster *now = registry_roster(r);
    worker_entry **list = od_calloc(now->count + 1, sizeof *list);

    *count = list ? now->count : 0;
    for (size_t i = 0; i < *count; i++)
        list[i] = worker_entry_ref(now->seats[i].worker);
    roster_unref(now);
    return list;
}

void registry_list_free(worker_entry **list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        worker_entry_unref(list[i]);
    od_free((void *)list);
}

/* ---- probes ---- */

worker_entry *registry_due(registry *r, int64_t now_ns, int64_t *next_ns)
{
    worker_entry *due = NULL;

    *next_ns = INT64_MAX;
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->roster->count; i++) {
        worker_entry *w = r->roster->seats[i].worker;

        if (w->probing)
            continue;
        if (w->probe_due_ns <= now_ns && (!due || w->probe_due_ns < due->probe_due_ns))
            due = w;
        else if (w->probe_due_ns < *next_ns)
            *next_ns = w->probe_due_ns;
    }
    if (due) {
        due->probing = true;
        worker_entry_ref(due);
    }
    pthread_mutex_unlock(&r->lock);
    return due;
}

static bool is_known(registry *r, const worker_entry *worker)
{
    bool known = false;

    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->roster->count && !known; i++)
        known = r->roster->seats[i].worker == worker;
    pthread_mutex_unlock(&r->lock);
    return known;
}

void registry_probed(registry *r, worker_entry *worker, const od_registration *found, const char *why, int64_t now_ns,
                     int64_t due_ns)
{
    worker_entry *fresh = NULL;

    /* Of one that has left meanwhile nobody wants to hear. */
    if (is_known(r, worker))
        worker_entry_probed(worker, !found, why);
    /* Without memory for what is new, the worker stays what it was until the next probe. */
    if (found && worker->fixed && !worker_entry_declares(worker, found, &worker->endpoint) &&
        worker_entry_make(found, &worker->endpoint, true, now_ns, &fresh, NULL) != OD_OK)
        fresh = NULL;
    pthread_mutex_lock(&r->lock);
    worker->probing = false;
    worker->asked = true;
    worker->probe_due_ns = due_ns;
    if (fresh) {
        fresh->asked = true;
        fresh->probe_due_ns = due_ns;
        (void)!change(r, worker, fresh, NULL);
    }
    pthread_mutex_unlock(&r->lock);
    worker_entry_unref(fresh);
}

bool registry_all_asked(registry *r)
{
    bool all = true;

    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->roster->count; i++)
        all = all && (!r->roster->seats[i].worker->fixed || r->roster->seats[i].worker->asked);
    pthread_mutex_unlock(&r->lock);
    return all;
}

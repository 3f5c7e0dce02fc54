#include "query/gateway/entry.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/banned.h"

enum { BACKOFF_STEPS = 5 };
#define SECOND_NS INT64_C(1000000000)

/* ---- made and freed ---- */

static void names_free(char **names, size_t count)
{
    for (size_t i = 0; names && i < count; i++)
        od_free(names[i]);
    od_free((void *)names);
}

static bool names_copy(const char *const *from, size_t count, char ***out, size_t *out_count)
{
    char **names = od_calloc(count + 1, sizeof *names);

    *out = names;
    for (size_t i = 0; names && i < count; i++) {
        names[i] = od_strdup(from[i]);
        *out_count = i + 1;
        if (!names[i])
            return false;
    }
    return names != NULL;
}

static bool names_equal(char *const *a, size_t a_count, const char *const *b, size_t b_count)
{
    if (a_count != b_count)
        return false;
    for (size_t i = 0; i < a_count; i++) {
        if (strcmp(a[i], b[i]) != 0)
            return false;
    }
    return true;
}

static void entry_free(worker_entry *w)
{
    names_free(w->databases, w->database_count);
    names_free(w->table_names, w->table_count);
    table_set_free(w->tables);
    od_remote_unref(w->remote);
    od_free(w->compute_context);
    od_free(w->id);
    od_free(w);
}

worker_entry *worker_entry_ref(worker_entry *worker)
{
    atomic_fetch_add_explicit(&worker->refs, 1, memory_order_relaxed);
    return worker;
}

void worker_entry_unref(worker_entry *worker)
{
    if (worker && atomic_fetch_sub_explicit(&worker->refs, 1, memory_order_acq_rel) == 1)
        entry_free(worker);
}

od_code worker_entry_make(const od_registration *what, const od_endpoint *endpoint, bool fixed, int64_t now_ns,
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
    w->since_ns = now_ns;
    w->endpoint = *endpoint;
    w->max_concurrency = what->max_concurrency;
    w->id = od_strdup(id);
    w->compute_context = od_strdup(what->compute_context ? what->compute_context : "");
    ok = w->id && w->compute_context &&
         names_copy(what->databases, what->database_count, &w->databases, &w->database_count) &&
         names_copy(what->tables, what->table_count, &w->table_names, &w->table_count);
    if (ok && what->table_count > 0)
        ok = table_set_create(what->tables, what->table_count, &w->tables, NULL) == OD_OK;
    if (!ok) {
        entry_free(w);
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a worker");
    }
    *out = w;
    return OD_OK;
}

bool worker_entry_declares(const worker_entry *w, const od_registration *what, const od_endpoint *endpoint)
{
    const char *context = what->compute_context ? what->compute_context : "";

    return w->max_concurrency == what->max_concurrency && w->endpoint.tls == endpoint->tls &&
           strcmp(w->endpoint.authority, endpoint->authority) == 0 && strcmp(w->compute_context, context) == 0 &&
           names_equal(w->databases, w->database_count, what->databases, what->database_count) &&
           names_equal(w->table_names, w->table_count, what->tables, what->table_count);
}

/* ---- its health ---- */

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

void worker_entry_probed(worker_entry *worker, bool silent, const char *why)
{
    char quoted[1200];
    bool was = atomic_exchange(&worker->silent, silent);

    if (silent && !was && atomic_load(&worker->failures) == 0)
        od_log(OD_LOG_WARN, "gateway", "worker unreachable", "worker=%s why=%s", worker->endpoint.authority,
               od_log_quote(why, quoted, sizeof quoted));
    if (silent)
        return;
    if (was && atomic_load(&worker->failures) == 0)
        od_log(OD_LOG_INFO, "gateway", "worker reachable again", "worker=%s", worker->endpoint.authority);
    worker_entry_answered(worker);
}

/* ---- what it runs ---- */

bool worker_entry_full(const worker_entry *worker)
{
    return worker->max_concurrency > 0 && atomic_load(&worker->in_flight) >= worker->max_concurrency;
}

bool worker_entry_enter(worker_entry *worker, bool insist)
{
    unsigned running = atomic_load(&worker->in_flight);

    do {
        if (!insist && worker->max_concurrency > 0 && running >= worker->max_concurrency)
            return false;
    } while (!atomic_compare_exchange_weak(&worker->in_flight, &running, running + 1));
    return true;
}

void worker_entry_leave(worker_entry *worker)
{
    atomic_fetch_sub(&worker->in_flight, 1);
}

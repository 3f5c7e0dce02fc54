/* Each alias is in one of three states. ATTACHING and DETACHING belong to the thread that set them: it works without the
 * lock, and everybody else who wants the alias waits. In ATTACHED the record counts its users. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/thread.h"
#include "vgi/companion.h"
#include "vgi/companion/registry_internal.h"

#define WAIT_MS 20 /* between two looks at the interrupt */

typedef enum { ATTACHING, ATTACHED, DETACHING } alias_state;

struct od_companion {
    od_companion_request request;
    uint64_t identity;
    size_t users;
    alias_state state;
    /* Not in the list any more: the database is somebody else's by now, or gone. */
    bool lost;
    od_companion *next;
};

struct od_companion_registry {
    pthread_mutex_t lock; /* guards all below, and every record's fields but the request, which never changes */
    pthread_cond_t changed;
    od_companion *first;
};

od_code od_companion_registry_create(od_companion_registry **out, od_error *err)
{
    *out = od_calloc(1, sizeof(**out));
    if (!*out)
        return od_fail(err, OD_E_NO_MEMORY, "no memory for a registry of companions");
    pthread_mutex_init(&(*out)->lock, NULL);
    od_cond_init(&(*out)->changed);
    return OD_OK;
}

static void record_free(od_companion *record)
{
    od_companion_request_release(&record->request);
    od_free(record);
}

void od_companion_registry_free(od_companion_registry *registry)
{
    if (!registry)
        return;
    while (registry->first) {
        od_companion *record = registry->first;

        registry->first = record->next;
        record_free(record);
    }
    pthread_cond_destroy(&registry->changed);
    pthread_mutex_destroy(&registry->lock);
    od_free(registry);
}

/* Where the record of ALIAS hangs; *result is NULL if there is none. With the lock. */
static od_companion **find_record(od_companion_registry *registry, const char *alias)
{
    od_companion **at = &registry->first;

    while (*at && strcasecmp((*at)->request.alias, alias) != 0)
        at = &(*at)->next;
    return at;
}

/* Takes RECORD out of the list: what its alias means now is another's. Who still uses it frees it. With the lock. */
static void unlist(od_companion_registry *registry, od_companion *record)
{
    *find_record(registry, record->request.alias) = record->next;
    if (record->users == 0)
        record_free(record);
    else
        record->lost = true;
}

static void set_state(od_companion_registry *registry, od_companion *record, alias_state state)
{
    record->state = state;
    if (state == ATTACHED)
        pthread_cond_broadcast(&registry->changed);
}

/* Waits a moment for another thread's attach or detach. With the lock, which is released meanwhile. */
static od_code wait_a_moment(od_companion_registry *registry, const od_companion_host *host, const char *alias,
                             od_error *err)
{
    (void)od_cond_wait(&registry->changed, &registry->lock, od_deadline_in_ms(WAIT_MS));
    pthread_mutex_unlock(&registry->lock);
    bool interrupted = host->interrupted(host->arg);
    pthread_mutex_lock(&registry->lock);
    return interrupted ? od_fail(err, OD_E_CANCELLED, "interrupted while companion '%s' is attached or detached", alias)
                       : OD_OK;
}

/* Makes RECORD, which is in ATTACHING and this thread's, an attached one. Without the lock. */
static od_code attach(const od_companion_host *host, const od_companion *record, uint64_t *identity,
                      od_companion_outcome *outcome, od_error *err)
{
    if (host->find(host->arg, record->request.alias) != 0) {
        *outcome = OD_COMPANION_CONFLICT;
        return OD_OK;
    }
    *outcome = OD_COMPANION_ATTACHED;
    return host->attach(host->arg, &record->request, identity, err);
}

static od_code name_foreign(od_buf *holder, od_error *err)
{
    return od_buf_printf(holder, err, "(existing non-companion catalog)");
}

/* Takes REQUEST, for an alias without a record. With the lock. */
static od_code acquire_new(od_companion_registry *registry, const od_companion_host *host,
                           od_companion_request *request, od_companion **out, od_companion_outcome *outcome,
                           od_buf *holder, od_error *err)
{
    od_companion *record = od_calloc(1, sizeof(*record));
    uint64_t identity = 0;
    od_code rc;

    if (!record)
        return od_fail(err, OD_E_NO_MEMORY, "no memory for a companion");
    record->request = *request;
    *request = (od_companion_request){0};
    record->state = ATTACHING;
    record->next = registry->first;
    registry->first = record;
    pthread_mutex_unlock(&registry->lock);
    rc = attach(host, record, &identity, outcome, err);
    pthread_mutex_lock(&registry->lock);
    set_state(registry, record, ATTACHED);
    if (rc == OD_OK && *outcome == OD_COMPANION_ATTACHED) {
        record->identity = identity;
        record->users = 1;
        *out = record;
        return OD_OK;
    }
    unlist(registry, record);
    return rc == OD_OK ? name_foreign(holder, err) : rc;
}

/* RECORD is ATTACHED, as far as we know: one more user, or a reason why not. With the lock. *again: it was out of date, and is
 * gone. */
static od_code acquire_known(od_companion_registry *registry, const od_companion_host *host, od_companion *record,
                             const od_companion_request *request, od_companion_outcome *outcome, od_buf *holder,
                             bool *again, od_error *err)
{
    od_error ignored = {0};
    bool same = od_companion_request_same(&record->request, request);
    bool unused = record->users == 0;
    uint64_t now;

    set_state(registry, record, ATTACHING);
    pthread_mutex_unlock(&registry->lock);
    now = host->find(host->arg, record->request.alias);
    /* What was only kept because it could not go makes room for another, if it can go now. */
    if (now == record->identity && unused && !same && host->detach(host->arg, record->request.alias, &ignored) == OD_OK)
        now = 0;
    pthread_mutex_lock(&registry->lock);
    set_state(registry, record, ATTACHED);
    if (now != record->identity) {
        *again = true;
        unlist(registry, record);
        return OD_OK;
    }
    if (same) {
        *outcome = OD_COMPANION_SHARED;
        record->users++;
        return OD_OK;
    }
    *outcome = OD_COMPANION_CONFLICT;
    if (strcmp(record->request.shown, request->shown) == 0)
        return od_buf_printf(holder, err, "%s with other options", record->request.shown);
    return od_buf_printf(holder, err, "%s", record->request.shown);
}

od_code od_companion_acquire(od_companion_registry *registry, const od_companion_host *host,
                             od_companion_request *request, od_companion **out, od_companion_outcome *outcome,
                             od_buf *holder, od_error *err)
{
    od_code rc = OD_OK;
    bool done = false;

    *out = NULL;
    pthread_mutex_lock(&registry->lock);
    while (rc == OD_OK && !done) {
        od_companion *record = *find_record(registry, request->alias);
        bool again = false;

        if (record && record->state != ATTACHED) {
            rc = wait_a_moment(registry, host, request->alias, err);
            continue;
        }
        if (record) {
            rc = acquire_known(registry, host, record, request, outcome, holder, &again, err);
            done = !again;
            *out = done && rc == OD_OK && *outcome == OD_COMPANION_SHARED ? record : NULL;
            continue;
        }
        rc = acquire_new(registry, host, request, out, outcome, holder, err);
        done = true;
    }
    pthread_mutex_unlock(&registry->lock);
    od_companion_request_release(request);
    return rc;
}

od_code od_companion_give_back(od_companion_registry *registry, const od_companion_host *host, od_companion *companion,
                               bool *detached, od_error *err)
{
    od_code rc = OD_OK;
    uint64_t now;

    *detached = false;
    pthread_mutex_lock(&registry->lock);
    /* The last user's own state, in which nobody takes the record: whoever shares it is about to be one more. */
    while (!companion->lost && companion->state != ATTACHED)
        pthread_cond_wait(&registry->changed, &registry->lock);
    companion->users--;
    if (companion->users > 0 || companion->lost) {
        if (companion->users == 0)
            record_free(companion);
        pthread_mutex_unlock(&registry->lock);
        return OD_OK;
    }
    set_state(registry, companion, DETACHING);
    pthread_mutex_unlock(&registry->lock);
    now = host->find(host->arg, companion->request.alias);
    if (now == companion->identity) {
        rc = host->detach(host->arg, companion->request.alias, err);
        *detached = rc == OD_OK;
    }
    pthread_mutex_lock(&registry->lock);
    set_state(registry, companion, ATTACHED);
    if (rc == OD_OK)
        unlist(registry, companion);
    pthread_mutex_unlock(&registry->lock);
    return rc;
}

const char *od_companion_alias(const od_companion *companion)
{
    return companion->request.alias;
}

void od_companion_forget(od_companion_registry *registry, od_companion *companion)
{
    pthread_mutex_lock(&registry->lock);
    companion->users--;
    if (companion->users == 0 && companion->lost)
        record_free(companion);
    pthread_mutex_unlock(&registry->lock);
}

/* What a listing needs of a record, copied: the host is asked without the lock. */
typedef struct {
    char *alias;
    char *shown;
    char *type;
    uint64_t identity;
    size_t users;
    bool hidden;
} row_copy;

static int compare_rows(const void *a, const void *b)
{
    return strcasecmp(((const row_copy *)a)->alias, ((const row_copy *)b)->alias);
}

static void rows_free(row_copy *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        od_free(rows[i].alias);
        od_free(rows[i].shown);
        od_free(rows[i].type);
    }
    od_free(rows);
}

/* With the lock. *count counts rows that are to be freed, also on failure. */
static od_code copy_rows(const od_companion_registry *registry, row_copy **out, size_t *count)
{
    size_t total = 0;

    for (od_companion *record = registry->first; record; record = record->next)
        total++;
    *out = od_calloc(total + 1, sizeof(**out));
    if (!*out)
        return OD_E_NO_MEMORY;
    for (od_companion *record = registry->first; record; record = record->next) {
        row_copy *row = &(*out)[*count];

        if (record->identity == 0)
            continue; /* being attached for the first time */
        (*count)++;
        row->alias = od_strdup(record->request.alias);
        row->shown = od_strdup(record->request.shown);
        row->type = od_strdup(record->request.type);
        row->identity = record->identity;
        row->users = record->users;
        row->hidden = record->request.hidden;
        if (!row->alias || !row->shown || !row->type)
            return OD_E_NO_MEMORY;
    }
    return OD_OK;
}

od_code od_companion_registry_list(od_companion_registry *registry, const od_companion_host *host,
                                   void (*each)(void *arg, const od_companion_row *row), void *arg, od_error *err)
{
    row_copy *rows = NULL;
    size_t count = 0;
    od_code rc;

    pthread_mutex_lock(&registry->lock);
    rc = copy_rows(registry, &rows, &count);
    pthread_mutex_unlock(&registry->lock);
    if (rc != OD_OK) {
        rows_free(rows, count);
        return od_fail(err, rc, "no memory for a list of companions");
    }
    qsort(rows, count, sizeof(*rows), compare_rows);
    for (size_t i = 0; i < count; i++) {
        od_companion_row row = {rows[i].alias, rows[i].shown, rows[i].type, rows[i].hidden, rows[i].users};

        /* One that the user has detached by hand is none. */
        if (host->find(host->arg, row.alias) == rows[i].identity)
            each(arg, &row);
    }
    rows_free(rows, count);
    return OD_OK;
}

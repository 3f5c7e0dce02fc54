#include "query/gateway/admit.h"

#include <pthread.h>

#include "base/alloc.h"
#include "base/banned.h"

enum { BUCKETS = 256 };

/* The running executions of one statement. It lives while one of them runs, so there are never more than slots. */
struct admit_group {
    admit_group *next; /* in its bucket, or in the list of free ones */
    unsigned members;
    char name[ADMIT_GROUP_SIZE];
};

/* Groups are made with the slots and stay where they are. */
typedef struct group_block {
    struct group_block *next;
    admit_group groups[];
} group_block;

/* LOCK guards all of it, and the tickets that are in. */
struct admit {
    pthread_mutex_t lock;
    unsigned slots, used;
    unsigned max_queued, queued;
    ticket *first, *last;
    group_block *blocks;
    size_t group_count; /* at least SLOTS */
    admit_group *unused;
    admit_group *buckets[BUCKETS];
};

/* Makes groups for so many SLOTS. */
static od_code add_groups(admit *a, unsigned slots, od_error *err)
{
    size_t count = slots > a->group_count ? slots - a->group_count : 0;
    group_block *block;

    if (count == 0)
        return OD_OK;
    block = od_calloc(1, sizeof *block + count * sizeof *block->groups);
    if (!block)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for %u slots", slots);
    for (size_t i = 0; i < count; i++) {
        block->groups[i].next = a->unused;
        a->unused = &block->groups[i];
    }
    block->next = a->blocks;
    a->blocks = block;
    a->group_count += count;
    return OD_OK;
}

od_code admit_create(unsigned max_in_flight, unsigned max_queued, admit **out, od_error *err)
{
    admit *a = od_calloc(1, sizeof *a);
    od_code rc;

    *out = NULL;
    if (!a)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for %u slots", max_in_flight);
    pthread_mutex_init(&a->lock, NULL);
    a->slots = max_in_flight;
    a->max_queued = max_queued;
    rc = add_groups(a, max_in_flight, err);
    if (rc != OD_OK)
        admit_free(a);
    else
        *out = a;
    return rc;
}

void admit_free(admit *a)
{
    if (!a)
        return;
    pthread_mutex_destroy(&a->lock);
    for (group_block *block = a->blocks, *next; block; block = next) {
        next = block->next;
        od_free(block);
    }
    od_free(a);
}

/* ---- groups; with the lock held ---- */

static admit_group **bucket_of(admit *a, const char *name)
{
    uint32_t hash = 2166136261U;

    for (; *name; name++)
        hash = (hash ^ (uint8_t)*name) * 16777619U;
    return &a->buckets[hash % BUCKETS];
}

static admit_group *group_find(admit *a, const char *name)
{
    if (!name[0])
        return NULL;
    for (admit_group *g = *bucket_of(a, name); g; g = g->next) {
        if (strcmp(g->name, name) == 0)
            return g;
    }
    return NULL;
}

static void group_join(admit_group *g, ticket *t)
{
    g->members++;
    t->shared = g;
}

static void group_make(admit *a, ticket *t)
{
    admit_group **bucket = bucket_of(a, t->group);
    admit_group *g = a->unused;

    a->unused = g->next;
    memcpy(g->name, t->group, sizeof g->name);
    g->members = 0;
    g->next = *bucket;
    *bucket = g;
    group_join(g, t);
}

/* True if T was its last member: the slot is free then. */
static bool group_part(admit *a, ticket *t)
{
    admit_group *g = t->shared, **at;

    t->shared = NULL;
    if (--g->members > 0)
        return false;
    for (at = bucket_of(a, g->name); *at != g; at = &(*at)->next)
        ;
    *at = g->next;
    g->next = a->unused;
    a->unused = g;
    return true;
}

/* ---- with the lock held ---- */

/* A slot that its statement has already, or a free one. */
static bool try_run(admit *a, ticket *t)
{
    admit_group *g = group_find(a, t->group);

    if (g && g->members < ADMIT_GROUP_MAX) {
        group_join(g, t);
        t->joined = true;
    } else if (a->used < a->slots) {
        a->used++;
        /* A statement with more than ADMIT_GROUP_MAX executions takes further slots, one each. */
        if (t->group[0] && !g)
            group_make(a, t);
    } else {
        return false;
    }
    t->state = TICKET_RUNNING;
    return true;
}

static void enqueue(admit *a, ticket *t)
{
    t->state = TICKET_WAITING;
    t->next = NULL;
    t->prev = a->last;
    if (a->last)
        a->last->next = t;
    else
        a->first = t;
    a->last = t;
    a->queued++;
}

static void dequeue(admit *a, ticket *t)
{
    if (t->prev)
        t->prev->next = t->next;
    else
        a->first = t->next;
    if (t->next)
        t->next->prev = t->prev;
    else
        a->last = t->prev;
    t->next = t->prev = NULL;
    t->state = TICKET_OUT;
    a->queued--;
}

/* Lets in what may run: the first of the queue while slots are free, and whoever belongs to a statement that has one. */
static ticket *grant(admit *a)
{
    ticket *granted = NULL, **end = &granted, *next;

    for (ticket *t = a->first; t; t = next) {
        next = t->next;
        if (a->used >= a->slots && !group_find(a, t->group))
            continue;
        dequeue(a, t);
        if (!try_run(a, t)) {
            /* Its group is full: it keeps its place as well as it can. */
            enqueue(a, t);
            break;
        }
        *end = t;
        end = &t->next;
    }
    return granted;
}

/* ---- doors ---- */

od_code admit_resize(admit *a, unsigned max_in_flight, unsigned max_queued, ticket **granted, od_error *err)
{
    od_code rc;

    *granted = NULL;
    pthread_mutex_lock(&a->lock);
    rc = add_groups(a, max_in_flight, err);
    if (rc == OD_OK) {
        a->slots = max_in_flight;
        a->max_queued = max_queued;
        *granted = grant(a);
    }
    pthread_mutex_unlock(&a->lock);
    return rc;
}

admit_verdict admit_enter(admit *a, ticket *t, od_slice group, od_deadline until)
{
    admit_verdict verdict = ADMIT_FULL;

    t->until = until;
    t->shared = NULL;
    t->joined = false;
    t->next = t->prev = NULL;
    t->group[0] = '\0';
    if (group.len > 0 && group.len < sizeof t->group && !memchr(group.data, 0, group.len)) {
        memcpy(t->group, group.data, group.len);
        t->group[group.len] = '\0';
    }
    pthread_mutex_lock(&a->lock);
    /* While others wait, a new one does not overtake them, unless it adds to a statement that runs. */
    if ((!a->first || group_find(a, t->group)) && try_run(a, t)) {
        verdict = ADMIT_RUN;
    } else if (a->queued < a->max_queued) {
        enqueue(a, t);
        verdict = ADMIT_WAIT;
    }
    pthread_mutex_unlock(&a->lock);
    return verdict;
}

ticket *admit_leave(admit *a, ticket *t)
{
    ticket *granted = NULL;

    pthread_mutex_lock(&a->lock);
    if (t->state == TICKET_WAITING) {
        dequeue(a, t);
    } else if (t->state == TICKET_RUNNING) {
        t->state = TICKET_OUT;
        if (!t->shared || group_part(a, t))
            a->used--;
        granted = grant(a);
    }
    pthread_mutex_unlock(&a->lock);
    return granted;
}

bool admit_withdraw(admit *a, ticket *t)
{
    bool waited;

    pthread_mutex_lock(&a->lock);
    waited = t->state == TICKET_WAITING;
    if (waited)
        dequeue(a, t);
    pthread_mutex_unlock(&a->lock);
    return waited;
}

ticket *admit_expire(admit *a, int64_t now_ns, int64_t *next_ns)
{
    ticket *expired = NULL, **end = &expired, *next;

    *next_ns = INT64_MAX;
    pthread_mutex_lock(&a->lock);
    for (ticket *t = a->first; t; t = next) {
        next = t->next;
        if (t->until.at_ns > now_ns) {
            if (t->until.at_ns < *next_ns)
                *next_ns = t->until.at_ns;
            continue;
        }
        dequeue(a, t);
        *end = t;
        end = &t->next;
    }
    pthread_mutex_unlock(&a->lock);
    return expired;
}

admit_counts admit_count(admit *a)
{
    admit_counts counts;

    pthread_mutex_lock(&a->lock);
    counts.in_flight = a->used;
    counts.queued = a->queued;
    counts.max_in_flight = a->slots;
    counts.max_queued = a->max_queued;
    pthread_mutex_unlock(&a->lock);
    return counts;
}

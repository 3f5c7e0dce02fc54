#include "query/gateway/roster.h"

#include "base/alloc.h"
#include "base/banned.h"

static void seat(roster *list, worker_entry *worker, uint64_t picked)
{
    roster_seat *at = &list->seats[list->count++];

    at->worker = worker_entry_ref(worker);
    atomic_init(&at->picked, picked);
    list->tables = list->tables || worker->tables;
}

static void hide_doubles(roster *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const worker_entry *w = list->seats[i].worker;

        for (size_t k = 0; w->fixed && k < list->count; k++) {
            const worker_entry *other = list->seats[k].worker;

            if (!other->fixed && strcmp(other->endpoint.authority, w->endpoint.authority) == 0)
                list->seats[i].hidden = true;
        }
    }
}

roster *roster_make(const roster *old, const worker_entry *without, worker_entry *fresh)
{
    size_t count = (old ? old->count : 0) + 1;
    roster *list = od_calloc(1, sizeof *list + count * sizeof *list->seats);
    bool placed = false;

    if (!list)
        return NULL;
    atomic_init(&list->refs, 1);
    for (size_t i = 0; old && i < old->count; i++) {
        const roster_seat *from = &old->seats[i];

        if (from->worker != without) {
            seat(list, from->worker, atomic_load(&from->picked));
        } else if (fresh) {
            /* It takes the place, so that a list keeps its order. */
            seat(list, fresh, atomic_load(&from->picked));
            placed = true;
        }
    }
    if (fresh && !placed)
        seat(list, fresh, 0);
    hide_doubles(list);
    return list;
}

void roster_unref(roster *list)
{
    if (!list || atomic_fetch_sub_explicit(&list->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < list->count; i++)
        worker_entry_unref(list->seats[i].worker);
    od_free(list);
}

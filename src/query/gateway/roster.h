/* Who is known at one moment: a list that never changes. */
#ifndef OD_QUERY_GATEWAY_ROSTER_H
#define OD_QUERY_GATEWAY_ROSTER_H

#include "query/gateway/registry.h"

typedef struct {
    worker_entry *worker;
    bool hidden; /* a fixed one whose endpoint has registered too: that one knows more */
    _Atomic uint64_t picked;
} roster_seat;

/* Counted. */
typedef struct {
    atomic_size_t refs;
    size_t count;
    bool tables; /* one of them has declared tables */
    roster_seat seats[];
} roster;

/* OLD (may be NULL) without WITHOUT and with FRESH, each NULL for none; entries are referenced. NULL: out of memory. */
roster *roster_make(const roster *old, const worker_entry *without, worker_entry *fresh);
void roster_unref(roster *list); /* NULL allowed */

/* The roster as it is now, with a reference. */
roster *registry_roster(registry *r);
/* Grows by one for each choice. */
uint64_t registry_turn(registry *r);

#endif

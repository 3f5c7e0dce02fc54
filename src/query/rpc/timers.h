/* query/rpc/timers.h: a heap of points in time. Not locked. */
#ifndef OD_QUERY_RPC_TIMERS_H
#define OD_QUERY_RPC_TIMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Embedded in what waits. Zero-initialise. */
typedef struct {
    int64_t at_ns;
    size_t place; /* in the heap, from 1; 0: not set */
} od_timer;

typedef struct {
    od_timer **heap;
    size_t count, cap;
} od_timers;

void od_timers_release(od_timers *timers);
bool od_timers_add(od_timers *timers, od_timer *timer, int64_t at_ns); /* false when memory is out */
void od_timers_remove(od_timers *timers, od_timer *timer);
int64_t od_timers_next(const od_timers *timers);            /* INT64_MAX: none */
od_timer *od_timers_pop(od_timers *timers, int64_t now_ns); /* one that is due, or NULL */

#endif

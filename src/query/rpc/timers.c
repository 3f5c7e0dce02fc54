#include "query/rpc/timers.h"

#include "base/alloc.h"
#include "base/banned.h"

void od_timers_release(od_timers *timers)
{
    od_free(timers->heap);
    *timers = (od_timers){0};
}

static void put(od_timers *timers, size_t place, od_timer *timer)
{
    timers->heap[place - 1] = timer;
    timer->place = place;
}

static void rise(od_timers *timers, size_t place, od_timer *timer)
{
    while (place > 1 && timers->heap[place / 2 - 1]->at_ns > timer->at_ns) {
        put(timers, place, timers->heap[place / 2 - 1]);
        place /= 2;
    }
    put(timers, place, timer);
}

static void sink_down(od_timers *timers, size_t place, od_timer *timer)
{
    for (;;) {
        size_t child = 2 * place;
        if (child > timers->count)
            break;
        if (child < timers->count && timers->heap[child]->at_ns < timers->heap[child - 1]->at_ns)
            child++;
        if (timers->heap[child - 1]->at_ns >= timer->at_ns)
            break;
        put(timers, place, timers->heap[child - 1]);
        place = child;
    }
    put(timers, place, timer);
}

bool od_timers_add(od_timers *timers, od_timer *timer, int64_t at_ns)
{
    if (timers->count == timers->cap) {
        size_t cap = timers->cap ? 2 * timers->cap : 16, size;
        od_timer **heap = od_mul_size(cap, sizeof *heap, &size) ? od_realloc(timers->heap, size) : NULL;
        if (!heap)
            return false;
        timers->heap = heap;
        timers->cap = cap;
    }
    timer->at_ns = at_ns;
    timers->count++;
    rise(timers, timers->count, timer);
    return true;
}

void od_timers_remove(od_timers *timers, od_timer *timer)
{
    size_t place = timer->place;
    od_timer *last;

    if (place == 0)
        return;
    timer->place = 0;
    last = timers->heap[--timers->count];
    if (last == timer)
        return;
    if (place > 1 && timers->heap[place / 2 - 1]->at_ns > last->at_ns)
        rise(timers, place, last);
    else
        sink_down(timers, place, last);
}

int64_t od_timers_next(const od_timers *timers)
{
    return timers->count ? timers->heap[0]->at_ns : INT64_MAX;
}

od_timer *od_timers_pop(od_timers *timers, int64_t now_ns)
{
    od_timer *first = timers->count ? timers->heap[0] : NULL;

    if (!first || first->at_ns > now_ns)
        return NULL;
    od_timers_remove(timers, first);
    return first;
}

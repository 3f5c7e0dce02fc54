#include "base/deadline.h"

#include <limits.h>
#include <time.h>

#include "base/banned.h"

static const int64_t ns_per_s = 1000000000;
static const int64_t ns_per_ms = 1000000;
static const int64_t ns_per_us = 1000;

int64_t od_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * ns_per_s + now.tv_nsec;
}

int64_t od_wall_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * (ns_per_s / ns_per_us) + now.tv_nsec / ns_per_us;
}

od_deadline od_deadline_in_ms(int64_t ms)
{
    int64_t span;
    int64_t at;

    if (ms < 0 || __builtin_mul_overflow(ms, ns_per_ms, &span) || __builtin_add_overflow(od_clock_ns(), span, &at))
        return OD_DEADLINE_NEVER;
    return (od_deadline){at};
}

bool od_deadline_passed(od_deadline deadline)
{
    return deadline.at_ns != INT64_MAX && od_clock_ns() >= deadline.at_ns;
}

int od_deadline_poll_ms(od_deadline deadline)
{
    int64_t now;
    int64_t left;
    int64_t ms;

    if (deadline.at_ns == INT64_MAX)
        return -1;
    now = od_clock_ns();
    if (deadline.at_ns <= now)
        return 0;
    /* now is positive and at_ns above it: no overflow. */
    left = deadline.at_ns - now;
    ms = left / ns_per_ms + (left % ns_per_ms != 0);
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

od_deadline od_deadline_min(od_deadline a, od_deadline b)
{
    return a.at_ns <= b.at_ns ? a : b;
}

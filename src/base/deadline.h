/* base/deadline.h: points in monotonic time. Every call that may block takes one. */
#ifndef OD_BASE_DEADLINE_H
#define OD_BASE_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

/* Monotonic nanoseconds; OD_DEADLINE_NEVER means no limit. */
typedef struct {
    int64_t at_ns;
} od_deadline;

#define OD_DEADLINE_NEVER ((od_deadline){INT64_MAX})

int64_t od_clock_ns(void);                 /* CLOCK_MONOTONIC */
int64_t od_wall_us(void);                  /* CLOCK_REALTIME, microseconds since 1970 */
od_deadline od_deadline_in_ms(int64_t ms); /* ms < 0: never */
bool od_deadline_passed(od_deadline deadline);
/* Milliseconds left, for poll(): -1 never, 0 passed, else rounded up. */
int od_deadline_poll_ms(od_deadline deadline);
od_deadline od_deadline_min(od_deadline a, od_deadline b);

#endif

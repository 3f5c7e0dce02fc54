/* Asks the workers of the static list how they are, all the time: they do not register, so nobody else tells. */
#ifndef OD_QUERY_GATEWAY_PROBE_H
#define OD_QUERY_GATEWAY_PROBE_H

#include "base/secret.h"
#include "query/gateway/registry.h"

typedef struct prober prober;

/* Asks each of WORKERS every INTERVAL_MS, one that does not answer every second, and tells R. TOKEN is what their Status wants.
 * All is copied but R, which must outlive it. */
OD_MUST_CHECK od_code prober_start(registry *r, const od_endpoint *workers, size_t count, const od_secret *token,
                                   int64_t interval_ms, prober **out, od_error *err);
/* Waits until each has been asked once, or UNTIL. */
void prober_wait(prober *p, od_deadline until);
void prober_stop(prober *p); /* frees it; NULL allowed */

#endif

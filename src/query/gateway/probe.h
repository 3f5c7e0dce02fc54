/* Asks the workers how they are, all the time: one that hangs or is gone is left out before an execution finds out. */
#ifndef OD_QUERY_GATEWAY_PROBE_H
#define OD_QUERY_GATEWAY_PROBE_H

#include "base/secret.h"
#include "query/gateway/registry.h"

typedef struct prober prober;

/* Asks each worker of R every INTERVAL_MS, one that does not answer every second, and tells R. TOKEN is what their Status wants;
 * copied. TLS (referenced; NULL: as a channel's) is for those at https://. R must outlive it. */
OD_MUST_CHECK od_code prober_start(registry *r, const od_secret *token, od_tls *tls, int64_t interval_ms, prober **out,
                                   od_error *err);
/* Waits until each of the static list has been asked once, or UNTIL. */
void prober_wait(prober *p, od_deadline until);
void prober_stop(prober *p); /* frees it; NULL allowed */

/* Whether an answer of Status, or CODE instead of one, means that executions get through. *why: if not. */
bool probe_is_up(od_code code, const od_status *status, const od_error *err, const char **why);

#endif

/* What serve, gateway and worker let be seen of themselves: metrics and a console, each on a listener of its own, health and
 * reflection. */
#ifndef OD_CLI_OBSERVE_H
#define OD_CLI_OBSERVE_H

#include "base/options.h"
#include "query/gateway.h"
#include "telemetry/metrics.h"

typedef struct observe observe;

/* Makes the metrics that others fill before they serve. OPTIONS is borrowed. On failure *out is NULL. */
OD_MUST_CHECK od_code observe_create(const od_options *options, const char *role, observe **out, od_error *err);
od_metrics *observe_metrics(observe *o);
const char *observe_role(const observe *o);
/* Adds the methods that every server has to those of OUT, and the metrics. */
OD_MUST_CHECK od_code observe_serve(observe *o, od_rpc_server_options *out, od_error *err);
/* The server takes no new work: whoever watches its health is told. NULL allowed. */
void observe_drain(observe *o);
/* A gateway's: observe_start serves its console too, if that is wanted. */
void observe_gateway(observe *o, od_gateway *gateway);
/* Serves the metrics, if that is wanted, with TLS (a server's; NULL: in clear text). It and what they are read from have to live
 * until observe_stop. */
OD_MUST_CHECK od_code observe_start(observe *o, od_tls *tls, od_error *err);
/* Logs where; once the server is known to start. */
void observe_log(const observe *o);
/* From here on nothing is read. NULL allowed. */
void observe_stop(observe *o);
/* After all that counts in its metrics. NULL allowed. */
void observe_free(observe *o);

#endif

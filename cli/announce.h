/* A worker's thread that registers at a gateway and sends heartbeats. */
#ifndef OD_CLI_ANNOUNCE_H
#define OD_CLI_ANNOUNCE_H

#include "query/client.h"

typedef struct announce announce;

/* REGISTRATION and REMOTE are borrowed. A heartbeat every HEARTBEAT_MS, and at once when the gateway closes its connection: it
 * may have been started anew. It goes on until announce_stop, whatever the gateway says. */
OD_MUST_CHECK od_code announce_start(od_remote *remote, const od_registration *registration, int64_t heartbeat_ms,
                                     announce **out, od_error *err);
/* Tells the gateway that the worker stops, and frees A. NULL allowed. */
void announce_stop(announce *a);

#endif

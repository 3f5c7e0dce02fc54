/* query/about.h: the services that gRPC defines for every server: its health, and what it speaks.
 *
 * grpc.health.v1.Health (Check, Watch) for "" and for each service of openduck.v1, and grpc.reflection.v1 and v1alpha
 * ServerReflection of openduck's own .proto files, which are part of this room. Neither needs a token: they tell what is in the
 * repository anyway, and whether the server takes work. */
#ifndef OD_QUERY_ABOUT_H
#define OD_QUERY_ABOUT_H

#include "query/rpc.h"

typedef struct od_about od_about;

OD_MUST_CHECK od_code od_about_create(od_about **out, od_error *err);
/* After the servers that have its methods are freed. NULL allowed. */
void od_about_free(od_about *about);

/* Methods that bring their service with them, to be served beside others. Borrowed from ABOUT. */
const od_rpc_method *od_about_methods(const od_about *about, size_t *count);

/* From now on nothing is healthy. Those who watch are told, and their streams end, so that none of them keeps a server from
 * draining. */
void od_about_drain(od_about *about);

#endif

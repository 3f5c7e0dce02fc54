/* What the files of this room share. */
#ifndef OD_QUERY_CLIENT_INTERNAL_H
#define OD_QUERY_CLIENT_INTERNAL_H

#include <stdatomic.h>

#include "query/client.h"

struct od_remote {
    atomic_size_t refs;
    od_channel *channel;
    od_secret token;
    char *database;
    char *snapshot;             /* NULL: none */
    int64_t execute_timeout_ms; /* negative: no limit */
    int64_t cancel_timeout_ms;
};

/* od_slice of the token, empty if there is none. */
od_slice remote_token(const od_remote *remote);
/* Appends " (openduck HOST:PORT, execution ID)" to the message, which is cut if it must be. ID NULL: the endpoint alone. */
void remote_name_error(const od_remote *remote, const char *execution_id, od_error *err);

#endif

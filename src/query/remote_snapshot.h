/* query/remote_snapshot.h: a remote that reads a snapshot of its database, and not the database as it is now. */
#ifndef OD_QUERY_REMOTE_SNAPSHOT_H
#define OD_QUERY_REMOTE_SNAPSHOT_H

#include "query/client.h"

/* Before REMOTE's first use: all its executions read the snapshot ID (copied). It has no transactions then: nothing changes there. */
OD_MUST_CHECK od_code od_remote_set_snapshot(od_remote *remote, const char *id, od_error *err);
const char *od_remote_snapshot(const od_remote *remote); /* its id; NULL: none */

#endif

#include "query/remote_snapshot.h"

#include "query/client/client_internal.h"

#include "base/alloc.h"
#include "base/banned.h"

od_code od_remote_set_snapshot(od_remote *remote, const char *id, od_error *err)
{
    char *copy = od_strdup(id);

    if (!copy)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a snapshot's id");
    od_free(remote->snapshot);
    remote->snapshot = copy;
    return OD_OK;
}

const char *od_remote_snapshot(const od_remote *remote)
{
    return remote->snapshot;
}

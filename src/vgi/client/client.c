#include "vgi/client.h"

#include "base/alloc.h"
#include "vgi/client/client_internal.h"

#include "base/banned.h"

enum { POOL_MAX = 8, POOL_IDLE_MS = 300000, START_MS = 60000, CALL_MS = 300000 };

od_code od_vgi_open(const od_vgi_options *options, od_vgi **out, od_error *err)
{
    od_vgi *vgi = od_calloc(1, sizeof *vgi);
    od_code rc;

    *out = NULL;
    if (vgi == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    rc = od_vgi_location_parse(options->location, &vgi->location, err);
    if (rc == OD_OK && vgi->location.scheme == OD_VGI_HTTP)
        rc = od_fail(err, OD_E_NOT_IMPLEMENTED, "a worker's location cannot be an http: URL");
    if (rc != OD_OK) {
        od_vgi_location_release(&vgi->location);
        od_free(vgi);
        return rc;
    }
    vgi->options = *options;
    vgi->options.location = NULL;
    if (vgi->options.pool_max == 0)
        vgi->options.pool_max = POOL_MAX;
    if (vgi->options.pool_idle_ms == 0)
        vgi->options.pool_idle_ms = POOL_IDLE_MS;
    if (vgi->options.start_timeout_ms == 0)
        vgi->options.start_timeout_ms = START_MS;
    if (vgi->options.call_timeout_ms == 0)
        vgi->options.call_timeout_ms = CALL_MS;
    atomic_init(&vgi->refs, 1);
    atomic_init(&vgi->dialect, NULL);
    atomic_init(&vgi->no_branches, false);
    pthread_mutex_init(&vgi->lock, NULL);
    *out = vgi;
    return OD_OK;
}

od_vgi *od_vgi_ref(od_vgi *vgi)
{
    atomic_fetch_add(&vgi->refs, 1);
    return vgi;
}

void od_vgi_unref(od_vgi *vgi)
{
    if (vgi == NULL || atomic_fetch_sub(&vgi->refs, 1) != 1)
        return;
    od_vgi_sessions_free(vgi);
    od_vgi_location_release(&vgi->location);
    pthread_mutex_destroy(&vgi->lock);
    od_free(vgi);
}

#include "vgi/client.h"

#include "base/alloc.h"
#include "vgi/client/client_internal.h"

#include "base/banned.h"

enum { POOL_MAX = 8, POOL_IDLE_MS = 300000, START_MS = 60000, CALL_MS = 300000 };

static void release(od_vgi *vgi)
{
    od_vgi_location_release(&vgi->location);
    od_secret_release(&vgi->token);
    od_fetcher_free(vgi->fetcher);
    od_free(vgi);
}

static od_code prepare_http(od_vgi *vgi, const od_vgi_options *options, od_error *err)
{
    od_code rc = OD_OK;

    if (vgi->location.scheme != OD_VGI_HTTP) {
        if (options->bearer_token != NULL)
            return od_fail(err, OD_E_INVALID, "a bearer token is for workers at an http: or https: URL");
        return OD_OK;
    }
    if (options->bearer_token != NULL)
        rc = od_secret_set(&vgi->token, od_slice_str(options->bearer_token), err);
    return rc == OD_OK ? od_fetcher_create(&vgi->fetcher, err) : rc;
}

od_code od_vgi_open(const od_vgi_options *options, od_vgi **out, od_error *err)
{
    od_vgi *vgi = od_calloc(1, sizeof *vgi);
    od_code rc;

    *out = NULL;
    if (vgi == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    rc = od_vgi_location_parse(options->location, &vgi->location, err);
    if (rc == OD_OK)
        rc = prepare_http(vgi, options, err);
    if (rc != OD_OK) {
        release(vgi);
        return rc;
    }
    vgi->options = *options;
    vgi->options.location = vgi->options.bearer_token = NULL;
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
    pthread_mutex_destroy(&vgi->lock);
    release(vgi);
}

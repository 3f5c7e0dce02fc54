/* One client over descriptors, from its first request to its last. */
#include <string.h>

#include "vgi/worker/call.h"

#include "base/banned.h"

static od_code refuse(vgiw_peer *peer, const od_error *why, const char *kind, od_error *err)
{
    od_msg *msg;
    od_code rc = vgiw_refusal(why, kind, &msg, err);

    if (rc != OD_OK)
        return rc;
    rc = vgiw_peer_write(peer, od_vgi_msg_bytes(msg), err);
    od_msg_unref(msg);
    return rc;
}

static od_code answer_init(const od_vgiw *worker, vgiw_peer *peer, const vgiw_meta *meta, const od_record *request,
                           od_error *err)
{
    const od_vgi_dialect *dialect;
    const char *kind;
    od_error why = {.code = OD_OK};

    if (vgiw_dialect_of(worker, meta, &dialect, &kind, &why) != OD_OK)
        return refuse(peer, &why, kind, err);
    return vgiw_scan(worker, peer, dialect, request, err);
}

static od_code answer(const od_vgiw *worker, vgiw_peer *peer, const vgiw_meta *meta, const od_record *request,
                      od_error *err)
{
    od_msg *msg = NULL;
    bool failed;
    od_code rc;

    if (od_slice_equal(od_slice_of(meta->method.data, meta->method.len), od_slice_str("init")))
        return answer_init(worker, peer, meta, request, err);
    OD_TRY(vgiw_answer(worker, meta, request, &failed, &msg, err));
    OD_TRY(vgiw_peer_write(peer, od_vgi_msg_bytes(msg), err));
out:
    od_msg_unref(msg);
    return rc;
}

/* *MORE false: the client has ended. */
static od_code serve_one(const od_vgiw *worker, vgiw_peer *peer, bool *more, od_error *err)
{
    vgiw_meta meta = {.has_protocol = false};
    od_record *request = NULL;
    od_error why = {.code = OD_OK};
    od_code rc = vgiw_peer_request(peer, &meta, &request, &why);

    *more = rc == OD_OK && request != NULL;
    if (*more && vgiw_check_request(request, &why) != OD_OK) {
        rc = why.code;
        *more = false;
    }
    if (*more)
        rc = answer(worker, peer, &meta, request, err);
    else if (rc != OD_OK && rc != OD_E_CONNECTION_LOST && rc != OD_E_IO)
        (void)refuse(peer, &why, NULL, NULL); /* and no more: where the next request begins is not known */
    if (rc != OD_OK && why.code != OD_OK && err != NULL)
        *err = why;
    od_record_free(request);
    vgiw_meta_release(&meta);
    return rc;
}

od_code vgiw_session(const od_vgiw *worker, vgiw_peer *peer, od_error *err)
{
    bool more = true;
    od_code rc = OD_OK;

    while (rc == OD_OK && more)
        rc = serve_one(worker, peer, &more, err);
    return rc;
}

od_vgiw_code od_vgiw_serve(od_vgiw *worker, int in, int out, od_vgiw_error *err)
{
    od_error why = {.code = OD_OK};
    vgiw_peer *peer = NULL;
    od_code rc = vgiw_peer_create(in, out, &peer, &why);

    if (rc == OD_OK)
        rc = vgiw_session(worker, peer, &why);
    vgiw_peer_free(peer);
    return rc == OD_OK ? OD_VGIW_OK : vgiw_fail(err, &why);
}

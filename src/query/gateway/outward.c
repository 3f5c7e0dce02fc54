#include "query/gateway/outward.h"

#include "query/gateway/head.h"
#include "base/banned.h"

static bool is_delegated(const od_rights *rights)
{
    return od_rights_name(rights)[0] != '\0';
}

od_code outward_token(const od_gateway *g, const od_rights *rights, od_slice given, od_secret *owned, od_slice *out,
                      od_error *err)
{
    od_code rc;

    *out = given;
    if (!is_delegated(rights))
        return OD_OK;
    rc = od_rights_delegate(rights, &g->token, owned, err);
    if (rc == OD_OK)
        *out = od_slice_of(owned->value, owned->len);
    return rc;
}

od_code outward_request(const flow *f, od_msg **owner, od_rpc_out *out, od_error *err)
{
    od_execute_request asked = f->asked;
    od_secret token = {0};
    od_code rc;

    if (!is_delegated(f->rights) && f->named)
        return od_execute_request_identify(f->request, &f->asked, f->id, owner, out, err);
    if (!is_delegated(f->rights)) {
        od_rpc_out_whole(f->request, out);
        return OD_OK;
    }
    OD_TRY(outward_token(f->gateway, f->rights, asked.access_token, &token, &asked.access_token, err));
    asked.execution_id = od_slice_str(f->id);
    OD_TRY(od_execute_request_encode(&asked, owner, err));
    od_rpc_out_whole(*owner, out);

out:
    od_secret_release(&token);
    return rc;
}

static od_code encode_ingest(od_slice bytes, od_slice token, od_msg **out, od_error *err)
{
    od_ingest_chunk chunk;
    od_code rc = od_ingest_chunk_decode(bytes, &chunk, err);

    if (rc != OD_OK)
        return rc;
    chunk.metadata.access_token = token;
    rc = od_ingest_metadata_encode(&chunk.metadata, out, err);
    od_ingest_chunk_release(&chunk);
    return rc;
}

od_code outward_head(const od_gateway *g, const od_rights *rights, od_reply_kind kind, od_msg *msg, od_msg **out,
                     od_error *err)
{
    od_slice bytes = od_slice_of(od_msg_data(msg), od_msg_len(msg)), token;
    od_secret owned = {0};
    od_code rc;
    head what;

    *out = NULL;
    if (!is_delegated(rights)) {
        *out = od_msg_ref(msg);
        return OD_OK;
    }
    OD_TRY(head_read(kind, msg, &what, err));
    OD_TRY(outward_token(g, rights, what.token, &owned, &token, err));
    if (kind == OD_REPLY_BEGIN)
        rc = od_begin_request_encode(&(od_begin_request){what.database, token}, out, err);
    else if (kind == OD_REPLY_INGEST)
        rc = encode_ingest(bytes, token, out, err);
    else
        rc = od_end_request_encode(&(od_end_request){what.id, token}, out, err);

out:
    od_secret_release(&owned);
    return rc;
}

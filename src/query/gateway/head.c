#include "query/gateway/head.h"

#include "base/banned.h"

od_code head_read(od_reply_kind kind, od_msg *msg, head *out, od_error *err)
{
    od_slice bytes = od_slice_of(od_msg_data(msg), od_msg_len(msg));
    od_begin_request begin;
    od_end_request end;
    od_ingest_chunk chunk;
    od_code rc;

    *out = (head){0};
    if (kind == OD_REPLY_BEGIN) {
        rc = od_begin_request_decode(bytes, &begin, err);
        *out = (head){.database = begin.database, .token = begin.access_token};
    } else if (kind == OD_REPLY_INGEST) {
        rc = od_ingest_chunk_decode(bytes, &chunk, err);
        if (rc == OD_OK && !chunk.is_metadata)
            rc = od_fail(err, OD_E_PROTOCOL, "the first chunk has to be the metadata");
        *out = (head){chunk.metadata.transaction_id, chunk.metadata.database, chunk.metadata.access_token,
                      chunk.metadata.transaction_id.len == 0 && chunk.metadata.statement.len > 0,
                      chunk.metadata.statement};
        od_ingest_chunk_release(&chunk);
    } else {
        rc = od_end_request_decode(bytes, &end, err);
        *out = (head){.id = end.transaction_id, .token = end.access_token};
    }
    return rc;
}

#include "vgi/worker/peer.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

#include "base/banned.h"

enum { PREFIX = 8, ALIGNMENT = 64 };

od_code vgiw_peer_create(int in, int out, vgiw_peer **result, od_error *err)
{
    vgiw_peer *peer = od_calloc(1, sizeof *peer);
    od_code rc;

    *result = NULL;
    if (peer == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    peer->in = in;
    peer->out = out;
    rc = od_ipc_reader_create(&peer->reader, err);
    if (rc != OD_OK) {
        vgiw_peer_free(peer);
        return rc;
    }
    *result = peer;
    return OD_OK;
}

void vgiw_peer_free(vgiw_peer *peer)
{
    if (peer == NULL)
        return;
    od_ipc_reader_free(peer->reader);
    od_buf_release(&peer->head);
    od_free(peer);
}

void vgiw_meta_release(vgiw_meta *meta)
{
    od_buf_release(&meta->method);
    od_buf_release(&meta->version);
    od_buf_release(&meta->protocol);
    od_buf_release(&meta->state);
    od_buf_release(&meta->call);
    *meta = (vgiw_meta){0};
}

/* ---- bytes ---- */

/* Up to LEN bytes; *got 0: the end. */
static od_code read_some(const vgiw_peer *peer, void *to, size_t len, size_t *got, od_error *err)
{
    ssize_t n;

    do
        n = read(peer->in, to, len);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return od_fail_errno(err, errno == ECONNRESET ? OD_E_CONNECTION_LOST : OD_E_IO, errno,
                             "cannot read from the client");
    *got = (size_t)n;
    return OD_OK;
}

/* Of what was read ahead, or is in memory. */
static size_t take_ahead(vgiw_peer *peer, uint8_t *to, size_t len)
{
    bool memory = peer->in < 0;
    size_t there = memory ? peer->request.len : peer->ahead_len - peer->ahead_at;
    const uint8_t *from = memory ? peer->request.data : peer->ahead + peer->ahead_at;
    size_t n = there < len ? there : len;

    if (n > 0)
        memcpy(to, from, n);
    if (memory)
        peer->request = od_slice_of(peer->request.data + n, peer->request.len - n);
    else
        peer->ahead_at += n;
    return n;
}

/* *ENDED (NULL: that is an error): there was not one byte more. */
static od_code read_bytes(vgiw_peer *peer, void *to, size_t len, bool *ended, od_error *err)
{
    uint8_t *at = to;
    size_t done = take_ahead(peer, at, len), got = 0;

    while (done < len && peer->in >= 0) {
        bool large = len - done >= sizeof peer->ahead;
        od_code rc = large ? read_some(peer, at + done, len - done, &got, err)
                           : read_some(peer, peer->ahead, sizeof peer->ahead, &got, err);

        if (rc != OD_OK)
            return rc;
        if (got == 0)
            break;
        if (large) {
            done += got;
            continue;
        }
        peer->ahead_at = 0;
        peer->ahead_len = got;
        done += take_ahead(peer, at + done, len - done);
    }
    if (done == len)
        return OD_OK;
    if (ended != NULL && done == 0) {
        *ended = true;
        return OD_OK;
    }
    return od_fail(err, OD_E_CONNECTION_LOST, "the client ended within a request");
}

od_code vgiw_peer_write(vgiw_peer *peer, od_slice bytes, od_error *err)
{
    size_t done = 0;

    if (peer->out < 0)
        return od_buf_append(peer->answer, bytes.data, bytes.len, err);
    while (done < bytes.len) {
        ssize_t n = write(peer->out, bytes.data + done, bytes.len - done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return od_fail_errno(err, errno == EPIPE || errno == ECONNRESET ? OD_E_CONNECTION_LOST : OD_E_IO, errno,
                                 "cannot write to the client");
        done += (size_t)n;
    }
    return OD_OK;
}

/* ---- messages ---- */

typedef struct {
    bool ended; /* there is none, and no stream */
    bool end;   /* it is the end mark */
    od_ipc_head head;
} message;

/* The head of the next message, looked at. */
static od_code read_head(vgiw_peer *peer, bool may_end, message *out, od_error *err)
{
    size_t metadata;
    od_code rc;

    *out = (message){0};
    peer->head.len = 0;
    OD_TRY(od_buf_reserve(&peer->head, PREFIX, err));
    OD_TRY(read_bytes(peer, peer->head.data, PREFIX, may_end ? &out->ended : NULL, err));
    if (out->ended)
        return OD_OK;
    OD_TRY(od_ipc_prefix(peer->head.data, &metadata, err));
    out->end = metadata == 0;
    if (out->end)
        return OD_OK;
    peer->head.len = PREFIX;
    OD_TRY(od_buf_reserve(&peer->head, metadata, err));
    OD_TRY(read_bytes(peer, peer->head.data + PREFIX, metadata, NULL, err));
    peer->head.len += metadata;
    OD_TRY(od_ipc_reader_peek(peer->reader, od_slice_of(peer->head.data, peer->head.len), &out->head, err));
    if (out->head.body_len > VGIW_MAX_BODY)
        rc = od_fail(err, OD_E_TOO_LARGE, "a batch of %zu bytes is above the limit of %zu", out->head.body_len,
                     VGIW_MAX_BODY);
out:
    return rc;
}

/* The whole message, its body aligned. */
static od_code read_message(vgiw_peer *peer, size_t body, od_msg **out, od_error *err)
{
    size_t head = peer->head.len;
    od_code rc = od_msg_create(head + body, (unsigned)((ALIGNMENT - head % ALIGNMENT) % ALIGNMENT), out, err);

    if (rc != OD_OK)
        return rc;
    memcpy(od_msg_data(*out), peer->head.data, head);
    rc = read_bytes(peer, od_msg_data(*out) + head, body, NULL, err);
    if (rc != OD_OK) {
        od_msg_unref(*out);
        *out = NULL;
    }
    return rc;
}

static od_code skip_body(vgiw_peer *peer, size_t body, od_error *err)
{
    uint8_t waste[4096];

    while (body > 0) {
        size_t n = body < sizeof waste ? body : sizeof waste;
        od_code rc = read_bytes(peer, waste, n, NULL, err);

        if (rc != OD_OK)
            return rc;
        body -= n;
    }
    return OD_OK;
}

static od_code keep_pair(const vgiw_peer *peer, const char *key, od_buf *out, bool *told, od_error *err)
{
    od_slice value = od_ipc_reader_pair(peer->reader, key);

    if (told != NULL)
        *told = value.data != NULL;
    return od_buf_append(out, value.data, value.len, err);
}

static od_code read_meta(const vgiw_peer *peer, vgiw_meta *meta, od_error *err)
{
    od_slice request = od_ipc_reader_pair(peer->reader, "vgi_rpc.request_version");
    od_code rc;

    meta->has_request_version = request.data != NULL;
    meta->request_version_known = od_slice_equal(request, od_slice_str("1"));
    meta->cancel = od_ipc_reader_pair(peer->reader, "vgi_rpc.cancel").data != NULL;
    OD_TRY(keep_pair(peer, "vgi_rpc.method", &meta->method, NULL, err));
    OD_TRY(keep_pair(peer, "vgi_rpc.protocol_version", &meta->version, NULL, err));
    OD_TRY(keep_pair(peer, "vgi_rpc.protocol", &meta->protocol, &meta->has_protocol, err));
    OD_TRY(keep_pair(peer, "vgi_rpc.stream_state#b64", &meta->state, NULL, err));
    OD_TRY(keep_pair(peer, "vgi_rpc.call_state#b64", &meta->call, NULL, err));
out:
    return rc;
}

/* The stream's schema. *ended: there is no stream. */
static od_code begin(vgiw_peer *peer, bool *ended, od_error *err)
{
    message first;
    od_code rc;

    OD_TRY(read_head(peer, ended != NULL, &first, err));
    if (ended != NULL)
        *ended = first.ended;
    if (first.ended)
        return OD_OK;
    if (first.end || first.head.type != OD_IPC_SCHEMA || first.head.body_len > 0)
        return od_fail(err, OD_E_CORRUPT, "a request does not start with a schema");
    OD_TRY(od_ipc_reader_start(peer->reader, od_slice_of(peer->head.data, peer->head.len), NULL, err));
out:
    return rc;
}

/* What is behind the head of M; a batch becomes ROWS. */
static od_code feed(vgiw_peer *peer, const message *m, struct ArrowArray *rows, od_error *err)
{
    od_msg *msg = NULL;
    od_code rc;

    OD_TRY(read_message(peer, m->head.body_len, &msg, err));
    OD_TRY(od_ipc_reader_feed(peer->reader, od_slice_of(od_msg_data(msg), od_msg_len(msg)), msg, err));
    if (m->head.type == OD_IPC_BATCH)
        OD_TRY(od_ipc_reader_next_array(peer->reader, msg, rows, err));
out:
    od_msg_unref(msg);
    return rc;
}

/* One message of a request after its schema. */
static od_code take(vgiw_peer *peer, const message *m, vgiw_meta *meta, od_record **record, od_error *err)
{
    struct ArrowArray array = {0};
    od_code rc = OD_OK;

    if (m->head.type != OD_IPC_BATCH && m->head.type != OD_IPC_DICTIONARY)
        return od_fail(err, OD_E_CORRUPT, "a request has a message of another type");
    if (m->head.type == OD_IPC_BATCH && *record != NULL)
        return od_fail(err, OD_E_CORRUPT, "a request has more than one batch");
    if (m->head.type == OD_IPC_BATCH)
        OD_TRY(read_meta(peer, meta, err));
    OD_TRY(feed(peer, m, &array, err));
    if (m->head.type == OD_IPC_BATCH)
        OD_TRY(od_record_wrap(od_ipc_reader_schema(peer->reader), &array, record, err));
out:
    return rc;
}

od_code vgiw_peer_request(vgiw_peer *peer, vgiw_meta *meta, od_record **out, od_error *err)
{
    od_record *record = NULL;
    bool ended = false;
    message m;
    od_code rc;

    *out = NULL;
    OD_TRY(begin(peer, &ended, err));
    if (ended)
        return OD_OK;
    for (;;) {
        OD_TRY(read_head(peer, false, &m, err));
        if (m.end)
            break;
        OD_TRY(take(peer, &m, meta, &record, err));
    }
    if (record == NULL)
        OD_TRY(od_fail(err, OD_E_CORRUPT, "a request has no batch"));
    *out = record;
    record = NULL;
out:
    od_record_free(record);
    return rc;
}

od_code vgiw_check_request(const od_record *request, od_error *err)
{
    if (od_record_schema(request)->n_children > 0 && od_record_rows(request) != 1)
        return od_fail(err, OD_E_CORRUPT, "a request has %lld rows", (long long)od_record_rows(request));
    return OD_OK;
}

od_code vgiw_peer_begin_input(vgiw_peer *peer, od_error *err)
{
    return begin(peer, NULL, err);
}

const struct ArrowSchema *vgiw_peer_input_schema(const vgiw_peer *peer)
{
    return od_ipc_reader_schema(peer->reader);
}

od_code vgiw_peer_input(vgiw_peer *peer, struct ArrowArray *rows, bool *more, bool *cancel, od_error *err)
{
    message m;
    od_code rc;

    *more = *cancel = false;
    if (rows != NULL)
        *rows = (struct ArrowArray){0};
    for (;;) {
        OD_TRY(read_head(peer, false, &m, err));
        if (m.end)
            return OD_OK;
        if (m.head.type != OD_IPC_BATCH && (m.head.type != OD_IPC_DICTIONARY || rows == NULL))
            return od_fail(err, OD_E_CORRUPT, "the input of a scan has a message of another type");
        if (m.head.type == OD_IPC_BATCH)
            *cancel = od_ipc_reader_pair(peer->reader, "vgi_rpc.cancel").data != NULL;
        if (rows == NULL)
            OD_TRY(skip_body(peer, m.head.body_len, err));
        else
            OD_TRY(feed(peer, &m, rows, err));
        if (m.head.type == OD_IPC_BATCH)
            break;
    }
    *more = true;
out:
    return rc;
}

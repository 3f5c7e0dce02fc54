#include "query/tls_stream.h"

#include <errno.h>

#include "base/alloc.h"
#include "query/rpc/tls.h"
#include "base/banned.h"

struct od_tls_stream {
    od_tls_conn *conn;
    bool shaken;
};

static od_code create(od_tls *tls, int fd, const char *host, od_tls_stream **out, od_error *err)
{
    od_tls_stream *stream = od_calloc(1, sizeof *stream);
    od_code rc;

    *out = NULL;
    if (!stream)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for TLS");
    rc = od_tls_conn_create_http1(tls, fd, host, &stream->conn, err);
    if (rc != OD_OK) {
        od_free(stream);
        return rc;
    }
    *out = stream;
    return OD_OK;
}

od_code od_tls_stream_accept(od_tls *tls, int fd, od_tls_stream **out, od_error *err)
{
    return create(tls, fd, NULL, out, err);
}

od_code od_tls_stream_connect(od_tls *tls, int fd, const char *host, od_tls_stream **out, od_error *err)
{
    return create(tls, fd, host, out, err);
}

void od_tls_stream_close(od_tls_stream *stream)
{
    if (!stream)
        return;
    od_tls_conn_bye(stream->conn);
    od_tls_conn_free(stream->conn);
    od_free(stream);
}

int od_tls_stream_shake(od_tls_stream *stream)
{
    if (stream->shaken)
        return 0;
    switch (od_tls_conn_handshake(stream->conn)) {
    case OD_TLS_DONE:
        stream->shaken = true;
        return 0;
    case OD_TLS_AGAIN:
        return EAGAIN;
    case OD_TLS_FAILED:
        break;
    }
    return EPROTO;
}

ssize_t od_tls_stream_read(od_tls_stream *stream, void *to, size_t len)
{
    const struct iovec room = {to, len};
    int errnum = od_tls_stream_shake(stream);

    if (errnum != 0) {
        errno = errnum;
        return -1;
    }
    return od_tls_conn_read(stream->conn, &room, 1, true);
}

ssize_t od_tls_stream_write(od_tls_stream *stream, const void *from, size_t len)
{
    const struct iovec bytes = {(void *)(uintptr_t)from, len};

    return od_tls_conn_write(stream->conn, &bytes, 1);
}

int od_tls_stream_flush(od_tls_stream *stream)
{
    return od_tls_conn_push(stream->conn);
}

bool od_tls_stream_unsent(const od_tls_stream *stream)
{
    return od_tls_conn_unsent(stream->conn);
}

const char *od_tls_stream_why(const od_tls_stream *stream)
{
    return od_tls_conn_why(stream->conn);
}

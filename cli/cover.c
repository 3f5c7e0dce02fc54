#include "cli/cover.h"

#include "query/tls_stream.h"
#include "base/banned.h"

static void *cover_open(void *arg, int fd)
{
    od_tls_stream *stream;
    od_error err;

    return od_tls_stream_accept(arg, fd, &stream, &err) == OD_OK ? stream : NULL;
}

static ssize_t cover_read(void *conn, void *to, size_t len)
{
    return od_tls_stream_read(conn, to, len);
}

static ssize_t cover_write(void *conn, const void *from, size_t len)
{
    return od_tls_stream_write(conn, from, len);
}

static int cover_flush(void *conn)
{
    return od_tls_stream_flush(conn);
}

static bool cover_unsent(void *conn)
{
    return od_tls_stream_unsent(conn);
}

static void cover_close(void *conn)
{
    od_tls_stream_close(conn);
}

static void *cover_connect(void *arg, int fd)
{
    const cover_dial *dial = arg;
    od_tls_stream *stream;
    od_error err;

    return od_tls_stream_connect(dial->tls, fd, dial->host, &stream, &err) == OD_OK ? stream : NULL;
}

static int cover_shake(void *conn)
{
    return od_tls_stream_shake(conn);
}

static const char *cover_why(void *conn)
{
    return od_tls_stream_why(conn);
}

od_http_cover cover_of(od_tls *tls)
{
    return (od_http_cover){.arg = tls,
                           .open = cover_open,
                           .read = cover_read,
                           .write = cover_write,
                           .flush = cover_flush,
                           .unsent = cover_unsent,
                           .close = cover_close};
}

od_http_cover cover_to(cover_dial *dial)
{
    od_http_cover cover = cover_of(NULL);

    cover.arg = dial;
    cover.open = cover_connect;
    cover.shake = cover_shake;
    cover.why = cover_why;
    return cover;
}

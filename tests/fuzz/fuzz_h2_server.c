/* Bytes of a client into a server's end of a connection, without sockets. The first byte says how the rest is cut. */
#include <errno.h>
#include <stdlib.h>

#include "query/rpc/h2.h"
#include "base/banned.h"

enum { MAX_STREAMS = 300 };

typedef struct {
    od_h2_stream *streams[MAX_STREAMS];
    int count;
    size_t written;
} owner;

static od_h2_stream *on_open(void *arg)
{
    owner *o = arg;
    od_h2_stream *s;

    if (o->count == MAX_STREAMS)
        return NULL;
    s = calloc(1, sizeof *s);
    if (!s)
        abort();
    od_h2_stream_init(s, 0, 100000);
    o->streams[o->count++] = s;
    return s;
}

static void on_request(void *arg, od_h2_stream *s)
{
    (void)arg;
    od_h2_want(s);
}

/* Answers as an echo does. */
static void on_received(void *arg, od_h2_stream *s)
{
    od_msg *msg;

    (void)arg;
    while ((msg = od_h2_take(s)) != NULL) {
        od_rpc_out out = {.body = msg, .len = od_msg_len(msg)};
        if (od_h2_send(s, &out, false, NULL) != OD_OK)
            od_h2_finish(s, OD_GRPC_INTERNAL, "cannot");
        od_msg_unref(msg);
        od_h2_want(s);
    }
    if (s->peer_ended)
        od_h2_finish(s, OD_GRPC_OK, NULL);
}

static void on_event(void *arg, od_h2_stream *s)
{
    (void)arg, (void)s;
}

/* Takes a part now and then, so that frames stay half written. */
static ssize_t on_write(void *arg, const struct iovec *iov, int count)
{
    owner *o = arg;

    (void)count;
    if (++o->written % 3 == 0) {
        errno = EAGAIN;
        return -1;
    }
    return (ssize_t)(iov[0].iov_len > 7 ? iov[0].iov_len - iov[0].iov_len / 3 : iov[0].iov_len);
}

static const od_h2_hooks HOOKS = {.open = on_open,
                                  .request = on_request,
                                  .received = on_received,
                                  .drained = on_event,
                                  .closed = on_event,
                                  .write = on_write};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const od_h2_options options = {.server = true, .stream_window = 65536, .max_streams = 20, .max_message = 100000};
    owner o = {0};
    od_h2 *h2;
    size_t step;

    if (size < 1 || od_h2_create(&options, &HOOKS, &o, &h2, NULL) != OD_OK)
        return 0;
    step = data[0] ? data[0] : size;
    for (size_t at = 1; at < size; at += step) {
        if (!od_h2_feed(h2, data + at, size - at < step ? size - at : step) || !od_h2_flush(h2))
            break;
        od_h2_writable(h2);
    }
    od_h2_abandon(h2, OD_E_CONNECTION_LOST, "over");
    for (int i = 0; i < o.count; i++) {
        od_h2_stream_release(o.streams[i]);
        free(o.streams[i]);
    }
    od_h2_free(h2);
    return 0;
}

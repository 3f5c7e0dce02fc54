/* Bytes of a server into a client's end of a connection with three calls. The first byte says how the rest is cut. */
#include <stdlib.h>

#include "query/rpc/h2.h"
#include "base/banned.h"

enum { CALLS = 3 };

static void on_event(void *arg, od_h2_stream *s)
{
    (void)arg, (void)s;
}

static ssize_t on_write(void *arg, const struct iovec *iov, int count)
{
    (void)arg, (void)count;
    return (ssize_t)iov[0].iov_len;
}

static const od_h2_hooks HOOKS = {.received = on_event, .drained = on_event, .closed = on_event, .write = on_write};

static void take_all(od_h2_stream *s)
{
    od_msg *msg;

    while ((msg = od_h2_take(s)) != NULL) {
        if (od_msg_len(msg) > s->max_message)
            abort();
        od_msg_unref(msg);
        od_h2_want(s);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const od_h2_options options = {.stream_window = 65536, .max_message = 100000};
    od_h2_stream calls[CALLS];
    od_rpc_out out = {.head = "request", .head_len = 7};
    od_h2 *h2;
    size_t step;

    if (size < 1 || od_h2_create(&options, &HOOKS, NULL, &h2, NULL) != OD_OK)
        return 0;
    for (int i = 0; i < CALLS; i++) {
        od_h2_stream_init(&calls[i], 0, 100000);
        od_h2_want(&calls[i]);
        if (od_h2_request(h2, &calls[i], "/a/b", "fuzz", -1, NULL) != OD_OK ||
            od_h2_send(&calls[i], &out, i > 0, NULL) != OD_OK)
            abort();
    }
    (void)od_h2_flush(h2);
    step = data[0] ? data[0] : size;
    for (size_t at = 1; at < size; at += step) {
        if (!od_h2_feed(h2, data + at, size - at < step ? size - at : step) || !od_h2_flush(h2))
            break;
        take_all(&calls[0]); /* the others wait until the end */
    }
    od_h2_abandon(h2, OD_E_CONNECTION_LOST, "over");
    for (int i = 0; i < CALLS; i++) {
        if (!calls[i].end.set)
            abort();
        take_all(&calls[i]);
        od_h2_stream_release(&calls[i]);
    }
    od_h2_free(h2);
    return 0;
}

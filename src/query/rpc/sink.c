#include "query/rpc/sink.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/banned.h"

void od_sink_release(od_sink *sink)
{
    for (unsigned i = sink->first; i < sink->count; i++)
        od_msg_unref(sink->pieces[i].owner);
    od_free(sink->bytes);
    *sink = (od_sink){0};
}

bool od_sink_has_room(const od_sink *sink, size_t copied, unsigned pieces)
{
    return OD_SINK_BYTES - sink->used >= copied && OD_SINK_PIECES - sink->count >= pieces;
}

size_t od_sink_room(const od_sink *sink)
{
    return sink->count < OD_SINK_PIECES ? OD_SINK_BYTES - sink->used : 0;
}

bool od_sink_copy(od_sink *sink, const void *data, size_t len)
{
    uint8_t *at;

    if (len == 0)
        return true;
    if (!sink->bytes && !(sink->bytes = od_alloc(OD_SINK_BYTES)))
        return false;
    at = sink->bytes + sink->used;
    memcpy(at, data, len);
    sink->used += len;
    sink->pending += len;
    if (sink->count > sink->first && !sink->pieces[sink->count - 1].owner) {
        sink->pieces[sink->count - 1].len += len; /* copied bytes lie one after another */
        return true;
    }
    sink->pieces[sink->count].at = at;
    sink->pieces[sink->count].len = len;
    sink->pieces[sink->count].owner = NULL;
    sink->count++;
    return true;
}

void od_sink_borrow(od_sink *sink, od_msg *msg, size_t offset, size_t len)
{
    sink->pieces[sink->count].at = od_msg_data(msg) + offset;
    sink->pieces[sink->count].len = len;
    sink->pieces[sink->count].owner = od_msg_ref(msg);
    sink->count++;
    sink->pending += len;
}

static void advance(od_sink *sink, size_t written)
{
    sink->pending -= written;
    while (written > 0) {
        size_t len = sink->pieces[sink->first].len;
        size_t n = len < written ? len : written;
        sink->pieces[sink->first].at += n;
        sink->pieces[sink->first].len -= n;
        written -= n;
        if (n == len)
            od_msg_unref(sink->pieces[sink->first++].owner);
    }
    if (sink->pending == 0)
        sink->first = sink->count = 0, sink->used = 0;
}

int od_sink_flush(od_sink *sink, od_sink_write write, void *owner)
{
    while (sink->pending > 0 && !sink->blocked) {
        struct iovec iov[OD_SINK_PIECES];
        int n = 0;
        ssize_t written;

        for (unsigned i = sink->first; i < sink->count; i++, n++)
            iov[n] = (struct iovec){(void *)sink->pieces[i].at, sink->pieces[i].len};
        written = write(owner, iov, n);
        if (written >= 0)
            advance(sink, (size_t)written);
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            sink->blocked = true;
        else
            return errno;
    }
    return 0;
}

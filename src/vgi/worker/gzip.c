#include "vgi/worker/gzip.h"

#include <limits.h>
#include <string.h>
#include <zlib.h>

#include "base/banned.h"

enum { GZIP_WINDOW = 16 + MAX_WBITS, STEP = 64 << 10 };

/* Until the member ends, MAX bytes have come, or there is nothing more to read. */
static od_code inflate_all(z_stream *z, size_t max, od_buf *out, od_error *err)
{
    size_t begin = out->len;

    for (;;) {
        size_t left = max - (out->len - begin), room = left < STEP ? left + 1 : STEP;
        od_code rc = od_buf_reserve(out, room, err);
        if (rc != OD_OK)
            return rc;
        z->next_out = out->data + out->len;
        z->avail_out = (uInt)room;
        int got = inflate(z, Z_NO_FLUSH);
        out->len += room - z->avail_out;
        if (got == Z_MEM_ERROR)
            return od_fail(err, OD_E_NO_MEMORY, "out of memory");
        if (out->len - begin > max)
            return od_fail(err, OD_E_TOO_LARGE, "gzip: it holds more than %zu bytes", max);
        if (got == Z_STREAM_END)
            return z->avail_in == 0 ? OD_OK : od_fail(err, OD_E_CORRUPT, "gzip: something follows its end");
        if (got != Z_OK)
            return od_fail(err, OD_E_CORRUPT, "gzip: %s", z->msg != NULL ? z->msg : "it is cut");
    }
}

od_code vgiw_gunzip(od_slice bytes, size_t max, od_buf *out, od_error *err)
{
    z_stream z = {.avail_in = (uInt)bytes.len};

    if (bytes.len > UINT_MAX || max >= SIZE_MAX / 2)
        return od_fail(err, OD_E_TOO_LARGE, "gzip: %zu bytes are too many", bytes.len);
    memcpy(&z.next_in, &bytes.data, sizeof z.next_in); /* zlib's type lacks a const */
    if (inflateInit2(&z, GZIP_WINDOW) != Z_OK)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    od_code rc = inflate_all(&z, max, out, err);
    (void)inflateEnd(&z);
    return rc;
}

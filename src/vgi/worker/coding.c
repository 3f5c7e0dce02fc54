#include "vgi/worker/coding.h"

#include <limits.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>
#include <zstd.h>

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

static od_code gunzip(od_slice bytes, size_t max, od_buf *out, od_error *err)
{
    z_stream z = {.avail_in = (uInt)bytes.len};

    memcpy(&z.next_in, &bytes.data, sizeof z.next_in); /* zlib's type lacks a const */
    if (inflateInit2(&z, GZIP_WINDOW) != Z_OK)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    od_code rc = inflate_all(&z, max, out, err);
    (void)inflateEnd(&z);
    return rc;
}

/* Until the frame ends, MAX bytes have come, or there is nothing more to read. */
static od_code unpack_frame(ZSTD_DCtx *z, od_slice bytes, size_t max, od_buf *out, od_error *err)
{
    ZSTD_inBuffer in = {bytes.data, bytes.len, 0};
    size_t begin = out->len;

    for (;;) {
        size_t left = max - (out->len - begin), room = left < STEP ? left + 1 : STEP;
        od_code rc = od_buf_reserve(out, room, err);
        if (rc != OD_OK)
            return rc;
        ZSTD_outBuffer to = {out->data + out->len, room, 0};
        size_t got = ZSTD_decompressStream(z, &to, &in);
        if (ZSTD_isError(got))
            return od_fail(err, OD_E_CORRUPT, "zstd: %s", ZSTD_getErrorName(got));
        out->len += to.pos;
        if (out->len - begin > max)
            return od_fail(err, OD_E_TOO_LARGE, "zstd: it holds more than %zu bytes", max);
        if (got == 0)
            return in.pos == in.size ? OD_OK : od_fail(err, OD_E_CORRUPT, "zstd: something follows its end");
        if (to.pos < room && in.pos == in.size)
            return od_fail(err, OD_E_CORRUPT, "zstd: it is cut");
    }
}

static od_code unpack_zstd(od_slice bytes, size_t max, od_buf *out, od_error *err)
{
    ZSTD_DCtx *z = ZSTD_createDCtx();

    if (z == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    od_code rc = unpack_frame(z, bytes, max, out, err);
    (void)ZSTD_freeDCtx(z);
    return rc;
}

static bool is_called(od_slice coding, const char *name)
{
    return coding.len == strlen(name) && strncasecmp((const char *)coding.data, name, coding.len) == 0;
}

od_code vgiw_decode(od_slice coding, od_slice bytes, size_t max, od_buf *out, od_error *err)
{
    if (bytes.len > UINT_MAX || max >= SIZE_MAX / 2)
        return od_fail(err, OD_E_TOO_LARGE, "%zu compressed bytes are too many", bytes.len);
    if (is_called(coding, "gzip"))
        return gunzip(bytes, max, out, err);
    if (is_called(coding, "zstd"))
        return unpack_zstd(bytes, max, out, err);
    return od_fail(err, OD_E_NOT_IMPLEMENTED, "a body's coding is not one of " VGIW_CODINGS);
}

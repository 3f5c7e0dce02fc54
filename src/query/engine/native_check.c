/* Whether bytes are what DuckDB takes them for without looking. */
#include <string.h>

#include "base/utf8.h"
#include "query/engine/native_read.h"
#include "base/banned.h"

/* ---- GEOMETRY: little-endian well-known binary ---- */

enum { MAX_NESTING = 16 };

typedef struct {
    const uint8_t *data;
    size_t left;
} bytes;

static bool skip(bytes *b, uint64_t n)
{
    if (n > b->left)
        return false;
    b->data += n;
    b->left -= (size_t)n;
    return true;
}

static bool number(bytes *b, uint32_t *out)
{
    if (b->left < 4)
        return false;
    memcpy(out, b->data, 4);
    return skip(b, 4);
}

static bool points(bytes *b, uint64_t vertex)
{
    uint32_t n;
    return number(b, &n) && skip(b, n * vertex);
}

/* NOLINTNEXTLINE(misc-no-recursion): at most MAX_NESTING deep */
static bool shape(bytes *b, unsigned depth)
{
    uint32_t meta, n;
    if (depth > MAX_NESTING || b->left < 5 || b->data[0] != 1 || !skip(b, 1) || !number(b, &meta))
        return false;
    uint32_t type = meta % 1000, flags = meta / 1000;
    if (flags > 3)
        return false;
    uint64_t vertex = sizeof(double) * (2 + (flags & 1) + (flags >> 1));
    if (type == 1)
        return skip(b, vertex);
    if (type == 2)
        return points(b, vertex);
    if (type < 3 || type > 7 || !number(b, &n))
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (type == 3 ? !points(b, vertex) : !shape(b, depth + 1))
            return false;
    return true;
}

bool od_geometry_valid(const uint8_t *data, size_t len)
{
    bytes b = {data, len};
    return shape(&b, 0) && b.left == 0;
}

/* ---- any text ---- */

static od_code damaged(const char *what, od_error *err)
{
    return od_fail(err, OD_E_CORRUPT, "the rows are damaged: %s", what);
}

od_code od_text_check(uint8_t check, const uint8_t *value, size_t len, od_error *err)
{
    switch (check) {
    case OD_TEXT_UTF8:
        return od_utf8_valid(od_slice_of(value, len)) ? OD_OK : damaged("a string is not valid UTF-8", err);
    case OD_TEXT_BIT:
        return len >= 2 && value[0] <= 7 ? OD_OK : damaged("a BIT has no valid padding", err);
    case OD_TEXT_BIGNUM: {
        uint32_t header = len >= 4 ? (uint32_t)value[0] << 16 | (uint32_t)value[1] << 8 | value[2] : 0;
        uint32_t told = len >= 4 && (value[0] & 0x80) == 0 ? ~header & 0x7FFFFF : header & 0x7FFFFF;
        return len >= 4 && told == len - 3 ? OD_OK : damaged("a BIGNUM's header does not tell its length", err);
    }
    case OD_TEXT_GEOMETRY:
        return od_geometry_valid(value, len) ? OD_OK : damaged("a GEOMETRY is not well formed", err);
    default:
        return OD_OK;
    }
}

/* ---- times ---- */

bool od_time_valid(od_time kind, uint64_t value)
{
    static const uint64_t day_us = UINT64_C(86400000000), most_offsets = UINT64_C(2) * (16 * 3600 - 1);
    switch (kind) {
    case OD_TIME_US:
        return value <= day_us;
    case OD_TIME_NS:
        return value <= day_us * 1000;
    default: /* above 24 bits the microseconds; in them how far the offset is below 15:59:59 */
        return value >> 24 <= day_us && (value & 0xFFFFFF) <= most_offsets;
    }
}

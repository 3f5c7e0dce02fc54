#include "base/buf.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

#include "base/banned.h"

enum { FIRST_CAPACITY = 64 };

od_slice od_slice_of(const void *data, size_t len)
{
    return (od_slice){data, len};
}

od_slice od_slice_str(const char *str)
{
    return (od_slice){(const uint8_t *)str, str ? strlen(str) : 0};
}

bool od_slice_equal(od_slice a, od_slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

int od_hex_value(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

void od_buf_release(od_buf *buf)
{
    if (!buf)
        return;
    od_free(buf->data);
    *buf = (od_buf){0};
}

od_code od_buf_reserve(od_buf *buf, size_t more, od_error *err)
{
    size_t need;
    size_t cap;
    uint8_t *data;

    if (more <= buf->cap - buf->len)
        return OD_OK;
    if (!od_add_size(buf->len, more, &need) || need > SIZE_MAX / 2)
        return od_fail(err, OD_E_TOO_LARGE, "a buffer of %zu bytes cannot grow by %zu", buf->len, more);
    cap = buf->cap < FIRST_CAPACITY ? FIRST_CAPACITY : buf->cap * 2;
    if (cap < need)
        cap = need;
    data = od_realloc(buf->data, cap);
    if (!data)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a buffer of %zu bytes", cap);
    buf->data = data;
    buf->cap = cap;
    return OD_OK;
}

od_code od_buf_append(od_buf *buf, const void *data, size_t len, od_error *err)
{
    od_code rc;

    if (len == 0)
        return OD_OK;
    rc = od_buf_reserve(buf, len, err);
    if (rc != OD_OK)
        return rc;
    memcpy(buf->data + buf->len, data, len);
    buf->len += len;
    return OD_OK;
}

od_code od_buf_printf(od_buf *buf, od_error *err, const char *fmt, ...)
{
    va_list args;
    int len;
    od_code rc;

    va_start(args, fmt);
    len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (len < 0)
        return od_fail(err, OD_E_INVALID, "a text cannot be formatted");
    rc = od_buf_reserve(buf, (size_t)len + 1, err);
    if (rc != OD_OK)
        return rc;
    va_start(args, fmt);
    vsnprintf((char *)buf->data + buf->len, (size_t)len + 1, fmt, args);
    va_end(args);
    buf->len += (size_t)len;
    return OD_OK;
}

const char *od_buf_cstr(od_buf *buf)
{
    if (od_buf_reserve(buf, 1, NULL) != OD_OK)
        return NULL;
    buf->data[buf->len] = 0;
    return (const char *)buf->data;
}

#include "query/console/form.h"

#include <string.h>

#include "base/banned.h"

/* The character at *at of TEXT, and moves on; -1: it is none. */
static int decode_one(od_slice text, size_t *at)
{
    uint8_t c = text.data[(*at)++];
    int high, low;

    if (c == '+')
        return ' ';
    if (c != '%')
        return c == 0 ? -1 : c;
    if (text.len - *at < 2)
        return -1;
    high = od_hex_value(text.data[*at]);
    low = od_hex_value(text.data[*at + 1]);
    *at += 2;
    return high < 0 || low < 0 || high + low == 0 ? -1 : high * 16 + low;
}

static bool decode(od_slice text, char *out, size_t size)
{
    size_t len = 0;

    for (size_t at = 0; at < text.len;) {
        int c = decode_one(text, &at);

        if (c < 0 || len + 1 >= size)
            return false;
        out[len++] = (char)c;
    }
    out[len] = '\0';
    return true;
}

bool form_value(od_slice body, const char *name, char *out, size_t size)
{
    size_t name_len = strlen(name);

    while (body.len > 0) {
        const uint8_t *end = memchr(body.data, '&', body.len);
        size_t len = end ? (size_t)(end - body.data) : body.len;

        if (len > name_len && memcmp(body.data, name, name_len) == 0 && body.data[name_len] == '=')
            return decode(od_slice_of(body.data + name_len + 1, len - name_len - 1), out, size);
        body = end ? od_slice_of(end + 1, body.len - len - 1) : od_slice_of(body.data, 0);
    }
    return false;
}

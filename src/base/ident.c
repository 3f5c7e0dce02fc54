#include "base/ident.h"

#include <string.h>

#include "base/alloc.h"

#include "base/banned.h"

/* Appends TEXT between QUOTE characters, inner ones doubled. OUT is unchanged on failure. */
static od_code append_quoted(od_buf *out, od_slice text, char quote, const char *what, od_error *err)
{
    size_t extra = 2;
    size_t need;
    uint8_t *to;
    od_code rc;

    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] == 0)
            return od_fail(err, OD_E_INVALID, "%s holds a NUL byte at offset %zu", what, i);
        if (text.data[i] == (uint8_t)quote)
            extra++;
    }
    if (!od_add_size(text.len, extra, &need))
        return od_fail(err, OD_E_TOO_LARGE, "%s of %zu bytes is too long", what, text.len);
    rc = od_buf_reserve(out, need, err);
    if (rc != OD_OK)
        return rc;
    to = out->data + out->len;
    *to++ = (uint8_t)quote;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] == (uint8_t)quote)
            *to++ = (uint8_t)quote;
        *to++ = text.data[i];
    }
    *to = (uint8_t)quote;
    out->len += need;
    return OD_OK;
}

od_code od_quote_ident(od_buf *out, od_slice name, od_error *err)
{
    return append_quoted(out, name, '"', "an identifier", err);
}

od_code od_quote_literal(od_buf *out, od_slice text, od_error *err)
{
    return append_quoted(out, text, '\'', "a string literal", err);
}

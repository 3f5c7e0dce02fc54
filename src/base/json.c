#include "base/json.h"

#include <stdio.h>

#include "base/utf8.h"
#include "base/banned.h"

const char *od_json_escape(uint8_t c, char out[OD_JSON_ESCAPE_SIZE])
{
    switch (c) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    case '\t':
        return "\\t";
    default:
        break;
    }
    if (c >= 0x20 && c != 0x7F)
        return NULL;
    snprintf(out, OD_JSON_ESCAPE_SIZE, "\\u%04x", c);
    return out;
}

void od_json_put(od_json *json, const char *fmt, ...)
{
    va_list args, again;
    int len;

    if (json->rc != OD_OK)
        return;
    va_start(args, fmt);
    va_copy(again, args);
    len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    json->rc = od_buf_reserve(json->out, (size_t)(len < 0 ? 0 : len) + 1, json->err);
    if (json->rc == OD_OK && len > 0) {
        vsnprintf((char *)json->out->data + json->out->len, (size_t)len + 1, fmt, again);
        json->out->len += (size_t)len;
    }
    va_end(again);
}

static void append(od_json *json, const void *data, size_t len)
{
    if (json->rc == OD_OK && len > 0)
        json->rc = od_buf_append(json->out, data, len, json->err);
}

void od_json_text(od_json *json, od_slice text)
{
    static const char unknown[] = "\xEF\xBF\xBD";
    size_t plain = 0; /* where what can be written as it is begins */

    append(json, "\"", 1);
    for (size_t i = 0; i < text.len;) {
        size_t n = od_utf8_len(text.data + i, text.len - i);
        char room[OD_JSON_ESCAPE_SIZE];
        const char *instead = n == 0 ? unknown : n == 1 ? od_json_escape(text.data[i], room) : NULL;

        if (instead) {
            append(json, text.data + plain, i - plain);
            append(json, instead, od_slice_str(instead).len);
            plain = i + 1;
        }
        i += n > 0 ? n : 1;
    }
    append(json, text.data + plain, text.len - plain);
    append(json, "\"", 1);
}

void od_json_field(od_json *json, const char *key, const char *value)
{
    od_json_text(json, od_slice_str(key));
    append(json, ":", 1);
    od_json_text(json, od_slice_str(value));
}

#include "support/rpc_frames.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/banned.h"

static const char MAGIC[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

void frames_raw(od_buf *out, const void *bytes, size_t len)
{
    /* Not by od_alloc: what a test makes fail is not the test's own. */
    if (out->cap - out->len < len) {
        out->cap = 2 * (out->len + len);
        out->data = realloc(out->data, out->cap);
        if (!out->data)
            abort();
    }
    if (len > 0)
        memcpy(out->data + out->len, bytes, len);
    out->len += len;
}

void frame_add(od_buf *out, uint8_t type, uint8_t flags, uint32_t stream, const void *payload, size_t len)
{
    uint8_t head[9] = {(uint8_t)(len >> 16),    (uint8_t)(len >> 8),     (uint8_t)len,           type,           flags,
                       (uint8_t)(stream >> 24), (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream};

    frames_raw(out, head, sizeof head);
    frames_raw(out, payload, len);
}

void frames_preface(od_buf *out)
{
    frames_raw(out, MAGIC, sizeof MAGIC - 1);
    frame_add(out, FRAME_SETTINGS, 0, 0, NULL, 0);
}

/* A string literal of HPACK, not coded. */
static void put_string(od_buf *out, const char *text)
{
    size_t len = strlen(text), left;
    uint8_t byte;

    if (len < 127) {
        byte = (uint8_t)len;
        frames_raw(out, &byte, 1);
    } else {
        byte = 127;
        frames_raw(out, &byte, 1);
        for (left = len - 127; left >= 128; left >>= 7) {
            byte = (uint8_t)(left | 128);
            frames_raw(out, &byte, 1);
        }
        byte = (uint8_t)left;
        frames_raw(out, &byte, 1);
    }
    frames_raw(out, text, len);
}

static void put_field(od_buf *out, const char *name, const char *value)
{
    frames_raw(out, "", 1); /* literal, not indexed, new name */
    put_string(out, name);
    put_string(out, value);
}

void frame_headers(od_buf *out, uint8_t flags, uint32_t stream, ...)
{
    od_buf block = {0};
    const char *name;
    va_list args;

    va_start(args, stream);
    while ((name = va_arg(args, const char *)) != NULL)
        put_field(&block, name, va_arg(args, const char *));
    va_end(args);
    frame_add(out, FRAME_HEADERS, (uint8_t)(flags | FLAG_END_HEADERS), stream, block.data, block.len);
    od_buf_release(&block);
}

void frame_request(od_buf *out, uint32_t stream, const char *path)
{
    frame_headers(out, 0, stream, ":method", "POST", ":scheme", "http", ":path", path, ":authority", "test", "te",
                  "trailers", "content-type", "application/grpc", NULL);
}

void frame_message(od_buf *out, uint8_t flags, uint32_t stream, const char *text)
{
    od_buf data = {0};
    size_t len = strlen(text);
    uint8_t prefix[5] = {0, (uint8_t)(len >> 24), (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len};

    frames_raw(&data, prefix, sizeof prefix);
    frames_raw(&data, text, len);
    frame_add(out, FRAME_DATA, flags, stream, data.data, data.len);
    od_buf_release(&data);
}

void frame_reset(od_buf *out, uint32_t stream, uint32_t code)
{
    uint8_t payload[4] = {(uint8_t)(code >> 24), (uint8_t)(code >> 16), (uint8_t)(code >> 8), (uint8_t)code};

    frame_add(out, FRAME_RST, 0, stream, payload, sizeof payload);
}

bool frames_find(od_slice bytes, uint8_t type, uint8_t flags, uint32_t stream, od_slice *payload)
{
    size_t at = 0;

    if (bytes.len >= sizeof MAGIC - 1 && memcmp(bytes.data, MAGIC, sizeof MAGIC - 1) == 0)
        at = sizeof MAGIC - 1;
    while (bytes.len - at >= 9) {
        const uint8_t *p = bytes.data + at;
        size_t len = (size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2];
        uint32_t id = (uint32_t)p[5] << 24 | (uint32_t)p[6] << 16 | (uint32_t)p[7] << 8 | p[8];
        if (bytes.len - at - 9 < len)
            return false;
        if (p[3] == type && (p[4] & flags) == flags && (stream == 0 || id == stream)) {
            if (payload)
                *payload = od_slice_of(p + 9, len);
            return true;
        }
        at += 9 + len;
    }
    return false;
}

bool slice_contains(od_slice bytes, const char *text)
{
    return bytes.len > 0 && memmem(bytes.data, bytes.len, text, strlen(text)) != NULL;
}

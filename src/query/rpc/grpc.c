#include "query/rpc/grpc.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <string.h>

#include "query/rpc.h"
#include "base/banned.h"

static const struct {
    char unit;
    int64_t ns;
} UNITS[] = {
    {'n', 1}, {'u', 1000}, {'m', 1000000}, {'S', 1000000000}, {'M', 60000000000}, {'H', 3600000000000},
};

enum { UNIT_COUNT = sizeof UNITS / sizeof *UNITS, MAX_DIGITS = 8 };

bool od_grpc_timeout_parse(od_slice text, int64_t *ns)
{
    int64_t value = 0;

    if (text.len < 2 || text.len > MAX_DIGITS + 1)
        return false;
    for (size_t i = 0; i + 1 < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        value = value * 10 + (text.data[i] - '0');
    }
    for (int i = 0; i < UNIT_COUNT; i++) {
        if ((char)text.data[text.len - 1] != UNITS[i].unit)
            continue;
        if (__builtin_mul_overflow(value, UNITS[i].ns, ns))
            *ns = INT64_MAX;
        return true;
    }
    return false;
}

void od_grpc_timeout_format(int64_t ns, char out[OD_GRPC_TIMEOUT_SIZE])
{
    int64_t value = ns < 1 ? 1 : ns;
    int i = 0;

    while (i + 1 < UNIT_COUNT && value > 99999999) {
        i++;
        value = ns / UNITS[i].ns + (ns % UNITS[i].ns != 0);
    }
    snprintf(out, OD_GRPC_TIMEOUT_SIZE, "%d%c", (int)value, UNITS[i].unit);
}

/* The length of TEXT, cut to at most MAX bytes where a UTF-8 character begins. */
static size_t cut_length(const char *text, size_t max)
{
    size_t len = strnlen(text, max + 1);

    if (len <= max)
        return len;
    len = max;
    while (len > 0 && ((uint8_t)text[len] & 0xc0) == 0x80)
        len--;
    return len;
}

size_t od_grpc_percent_encode(const char *text, char out[3 * OD_GRPC_MESSAGE_MAX])
{
    static const char HEX[] = "0123456789ABCDEF";
    size_t len = cut_length(text, OD_GRPC_MESSAGE_MAX), at = 0;

    for (size_t i = 0; i < len; i++) {
        uint8_t c = (uint8_t)text[i];
        if (c >= ' ' && c <= '~' && c != '%') {
            out[at++] = (char)c;
            continue;
        }
        out[at++] = '%';
        out[at++] = HEX[c >> 4];
        out[at++] = HEX[c & 15];
    }
    return at;
}

void od_grpc_percent_decode(od_slice text, char *out, size_t size)
{
    size_t at = 0;

    for (size_t i = 0; i < text.len && at + 1 < size; i++) {
        uint8_t c = text.data[i];
        if (c == '%' && i + 2 < text.len) {
            int high = od_hex_value(text.data[i + 1]), low = od_hex_value(text.data[i + 2]);
            if (high >= 0 && low >= 0) {
                c = (uint8_t)(high << 4 | low);
                i += 2;
            }
        }
        out[at++] = (char)(c ? c : '?');
    }
    out[at] = '\0';
}

int od_grpc_status_from_http(int http_status)
{
    switch (http_status) {
    case 400:
        return OD_GRPC_INTERNAL;
    case 401:
        return OD_GRPC_UNAUTHENTICATED;
    case 403:
        return OD_GRPC_PERMISSION_DENIED;
    case 404:
        return OD_GRPC_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return OD_GRPC_UNAVAILABLE;
    default:
        return OD_GRPC_UNKNOWN;
    }
}

int od_grpc_status_from_h2(uint32_t error_code)
{
    switch (error_code) {
    case NGHTTP2_REFUSED_STREAM:
        return OD_GRPC_UNAVAILABLE;
    case NGHTTP2_CANCEL:
        return OD_GRPC_CANCELLED;
    case NGHTTP2_ENHANCE_YOUR_CALM:
        return OD_GRPC_RESOURCE_EXHAUSTED;
    case NGHTTP2_INADEQUATE_SECURITY:
        return OD_GRPC_PERMISSION_DENIED;
    default:
        return OD_GRPC_INTERNAL;
    }
}

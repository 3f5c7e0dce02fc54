#include "base/uuid.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/buf.h"
#include "base/error.h"

#include "base/banned.h"

od_uuid od_uuid_random(void)
{
    od_uuid id;
    ssize_t got;

    do {
        got = getrandom(id.bytes, sizeof id.bytes, 0);
    } while (got < 0 && errno == EINTR);
    /* Requests of up to 256 bytes are never cut short once the generator is seeded (getrandom(2)). */
    if (got != (ssize_t)sizeof id.bytes)
        OD_BUG("the kernel gives no random bytes");
    id.bytes[6] = (uint8_t)((id.bytes[6] & 0x0F) | 0x40);
    id.bytes[8] = (uint8_t)((id.bytes[8] & 0x3F) | 0x80);
    return id;
}

static bool dash_before(int byte)
{
    return byte == 4 || byte == 6 || byte == 8 || byte == 10;
}

void od_uuid_format(od_uuid id, char *out)
{
    static const char digits[] = "0123456789abcdef";

    for (int i = 0; i < 16; i++) {
        if (dash_before(i))
            *out++ = '-';
        *out++ = digits[id.bytes[i] >> 4];
        *out++ = digits[id.bytes[i] & 0x0F];
    }
    *out = '\0';
}

bool od_uuid_parse(const char *text, od_uuid *out)
{
    od_uuid id;

    if (!text || strlen(text) != OD_UUID_TEXT_SIZE - 1)
        return false;
    for (int i = 0; i < 16; i++) {
        int high;
        int low;

        if (dash_before(i) && *text++ != '-')
            return false;
        high = od_hex_value((uint8_t)text[0]);
        low = od_hex_value((uint8_t)text[1]);
        if (high < 0 || low < 0)
            return false;
        id.bytes[i] = (uint8_t)(high << 4 | low);
        text += 2;
    }
    *out = id;
    return true;
}

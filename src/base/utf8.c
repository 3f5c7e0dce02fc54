#include "base/utf8.h"
#include "base/banned.h"

size_t od_utf8_len(const uint8_t *text, size_t len)
{
    uint8_t lead = text[0], low = 0x80, high = 0xBF;
    size_t n;

    if (lead < 0x80)
        return 1;
    if (lead < 0xC2 || lead > 0xF4)
        return 0;
    n = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (lead == 0xE0)
        low = 0xA0;
    else if (lead == 0xED)
        high = 0x9F;
    else if (lead == 0xF0)
        low = 0x90;
    else if (lead == 0xF4)
        high = 0x8F;
    if (n > len || text[1] < low || text[1] > high)
        return 0;
    for (size_t i = 2; i < n; i++) {
        if ((text[i] & 0xC0U) != 0x80U)
            return 0;
    }
    return n;
}

bool od_utf8_valid(od_slice text)
{
    for (size_t i = 0; i < text.len;) {
        size_t n = od_utf8_len(text.data + i, text.len - i);

        if (n == 0)
            return false;
        i += n;
    }
    return true;
}

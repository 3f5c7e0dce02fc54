#include "base/base64.h"
#include "base/banned.h"

/* The six bits of C, or 64. */
static unsigned bits_of(uint8_t c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return 26U + (c - 'a');
    if (c >= '0' && c <= '9')
        return 52U + (c - '0');
    return c == '+' ? 62 : c == '/' ? 63 : 64;
}

size_t od_base64_room(od_slice text)
{
    return text.len / 4 * 3;
}

bool od_base64_decode(od_slice text, uint8_t *out, size_t *len)
{
    size_t n = 0;

    *len = 0;
    if (text.len % 4 != 0)
        return false;
    for (size_t i = 0; i < text.len; i += 4) {
        const uint8_t *at = text.data + i;
        bool last = i + 4 == text.len;
        unsigned pad = last && at[3] == '=' ? (at[2] == '=' ? 2 : 1) : 0;
        uint32_t word = 0;

        for (unsigned k = 0; k < 4; k++) {
            unsigned six = k < 4 - pad ? bits_of(at[k]) : 0;

            if (six == 64)
                return false;
            word = word << 6 | six;
        }
        for (unsigned k = 0; k < 3 - pad; k++)
            out[n++] = (uint8_t)(word >> (16 - 8 * k));
        if (pad > 0 && (word & ((1U << (8 * pad)) - 1)) != 0)
            return false; /* bits that no byte has */
    }
    *len = n;
    return true;
}

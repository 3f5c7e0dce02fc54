#include "base/inflate.h"

#include <string.h>

#include "base/banned.h"

enum { MAX_BITS = 15, MAX_LITERALS = 288, MAX_DISTANCES = 32, MAX_CODES = MAX_LITERALS + MAX_DISTANCES, STEP = 65536 };

typedef struct {
    const uint8_t *at, *end;
    uint32_t bits; /* that were read and not used, the next one lowest */
    unsigned count;
    bool cut; /* more was asked for than there is */
    od_buf *out;
    size_t begin, max; /* where OUT begins to be ours, and how much of it may be */
    od_error *err;
} stream;

/* A canonical Huffman code: how many symbols have each length, and the symbols in order. */
typedef struct {
    uint16_t count[MAX_BITS + 1];
    uint16_t symbols[MAX_LITERALS];
} code;

static od_code bad(const stream *s, const char *why)
{
    return od_fail(s->err, OD_E_CORRUPT, "gzip: %s", why);
}

/* ---- bits ---- */

/* N of them, at most 16; after the end, zeros. */
static unsigned take(stream *s, unsigned n)
{
    unsigned value;

    while (s->count < n) {
        if (s->at == s->end)
            s->cut = true;
        else
            s->bits |= (uint32_t)*s->at++ << s->count;
        s->count += 8;
    }
    value = s->bits & ((1U << n) - 1);
    s->bits >>= n;
    s->count -= n;
    return value;
}

/* False: LENGTHS are those of no code. One with too few symbols is a code, too. */
static bool code_make(code *c, const uint8_t *lengths, size_t n)
{
    uint16_t offset[MAX_BITS + 2] = {0};
    int left = 1;

    memset(c->count, 0, sizeof c->count);
    for (size_t i = 0; i < n; i++)
        c->count[lengths[i]]++;
    for (unsigned len = 1; len <= MAX_BITS; len++) {
        left = 2 * left - c->count[len];
        if (left < 0)
            return false;
        offset[len + 1] = (uint16_t)(offset[len] + c->count[len]);
    }
    for (size_t i = 0; i < n; i++)
        if (lengths[i] != 0)
            c->symbols[offset[lengths[i]]++] = (uint16_t)i;
    return true;
}

/* -1: there is no such symbol. */
static int decode(stream *s, const code *c)
{
    int value = 0, first = 0, index = 0;

    for (unsigned len = 1; len <= MAX_BITS; len++) {
        value |= (int)take(s, 1);
        if (value - first < c->count[len])
            return c->symbols[index + value - first];
        index += c->count[len];
        first = (first + c->count[len]) << 1;
        value <<= 1;
    }
    return -1;
}

/* ---- blocks ---- */

static size_t made(const stream *s)
{
    return s->out->len - s->begin;
}

static od_code room(stream *s, size_t more)
{
    if (more > s->max - made(s))
        return od_fail(s->err, OD_E_TOO_LARGE, "gzip: it holds more than %zu bytes", s->max);
    if (s->out->cap - s->out->len >= more)
        return OD_OK;
    return od_buf_reserve(s->out, more + STEP, s->err);
}

static od_code read_stored(stream *s)
{
    size_t len;
    od_code rc;

    s->bits = s->count = 0; /* it begins with a whole byte */
    if (s->end - s->at < 4)
        return bad(s, "it is cut");
    len = (size_t)(s->at[0] | s->at[1] << 8);
    if ((s->at[0] ^ s->at[2]) != 0xff || (s->at[1] ^ s->at[3]) != 0xff)
        return bad(s, "a length that is none");
    s->at += 4;
    if ((size_t)(s->end - s->at) < len)
        return bad(s, "it is cut");
    rc = room(s, len);
    if (rc == OD_OK && len > 0) {
        memcpy(s->out->data + s->out->len, s->at, len);
        s->out->len += len;
        s->at += len;
    }
    return rc;
}

/* Copies from what was made before. */
static od_code repeat(stream *s, int symbol, const code *distances)
{
    static const uint16_t length_base[] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                           31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
    static const uint8_t length_bits[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                          2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
    static const uint16_t distance_base[] = {1,    2,    3,    4,    5,    7,    9,    13,    17,    25,
                                             33,   49,   65,   97,   129,  193,  257,  385,   513,   769,
                                             1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
    size_t length, distance;
    od_code rc;

    if (symbol >= (int)(sizeof length_bits))
        return bad(s, "a symbol that is none");
    length = length_base[symbol] + take(s, length_bits[symbol]);
    symbol = decode(s, distances);
    if (symbol < 0 || symbol >= (int)(sizeof distance_base / sizeof distance_base[0]))
        return bad(s, "a symbol that is none");
    distance = distance_base[symbol] + take(s, symbol < 4 ? 0 : (unsigned)symbol / 2 - 1);
    if (distance > made(s))
        return bad(s, "a distance before the beginning");
    rc = room(s, length);
    if (rc != OD_OK)
        return rc;
    for (; length > 0; length--, s->out->len++)
        s->out->data[s->out->len] = s->out->data[s->out->len - distance];
    return OD_OK;
}

static od_code read_symbols(stream *s, const code *literals, const code *distances)
{
    for (;;) {
        int symbol = decode(s, literals);
        od_code rc;

        if (symbol < 0)
            return bad(s, "a symbol that is none");
        if (s->cut)
            return bad(s, "it is cut");
        if (symbol == 256)
            return OD_OK;
        if (symbol > 256) {
            rc = repeat(s, symbol - 257, distances);
        } else {
            rc = room(s, 1);
            if (rc == OD_OK)
                s->out->data[s->out->len++] = (uint8_t)symbol;
        }
        if (rc != OD_OK)
            return rc;
    }
}

static od_code read_fixed(stream *s)
{
    uint8_t lengths[MAX_LITERALS];
    code literals, distances;

    memset(lengths, 8, 144);
    memset(lengths + 144, 9, 112);
    memset(lengths + 256, 7, 24);
    memset(lengths + 280, 8, 8);
    (void)code_make(&literals, lengths, MAX_LITERALS);
    memset(lengths, 5, 30);
    (void)code_make(&distances, lengths, 30);
    return read_symbols(s, &literals, &distances);
}

/* The lengths of both codes, N of them, which are a code's symbols themselves. */
static od_code read_lengths(stream *s, const code *c, uint8_t *lengths, size_t n)
{
    for (size_t i = 0; i < n;) {
        int symbol = decode(s, c);
        size_t times = 1;
        uint8_t value = (uint8_t)symbol;

        if (symbol < 0 || s->cut || (symbol == 16 && i == 0))
            return bad(s, "a symbol that is none");
        if (symbol >= 16) {
            value = symbol == 16 ? lengths[i - 1] : 0;
            times = symbol == 16 ? 3 + take(s, 2) : symbol == 17 ? 3 + take(s, 3) : 11 + take(s, 7);
        }
        if (times > n - i)
            return bad(s, "too many lengths");
        memset(lengths + i, value, times);
        i += times;
    }
    return OD_OK;
}

static od_code read_dynamic(stream *s)
{
    static const uint8_t order[] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    uint8_t lengths[MAX_CODES] = {0};
    size_t literal_count = take(s, 5) + 257, distance_count = take(s, 5) + 1, n = take(s, 4) + 4;
    code literals, distances;
    od_code rc;

    if (literal_count > 286 || distance_count > 30)
        return bad(s, "too many symbols");
    for (size_t i = 0; i < n; i++)
        lengths[order[i]] = (uint8_t)take(s, 3);
    if (!code_make(&literals, lengths, sizeof order))
        return bad(s, "a code that is none");
    rc = read_lengths(s, &literals, lengths, literal_count + distance_count);
    if (rc != OD_OK)
        return rc;
    if (!code_make(&literals, lengths, literal_count) ||
        !code_make(&distances, lengths + literal_count, distance_count))
        return bad(s, "a code that is none");
    return read_symbols(s, &literals, &distances);
}

static od_code read_blocks(stream *s)
{
    bool last;

    do {
        unsigned type;
        od_code rc;

        last = take(s, 1) == 1;
        type = take(s, 2);
        if (s->cut || type == 3)
            return bad(s, "a block that is none");
        rc = type == 0 ? read_stored(s) : type == 1 ? read_fixed(s) : read_dynamic(s);
        if (rc != OD_OK)
            return rc;
    } while (!last);
    return OD_OK;
}

/* ---- the member around them ---- */

static uint32_t checksum(const uint8_t *data, size_t len)
{
    uint32_t sum = 0xffffffff;

    for (size_t i = 0; i < len; i++) {
        sum ^= data[i];
        for (int k = 0; k < 8; k++)
            sum = sum >> 1 ^ (sum & 1 ? 0xedb88320 : 0);
    }
    return ~sum;
}

static uint32_t number(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* A text with its NUL. */
static bool skip_text(stream *s)
{
    const uint8_t *nul = s->at < s->end ? memchr(s->at, 0, (size_t)(s->end - s->at)) : NULL;

    if (nul != NULL)
        s->at = nul + 1;
    return nul != NULL;
}

static bool skip(stream *s, size_t n)
{
    if ((size_t)(s->end - s->at) < n)
        return false;
    s->at += n;
    return true;
}

static od_code read_head(stream *s)
{
    enum { CHECKED = 2, EXTRA = 4, NAME = 8, COMMENT = 16 };
    unsigned flags;
    bool ok = true;

    if (s->end - s->at < 18 || s->at[0] != 0x1f || s->at[1] != 0x8b || s->at[2] != 8 || s->at[3] > 31)
        return bad(s, "it does not begin so");
    flags = s->at[3];
    s->at += 10;
    if (flags & EXTRA)
        ok = s->end - s->at >= 2 && skip(s, 2 + (size_t)(s->at[0] | s->at[1] << 8));
    if (ok && flags & NAME)
        ok = skip_text(s);
    if (ok && flags & COMMENT)
        ok = skip_text(s);
    if (ok && flags & CHECKED)
        ok = skip(s, 2);
    return ok ? OD_OK : bad(s, "it is cut");
}

od_code od_gunzip(od_slice bytes, size_t max, od_buf *out, od_error *err)
{
    stream s = {.at = bytes.data, .end = bytes.data + bytes.len, .out = out, .begin = out->len, .max = max, .err = err};
    od_code rc;

    OD_TRY(read_head(&s));
    OD_TRY(read_blocks(&s));
    if (s.end - s.at != 8)
        OD_TRY(bad(&s, "it does not end so"));
    if (number(s.at) != checksum(made(&s) > 0 ? out->data + s.begin : NULL, made(&s)) ||
        number(s.at + 4) != (uint32_t)made(&s))
        rc = bad(&s, "its checksum or its length is another");
out:
    return rc;
}

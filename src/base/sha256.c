#include "base/sha256.h"

#include <string.h>

#include "base/banned.h"

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotr(uint32_t x, unsigned n)
{
    return (x >> n) | (x << (32 - n));
}

static uint32_t load_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
}

static void store_be32(uint8_t *p, uint32_t x)
{
    p[0] = (uint8_t)(x >> 24);
    p[1] = (uint8_t)(x >> 16);
    p[2] = (uint8_t)(x >> 8);
    p[3] = (uint8_t)x;
}

/* The message schedule, FIPS 180-4 section 6.2.2 step 1. */
static void expand(const uint8_t block[64], uint32_t w[64])
{
    for (int t = 0; t < 16; t++)
        w[t] = load_be32(block + (ptrdiff_t)t * 4);
    for (int t = 16; t < 64; t++) {
        uint32_t s0 = rotr(w[t - 15], 7) ^ rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
        uint32_t s1 = rotr(w[t - 2], 17) ^ rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
        w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
}

/* Steps 2 to 4. v holds a to h. */
static void compress(uint32_t state[8], const uint8_t block[64])
{
    uint32_t w[64];
    uint32_t v[8];

    expand(block, w);
    memcpy(v, state, sizeof v);
    for (int t = 0; t < 64; t++) {
        uint32_t s1 = rotr(v[4], 6) ^ rotr(v[4], 11) ^ rotr(v[4], 25);
        uint32_t ch = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t t1 = v[7] + s1 + ch + round_constants[t] + w[t];
        uint32_t s0 = rotr(v[0], 2) ^ rotr(v[0], 13) ^ rotr(v[0], 22);
        uint32_t maj = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        memmove(v + 1, v, 7 * sizeof v[0]);
        v[4] += t1;
        v[0] = t1 + s0 + maj;
    }
    for (int i = 0; i < 8; i++)
        state[i] += v[i];
    explicit_bzero(w, sizeof w);
    explicit_bzero(v, sizeof v);
}

void od_sha256_init(od_sha256 *sha)
{
    static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

    memcpy(sha->state, first, sizeof first);
    sha->total = 0;
}

void od_sha256_update(od_sha256 *sha, od_slice data)
{
    size_t used = (size_t)(sha->total % sizeof sha->block);

    sha->total += data.len;
    while (data.len > 0) {
        size_t take = sizeof sha->block - used;

        if (take > data.len)
            take = data.len;
        memcpy(sha->block + used, data.data, take);
        data.data += take;
        data.len -= take;
        used += take;
        if (used == sizeof sha->block) {
            compress(sha->state, sha->block);
            used = 0;
        }
    }
}

void od_sha256_finish(od_sha256 *sha, uint8_t digest[OD_SHA256_SIZE])
{
    size_t used = (size_t)(sha->total % sizeof sha->block);
    uint64_t bits = sha->total * 8;

    sha->block[used++] = 0x80;
    if (used > sizeof sha->block - 8) {
        memset(sha->block + used, 0, sizeof sha->block - used);
        compress(sha->state, sha->block);
        used = 0;
    }
    memset(sha->block + used, 0, sizeof sha->block - 8 - used);
    store_be32(sha->block + 56, (uint32_t)(bits >> 32));
    store_be32(sha->block + 60, (uint32_t)bits);
    compress(sha->state, sha->block);
    for (int i = 0; i < 8; i++)
        store_be32(digest + (ptrdiff_t)i * 4, sha->state[i]);
    explicit_bzero(sha, sizeof *sha);
}

void od_sha256_of(od_slice data, uint8_t digest[OD_SHA256_SIZE])
{
    od_sha256 sha;

    od_sha256_init(&sha);
    od_sha256_update(&sha, data);
    od_sha256_finish(&sha, digest);
}

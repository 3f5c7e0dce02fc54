/* base/sha256.h: SHA-256 (FIPS 180-4), so that this room needs no cryptography library. */
#ifndef OD_BASE_SHA256_H
#define OD_BASE_SHA256_H

#include <stdint.h>

#include "base/buf.h"

#define OD_SHA256_SIZE 32

typedef struct {
    uint32_t state[8];
    uint64_t total; /* bytes seen */
    uint8_t block[64];
} od_sha256;

/* Order: init, any number of updates, finish; finish wipes the state. */
void od_sha256_init(od_sha256 *sha);
void od_sha256_update(od_sha256 *sha, od_slice data);
void od_sha256_finish(od_sha256 *sha, uint8_t digest[OD_SHA256_SIZE]);

/* All three in one call. */
void od_sha256_of(od_slice data, uint8_t digest[OD_SHA256_SIZE]);

#endif

/* Blocks of blobs, in memory, the least used first to go. */
#ifndef OD_STORAGE_TIER_CACHE_H
#define OD_STORAGE_TIER_CACHE_H

#include <stdint.h>

#include "base/error.h"

/* A DuckDB block takes a record of 256 KiB and some bytes: with smaller pieces little is fetched that nobody wants. */
#define TIER_BLOCK (32U << 10)

typedef struct tier_cache tier_cache;

OD_MUST_CHECK od_code tier_cache_create(uint64_t bytes, tier_cache **out, od_error *err);
void tier_cache_free(tier_cache *cache); /* NULL allowed */
/* Thread: one at a time, for all of them. BLOB is a number for a blob. */
/* The block's bytes, *len of them, until the next call; NULL: it is not there. */
const uint8_t *tier_cache_get(tier_cache *cache, uint64_t blob, uint64_t block, size_t *len);
/* LEN bytes, copied; nothing happens if memory is out. */
void tier_cache_put(tier_cache *cache, uint64_t blob, uint64_t block, const uint8_t *bytes, size_t len);
void tier_cache_forget(tier_cache *cache, uint64_t blob);
uint64_t tier_cache_bytes(const tier_cache *cache);

#endif

#include "storage/tier/cache.h"

#include <string.h>

#include "base/alloc.h"

#include "base/banned.h"

#define BLOCKS_MIN 64

typedef struct entry {
    uint64_t blob;
    uint64_t block;
    struct entry *chain; /* of the same slot */
    struct entry *older;
    struct entry *newer;
    size_t len;
    uint8_t bytes[TIER_BLOCK];
} entry;

struct tier_cache {
    entry **slots;
    size_t slot_count; /* a power of two */
    size_t max;        /* entries */
    size_t count;
    entry *newest;
    entry *oldest;
};

od_code tier_cache_create(uint64_t bytes, tier_cache **out, od_error *err)
{
    tier_cache *cache = od_calloc(1, sizeof *cache);

    if (cache == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "no memory for a cache");
    cache->max = bytes / TIER_BLOCK < BLOCKS_MIN ? BLOCKS_MIN : (size_t)(bytes / TIER_BLOCK);
    for (cache->slot_count = BLOCKS_MIN; cache->slot_count < cache->max;)
        cache->slot_count *= 2;
    cache->slots = od_calloc(cache->slot_count, sizeof *cache->slots);
    if (cache->slots == NULL) {
        od_free(cache);
        return od_fail(err, OD_E_NO_MEMORY, "no memory for a cache");
    }
    *out = cache;
    return OD_OK;
}

void tier_cache_free(tier_cache *cache)
{
    if (cache == NULL)
        return;
    while (cache->newest != NULL) {
        entry *next = cache->newest->older;

        od_free(cache->newest);
        cache->newest = next;
    }
    od_free(cache->slots);
    od_free(cache);
}

static entry **slot_of(const tier_cache *cache, uint64_t blob, uint64_t block)
{
    uint64_t mixed = (blob * 0x9E3779B97F4A7C15U + block) * 0xBF58476D1CE4E5B9U;

    return &cache->slots[(mixed >> 32) & (cache->slot_count - 1)];
}

static void link_newest(tier_cache *cache, entry *e)
{
    e->newer = NULL;
    e->older = cache->newest;
    *(cache->newest != NULL ? &cache->newest->newer : &cache->oldest) = e;
    cache->newest = e;
}

static void unlink_age(tier_cache *cache, entry *e)
{
    *(e->newer != NULL ? &e->newer->older : &cache->newest) = e->older;
    *(e->older != NULL ? &e->older->newer : &cache->oldest) = e->newer;
}

static void unlink_slot(const tier_cache *cache, const entry *e)
{
    entry **at = slot_of(cache, e->blob, e->block);

    while (*at != e)
        at = &(*at)->chain;
    *at = e->chain;
}

static entry *find(const tier_cache *cache, uint64_t blob, uint64_t block)
{
    entry *e = *slot_of(cache, blob, block);

    while (e != NULL && (e->blob != blob || e->block != block))
        e = e->chain;
    return e;
}

const uint8_t *tier_cache_get(tier_cache *cache, uint64_t blob, uint64_t block, size_t *len)
{
    entry *e = find(cache, blob, block);

    if (e == NULL)
        return NULL;
    unlink_age(cache, e);
    link_newest(cache, e);
    *len = e->len;
    return e->bytes;
}

void tier_cache_put(tier_cache *cache, uint64_t blob, uint64_t block, const uint8_t *bytes, size_t len)
{
    entry *e = find(cache, blob, block);
    entry **slot;

    if (e != NULL)
        return;
    if (cache->count < cache->max) {
        e = od_alloc(sizeof *e);
        if (e == NULL)
            return;
        cache->count++;
    } else {
        e = cache->oldest;
        unlink_age(cache, e);
        unlink_slot(cache, e);
    }
    e->blob = blob;
    e->block = block;
    e->len = len;
    memcpy(e->bytes, bytes, len);
    slot = slot_of(cache, blob, block);
    e->chain = *slot;
    *slot = e;
    link_newest(cache, e);
}

void tier_cache_forget(tier_cache *cache, uint64_t blob)
{
    entry *next;

    for (entry *e = cache->newest; e != NULL; e = next) {
        next = e->older;
        if (e->blob != blob)
            continue;
        unlink_age(cache, e);
        unlink_slot(cache, e);
        cache->count--;
        od_free(e);
    }
}

uint64_t tier_cache_bytes(const tier_cache *cache)
{
    return (uint64_t)cache->count * TIER_BLOCK;
}

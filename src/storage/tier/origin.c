/* Reading a blob through the cache. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "storage/tier/tier.h"

#include "base/banned.h"

#define AHEAD_FIRST (128U << 10)
#define FETCH_MAX (1U << 20) /* in one request */

static tier_origin *known(const od_tier *tier, const char *name)
{
    tier_origin *at = tier->origins;

    while (at != NULL && strcmp(at->name, name) != 0)
        at = at->next;
    return at;
}

int tier_origin_find(od_tier *tier, const char *name, tier_origin **out)
{
    tier_origin *made;
    od_error err = {0};

    pthread_mutex_lock(&tier->lock);
    *out = known(tier, name);
    pthread_mutex_unlock(&tier->lock);
    if (*out != NULL)
        return 0;
    made = od_calloc(1, sizeof *made);
    if (made == NULL)
        return ENOMEM;
    if (od_blob_size(tier->blob, name, &made->size, &err) != OD_OK) {
        od_free(made);
        return tier_note(tier, &err);
    }
    snprintf(made->name, sizeof made->name, "%s", name);
    pthread_mutex_lock(&tier->lock);
    *out = known(tier, name);
    if (*out == NULL) {
        made->number = tier->origin_count++;
        made->next = tier->origins;
        tier->origins = made;
        *out = made;
        made = NULL;
    }
    pthread_mutex_unlock(&tier->lock);
    od_free(made);
    return 0;
}

void tier_origin_forget(od_tier *tier, const tier_origin *origin)
{
    pthread_mutex_lock(&tier->lock);
    tier_cache_forget(tier->cache, origin->number);
    pthread_mutex_unlock(&tier->lock);
}

/* With LOCK held: copies what is in the cache from AT on, up to END, and gives where it ends. */
static uint64_t copy_cached(od_tier *tier, const tier_origin *origin, uint64_t at, uint64_t end, uint8_t *out)
{
    while (at < end) {
        size_t have = 0;
        const uint8_t *bytes = tier_cache_get(tier->cache, origin->number, at / TIER_BLOCK, &have);
        size_t skip = (size_t)(at % TIER_BLOCK);
        size_t len;

        if (bytes == NULL || skip >= have)
            break;
        len = have - skip < end - at ? have - skip : (size_t)(end - at);
        memcpy(out, bytes + skip, len);
        out += len;
        at += len;
    }
    return at;
}

/* With LOCK held: where the fetch that begins at block FIRST ends. It takes in what is not there, up to END and what is read ahead. */
static uint64_t fetch_end(od_tier *tier, const tier_origin *origin, uint64_t first, uint64_t end)
{
    uint64_t want = end + origin->ahead < origin->size ? end + origin->ahead : origin->size;
    uint64_t block = first;
    size_t len;

    do
        block++;
    while (block * TIER_BLOCK < want && (block - first) * TIER_BLOCK < FETCH_MAX &&
           tier_cache_get(tier->cache, origin->number, block, &len) == NULL);
    return block * TIER_BLOCK < origin->size ? block * TIER_BLOCK : origin->size;
}

static int fetch(od_tier *tier, const tier_origin *origin, uint64_t from, uint64_t to)
{
    size_t len = (size_t)(to - from);
    uint8_t *bytes = od_alloc(len);
    od_error err = {0};
    od_code rc;

    if (bytes == NULL)
        return ENOMEM;
    rc = od_blob_read(tier->blob, origin->name, from, bytes, len, &err);
    if (rc == OD_OK) {
        pthread_mutex_lock(&tier->lock);
        tier->fetches++;
        tier->fetched_bytes += len;
        for (uint64_t at = from; at < to; at += TIER_BLOCK)
            tier_cache_put(tier->cache, origin->number, at / TIER_BLOCK, bytes + (at - from),
                           to - at < TIER_BLOCK ? (size_t)(to - at) : TIER_BLOCK);
        pthread_mutex_unlock(&tier->lock);
    }
    od_free(bytes);
    return rc == OD_OK ? 0 : tier_note(tier, &err);
}

/* With LOCK held: who reads where the last read ended, or just behind it, gets more and more. */
static void look_ahead(tier_origin *origin, uint64_t at, uint64_t end)
{
    if (at >= origin->last && at - origin->last < TIER_BLOCK && at > 0) {
        origin->ahead = origin->ahead == 0 ? AHEAD_FIRST : origin->ahead * 2;
        if (origin->ahead > FETCH_MAX)
            origin->ahead = FETCH_MAX;
    } else {
        origin->ahead = 0;
    }
    origin->last = end;
}

int tier_origin_read(od_tier *tier, tier_origin *origin, uint64_t at, void *out, size_t len, size_t *got)
{
    uint64_t end = at >= origin->size ? at : (len < origin->size - at ? at + len : origin->size);
    uint64_t now = at;
    bool asked = false;

    while (now < end) {
        uint64_t from;
        uint64_t to;
        int why;

        pthread_mutex_lock(&tier->lock);
        now = copy_cached(tier, origin, now, end, (uint8_t *)out + (now - at));
        from = now / TIER_BLOCK * TIER_BLOCK;
        if (!asked)
            look_ahead(origin, at, end);
        asked = true;
        to = now < end ? fetch_end(tier, origin, now / TIER_BLOCK, end) : now;
        pthread_mutex_unlock(&tier->lock);
        if (now == end)
            break;
        why = fetch(tier, origin, from, to);
        if (why != 0)
            return why;
    }
    *got = (size_t)(end - at);
    return 0;
}

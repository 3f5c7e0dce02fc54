/* What the files of this room share. */
#ifndef OD_STORAGE_TIER_TIER_H
#define OD_STORAGE_TIER_TIER_H

#include <pthread.h>

#include "storage/tier.h"
#include "storage/tier/cache.h"

#define TIER_NAME_MAX 100

/* A blob that was opened. There are as many as blobs were; they go with the tier. */
typedef struct tier_origin {
    struct tier_origin *next;
    uint64_t number;
    uint64_t size;
    uint64_t last;  /* where the last read ended */
    uint64_t ahead; /* bytes behind it that are fetched with it */
    char name[TIER_NAME_MAX + 1];
} tier_origin;

struct od_tier {
    od_io io; /* what is shown */
    const od_io *below;
    od_blob *blob;
    pthread_mutex_t lock; /* the rest; never held across I/O */
    tier_cache *cache;
    tier_origin *origins;
    uint64_t origin_count;
    uint64_t fetches;
    uint64_t fetched_bytes;
    int last_why; /* an errno value, and what stands behind it */
    char last_text[OD_ERROR_MESSAGE_SIZE];
};

/* The last part of PATH; NULL: it is too long. */
const char *tier_name(const char *path);
/* The errno value that fits ERR, which is noted. */
int tier_note(od_tier *tier, const od_error *err);
/* *out: the blob NAME. ENOENT: there is none. */
int tier_origin_find(od_tier *tier, const char *name, tier_origin **out);
int tier_origin_read(od_tier *tier, tier_origin *origin, uint64_t at, void *out, size_t len, size_t *got);
void tier_origin_forget(od_tier *tier, const tier_origin *origin);

#endif

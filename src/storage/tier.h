/* storage/tier.h: files as io.h has them, some of which are far away.
 *
 * A file that is opened to read, and that is not where its path says, is looked for among the blobs, under the last part of the path.
 * Of such a file ranges are fetched, into blocks that are kept while there is room; whoever reads on gets more than asked for. Blobs
 * never change, so neither do blocks. The rest goes to the port below. */
#ifndef OD_STORAGE_TIER_H
#define OD_STORAGE_TIER_H

#include "storage/blob.h"
#include "storage/io.h"

typedef struct od_tier od_tier;

/* IO is borrowed, BLOB is taken if it succeeds. CACHE_BYTES: of blocks; 0: 64 MiB. */
OD_MUST_CHECK od_code od_tier_create(const od_io *io, od_blob *blob, uint64_t cache_bytes, od_tier **out,
                                     od_error *err);
void od_tier_free(od_tier *tier); /* NULL allowed; no file is open */
const od_io *od_tier_io(const od_tier *tier);
const char *od_tier_url(const od_tier *tier);

/* Sends the first LENGTH bytes of the local file PATH, reads them back, and compares. ALIVE is asked between pieces, and ends it.
 *   OD_E_CORRUPT   other bytes came back: the blob is removed */
OD_MUST_CHECK od_code od_tier_send(od_tier *tier, const char *path, uint64_t length,
                                   od_code (*alive)(void *arg, od_error *err), void *arg, od_error *err);
/* The blob of PATH. That it is not there is none. */
OD_MUST_CHECK od_code od_tier_remove(od_tier *tier, const char *path, od_error *err);

bool od_tier_is_near(const od_tier *tier, const char *path);
/* Whether PATH has a blob of LENGTH bytes: OD_E_CORRUPT if it is another length, OD_E_NOT_FOUND. */
OD_MUST_CHECK od_code od_tier_check(od_tier *tier, const char *path, uint64_t length, od_error *err);

typedef struct {
    uint64_t fetches;
    uint64_t fetched_bytes;
    uint64_t cached_bytes;
} od_tier_counts;

od_tier_counts od_tier_count(od_tier *tier);

#endif

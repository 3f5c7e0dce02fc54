/* storage/extent.h: which record holds which bytes of one logical file, newest wins.
 *
 * An ordered map of intervals that never overlap: what is put covers what was there, which is cut or split around it.
 * put, cut and find take O(log n) besides what they remove. Not thread-safe: its owner locks. */
#ifndef OD_STORAGE_EXTENT_H
#define OD_STORAGE_EXTENT_H

#include <stdint.h>

#include "base/error.h"

typedef struct {
    uint64_t offset;   /* in the logical file */
    uint64_t position; /* of the record in its segment */
    uint32_t length;   /* never 0 */
    uint32_t skip;     /* bytes of the record's payload before these */
    uint32_t record;   /* of the record's whole payload */
    uint32_t layer;    /* the owner's number for the segment */
} od_extent;

typedef struct od_extent_node od_extent_node;

/* Zero-initialise. */
typedef struct {
    od_extent_node *root;
    od_extent_node *spare;
    size_t count;
    uint64_t dice;
} od_extent_map;

/* After OD_OK the next put cannot fail. */
OD_MUST_CHECK od_code od_extent_map_reserve(od_extent_map *map, od_error *err);
/* OD_E_NO_MEMORY: the map is as it was. */
OD_MUST_CHECK od_code od_extent_map_put(od_extent_map *map, const od_extent *extent, od_error *err);
/* Nothing at or behind SIZE remains. Cannot fail. */
void od_extent_map_cut(od_extent_map *map, uint64_t size);
/* The first extent that ends behind OFFSET; false: there is none. It may begin behind OFFSET: what lies before is a hole. */
bool od_extent_map_find(const od_extent_map *map, uint64_t offset, od_extent *out);
/* The same extent where it stands, for its place in a segment to be changed: position, skip, record, layer. NULL: there is none. */
od_extent *od_extent_map_at(od_extent_map *map, uint64_t offset);
void od_extent_map_clear(od_extent_map *map); /* may be repeated */

#endif

#include "storage/extent.h"

#include "base/alloc.h"

#include "base/banned.h"

/* A treap: a search tree by offset that is a heap by random weight, hence balanced whatever the order of puts. */
struct od_extent_node {
    od_extent extent;
    uint64_t weight;
    od_extent_node *left;
    od_extent_node *right;
};

static uint64_t end_of(const od_extent *extent)
{
    return extent->offset + extent->length;
}

static uint64_t throw_dice(od_extent_map *map)
{
    uint64_t x = map->dice += 0x9E3779B97F4A7C15U; /* splitmix64 */

    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31);
}

/* Nodes that begin before KEY go to *left, the others to *right. */
static void split(od_extent_node *node, uint64_t key, od_extent_node **left, od_extent_node **right)
{
    while (node != NULL) {
        if (node->extent.offset < key) {
            *left = node;
            left = &node->right;
            node = node->right;
        } else {
            *right = node;
            right = &node->left;
            node = node->left;
        }
    }
    *left = NULL;
    *right = NULL;
}

/* All of LEFT lies before all of RIGHT. */
static od_extent_node *join(od_extent_node *left, od_extent_node *right)
{
    od_extent_node *root = NULL;
    od_extent_node **at = &root;

    while (left != NULL && right != NULL) {
        if (left->weight > right->weight) {
            *at = left;
            at = &left->right;
            left = left->right;
        } else {
            *at = right;
            at = &right->left;
            right = right->left;
        }
    }
    *at = left != NULL ? left : right;
    return root;
}

static od_extent_node *last_of(od_extent_node *node)
{
    while (node != NULL && node->right != NULL)
        node = node->right;
    return node;
}

static void drop(od_extent_map *map, od_extent_node *node)
{
    while (node != NULL) {
        od_extent_node *left = node->left;

        if (left != NULL) { /* rotate, so that no stack is needed */
            node->left = left->right;
            left->right = node;
            node = left;
        } else {
            od_extent_node *right = node->right;

            od_free(node);
            map->count--;
            node = right;
        }
    }
}

/* Makes NODE the part of FROM that lies at or behind OFFSET. */
static void rest_of(od_extent_node *node, const od_extent *from, uint64_t offset)
{
    uint32_t gone = (uint32_t)(offset - from->offset);

    node->extent = *from;
    node->extent.offset = offset;
    node->extent.length -= gone;
    node->extent.skip += gone;
}

/* A put takes two nodes at most: the new one, and the rest of one that it splits. */
od_code od_extent_map_reserve(od_extent_map *map, od_error *err)
{
    while (map->spare == NULL || map->spare->right == NULL) {
        od_extent_node *node = od_calloc(1, sizeof *node);

        if (node == NULL)
            return od_fail(err, OD_E_NO_MEMORY, "no memory for an extent");
        node->right = map->spare;
        map->spare = node;
    }
    return OD_OK;
}

static od_extent_node *take_spare(od_extent_map *map)
{
    od_extent_node *node = map->spare;

    map->spare = node->right;
    *node = (od_extent_node){.weight = throw_dice(map)};
    return node;
}

od_code od_extent_map_put(od_extent_map *map, const od_extent *extent, od_error *err)
{
    od_extent_node *made;
    od_extent_node *before;
    od_extent_node *covered;
    od_extent_node *behind;
    od_extent_node *edge;
    uint64_t end = end_of(extent);
    od_code rc = od_extent_map_reserve(map, err);

    if (rc != OD_OK)
        return rc;
    made = take_spare(map);
    made->extent = *extent;
    split(map->root, extent->offset, &before, &covered);
    split(covered, end, &covered, &behind);
    map->count++;

    /* Only the last that begins before END can reach behind it. */
    edge = covered != NULL ? last_of(covered) : last_of(before);
    if (edge != NULL && end_of(&edge->extent) > end) {
        od_extent_node *rest = take_spare(map);

        rest_of(rest, &edge->extent, end);
        behind = join(rest, behind);
        map->count++;
    }
    edge = last_of(before);
    if (edge != NULL && end_of(&edge->extent) > extent->offset)
        edge->extent.length = (uint32_t)(extent->offset - edge->extent.offset);
    drop(map, covered);
    map->root = join(join(before, made), behind);
    return OD_OK;
}

void od_extent_map_cut(od_extent_map *map, uint64_t size)
{
    od_extent_node *behind;
    od_extent_node *edge;

    split(map->root, size, &map->root, &behind);
    drop(map, behind);
    edge = last_of(map->root);
    if (edge != NULL && end_of(&edge->extent) > size)
        edge->extent.length = (uint32_t)(size - edge->extent.offset);
}

static od_extent_node *find(od_extent_node *node, uint64_t offset)
{
    od_extent_node *found = NULL;

    while (node != NULL) {
        if (end_of(&node->extent) > offset) {
            found = node;
            node = node->left;
        } else {
            node = node->right;
        }
    }
    return found;
}

bool od_extent_map_find(const od_extent_map *map, uint64_t offset, od_extent *out)
{
    const od_extent_node *found = find(map->root, offset);

    if (found != NULL)
        *out = found->extent;
    return found != NULL;
}

od_extent *od_extent_map_at(od_extent_map *map, uint64_t offset)
{
    od_extent_node *found = find(map->root, offset);

    return found != NULL ? &found->extent : NULL;
}

void od_extent_map_clear(od_extent_map *map)
{
    drop(map, map->root);
    map->root = NULL;
    while (map->spare != NULL) {
        od_extent_node *next = map->spare->right;

        od_free(map->spare);
        map->spare = next;
    }
}

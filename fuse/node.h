/* What an inode's number says: where it is, and what. So nothing is kept for what the kernel remembers. */
#ifndef OD_FUSE_NODE_H
#define OD_FUSE_NODE_H

#include <stddef.h>
#include <stdint.h>

typedef enum { NODE_FOLDER, NODE_SNAPSHOTS, NODE_SCRATCH, NODE_FILE } node_kind;

typedef struct {
    node_kind kind;
    size_t place;  /* its number */
    uint64_t file; /* of a NODE_FILE, or whose NODE_SCRATCH it is */
} node;

/* The place is in the upper bits, what it is there in the lower ones; the mounted folder is FUSE's number 1. */
enum { NODE_PLACE_SHIFT = 40, NODE_FIRST_FILE = 16 };

static inline uint64_t node_inode(node n)
{
    uint64_t local = n.kind == NODE_FOLDER ? 1 : 2;

    if (n.kind == NODE_FILE || n.kind == NODE_SCRATCH)
        local = NODE_FIRST_FILE + 2 * n.file + (n.kind == NODE_SCRATCH);
    return (uint64_t)n.place << NODE_PLACE_SHIFT | local;
}

static inline node node_of(uint64_t inode)
{
    uint64_t local = inode & ((UINT64_C(1) << NODE_PLACE_SHIFT) - 1);
    node n = {.place = (size_t)(inode >> NODE_PLACE_SHIFT)};

    if (local >= NODE_FIRST_FILE) {
        n.kind = local % 2 ? NODE_SCRATCH : NODE_FILE;
        n.file = (local - NODE_FIRST_FILE) / 2;
    } else {
        n.kind = local == 2 ? NODE_SNAPSHOTS : NODE_FOLDER;
    }
    return n;
}

#endif

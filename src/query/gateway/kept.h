/* The first messages of a client's stream, until there are so many that they must have arrived: queues are shorter. */
#ifndef OD_QUERY_GATEWAY_KEPT_H
#define OD_QUERY_GATEWAY_KEPT_H

#include "base/buf.h"

enum { KEPT_MAX = 16, KEPT_BYTES = 8 << 20 };

/* Zero-initialise. */
typedef struct {
    od_msg *list[KEPT_MAX];
    size_t count, bytes;
    bool gone; /* there were more: none is kept */
} kept;

void kept_add(kept *k, od_msg *msg); /* references MSG */
void kept_release(kept *k);

#endif

#include "query/gateway/kept.h"

#include "base/banned.h"

void kept_add(kept *k, od_msg *msg)
{
    if (k->gone)
        return;
    /* A single large one may wait for its connection. */
    if (k->count == KEPT_MAX || (k->count > 1 && k->bytes + od_msg_len(msg) > KEPT_BYTES)) {
        kept_release(k);
        k->gone = true;
        return;
    }
    k->bytes += od_msg_len(msg);
    k->list[k->count++] = od_msg_ref(msg);
}

void kept_release(kept *k)
{
    while (k->count > 0)
        od_msg_unref(k->list[--k->count]);
    k->bytes = 0;
}

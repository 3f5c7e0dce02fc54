#include "vgi/worker/share.h"

#include <pthread.h>

#include "base/alloc.h"

#include "base/banned.h"

struct vgiw_share {
    vgiw_shares *all;
    vgiw_share *next;
    od_uuid execution;
    void *shared;
    void (*end)(void *shared);
    size_t streams;
};

struct vgiw_shares {
    pthread_mutex_t lock; /* of the list, and of `streams` of what is in it */
    vgiw_share *list;
};

od_code vgiw_shares_create(vgiw_shares **out, od_error *err)
{
    vgiw_shares *shares = od_calloc(1, sizeof *shares);

    *out = shares;
    if (shares == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    pthread_mutex_init(&shares->lock, NULL);
    return OD_OK;
}

void vgiw_shares_free(vgiw_shares *shares)
{
    if (shares == NULL)
        return;
    pthread_mutex_destroy(&shares->lock);
    od_free(shares);
}

od_code vgiw_share_begin(vgiw_shares *shares, od_uuid execution, void *shared, void (*end)(void *), vgiw_share **out,
                         od_error *err)
{
    vgiw_share *share = od_calloc(1, sizeof *share);

    *out = share;
    if (share == NULL) {
        if (end != NULL)
            end(shared);
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    }
    *share = (vgiw_share){shares, NULL, execution, shared, end, 1};
    pthread_mutex_lock(&shares->lock);
    share->next = shares->list;
    shares->list = share;
    pthread_mutex_unlock(&shares->lock);
    return OD_OK;
}

vgiw_share *vgiw_share_join(vgiw_shares *shares, od_slice execution)
{
    vgiw_share *share;

    pthread_mutex_lock(&shares->lock);
    share = shares->list;
    while (share != NULL && !od_slice_equal(execution, od_slice_of(share->execution.bytes, sizeof share->execution)))
        share = share->next;
    if (share != NULL)
        share->streams++;
    pthread_mutex_unlock(&shares->lock);
    return share;
}

void *vgiw_share_of(const vgiw_share *share)
{
    return share != NULL ? share->shared : NULL;
}

void vgiw_share_leave(vgiw_share *share)
{
    vgiw_shares *shares;
    vgiw_share **at;
    bool last;

    if (share == NULL)
        return;
    shares = share->all;
    pthread_mutex_lock(&shares->lock);
    last = --share->streams == 0;
    for (at = &shares->list; last && *at != share;)
        at = &(*at)->next;
    if (last)
        *at = share->next;
    pthread_mutex_unlock(&shares->lock);
    if (!last)
        return;
    if (share->end != NULL)
        share->end(share->shared);
    od_free(share);
}

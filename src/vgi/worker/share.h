/* vgi/worker/share.h: what the streams of one scan have in common, for as long as there is one of them. Thread: any. */
#ifndef OD_VGI_WORKER_SHARE_H
#define OD_VGI_WORKER_SHARE_H

#include "base/buf.h"
#include "base/uuid.h"

typedef struct vgiw_shares vgiw_shares;
typedef struct vgiw_share vgiw_share;

OD_MUST_CHECK od_code vgiw_shares_create(vgiw_shares **out, od_error *err);
void vgiw_shares_free(vgiw_shares *shares); /* all have been left. NULL allowed */

/* Of the first stream. SHARED is taken, also on failure; END (NULL: nothing is to be done) ends it. */
OD_MUST_CHECK od_code vgiw_share_begin(vgiw_shares *shares, od_uuid execution, void *shared, void (*end)(void *),
                                       vgiw_share **out, od_error *err);
/* Of another one. NULL: all streams have ended, or there was none here. */
vgiw_share *vgiw_share_join(vgiw_shares *shares, od_slice execution);
void *vgiw_share_of(const vgiw_share *share); /* NULL allowed */
void vgiw_share_leave(vgiw_share *share);     /* NULL allowed */

#endif

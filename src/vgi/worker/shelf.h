/* vgi/worker/shelf.h: what is kept between two requests of a client: by a key, for a time.
 *
 * What nobody asks for goes after ten minutes; where there is too much, after thirty seconds, or as soon as it is done with. Thread: any. */
#ifndef OD_VGI_WORKER_SHELF_H
#define OD_VGI_WORKER_SHELF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum { VGIW_KEY = 64 };

/* What is kept begins with it. */
typedef struct vgiw_kept {
    struct vgiw_kept *next;
    uint8_t key[VGIW_KEY];
    size_t key_len;
    bool used; /* a thread is at it: all but the shelf's own fields are that thread's */
    bool done; /* only for who asks a second time */
    int64_t since_ns;
} vgiw_kept;

typedef struct vgiw_shelf vgiw_shelf;

OD_MUST_CHECK od_code vgiw_shelf_create(void (*free_kept)(vgiw_kept *), vgiw_shelf **out, od_error *err);
void vgiw_shelf_free(vgiw_shelf *shelf); /* with all that it has. NULL allowed */

/* KEPT, which has a key, is the shelf's from now on, and used. OD_E_BUSY: there is no room. */
OD_MUST_CHECK od_code vgiw_shelf_enter(vgiw_shelf *shelf, vgiw_kept *kept, od_error *err);
/* It is used then; who else uses it is waited for. NULL: there is none. */
vgiw_kept *vgiw_shelf_find(vgiw_shelf *shelf, od_slice key);
void vgiw_shelf_give_back(vgiw_shelf *shelf, vgiw_kept *kept);
/* What is used is the caller's from now on. */
void vgiw_shelf_take(vgiw_shelf *shelf, vgiw_kept *kept);

#endif

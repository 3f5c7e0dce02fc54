/* Runs of layers become one. A run: layers of which each is the parent of the next, lowest first, all frozen or sealed. */
#ifndef OD_STORAGE_STORE_MERGE_H
#define OD_STORAGE_STORE_MERGE_H

#include "storage/store/volume.h"

/* ---- plan.c: which ---- */

typedef struct {
    od_layer_row *rows;
    size_t count;
} od_run;

/* What to merge next among ROWS, the layers that are alive, of those that DATABASE wrote (NULL: any did). run->count 0: nothing. WHOLE:
 * all that nobody needs apart; else as much as pays. */
OD_MUST_CHECK od_code od_run_choose(const od_layer_rows *rows, const od_uuid *database, bool whole, od_run *run,
                                    od_error *err);
void od_run_release(od_run *run);

/* ---- merge.c ---- */

/* A new layer takes the place of RUN, in the metadata and in the writers of this STORE, and what nobody else has open goes. *moved: so it
 * is, also if what came afterwards failed.
 *   OD_E_STALE_LEASE   somebody else has changed the run
 *   OD_E_CANCELLED     FN wants no more */
OD_MUST_CHECK od_code od_run_merge(od_layered_store *store, const od_layer_row *run, size_t count, od_merge_fn fn,
                                   void *arg, bool *moved, od_error *err);

/* ---- adopt.c: volumes that are open go over to the new layer ---- */

/* INDEX is the footer of MADE, in which no extent of RUN lies in two. */
void od_store_adopt(od_layered_store *store, const od_layer_row *run, size_t count, od_open_layer *made,
                    const od_footer *index);

/* ---- upkeep.c ---- */

/* Removes those of RUN that nobody reaches any more. */
OD_MUST_CHECK od_code od_run_retire(od_layered_store *store, const od_layer_row *run, size_t count, od_error *err);

#endif

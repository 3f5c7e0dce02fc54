/* query/engine/retype.h: a change of a column's type must not lose the rows' last values.
 *
 * DuckDB 1.5.5 writes a column anew from what is stored for its rows. As long as a transaction is open that began before an
 * UPDATE was committed, the new values lie beside them, and ALTER TABLE ... TYPE (so do fields that are added to a STRUCT, dropped
 * or renamed) takes the old ones: what was committed would be gone, without an error. So such a statement waits here until nothing is
 * open that is older than the last change, and the next change waits for it. */
#ifndef OD_QUERY_ENGINE_RETYPE_H
#define OD_QUERY_ENGINE_RETYPE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

typedef struct od_retype_user {
    struct od_retype_user *next, *previous; /* of those that are open */
    uint64_t since;                         /* changes that had been made when it was opened */
    bool changing;                          /* it has changed rows that are not yet there for others */
} od_retype_user;

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    od_retype_user *open;
    uint64_t changes; /* that are there for all */
    bool under_way;
} od_retype;

void od_retype_init(od_retype *retype);
void od_retype_destroy(od_retype *retype);

/* Around all that may hold a transaction of DuckDB. USER is the caller's, zeroed. */
void od_retype_open(od_retype *retype, od_retype_user *user);
void od_retype_close(od_retype *retype, od_retype_user *user);

/* Before USER changes something: waits for a change of type. */
void od_retype_change(od_retype *retype, od_retype_user *user, const atomic_bool *stopped);
/* What USER changed is there for all, or undone. */
void od_retype_changed(od_retype *retype, od_retype_user *user);

/* Before a change of type by USER, in a transaction of several statements or not (IN_TXN); _end follows if it is OD_OK.
 *   OD_E_TRANSACTION  what began before the last change is still open after some seconds, or it is USER's own transaction
 *   OD_E_CANCELLED    STOPPED is set */
OD_MUST_CHECK od_code od_retype_begin(od_retype *retype, const od_retype_user *user, bool in_txn,
                                      const atomic_bool *stopped, od_error *err);
void od_retype_end(od_retype *retype);

#endif

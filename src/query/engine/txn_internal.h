/* query/engine, inside: a transaction's turns (txn.c), and results that wait for their reader (spool.c). */
#ifndef OD_QUERY_ENGINE_TXN_INTERNAL_H
#define OD_QUERY_ENGINE_TXN_INTERNAL_H

#include "query/engine/execution_internal.h"

/* ---- spool.c: payloads in order, in memory or in a file ---- */

typedef struct od_spool od_spool;

/* DIR (may be NULL) is where its file is made, if it needs one; else TMPDIR or /tmp. */
OD_MUST_CHECK od_code od_spool_create(const char *dir, size_t memory, od_spool **out, od_error *err);
void od_spool_free(od_spool *spool); /* NULL allowed */
/* Takes MSG, on failure too. */
OD_MUST_CHECK od_code od_spool_put(od_spool *spool, od_msg *msg, od_error *err);
/* *out is NULL when it is empty. */
OD_MUST_CHECK od_code od_spool_take(od_spool *spool, od_msg **out, od_error *err);

/* ---- txn.c ---- */

struct od_txn {
    atomic_uint refs;
    od_engine *engine;
    od_lease *lease;         /* NULL once it is over */
    od_effect effect;        /* the most that has been done in it; by whose turn it is */
    od_execution *streaming; /* whose result is open on the connection; by whose turn it is */

    pthread_mutex_t lock; /* what follows */
    pthread_cond_t changed;
    bool busy;               /* it is someone's turn */
    unsigned starters;       /* those that wait for a first turn: they go before those that fetch more */
    bool ending, over;       /* nothing more starts; it has no connection */
    const atomic_bool *stop; /* of whose turn it is: interrupted */
    uint64_t catalog_version;
    char why[200]; /* it ended */
};

/* Waits for a turn, and fetches what another's open result still has to give. STOPPED (may be NULL) ends the wait with OD_E_CANCELLED,
 * once it is set and od_txn_nudge called. FETCHER: the execution that has the open result, or NULL. */
OD_MUST_CHECK od_code od_txn_enter(od_txn *txn, const atomic_bool *stopped, od_execution *fetcher, od_error *err);
/* A turn for one that ends, whose result is left as it is; also while the transaction is ending. False: it is over. */
OD_MUST_CHECK bool od_txn_enter_last(od_txn *txn);
void od_txn_leave(od_txn *txn);
/* STOPPED was set: ends its wait and, with INTERRUPT, DuckDB's work if it is its turn. */
void od_txn_nudge(od_txn *txn, const atomic_bool *stopped, bool interrupt);
bool od_txn_is_over(od_txn *txn);
/* By whose turn it is: a statement that changes the catalog began or ended. */
void od_txn_set_catalog_version(od_txn *txn, uint64_t version);

/* ---- execution.c ---- */

/* In its transaction's turn: moves the rest of EXECUTION's result into its spool, or as much as comes before STOPPED is set. */
OD_MUST_CHECK od_code od_execution_set_aside(od_execution *execution, const atomic_bool *stopped, od_error *err);
/* In its transaction's turn: its result is closed; what it gives next is WHY. */
void od_execution_cut(od_execution *execution, const char *why);

/* Called before a statement of this effect begins and after it ended. */
void od_engine_changed(od_engine *engine, od_effect effect);
/* A version that no catalog had or will have but that of one transaction. */
uint64_t od_engine_private_version(od_engine *engine);

/* Of a DATABASE that was asked for by name: what else RIGHTS lacks is seen when it is bound. OD_E_PERMISSION */
OD_MUST_CHECK od_code od_engine_check_rights(const od_rights *rights, od_slice database, od_error *err);
od_lease_pool *od_engine_pool(od_engine *engine, od_slice database, od_error *err);

#endif

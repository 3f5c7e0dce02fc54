/* Transactions: a connection each, and turns on it. */
#include <string.h>

#include "base/alloc.h"
#include "base/ident.h"
#include "query/engine/txn_internal.h"
#include "base/banned.h"

/* ---- turns ---- */

static od_code gone(const od_txn *txn, od_error *err)
{
    return od_fail(err, OD_E_NO_TRANSACTION, "the transaction is over: %s", txn->why);
}

static bool set(const atomic_bool *flag)
{
    return flag != NULL && atomic_load(flag);
}

/* A turn, whatever the state. ENDING: for the end itself, which goes before all others. */
static od_code wait_turn(od_txn *txn, const atomic_bool *stopped, bool fetching, bool ending, od_error *err)
{
    od_code rc = OD_OK;
    (void)pthread_mutex_lock(&txn->lock);
    txn->starters += !fetching;
    while (!set(stopped) && !txn->over && (ending || !txn->ending) && (txn->busy || (fetching && txn->starters > 0)))
        (void)pthread_cond_wait(&txn->changed, &txn->lock);
    txn->starters -= !fetching;
    if (txn->over || (txn->ending && !ending))
        rc = gone(txn, err);
    else if (set(stopped))
        rc = od_fail(err, OD_E_CANCELLED, "the execution was cancelled");
    else {
        txn->busy = true;
        txn->stop = stopped;
    }
    if (rc != OD_OK)
        (void)pthread_cond_broadcast(&txn->changed);
    (void)pthread_mutex_unlock(&txn->lock);
    return rc;
}

void od_txn_leave(od_txn *txn)
{
    (void)pthread_mutex_lock(&txn->lock);
    txn->busy = false;
    txn->stop = NULL;
    (void)pthread_cond_broadcast(&txn->changed);
    (void)pthread_mutex_unlock(&txn->lock);
}

static void work_for(od_txn *txn, const atomic_bool *stopped)
{
    (void)pthread_mutex_lock(&txn->lock);
    txn->stop = stopped;
    (void)pthread_mutex_unlock(&txn->lock);
}

bool od_txn_enter_last(od_txn *txn)
{
    return wait_turn(txn, NULL, false, true, NULL) == OD_OK;
}

od_code od_txn_enter(od_txn *txn, const atomic_bool *stopped, od_execution *fetcher, od_error *err)
{
    bool fetching = fetcher != NULL;
    od_code rc = wait_turn(txn, stopped, fetching, false, err);
    if (rc != OD_OK || txn->streaming == NULL || txn->streaming == fetcher)
        return rc;
    /* Meanwhile DuckDB works for the other one, which alone may interrupt it. */
    work_for(txn, &txn->streaming->interrupted);
    rc = od_execution_set_aside(txn->streaming, stopped, err);
    work_for(txn, stopped);
    if (rc != OD_OK)
        od_txn_leave(txn);
    return rc;
}

void od_txn_nudge(od_txn *txn, const atomic_bool *stopped, bool interrupt)
{
    (void)pthread_mutex_lock(&txn->lock);
    if (interrupt && txn->busy && txn->stop == stopped && txn->lease != NULL)
        duckdb_interrupt(txn->lease->connection);
    (void)pthread_cond_broadcast(&txn->changed);
    (void)pthread_mutex_unlock(&txn->lock);
}

bool od_txn_is_over(od_txn *txn)
{
    (void)pthread_mutex_lock(&txn->lock);
    bool over = txn->over || txn->ending;
    (void)pthread_mutex_unlock(&txn->lock);
    return over;
}

uint64_t od_txn_catalog_version(od_txn *txn)
{
    (void)pthread_mutex_lock(&txn->lock);
    uint64_t version = txn->catalog_version;
    (void)pthread_mutex_unlock(&txn->lock);
    return version;
}

void od_txn_set_catalog_version(od_txn *txn, uint64_t version)
{
    (void)pthread_mutex_lock(&txn->lock);
    txn->catalog_version = version;
    (void)pthread_mutex_unlock(&txn->lock);
}

/* ---- beginning ---- */

/* DuckDB gives a transaction its view of a database when it is first touched: that is now, unless RIGHTS lacks it. */
static od_code begin(od_txn *txn, const od_rights *rights, od_error *err)
{
    duckdb_connection connection = txn->lease->connection;
    od_buf touch = {0};
    od_code rc;
    if (od_rights_database(rights, od_slice_str(txn->lease->pool->database))) {
        OD_TRY(od_buf_printf(&touch, err, "USE "));
        OD_TRY(od_quote_ident(&touch, od_slice_str(txn->lease->pool->database), err));
    } else {
        OD_TRY(od_buf_printf(&touch, err, "SELECT 1"));
    }
    OD_TRY(od_buf_append(&touch, "", 1, err));
    /* The version has to be that of the view: should the catalog change meanwhile, once more. */
    for (;;) {
        txn->catalog_version = od_pool_catalog_version(txn->engine, txn->lease->pool);
        OD_TRY(od_duck_run(connection, "BEGIN TRANSACTION", err));
        rc = od_duck_run(connection, (const char *)touch.data, err);
        if (rc == OD_OK)
            od_lake_look(txn->engine, txn->lease);
        if (rc == OD_OK && txn->catalog_version == od_pool_catalog_version(txn->engine, txn->lease->pool))
            break;
        od_duck_try(connection, "ROLLBACK");
        if (rc != OD_OK)
            break;
    }
out:
    od_buf_release(&touch);
    return rc;
}

static void destroy(od_txn *txn)
{
    od_lease_give(txn->lease);
    (void)pthread_cond_destroy(&txn->changed);
    (void)pthread_mutex_destroy(&txn->lock);
    od_free(txn);
}

od_code od_txn_begin(od_engine *engine, od_slice database, od_rights *rights, od_txn **out, od_error *err)
{
    od_lease_pool *pool = od_engine_pool(engine, database, err);
    *out = NULL;
    if (pool == NULL)
        return OD_E_NOT_FOUND;
    od_code rc = od_engine_check_rights(rights, database, err);
    if (rc != OD_OK)
        return rc;
    od_txn *txn = od_calloc(1, sizeof *txn);
    if (txn == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    atomic_init(&txn->refs, 1);
    txn->engine = engine;
    (void)pthread_mutex_init(&txn->lock, NULL);
    (void)pthread_cond_init(&txn->changed, NULL);
    rc = od_lease_take(pool, &txn->lease, err);
    if (rc == OD_OK)
        rc = begin(txn, rights, err);
    if (rc == OD_OK)
        rc = od_lease_limit(txn->lease, rights, err);
    if (rc != OD_OK) {
        if (txn->lease != NULL)
            txn->lease->soiled = true;
        destroy(txn);
        return rc;
    }
    *out = txn;
    return OD_OK;
}

od_txn *od_txn_ref(od_txn *txn)
{
    (void)atomic_fetch_add(&txn->refs, 1);
    return txn;
}

/* ---- ending ---- */

/* DuckDB takes the COMMIT of an aborted transaction for a ROLLBACK, and says nothing. */
static od_code commit(od_txn *txn, od_error *err)
{
    od_code rc = OD_OK;
    if (txn->effect != OD_EFFECT_READS)
        rc = od_duck_run(txn->lease->connection, "SELECT 1", err);
    if (rc == OD_OK)
        return od_duck_run(txn->lease->connection, "COMMIT", err);
    od_error_prefix(err, "nothing was committed");
    return rc;
}

/* In its turn: what it did becomes, or did not become, everyone's. */
static od_code end(od_txn *txn, bool keep, od_error *err)
{
    od_effect effect = txn->effect;
    if (keep)
        od_engine_changed(txn->engine, effect);
    od_code rc = keep ? commit(txn, err) : od_duck_run(txn->lease->connection, "ROLLBACK", err);
    if (rc != OD_OK) {
        /* DuckDB rolls back what it cannot commit; should a transaction be left, the connection goes with it. */
        od_duck_try(txn->lease->connection, "ROLLBACK");
        txn->lease->soiled = true;
    }
    od_retype_changed(&txn->engine->retype, &txn->lease->user);
    if (keep)
        od_engine_changed(txn->engine, effect);
    if (rc == OD_OK && effect != OD_EFFECT_READS)
        od_lake_look(txn->engine, txn->lease);
    if (effect == OD_EFFECT_ANYTHING)
        txn->lease->soiled = true;
    return rc;
}

/* In its turn. */
static void finish(od_txn *txn)
{
    od_lease *lease = txn->lease;
    (void)pthread_mutex_lock(&txn->lock);
    txn->lease = NULL; /* nobody interrupts the next user */
    txn->over = true;
    txn->catalog_version = od_pool_catalog_version(txn->engine, lease->pool);
    (void)pthread_mutex_unlock(&txn->lock);
    od_lease_give(lease);
    od_txn_leave(txn);
}

static bool start_end(od_txn *txn, const char *why, bool stop)
{
    (void)pthread_mutex_lock(&txn->lock);
    bool first = !txn->ending && !txn->over;
    if (first) {
        txn->ending = true;
        (void)snprintf(txn->why, sizeof txn->why, "%s", why);
        if (stop && txn->busy)
            duckdb_interrupt(txn->lease->connection);
        (void)pthread_cond_broadcast(&txn->changed);
    }
    (void)pthread_mutex_unlock(&txn->lock);
    return first;
}

od_code od_txn_commit(od_txn *txn, od_error *err)
{
    od_code rc = od_txn_enter(txn, NULL, NULL, err); /* after what came before it */
    if (rc != OD_OK)
        return rc;
    if (!start_end(txn, "it was committed", false)) {
        od_txn_leave(txn); /* a rollback came first */
        return gone(txn, err);
    }
    rc = end(txn, true, err);
    if (rc != OD_OK) {
        (void)pthread_mutex_lock(&txn->lock);
        (void)snprintf(txn->why, sizeof txn->why, "it could not be committed");
        (void)pthread_mutex_unlock(&txn->lock);
    }
    finish(txn);
    return rc;
}

od_code od_txn_rollback(od_txn *txn, const char *why, od_error *err)
{
    if (!start_end(txn, why, true))
        return gone(txn, err);
    od_code rc = wait_turn(txn, NULL, false, true, err);
    if (rc != OD_OK)
        return rc;
    if (txn->streaming != NULL)
        od_execution_cut(txn->streaming, why);
    rc = end(txn, false, err);
    finish(txn);
    return rc;
}

void od_txn_unref(od_txn *txn)
{
    if (txn == NULL || atomic_fetch_sub(&txn->refs, 1) != 1)
        return;
    if (!txn->over && od_txn_rollback(txn, "it was left", NULL) != OD_OK && txn->lease != NULL)
        txn->lease->soiled = true;
    destroy(txn);
}

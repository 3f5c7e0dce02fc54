/* What a statement may do, and who has to know of it. */
#include <string.h>

#include "query/engine/execution_internal.h"
#include "query/engine/txn_internal.h"
#include "base/banned.h"

static bool contains_word(const char *sql, const char *word)
{
    return strcasestr(sql, word) != NULL;
}

od_effect od_effect_of(duckdb_statement_type type, const char *sql)
{
    switch (type) {
    case DUCKDB_STATEMENT_TYPE_SELECT:
        return OD_EFFECT_READS;
    case DUCKDB_STATEMENT_TYPE_EXPLAIN: /* EXPLAIN ANALYZE runs what it explains */
        return contains_word(sql, "analy") ? OD_EFFECT_ANYTHING : OD_EFFECT_READS;
    case DUCKDB_STATEMENT_TYPE_INSERT:
    case DUCKDB_STATEMENT_TYPE_UPDATE:
    case DUCKDB_STATEMENT_TYPE_DELETE:
    case DUCKDB_STATEMENT_TYPE_MERGE_INTO:
    case DUCKDB_STATEMENT_TYPE_COPY:
        return OD_EFFECT_WRITES;
    case DUCKDB_STATEMENT_TYPE_CREATE:
    case DUCKDB_STATEMENT_TYPE_DROP:
    case DUCKDB_STATEMENT_TYPE_ALTER:
        return contains_word(sql, "temp") ? OD_EFFECT_ANYTHING : OD_EFFECT_DEFINES;
    default:
        return OD_EFFECT_ANYTHING;
    }
}

void od_engine_changed(od_engine *engine, od_effect effect)
{
    if (effect == OD_EFFECT_READS)
        return;
    atomic_fetch_add(&engine->data_version, 1);
    if (effect != OD_EFFECT_WRITES && atomic_fetch_add(&engine->catalog_version, 1) == UINT64_MAX)
        atomic_fetch_add(&engine->catalog_version, 1); /* 0 means "any" */
}

/* A statement of this effect begins or has ended. What a transaction changes is its own until it is committed, and so is the version
 * that its catalog has; but for what it does outside of it (ATTACH, SET GLOBAL). */
static void note_change(od_execution *execution, od_effect effect)
{
    od_txn *txn = execution->txn;
    if (txn == NULL || effect == OD_EFFECT_ANYTHING)
        od_engine_changed(execution->engine, effect);
    if (effect != OD_EFFECT_DEFINES && effect != OD_EFFECT_ANYTHING)
        return;
    if (txn != NULL)
        od_txn_set_catalog_version(txn, od_engine_private_version(execution->engine));
    execution->catalog_version =
        txn != NULL ? od_txn_catalog_version(txn) : od_pool_catalog_version(execution->engine, execution->lease->pool);
}

/* Whether DuckDB may refuse SQL while a transaction is open that began before the last changes: CREATE INDEX, ADD PRIMARY KEY,
 * CHECKPOINT. */
static bool needs_quiet(const char *sql)
{
    return contains_word(sql, "index") || contains_word(sql, "alter") || contains_word(sql, "checkpoint");
}

/* Whether SQL may write a column anew: ALTER ... TYPE, or a field of a STRUCT ("ADD COLUMN s.x INTEGER"). */
static bool may_retype(duckdb_statement_type type, const char *sql)
{
    static const char *const changes[] = {"add", "drop", "rename"};
    if (type != DUCKDB_STATEMENT_TYPE_ALTER)
        return false;
    bool field = false;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const char *change = strcasestr(sql, changes[i]);
        field = field || (change != NULL && strchr(change, '.') != NULL);
    }
    return field || contains_word(sql, "type");
}

od_code od_effect_begin(od_execution *execution, duckdb_statement_type type, od_effect effect, od_error *err)
{
    od_retype *retype = &execution->engine->retype;
    od_retype_user *user = &execution->lease->user;
    if (effect > OD_EFFECT_WRITES && needs_quiet(execution->sql))
        od_settle_wait(&execution->engine->settle, &execution->interrupted);
    if (may_retype(type, execution->sql)) {
        od_code rc = od_retype_begin(retype, user, execution->txn != NULL, &execution->interrupted, err);
        if (rc != OD_OK)
            return rc;
        execution->retyping = true;
    } else if (effect == OD_EFFECT_WRITES || effect == OD_EFFECT_ANYTHING) {
        od_retype_change(retype, user, &execution->interrupted);
    }
    if (effect == OD_EFFECT_ANYTHING)
        execution->lease->soiled = true;
    if (execution->txn != NULL && effect > execution->txn->effect)
        execution->txn->effect = effect;
    note_change(execution, effect);
    execution->effect = effect;
    if (effect != OD_EFFECT_READS)
        atomic_store(&execution->changes, true);
    return OD_OK;
}

void od_effect_end(od_execution *execution)
{
    od_effect effect = execution->effect;
    execution->effect = OD_EFFECT_READS;
    if (execution->retyping)
        od_retype_end(&execution->engine->retype);
    execution->retyping = false;
    if (execution->txn == NULL && effect != OD_EFFECT_READS)
        od_retype_changed(&execution->engine->retype, &execution->lease->user);
    note_change(execution, effect);
}

/* Connections, pooled by database, and the prepared statements that each of them keeps. */
#include <string.h>

#include "base/alloc.h"
#include "base/ident.h"
#include "query/engine/engine_internal.h"
#include "base/banned.h"

od_code od_duck_run(duckdb_connection connection, const char *sql, od_error *err)
{
    duckdb_result result;
    od_code rc = OD_OK;
    if (duckdb_query(connection, sql, &result) == DuckDBError)
        rc = od_duck_fail(err, duckdb_result_error(&result));
    duckdb_destroy_result(&result);
    return rc;
}

void od_duck_try(duckdb_connection connection, const char *sql)
{
    duckdb_result result;
    (void)duckdb_query(connection, sql, &result);
    duckdb_destroy_result(&result);
}

static void free_statement(od_statement *statement)
{
    duckdb_destroy_prepare(&statement->prepared);
    od_native_free(statement->native);
    od_free(statement->sql);
    od_free(statement);
}

static void free_lease(od_lease *lease)
{
    while (lease->statements != NULL) {
        od_statement *statement = lease->statements;
        lease->statements = statement->next;
        free_statement(statement);
    }
    duckdb_disconnect(&lease->connection);
    od_free(lease);
}

static od_code use_database(od_lease *lease, od_error *err)
{
    od_buf sql = {0};
    od_code rc;
    OD_TRY(od_buf_printf(&sql, err, "USE "));
    OD_TRY(od_quote_ident(&sql, od_slice_str(lease->pool->database), err));
    OD_TRY(od_buf_append(&sql, "", 1, err));
    OD_TRY(od_duck_run(lease->connection, (const char *)sql.data, err));
out:
    od_buf_release(&sql);
    return rc;
}

od_code od_lease_take(od_lease_pool *pool, od_lease **out, od_error *err)
{
    *out = NULL;
    (void)pthread_mutex_lock(&pool->lock);
    od_lease *lease = pool->idle;
    if (lease != NULL) {
        pool->idle = lease->next;
        pool->idle_count--;
    }
    (void)pthread_mutex_unlock(&pool->lock);
    if (lease == NULL) {
        lease = od_calloc(1, sizeof *lease);
        if (lease == NULL)
            return od_fail(err, OD_E_NO_MEMORY, "out of memory");
        lease->pool = pool;
        if (duckdb_connect(pool->instance, &lease->connection) == DuckDBError) {
            od_free(lease);
            return od_fail(err, OD_E_INTERNAL, "the database gives no connection");
        }
        od_code rc = pool->confined && !pool->host->confine_client(lease->connection)
                         ? od_fail(err, OD_E_NO_MEMORY, "out of memory")
                         : use_database(lease, err);
        if (rc != OD_OK) {
            free_lease(lease);
            return rc;
        }
    }
    od_retype_open(pool->retype, &lease->user);
    *out = lease;
    return OD_OK;
}

od_code od_lease_limit(od_lease *lease, od_rights *rights, od_error *err)
{
    if (!od_rights_limited(rights))
        return OD_OK;
    if (lease->pool->host == NULL)
        return od_fail(err, OD_E_NOT_IMPLEMENTED, "statements cannot be held to a token's rights in this build");
    lease->rights = od_rights_ref(rights);
    if (!od_rights_database(rights, od_slice_str(lease->pool->database)))
        lease->soiled = true; /* it leaves its database */
    lease->pool->host->set_limit(lease->connection, rights);
    return OD_OK;
}

void od_lease_give(od_lease *lease)
{
    if (lease == NULL)
        return;
    if (lease->rights != NULL) {
        lease->pool->host->set_limit(lease->connection, NULL);
        od_rights_unref(lease->rights);
        lease->rights = NULL;
    }
    od_lease_pool *pool = lease->pool;
    od_retype_close(pool->retype, &lease->user);
    bool pooled = false;
    if (!lease->soiled) {
        (void)pthread_mutex_lock(&pool->lock);
        if (pool->idle_count < OD_ENGINE_IDLE) {
            lease->next = pool->idle;
            pool->idle = lease;
            pool->idle_count++;
            pooled = true;
        }
        (void)pthread_mutex_unlock(&pool->lock);
    }
    if (!pooled)
        free_lease(lease);
}

void od_lease_pool_empty(od_lease_pool *pool)
{
    while (pool->idle != NULL) {
        od_lease *lease = pool->idle;
        pool->idle = lease->next;
        free_lease(lease);
    }
    pool->idle_count = 0;
}

/* ---- statements ---- */

od_statement *od_lease_find(od_lease *lease, od_slice sql, uint64_t data_version)
{
    for (od_statement **at = &lease->statements; *at != NULL; at = &(*at)->next) {
        od_statement *statement = *at;
        if (statement->sql_len != sql.len || memcmp(statement->sql, sql.data, sql.len) != 0)
            continue;
        *at = statement->next;
        if (statement->data_version != data_version) {
            lease->statement_count--;
            free_statement(statement);
            return NULL;
        }
        statement->next = lease->statements;
        lease->statements = statement;
        return statement;
    }
    return NULL;
}

static void drop_oldest(od_lease *lease)
{
    od_statement **at = &lease->statements;
    while ((*at)->next != NULL)
        at = &(*at)->next;
    free_statement(*at);
    *at = NULL;
    lease->statement_count--;
}

od_statement *od_lease_keep(od_lease *lease, od_slice sql, uint64_t data_version, duckdb_prepared_statement prepared)
{
    od_statement *statement = od_calloc(1, sizeof *statement);
    if (statement != NULL)
        statement->sql = od_strndup((const char *)sql.data, sql.len);
    if (statement == NULL || statement->sql == NULL) {
        od_free(statement);
        duckdb_destroy_prepare(&prepared);
        return NULL;
    }
    if (lease->statement_count >= OD_ENGINE_STATEMENTS)
        drop_oldest(lease);
    statement->sql_len = sql.len;
    statement->data_version = data_version;
    statement->prepared = prepared;
    statement->next = lease->statements;
    lease->statements = statement;
    lease->statement_count++;
    return statement;
}

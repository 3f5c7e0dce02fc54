/* query/engine, inside: what its files share. */
#ifndef OD_QUERY_ENGINE_INTERNAL_H
#define OD_QUERY_ENGINE_INTERNAL_H

#include <duckdb.h>
#include <pthread.h>
#include <stdatomic.h>

#include "query/engine.h"
#include "query/engine/native_internal.h"
#include "query/engine/retype.h"
#include "query/engine/settle.h"

#define OD_ENGINE_ROWS 2048           /* of a DuckDB chunk */
#define OD_ENGINE_STATEMENTS 64       /* prepared statements kept by a pooled connection */
#define OD_ENGINE_STATEMENT_TEXT 4096 /* longer SQL is not kept */
#define OD_ENGINE_BRIEF_NS 300000     /* an end that comes so soon after the first payload comes at once */
#define OD_ENGINE_IDLE 64             /* pooled connections kept by a database */

/* ---- errors (duck_error.c) ---- */

/* Fills ERR from a text of DuckDB ("Binder Error: ..."), taking the prefix for the kind. TEXT may be NULL. */
od_code od_duck_fail(od_error *err, const char *text);

/* ---- types (sql_type.c) ---- */

/* Words that DuckDB quotes when they are identifiers, sorted. */
typedef struct {
    char **words;
    size_t count;
} od_keywords;

OD_MUST_CHECK od_code od_keywords_load(od_keywords *keywords, duckdb_connection connection, od_error *err);
void od_keywords_release(od_keywords *keywords);
/* Appends TYPE as DuckDB writes it: "DECIMAL(18,3)[]". */
OD_MUST_CHECK od_code od_sql_type_append(od_buf *out, duckdb_logical_type type, const od_keywords *keywords,
                                         od_error *err);

/* The COUNT types that TEXTS are in SQL, which the caller destroys; some may be made on failure too. CONNECTION is idle.
 *   OD_E_INVALID   a text that is more than a type */
OD_MUST_CHECK od_code od_types_parse(duckdb_connection connection, const od_slice *texts, size_t count,
                                     duckdb_logical_type *types, od_error *err);

/* ---- connections (lease.c) ---- */

typedef struct od_statement {
    bool brief;                /* its last run ended at once after its first payload; see od_execution_next */
    struct od_statement *next; /* most recently used first */
    char *sql;
    size_t sql_len;
    uint64_t data_version; /* the engine's when it was prepared: its plan may have used statistics of that state */
    duckdb_prepared_statement prepared;
    od_native *native; /* of its columns, idle; NULL until it is needed */
} od_statement;

typedef struct od_lease {
    struct od_lease *next;
    duckdb_connection connection;
    struct od_lease_pool *pool;
    od_statement *statements;
    size_t statement_count;
    bool lossless;     /* arrow_lossless_conversion is on */
    bool arrow_fixed;  /* the other Arrow settings are pinned */
    bool soiled;       /* may hold session state: not to be pooled */
    od_rights *rights; /* what its statements may do; NULL: everything */
    od_retype_user user;
} od_lease;

typedef struct od_lease_pool {
    const char *database;
    bool lake;     /* it is one: others may change its catalog */
    bool confined; /* its connections have to be */
    duckdb_database instance;
    const od_engine_host *host;
    od_retype *retype;    /* the engine's */
    pthread_mutex_t lock; /* idle, idle_count */
    od_lease *idle;       /* last in, first out */
    size_t idle_count;
} od_lease_pool;

OD_MUST_CHECK od_code od_lease_take(od_lease_pool *pool, od_lease **out, od_error *err);
/* Until it is given back its statements may do what RIGHTS (referenced) allows.  OD_E_NOT_IMPLEMENTED: there is no
 * host to see to it. */
OD_MUST_CHECK od_code od_lease_limit(od_lease *lease, od_rights *rights, od_error *err);
void od_lease_give(od_lease *lease); /* NULL allowed */
void od_lease_pool_empty(od_lease_pool *pool);
/* The kept statement of SQL prepared at DATA_VERSION, now the most recent one; NULL if there is none. */
od_statement *od_lease_find(od_lease *lease, od_slice sql, uint64_t data_version);
/* Keeps PREPARED (taken in any case) for SQL. NULL when memory is out. */
od_statement *od_lease_keep(od_lease *lease, od_slice sql, uint64_t data_version, duckdb_prepared_statement prepared);

/* Runs SQL for its effect. */
OD_MUST_CHECK od_code od_duck_run(duckdb_connection connection, const char *sql, od_error *err);

/* As od_duck_run, whatever comes of it. */
void od_duck_try(duckdb_connection connection, const char *sql);

/* ---- the engine (engine.c) ---- */

typedef struct od_snapshots od_snapshots;

struct od_engine {
    duckdb_database instance;
    od_lease_pool *pools; /* one a database */
    size_t database_count;
    char **names;
    od_keywords keywords;
    char *spool_dir; /* beside the first file; NULL: there is none */
    bool external_access;
    const od_engine_host *host;
    unsigned run_places;
    size_t batch_bytes, max_payload;
    od_settle settle;
    od_retype retype;
    _Atomic uint64_t catalog_version;
    _Atomic uint64_t private_version; /* the last one that a transaction's own catalog had */
    _Atomic uint64_t data_version;    /* changes when a statement that may write begins or ends */
    uint64_t lake_base;               /* the lake's own, the same in all processes; less than half of the numbers */
    _Atomic uint64_t lake_version;    /* the last one that the lake's catalog was seen to have */
    od_snapshots *snapshots;
    od_stored_watch stored;
    od_histogram *stored_took[OD_STORED_WORKS][2]; /* with an error, with success; each NULL if not measured */
};

/* ---- snapshots (snapshots.c) ---- */

/* Those of ENGINE, which is open. OPTIONS: its own. */
OD_MUST_CHECK od_code od_snapshots_create(od_engine *engine, const od_engine_options *options, od_snapshots **out,
                                          od_error *err);
void od_snapshots_free(od_snapshots *pool); /* none is in use. NULL allowed */

bool od_engine_is_stored(const char *path); /* at openduck:// */

/* ---- metrics (stats.c) ---- */

/* From now on METRICS (NULL: nobody) has what ENGINE->stored is told of. */
void od_engine_watch_storage(od_engine *engine, od_metrics *metrics);

/* ---- a DuckLake (lake.c) ---- */

/* The directory must exist, and so must that of metadata that is a file. OD_E_BUSY: another process has the metadata's file. */
OD_MUST_CHECK od_code od_lake_attach(od_engine *engine, duckdb_connection connection, const od_engine_lake *lake,
                                     bool read_only, od_error *err);
/* Lets SQL reach the lake's files, although it is about to be kept from all others, and nothing else that its extensions do. */
OD_MUST_CHECK od_code od_lake_confine(od_engine *engine, duckdb_connection connection, const od_engine_lake *lake,
                                      od_error *err);
/* If LEASE, which is idle, is of the lake: what version its catalog has now. */
void od_lake_look(od_engine *engine, const od_lease *lease);

/* As od_engine_catalog_version. */
uint64_t od_pool_catalog_version(const od_engine *engine, const od_lease_pool *pool);

/* ---- results as arrays (plain.c): PLAIN and LOSSLESS ---- */

typedef struct od_plain od_plain;

/* NAMES and TYPES are borrowed for the call. OPTIONS is taken. */
OD_MUST_CHECK od_code od_plain_create(duckdb_arrow_options options, const char *const *names,
                                      duckdb_logical_type *types, size_t count, od_plain **out, od_error *err);
void od_plain_free(od_plain *plain);
const struct ArrowSchema *od_plain_schema(const od_plain *plain);
/* Adds CHUNK (borrowed) as one batch. */
OD_MUST_CHECK od_code od_plain_add(od_plain *plain, duckdb_data_chunk chunk, od_error *err);
size_t od_plain_pending(const od_plain *plain);
void od_plain_drop(od_plain *plain); /* undoes the last _add */
OD_MUST_CHECK od_code od_plain_flush(od_plain *plain, od_msg **out, od_error *err);

#endif

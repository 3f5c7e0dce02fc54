/* query/engine.h: a DuckDB in a box: SQL in, Arrow IPC payloads out. The only room that sees duckdb.h.
 *
 * One DuckDB instance with every served database attached under its name. Connections are pooled by database; one that ran a
 * statement which may have left session state behind (SET, USE, PREPARE, CREATE TEMP, ATTACH, ...) is not pooled again. */
#ifndef OD_QUERY_ENGINE_H
#define OD_QUERY_ENGINE_H

#include "base/buf.h"
#include "base/deadline.h"
#include "base/error.h"
#include "query/rights.h"
#include "query/wire.h"
#include "telemetry/metrics.h"

typedef struct {
    const char *name; /* as clients call it */
    const char *path; /* a file, ":memory:", or "openduck://...", which needs a host (docs/storage.md) */
} od_engine_database;

/* A DuckLake. Other processes may have it too, unless its metadata is a DuckDB file. */
typedef struct {
    const char *name;     /* as clients call it */
    const char *metadata; /* "postgres:..." or "mysql:..." with a connection string, "sqlite:FILE", or a DuckDB file */
    const char *data;     /* the directory of its files */
} od_engine_lake;

/* Rows for DuckDB's threads, in order: each thread opens a reader, and asks it until there are no more. */
typedef enum {
    OD_STREAM_ROWS,
    OD_STREAM_WAIT, /* none yet: `wait`, and ask again */
    OD_STREAM_END,
    OD_STREAM_FAILED
} od_stream_step;

typedef struct {
    void *arg;
    size_t column_count;
    const char *const *names;
    void *const *types;       /* duckdb_logical_type */
    void *(*open)(void *arg); /* NULL: out of memory */
    void (*close)(void *reader);
    /* Fills CHUNK (an empty duckdb_data_chunk of the types), or points *other at a chunk of the reader's whose columns are to be cast
     * to the types. What these borrow lives until the reader's next step. *run: which rows come before which; a reader's only grow. */
    od_stream_step (*next)(void *reader, void *chunk, void **other, uint64_t *run);
    void (*wait)(void *arg); /* at most a moment */
} od_stream_source;

/* What a statement is made of, as DuckDB's parser sees it. */
typedef enum {
    OD_OUTLINE_OPERATOR,
    OD_OUTLINE_SCAN, /* of a table or view, by its name */
    OD_OUTLINE_RUN,  /* a call of openduck_run */
} od_outline_kind;

/* The first two texts are never NULL. */
typedef struct {
    od_outline_kind kind;
    unsigned depth;    /* below the last node of one less; the roots' is 0 */
    const char *label; /* "HashJoin(l.id = r.id)" */
    /* SCAN, RUN: its place in the text; */
    size_t start, len;
    bool aliased;                        /* it has a name of its own in FROM */
    const char *catalog, *schema, *name; /* SCAN: as written, "" for what is not */
    bool fixed;              /* SCAN: nothing else can stand in its place: it is written to, or read as of a time */
    const char *where, *sql; /* RUN: its arguments */
    bool whole;              /* RUN: the statement is this call and nothing else, by CALL or without */
} od_outline_node;

/* The places of openduck_run. */
enum { OD_RUN_LOCAL = 1, OD_RUN_REMOTE = 2 };

/* Of the whole. */
typedef struct {
    const char *text; /* the statement without its semicolon, in which places are counted */
    size_t len;
    bool query;   /* SELECT, VALUES, FROM, ..., or an EXPLAIN of one */
    bool explain; /* EXPLAIN, but not ANALYZE: nothing runs */
} od_outline_root;

/* Texts are lent for the call. False: stop, memory is out. */
typedef struct {
    void *arg;
    bool (*begin)(void *arg, const od_outline_root *root); /* once, first */
    bool (*take)(void *arg, const od_outline_node *node);  /* a node before its children */
} od_outline_sink;

/* Work on storage at openduck://. */
typedef enum { OD_STORED_SEAL, OD_STORED_MERGE, OD_STORED_WORKS } od_stored_work;

/* Who is told of such work once it has ended, on any thread. OK: it was done. */
typedef struct {
    void *arg;
    void (*told)(void *arg, od_stored_work work, int64_t ns, bool ok);
} od_stored_watch;

/* What DuckDB offers to C++ only, as ext/server/host.cpp has it. The types are those of duckdb.h, which no door shows. */
typedef struct {
    /* A new duckdb_value, which the caller destroys, of row ROW of a duckdb_vector, of exactly its type; NULL: out of memory. */
    void *(*value_of)(void *vector, uint64_t row);
    /* Makes the first COUNT rows of a duckdb_vector, and all of what lies in them, flat. False: out of memory. */
    bool (*flatten)(void *vector, uint64_t count);
    /* A duckdb_prepared_statement with bound values is bound anew with their types when it is run next. Otherwise DuckDB does so only if a
     * type is not the expected one, and fails on a parameter that is used where a type is expected and where none is. */
    void (*rebind)(void *prepared);
    /* Its columns become those that it has with the bound values' types. False: WHY (of SIZE) is DuckDB's error. */
    bool (*describe)(void *connection, void *prepared, char *why, size_t size);
    /* Makes the table functions openduck_stream and openduck_run in the instance of a duckdb_connection. RUN_PLACES as in
     * od_engine_options. False: WHY. */
    bool (*install)(void *connection, unsigned run_places, char *why, size_t size);
    /* What openduck_stream() gives on a duckdb_connection from now on, once; NULL: nothing. SOURCE outlives that. */
    void (*set_stream)(void *connection, const od_stream_source *source);
    /* What statements of a duckdb_connection may do from now on, by any way that DuckDB has; NULL: everything. RIGHTS outlives that. What
     * they may not is an error of class Permission when it is bound, before anything of it runs. Names without a database no longer mean
     * the connection's if RIGHTS lacks that. */
    void (*set_limit)(void *connection, const od_rights *rights);
    /* Parses SQL, without an instance, and tells TABLE of each table that it names, as it is written there ("" for what is left out).
     * *only_reads: running it leaves nothing behind. False: it cannot be parsed; TABLE may have been told of some. Any thread. */
    bool (*read_statement)(const char *sql, size_t len,
                           void (*table)(void *arg, const char *catalog, const char *schema, const char *name),
                           void *arg, bool *only_reads);
    /* Tells SINK what SQL is made of. False: WHY. */
    bool (*outline)(const char *sql, uint64_t len, const od_outline_sink *sink, char *why, size_t size);
    /* The version of DATABASE's catalog, as the transaction of a duckdb_connection that is idle sees it, or would. False: it has none. */
    bool (*catalog_version)(void *connection, const char *database, uint64_t *version);
    /* Keeps SQL of clients from what extensions of DuckDB reach by themselves, files and hosts: nothing can be attached through them any more,
     * and a duckdb_connection that is a client's has no use of their functions. False: WHY; no memory. */
    bool (*confine)(void *connection, char *why, size_t size);
    bool (*confine_client)(void *connection);
    /* From now on the instance of a duckdb_connection opens databases at openduck://, and has openduck_seal for them. Once. WATCH
     * (borrowed) outlives the instance. False: WHY. */
    bool (*serve_storage)(void *connection, const od_stored_watch *watch, char *why, size_t size);
    /* PATH (of PATH_SIZE): what ATTACHes the snapshot ID of DATABASE, which is attached in the instance of a duckdb_connection; "" if it
     * is at openduck:// and has no such snapshot. False: WHY. */
    bool (*find_snapshot)(void *connection, const char *database, const char *id, char *path, size_t path_size,
                          char *why, size_t size);
} od_engine_host;

typedef struct {
    const od_engine_database *databases;
    size_t database_count;      /* 0, and no lake: one in-memory database called "memory" */
    const od_engine_lake *lake; /* the last of the databases; NULL: there is none */
    const char *extensions;     /* the directory of DuckDB's extensions; NULL: its own choice */
    bool read_only;
    unsigned threads;           /* 0: as many as cores */
    const char *memory_limit;   /* NULL: DuckDB's default */
    bool external_access;       /* SQL may read and write the host's files, ATTACH, LOAD */
    size_t batch_bytes;         /* aim of one payload; 0: 1 MiB */
    size_t max_payload;         /* 0: 64 MiB less the chunk's head: a row above it is OD_E_TOO_LARGE */
    const od_engine_host *host; /* borrowed; NULL: what needs it is OD_E_NOT_IMPLEMENTED */
    unsigned max_snapshots;     /* open at once; 0: 8 */
    int64_t
        snapshot_idle_ms; /* one that nobody uses is closed after so long; 0: 60,000; negative: when another needs its place */
    const char *temp_directory; /* of what DuckDB and results spill; NULL: beside the first file, or their choice */
    bool
        mounted; /* files are DIR/database.duckdb in a mount of openduck-fuse, which has snapshots as DIR/snapshots/ID/database.duckdb */
    uint64_t catalog_version; /* that it begins with; 0: one that no other instance has */
    /* Places of openduck_run (OD_RUN_LOCAL, OD_RUN_REMOTE) that this DuckDB is, for calls that nobody took out of the statement: those of
     * views and macros. Others are errors. 0: all are */
    unsigned run_places;
    od_metrics *metrics; /* of the work on databases at openduck://; borrowed, outlives the engine; NULL: not wanted */
} od_engine_options;

typedef struct od_engine od_engine;
typedef struct od_execution od_execution; /* one statement being run; one thread, but for _interrupt */

/* OD_E_IO, OD_E_CORRUPT, OD_E_BUSY (locked by another process) name the database and its path. A lake's extensions are loaded from
 * where DuckDB has them installed. Without external access SQL reaches the files of the lake's directory, and no others; that
 * needs a host. */
OD_MUST_CHECK od_code od_engine_open(const od_engine_options *options, od_engine **out, od_error *err);
void od_engine_close(od_engine *engine); /* NULL allowed; no execution may be left */
size_t od_engine_database_count(const od_engine *engine);
const char *od_engine_database_name(const od_engine *engine, size_t i);
bool od_engine_has_database(const od_engine *engine, od_slice name);
const char *od_engine_version(void); /* "v1.5.5" */

/* Tells SINK what SQL is made of, without looking into any catalog. Errors are DuckDB's, of parsing, or of an openduck_run that cannot be
 * one. OD_E_NOT_IMPLEMENTED: there is no host. */
OD_MUST_CHECK od_code od_engine_outline(const od_engine *engine, od_slice sql, const od_outline_sink *sink,
                                        od_error *err);

/* Changes whenever a statement that may have changed a catalog begins or ends, and for what a transaction did when it is committed;
 * unlike that of any other instance. That of a lake is the same for all who have it; it is looked at when something begins in it.
 * DATABASE empty, or one that is not served: the first one. */
uint64_t od_engine_catalog_version(const od_engine *engine, od_slice database);

/* ---- transactions ----
 *
 * A transaction has a connection to itself. What runs in it takes turns. DuckDB has one open result for each connection, so an
 * execution whose result is not fetched to its end is fetched when another one wants its turn: into memory up to
 * OD_SPOOL_MEMORY, then into a file without a name. Its reader sees no difference. */

typedef struct od_txn od_txn; /* counted; any thread, several at once */

#define OD_SPOOL_MEMORY ((size_t)64 << 20)

/* DATABASE empty: the first one. RIGHTS (referenced; NULL: all) bounds what may be done in it. What it sees is fixed from here on.
 * OD_E_NOT_FOUND, OD_E_PERMISSION */
OD_MUST_CHECK od_code od_txn_begin(od_engine *engine, od_slice database, od_rights *rights, od_txn **out,
                                   od_error *err);
od_txn *od_txn_ref(od_txn *txn);
void od_txn_unref(od_txn *txn); /* the last one rolls back what is not over. NULL allowed */
/* Waits for what runs in it, then commits. It is over whatever comes back, and its connection given back.
 *   OD_E_TRANSACTION      a conflict, or it was aborted before by an error; nothing of it remains
 *   OD_E_NO_TRANSACTION   it is over already */
OD_MUST_CHECK od_code od_txn_commit(od_txn *txn, od_error *err);
/* Stops what runs in it, waits for that, and rolls back. WHY is what later users are told. OD_E_NO_TRANSACTION: it is over. */
OD_MUST_CHECK od_code od_txn_rollback(od_txn *txn, const char *why, od_error *err);
/* Of the catalog as it sees it: when it began, or its own alone once it has changed it. */
uint64_t od_txn_catalog_version(od_txn *txn);

/* ---- rows that come in ---- */

typedef struct {
    od_slice name, sql_type;
} od_staging_column;

typedef struct {
    od_txn *txn;
    od_slice table; /* a new temporary one */
    const od_staging_column *columns;
    size_t column_count;
    od_format format;
} od_staging_request;

typedef struct od_staging od_staging; /* one thread at a time; keeps its transaction alive */

/* Creates the table. OD_E_INVALID: no name, no columns, or a type that is more than a type. */
OD_MUST_CHECK od_code od_staging_open(const od_staging_request *request, od_staging **out, od_error *err);
/* Appends the batches of PAYLOAD, a whole IPC stream in OWNER.
 *   OD_E_CORRUPT   it is damaged     OD_E_INVALID   it does not have the table's columns     OD_E_CONVERSION */
OD_MUST_CHECK od_code od_staging_append(od_staging *ingest, od_msg *owner, od_slice payload, od_error *err);
/* All rows are in the table, which stays until the transaction's connection goes. */
OD_MUST_CHECK od_code od_staging_finish(od_staging *ingest, uint64_t *rows, od_error *err);
/* From any thread, before _free: what runs or comes fails with OD_E_CANCELLED. */
void od_staging_interrupt(od_staging *ingest);
/* Drops the table unless it was finished. NULL allowed. */
void od_staging_free(od_staging *ingest);

/* ---- rows that a statement reads as they come in ---- */

typedef struct {
    od_slice database; /* empty: the first one, or the transaction's */
    od_txn *txn;       /* runs in it; NULL: in a transaction of its own, which is committed if all goes well */
    od_rights *rights; /* without TXN: what it may do; referenced; NULL: everything */
    od_slice table;    /* what the statement calls the rows */
    const od_staging_column *columns;
    size_t column_count;
    od_format format;
    od_slice statement;                /* one that gives a count; reads the rows at most once */
    uint64_t expected_catalog_version; /* 0: any; else OD_E_STALE_CATALOG when it differs */
    int64_t idle_ns;                   /* the longest that rows may be waited for; 0: no limit */
    void (*room)(void *arg);           /* told, on any thread, that there is room after there was none */
    void *room_arg;
} od_feed_request;

/* Rows go in by _push, on one thread; on another _run has DuckDB's threads read them, several at once, in order. Bounded: a pusher that
 * is told of no room waits. */
typedef struct od_feed od_feed;

/* Copies REQUEST. OD_E_NOT_IMPLEMENTED: there is no host. OD_E_INVALID: no name or columns. */
OD_MUST_CHECK od_code od_feed_open(od_engine *engine, const od_feed_request *request, od_feed **out, od_error *err);
/* Takes a reference of OWNER, which holds PAYLOAD, a whole IPC stream. Does not block. False *room: the next one after room(). */
OD_MUST_CHECK od_code od_feed_push(od_feed *feed, od_msg *owner, od_slice payload, bool *room, od_error *err);
void od_feed_end(od_feed *feed); /* all rows are in */
/* Any thread, before _free: WHY ends _run, and undoes it. */
void od_feed_fail(od_feed *feed, const od_error *why);
/* Runs the statement, waits for the rows' end, and commits if the transaction is its own. *rows: that it affected. *catalog_version: as it
 * is then. What od_feed_fail said, or the rows' own error (OD_E_CORRUPT, OD_E_INVALID), goes before DuckDB's. */
OD_MUST_CHECK od_code od_feed_run(od_feed *feed, uint64_t *rows, uint64_t *catalog_version, od_error *err);
void od_feed_free(od_feed *feed); /* NULL allowed */

/* ---- snapshots ----
 *
 * A snapshot of a database at openduck:// is read in an engine of its own, which has nothing but it, read-only, under the database's name.
 * It is opened when it is wanted, kept for those who come next, and closed when nobody has used it for a while or another needs its place.
 * Those that are open share as much memory as memory_limit says once more. */

typedef struct od_snapshot od_snapshot; /* in use until _give; any thread */

/* ID: a UUID. If so many others are in use that it cannot be opened, waits until PATIENCE.
 *   OD_E_NOT_FOUND         no such database is served; it has no such snapshot, or no longer
 *   OD_E_INVALID           ID is none
 *   OD_E_NOT_IMPLEMENTED   the database is not at openduck://
 *   OD_E_BUSY              max_snapshots are in use */
OD_MUST_CHECK od_code od_snapshot_take(od_engine *engine, od_slice database, od_slice id, od_deadline patience,
                                       od_snapshot **out, od_error *err);
od_engine *od_snapshot_engine(const od_snapshot *snapshot); /* its rights and limits are those of any engine */
void od_snapshot_give(od_snapshot *snapshot);               /* nothing of it runs any more. NULL allowed */
void od_snapshot_spoil(
    od_snapshot *snapshot); /* before _give: DuckDB has given it up, so it is closed, and opened anew */

/* ---- executions ---- */

typedef struct {
    od_slice sql;      /* UTF-8; of several statements all but the last run in the first od_execution_next */
    od_slice database; /* empty: the first one */
    od_format format;
    bool describe_only;
    uint64_t expected_catalog_version; /* 0: any; else OD_E_STALE_CATALOG when it differs */
    bool counts;                       /* only what changes something and gives a count: else OD_E_NOT_IMPLEMENTED */
    od_txn *txn;                       /* runs in it, with its rights; NULL: in a transaction of its own */
    od_rights *rights;                 /* without TXN: what it may do; referenced; NULL: everything */
    od_slice
        parameters; /* an IPC stream of one row, columns called as the parameters are; empty: none. Needs the host */
    bool divides;   /* followers may read its result too, if it can be divided */
} od_execution_request;

/* Leases a connection and parses; a single statement is prepared, and started unless describe_only is set. Blocks while DuckDB
 * plans, not while it computes. Errors carry DuckDB's kind and text.
 *   OD_E_NOT_FOUND       no such database is served
 *   OD_E_PERMISSION      the rights do not allow it
 *   OD_E_STALE_CATALOG   expected_catalog_version is not the current one; nothing has run
 *   OD_E_INVALID         no statement, or several with describe_only or parameters; parameters that are not the statement's, or not
 *                        one row */
OD_MUST_CHECK od_code od_execution_start(od_engine *engine, const od_execution_request *request, od_execution **out,
                                         od_error *err);
/* The catalog version that it runs against; of a statement that changes the catalog, the one that it makes. */
uint64_t od_execution_catalog_version(const od_execution *execution);
/* Computes and encodes the next payload, a whole IPC stream; *out is NULL after the last. The first call gives a payload even
 * if there are no rows. The first payload holds one chunk of at most 2,048 rows, later ones grow to batch_bytes. */
OD_MUST_CHECK od_code od_execution_next(od_execution *execution, od_msg **out, od_error *err);
/* Where in the result the last payload stands, from 1; 0: it is not divided. */
uint64_t od_execution_place(const od_execution *execution);
/* Once it has ended well: how many payloads its result had, followers' too; 0: it is not divided. */
uint64_t od_execution_payloads(const od_execution *execution);
/* True once the last payload has been given, told by it or by a NULL after it. */
bool od_execution_done(const od_execution *execution);
/* From any thread, at any time before _end: stops DuckDB's work; start or next then return OD_E_CANCELLED. */
void od_execution_interrupt(od_execution *execution);
/* As _interrupt, for one that nobody reads any more. A statement of a transaction that only reads goes on to its next rows: DuckDB
 * lets no transaction outlive an interrupt, and who has read enough has not failed. */
void od_execution_abandon(od_execution *execution);
void od_execution_end(od_execution *execution); /* NULL allowed */

/* ---- several readers of one result ----
 *
 * A NATIVE result of one statement that only reads, outside of a transaction, can be divided: followers take payloads beside its own
 * reader, each on a thread of its own. Whoever asks gets the next rows; only taking them from DuckDB is done by one at a time. Places
 * tell the order, and a reader's only grow. */

typedef struct od_follower od_follower; /* one thread at a time; may outlive its execution */

/* Does not block; EXECUTION has not been ended. *out is NULL if it is not divided. */
OD_MUST_CHECK od_code od_follower_open(od_execution *execution, od_follower **out, od_error *err);
/* The next payload and its place. NULL: there are no more rows, the execution has ended, or its own reader has not had the first payload
 * yet. What fails here fails in od_execution_next, which gives no last payload before. */
od_msg *od_follower_next(od_follower *follower, uint64_t *place);
void od_follower_free(od_follower *follower); /* NULL allowed */

#endif

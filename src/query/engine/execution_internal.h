/* query/engine, inside: one execution, between its statements (statements.c), running it (execution.c) and encoding it (output.c). */
#ifndef OD_QUERY_EXECUTION_INTERNAL_H
#define OD_QUERY_EXECUTION_INTERNAL_H

#include "query/engine/engine_internal.h"

/* The most that a statement may do. */
typedef enum {
    OD_EFFECT_READS,
    OD_EFFECT_WRITES,  /* rows */
    OD_EFFECT_DEFINES, /* the catalog, nothing of the session */
    OD_EFFECT_ANYTHING
} od_effect;

struct od_spool;
typedef struct od_spool od_spool;

/* A chunk of a result, which payloads of several readers may refer to. Counted. */
typedef struct {
    atomic_uint refs;
    duckdb_data_chunk chunk;
} od_rows_chunk;

/* What one reader of a result gathers for its next payload, and encodes. */
typedef struct {
    od_native *native;    /* NATIVE */
    od_plain *plain;      /* PLAIN, LOSSLESS */
    od_rows_chunk **held; /* added and not yet written */
    size_t held_count, held_cap;
    size_t pending_rows;
    size_t row_bytes; /* of the rows added last, on average; 0: none yet */
} od_output;

/* Between an execution and its followers, which may outlive it. Counted. */
typedef struct {
    atomic_uint refs;
    pthread_mutex_t lock; /* what follows; the execution's result, and what it says is shared */
    pthread_cond_t changed;
    od_execution *execution; /* NULL: followers get no more */
    unsigned encoding;       /* followers that refer to its chunks */
    od_code code;            /* a follower has failed, which is the execution's to tell */
    od_error why;
} od_division;

struct od_execution {
    od_engine *engine;
    od_lease *lease;
    char *sql;
    size_t sql_len;
    od_format format;
    bool describe_only, counts;
    uint64_t expected_catalog_version;
    uint64_t catalog_version;
    atomic_bool interrupted;
    atomic_bool changes; /* it has begun what does more than read */

    struct od_parameters *parameters; /* NULL: none */

    od_txn *txn;           /* NULL: none. If set, what follows is used in its turns only */
    od_spool *spool;       /* what was set aside; NULL: nothing was */
    atomic_bool set_aside; /* all of it was: no more turns are needed */
    od_code late_code;     /* what comes after the spool */
    od_error late;
    bool gave_last; /* its reader has had the last payload */

    duckdb_extracted_statements extracted;
    idx_t statement_count;
    duckdb_prepared_statement prepared; /* the last statement: kept's or owned */
    duckdb_prepared_statement owned;
    od_statement *kept;
    od_effect last_effect; /* of the last statement */
    od_effect effect;      /* of what has begun and not ended */
    bool retyping;         /* it changes the type of a column */
    duckdb_pending_result pending;
    duckdb_result result;
    bool started, has_result, drained, done;
    bool refused;       /* DuckDB ended it with an error, and has decided whether its transaction outlives that */
    bool torn;          /* left while it was changing something */
    bool whole;         /* done, and all its payloads were given */
    size_t payloads;    /* given so far, followers' too */
    size_t place;       /* of the reader's last one, from 1 */
    int64_t payload_ns; /* when that was */

    od_division *division; /* NULL: it has no followers */

    /* output.c */
    od_output output; /* the reader's own; its NATIVE encoder's idle home is kept->native */
    /* Shared with followers: */
    size_t next_chunks;     /* how many chunks the next payload may take */
    od_rows_chunk *current; /* being added */
    idx_t current_row;      /* the first that has not been added */
};

/* ---- what a statement may do (effect.c) ---- */

od_effect od_effect_of(duckdb_statement_type type, const char *sql);
/* A statement of TYPE and EFFECT is about to run; if this is OD_OK, od_effect_end follows when it has. May wait for others.
 *   OD_E_TRANSACTION, OD_E_CANCELLED   as od_retype_begin */
OD_MUST_CHECK od_code od_effect_begin(od_execution *execution, duckdb_statement_type type, od_effect effect,
                                      od_error *err);
/* Also if none has begun. */
void od_effect_end(od_execution *execution);

/* ---- its statements (statements.c) ---- */

/* OD_E_STALE_CATALOG: the catalog is not of the version that is expected. */
OD_MUST_CHECK od_code od_statements_check_stale(const od_execution *execution, od_error *err);
/* Prepares its text if that is one statement; else execution->prepared stays NULL, and od_statements_run_leading prepares. */
OD_MUST_CHECK od_code od_statements_prepare(od_execution *execution, od_error *err);
/* Makes the one that is prepared ready for od_output_describe. */
OD_MUST_CHECK od_code od_statements_describe(od_execution *execution, od_error *err);
/* Begins the one that is prepared. */
OD_MUST_CHECK od_code od_statements_start(od_execution *execution, od_error *err);
/* Of several: runs all but the last, and begins that one. */
OD_MUST_CHECK od_code od_statements_run_leading(od_execution *execution, od_error *err);
/* An error of DuckDB, TEXT (NULL: it said nothing), or the interrupt that caused it. */
od_code od_statements_failed(const od_execution *execution, const char *text, od_error *err);
od_code od_statements_cancelled(od_error *err);
/* DuckDB ends a statement that was not read to its end when its connection is used next, and keeps its transaction until then: others
 * would have to wait for an idle connection. */
void od_statements_end_unread(duckdb_connection connection);

/* ---- its rows (output.c) ---- */

/* The result has begun: makes the reader's own output. */
OD_MUST_CHECK od_code od_output_open(od_execution *execution, od_error *err);
/* OUT for a follower, once the result has begun. */
OD_MUST_CHECK od_code od_output_follow(od_execution *execution, od_output *out, od_error *err);
/* Takes the next payload's rows from the result; *any is false if there are no more rows and a payload has been given. */
OD_MUST_CHECK od_code od_output_gather(od_execution *execution, od_output *out, bool *any, od_error *err);
/* Makes a payload of what was gathered, and lets go of its chunks. Reads nothing of an execution. */
OD_MUST_CHECK od_code od_output_write(od_output *out, od_msg **payload, od_error *err);
void od_output_release(od_output *out);
OD_MUST_CHECK od_code od_output_describe(od_execution *execution, od_msg **out, od_error *err);
void od_output_close(od_execution *execution);

/* The next chunk with rows; NULL after the last, and execution->drained is set. */
OD_MUST_CHECK od_code od_output_fetch(od_execution *execution, od_rows_chunk **out, od_error *err);
void od_rows_chunk_unref(od_rows_chunk *rows); /* NULL allowed */

/* ---- who reads it beside its own reader (follower.c) ---- */

OD_MUST_CHECK od_code od_division_create(od_execution *execution, od_division **out, od_error *err);
/* Whoever has it may read from the result. NULL: nobody else does. */
void od_division_enter(od_division *division);
void od_division_leave(od_division *division);
/* With it entered, or ended: what a follower failed with. */
OD_MUST_CHECK od_code od_division_check(const od_division *division, od_error *err);
bool od_division_is_followed(const od_division *division);
/* Followers get no more; waits until none refers to the result's chunks. */
void od_division_end(od_division *division);
void od_division_unref(od_division *division); /* NULL allowed */

#endif

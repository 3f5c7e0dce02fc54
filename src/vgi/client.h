/* vgi/client.h: a VGI worker, asked for catalogs and rows.
 *
 * Order: open (no I/O), attach, then as of the catalog. Calls block in the caller's thread; any number of threads may use one client,
 * each call takes a session of its own from the client's pool. There is no thread behind it and no global.
 *
 * Errors: what the worker's own code says has OD_E_UNKNOWN and its text as it is; a method that it does not have, OD_E_NOT_IMPLEMENTED;
 * OD_E_PROTOCOL and OD_E_CORRUPT, it does not keep to the protocol; OD_E_CONNECTION_LOST, it ended, with the end of its stderr;
 * OD_E_TIMEOUT, OD_E_CANCELLED, OD_E_UNAVAILABLE. A session that failed is never used again. */
#ifndef OD_VGI_CLIENT_H
#define OD_VGI_CLIENT_H

#include "arrow/c_data.h"
#include "base/buf.h"
#include "vgi/records.h"
#include "vgi/transport.h"

typedef struct od_vgi od_vgi; /* counted */

typedef struct {
    const char *location;     /* see od_vgi_location_parse */
    const char *bearer_token; /* sent with every request over HTTP; NULL: none */
    size_t pool_max;          /* idle sessions kept; 0: 8 */
    bool no_pool;             /* a session for each call */
    int64_t pool_idle_ms;     /* an idle session older than this is ended; 0: 300,000 */
    int64_t start_timeout_ms; /* of the first answer of a session; 0: 60,000 */
    int64_t call_timeout_ms;  /* of an answer, and of a scan's next batch; 0: 300,000; negative: no limit */
    /* What a worker has to say to its client: LEVEL is TRACE, DEBUG, INFO, WARN or ERROR. From any thread that calls. May be NULL. */
    void (*log)(void *arg, od_slice level, od_slice message);
    void *log_arg;
} od_vgi_options;

/* Copies OPTIONS. OD_E_INVALID: the location, or a token for one that is no URL. OD_E_NOT_IMPLEMENTED: a URL, without libcurl. */
OD_MUST_CHECK od_code od_vgi_open(const od_vgi_options *options, od_vgi **out, od_error *err);
od_vgi *od_vgi_ref(od_vgi *vgi);
/* The last one ends the sessions, and waits for the processes that it started: they have some seconds. NULL allowed. */
void od_vgi_unref(od_vgi *vgi);

/* In whose name something is asked. All borrowed. */
typedef struct {
    od_slice attach;      /* od_vgi_attached.opaque */
    od_slice transaction; /* as od_vgi_begin gave it; data NULL: none */
    od_vgi_interrupt interrupt;
} od_vgi_context;

/* ---- catalogs ---- */

OD_MUST_CHECK od_code od_vgi_list_catalogs(od_vgi *vgi, od_vgi_interrupt interrupt, od_vgi_catalogs *out,
                                           od_error *err);

typedef struct {
    const char *name;
    od_vgi_values *options;                                 /* a column for each; moved out of; NULL: none */
    const char *data_version_spec, *implementation_version; /* NULL: any */
} od_vgi_attach;

OD_MUST_CHECK od_code od_vgi_attach_catalog(od_vgi *vgi, od_vgi_interrupt interrupt, const od_vgi_attach *attach,
                                            od_vgi_attached *out, od_error *err);
/* Best effort: a worker that does not know it is no error. */
OD_MUST_CHECK od_code od_vgi_detach_catalog(od_vgi *vgi, const od_vgi_context *context, od_error *err);

/* 0: not known, drop what is cached. */
OD_MUST_CHECK od_code od_vgi_catalog_version(od_vgi *vgi, const od_vgi_context *context, int64_t *out, od_error *err);
/* Appends the transaction's bytes to OUT; none: there is nothing to end. */
OD_MUST_CHECK od_code od_vgi_begin(od_vgi *vgi, const od_vgi_context *context, od_buf *out, od_error *err);
OD_MUST_CHECK od_code od_vgi_commit(od_vgi *vgi, const od_vgi_context *context, od_error *err);
OD_MUST_CHECK od_code od_vgi_rollback(od_vgi *vgi, const od_vgi_context *context, od_error *err);

/* A schema is named by one name; generation 2.2's paths have one element here. */
OD_MUST_CHECK od_code od_vgi_list_schemas(od_vgi *vgi, const od_vgi_context *context, od_vgi_schemas *out,
                                          od_error *err);
OD_MUST_CHECK od_code od_vgi_list_tables(od_vgi *vgi, const od_vgi_context *context, const char *schema,
                                         od_vgi_tables *out, od_error *err);
OD_MUST_CHECK od_code od_vgi_list_views(od_vgi *vgi, const od_vgi_context *context, const char *schema,
                                        od_vgi_views *out, od_error *err);
OD_MUST_CHECK od_code od_vgi_list_macros(od_vgi *vgi, const od_vgi_context *context, const char *schema, bool table,
                                         od_vgi_macros *out, od_error *err);
OD_MUST_CHECK od_code od_vgi_list_functions(od_vgi *vgi, const od_vgi_context *context, const char *schema,
                                            od_vgi_function_type type, od_vgi_functions *out, od_error *err);

typedef struct {
    const char *schema, *name;
    const char *at_unit, *at_value; /* of AT (UNIT => VALUE): "VERSION", "TIMESTAMP"; NULL: now */
} od_vgi_table_ref;

OD_MUST_CHECK od_code od_vgi_get_table(od_vgi *vgi, const od_vgi_context *context, const od_vgi_table_ref *table,
                                       od_vgi_tables *out, od_error *err);
/* None: the worker has none. */
OD_MUST_CHECK od_code od_vgi_get_table_statistics(od_vgi *vgi, const od_vgi_context *context, const char *schema,
                                                  const char *table, od_vgi_statistics *out, od_error *err);
/* A worker that has no branches is asked for its one function instead, and so from then on. */
OD_MUST_CHECK od_code od_vgi_get_branches(od_vgi *vgi, const od_vgi_context *context, const od_vgi_table_ref *table,
                                          od_vgi_branches *out, od_error *err);

/* The function that takes rows for TABLE. BRANCH: of a table of several branches the function of the writable one; NULL: it has one. */
OD_MUST_CHECK od_code od_vgi_get_insert_function(od_vgi *vgi, const od_vgi_context *context, const char *schema,
                                                 const char *table, const char *branch, od_vgi_write_function *out,
                                                 od_error *err);

/* ---- a function of the worker's, bound ---- */

typedef struct od_vgi_bound od_vgi_bound;

typedef struct {
    const char *function;
    const char *schema; /* in which it is registered; NULL: not told */
    od_vgi_function_type type;
    /* Columns of one row: arg_N or positional_N is the N-th positional argument, any other is named. Moved out of; NULL: none. */
    od_vgi_values *arguments;
    od_vgi_values *settings;         /* a column for each; moved out of; NULL: none */
    od_vgi_values *secrets;          /* a struct column for each; moved out of; NULL: none */
    bool secrets_resolved;           /* the worker asked for secrets: those that there are, are here */
    const struct ArrowSchema *input; /* of a function over rows; NULL: none */
    const char *at_unit, *at_value;
} od_vgi_bind;

OD_MUST_CHECK od_code od_vgi_bind_function(od_vgi *vgi, const od_vgi_context *context, const od_vgi_bind *bind,
                                           od_vgi_bound **out, od_error *err);
void od_vgi_bound_free(od_vgi_bound *bound); /* NULL allowed; its scans may outlive it */
/* A struct. */
const struct ArrowSchema *od_vgi_bound_schema(const od_vgi_bound *bound);
/* Secrets that the worker asks for before it can bind: resolve them, and bind once more with `secrets` and `secrets_resolved`. Asking
 * again is its error. */
size_t od_vgi_bound_secret_count(const od_vgi_bound *bound);
const od_vgi_secret_need *od_vgi_bound_secrets(const od_vgi_bound *bound);
/* Unknown where the worker does not tell. */
OD_MUST_CHECK od_code od_vgi_bound_cardinality(od_vgi *vgi, const od_vgi_context *context, const od_vgi_bound *bound,
                                               od_vgi_number *estimate, od_vgi_number *max, od_error *err);
/* Of the columns of the bound schema. None: the worker has none. */
OD_MUST_CHECK od_code od_vgi_bound_statistics(od_vgi *vgi, const od_vgi_context *context, const od_vgi_bound *bound,
                                              od_vgi_statistics *out, od_error *err);

/* ---- rows ---- */

typedef struct od_vgi_scan od_vgi_scan;

typedef enum {
    OD_VGI_COLUMN,
    OD_VGI_LITERAL,
    OD_VGI_COMPARE, /* of two */
    OD_VGI_AND,     /* of two or more, as OR */
    OD_VGI_OR,
    OD_VGI_NOT,
    OD_VGI_IS_NULL,
    OD_VGI_IN /* one, in a list of literals */
} od_vgi_expr_kind;

typedef enum { OD_VGI_EQ, OD_VGI_NE, OD_VGI_LT, OD_VGI_LE, OD_VGI_GT, OD_VGI_GE } od_vgi_compare;

/* A condition on rows. Its children are the caller's. */
typedef struct od_vgi_expr {
    od_vgi_expr_kind kind;
    od_vgi_compare op; /* of COMPARE */
    bool negated;      /* of IS_NULL and IN */
    int64_t column;    /* of COLUMN: in the bound schema */
    od_vgi_values
        *value; /* of LITERAL: one column, whose type is the literal's; of IN: one column of a list. Moved out of */
    size_t child_count;
    const struct od_vgi_expr *const *children;
} od_vgi_expr;

typedef struct {
    /* Columns of the bound schema, in the order in which they come, each once; only for a function with projection_pushdown.
     * COLUMNS NULL: all. An empty list is refused: ask for one column instead. */
    const int64_t *columns;
    size_t column_count;
    /* Conditions that all must hold, only for a function with filter_pushdown. What a worker cannot be told is left out, and a worker
     * may return rows that it should not: the caller filters again, unless the function says filters_exactly_applied and
     * od_vgi_scan_filter_count says that all were sent. */
    const od_vgi_expr *const *filters;
    size_t filter_count;
    /* No more rows than these are read, after the filters; 0: all may be. A worker may give more. */
    int64_t row_limit;
    /* Of a function over rows, bound with this schema: rows go in by od_vgi_scan_put. NULL: a function that makes rows. */
    const struct ArrowSchema *input;
    bool streaming; /* of a table function over rows, which may keep something for the end: od_vgi_scan_finalize */
} od_vgi_scan_options;

/* Starts the function. Of the context only the interrupt counts, and it lasts as long as the scan. */
OD_MUST_CHECK od_code od_vgi_scan_open(od_vgi *vgi, const od_vgi_context *context, const od_vgi_bound *bound,
                                       const od_vgi_scan_options *options, od_vgi_scan **out, od_error *err);
/* What comes: the bound schema's columns that were asked for. */
const struct ArrowSchema *od_vgi_scan_schema(const od_vgi_scan *scan);
/* How many of the filters the worker was told. */
size_t od_vgi_scan_filter_count(const od_vgi_scan *scan);
/* How many streams may share the rows; this one is the first. */
int64_t od_vgi_scan_max_workers(const od_vgi_scan *scan);
/* Another stream of the same rows: each row comes in one of them. Thread: any, while SCAN lives. OD_E_PRECONDITION: max_workers is 1. */
OD_MUST_CHECK od_code od_vgi_scan_share(od_vgi_scan *scan, od_vgi_scan **out, od_error *err);
/* The next batch, a struct array of od_vgi_scan_schema that lives on its own; out->release NULL: the end, which the worker told.
 * A batch may have no rows. A schema other than the bound one is OD_E_PROTOCOL. */
OD_MUST_CHECK od_code od_vgi_scan_next(od_vgi_scan *scan, struct ArrowArray *out, od_error *err);
/* Whether as many bytes as the last batch had are there already: the next one then comes with hardly a wait. */
bool od_vgi_scan_is_ready(const od_vgi_scan *scan);
/* Gives ROWS (taken, also on failure) of the input's schema to a function over rows, and the batch that it makes of them to OUT, whose
 * release is NULL if that is none. *MORE: there is more of these rows; put the very same again, with AGAIN. */
OD_MUST_CHECK od_code od_vgi_scan_put(od_vgi_scan *scan, struct ArrowArray *rows, bool again, struct ArrowArray *out,
                                      bool *more, od_error *err);
/* After a put of ROWS rows (of the first one, if it was AGAIN) that gave a batch of GIVEN: of which of them each came, from 0, to OUT, which
 * has room for GIVEN. OD_E_PROTOCOL: the worker does not say so, and it cannot be known. */
OD_MUST_CHECK od_code od_vgi_scan_parents(const od_vgi_scan *scan, int64_t rows, int64_t given, int32_t *out,
                                          od_error *err);
/* The end of what goes into a function over rows that keeps nothing: OD_OK, the worker has done with all of it. SCAN can then only be
 * closed. Without it, closing cares for nothing that the worker says at the end. */
OD_MUST_CHECK od_code od_vgi_scan_finish(od_vgi_scan *scan, od_error *err);
/* The end of what goes into a streaming function: OUT is a scan of what it has kept. SCAN can then only be closed. */
OD_MUST_CHECK od_code od_vgi_scan_finalize(od_vgi_scan *scan, od_vgi_scan **out, od_error *err);
/* What is not read to its end is cancelled, briefly; then the session is free again, or ended. NULL allowed. */
void od_vgi_scan_close(od_vgi_scan *scan);

/* ---- functions that keep all rows ----
 *
 * A function of type TABLE_BUFFERING takes rows in any number of calls, and gives its own when it has all of them: put, then combine once,
 * then a scan for each part of what it has. Put: one thread at a time. */

typedef struct od_vgi_buffered od_vgi_buffered;

/* FUNCTION of SCHEMA (NULL: not told), bound as BOUND with the schema of what goes in. Of the context all is copied but the interrupt, which
 * lasts as long as this. */
OD_MUST_CHECK od_code od_vgi_buffered_open(od_vgi *vgi, const od_vgi_context *context, const od_vgi_bound *bound,
                                           const char *function, const char *schema, od_vgi_buffered **out,
                                           od_error *err);
/* ROWS (taken, also on failure) of the schema INPUT. */
OD_MUST_CHECK od_code od_vgi_buffered_put(od_vgi_buffered *buffered, const struct ArrowSchema *input,
                                          struct ArrowArray *rows, od_error *err);
/* No rows follow. *PARTS: how many scans there are of what it makes of them. */
OD_MUST_CHECK od_code od_vgi_buffered_combine(od_vgi_buffered *buffered, size_t *parts, od_error *err);
/* PART is below the number of parts. */
OD_MUST_CHECK od_code od_vgi_buffered_scan(od_vgi_buffered *buffered, size_t part, od_vgi_scan **out, od_error *err);
/* The worker lets go of what it keeps, if it can be told. Its scans are closed before. NULL allowed. */
void od_vgi_buffered_close(od_vgi_buffered *buffered);

/* ---- aggregate functions ----
 *
 * The worker keeps the state of each group, under a number that the caller chooses: from 1, each once. Rows go in with the number of their
 * group; a group's state may be put into another's; then groups are asked for their results. Or a whole partition of rows goes in,
 * and is asked for the results of frames of it. Any number of threads; each call has its own interrupt. */

typedef struct od_vgi_aggregate od_vgi_aggregate;

/* Of BIND its `input` is what goes in of each row (NULL: nothing), and it has no AT. Of the context the attach is copied. */
OD_MUST_CHECK od_code od_vgi_aggregate_open(od_vgi *vgi, const od_vgi_context *context, const od_vgi_bind *bind,
                                            od_vgi_aggregate **out, od_error *err);
/* A struct of one column: the result. */
const struct ArrowSchema *od_vgi_aggregate_schema(const od_vgi_aggregate *aggregate);
/* ROWS (taken, also on failure) of SCHEMA, whose first column is the group, int64 and not null, called OD_VGI_GROUP_COLUMN. */
#define OD_VGI_GROUP_COLUMN "__vgi_group_id"
OD_MUST_CHECK od_code od_vgi_aggregate_update(const od_vgi_aggregate *aggregate, od_vgi_interrupt interrupt,
                                              const struct ArrowSchema *schema, struct ArrowArray *rows, od_error *err);
/* Puts each of the N groups FROM into the one INTO beside it, in this order. */
OD_MUST_CHECK od_code od_vgi_aggregate_combine(const od_vgi_aggregate *aggregate, od_vgi_interrupt interrupt,
                                               const int64_t *from, const int64_t *into, size_t n, od_error *err);
/* The results of N groups, in their order, to OUT, a struct array of the aggregate's schema. A group of which nothing is known (0 is none)
 * has the result of no rows. */
OD_MUST_CHECK od_code od_vgi_aggregate_finalize(const od_vgi_aggregate *aggregate, od_vgi_interrupt interrupt,
                                                const int64_t *groups, size_t n, struct ArrowArray *out, od_error *err);

/* All rows of a partition, in their order. */
typedef struct {
    int64_t id; /* from 1, each once */
    const struct ArrowSchema *schema;
    struct ArrowArray *rows; /* taken, also on failure */
    od_slice filter;         /* a bit for each row that counts, least significant first; no bytes: all count */
    int64_t begin_min, begin_max, end_min, end_max; /* between which distances from their row frames begin and end */
    od_slice all_valid;                             /* a byte for each column: 1, it has no null */
} od_vgi_partition;

OD_MUST_CHECK od_code od_vgi_aggregate_window_open(const od_vgi_aggregate *aggregate, od_vgi_interrupt interrupt,
                                                   const od_vgi_partition *partition, od_error *err);
/* The result of one row's N subframes, rows of the partition from BEGINS up to ENDS, to OUT: a row. RID: the caller's number of the row. */
OD_MUST_CHECK od_code od_vgi_aggregate_window(const od_vgi_aggregate *aggregate, od_vgi_interrupt interrupt,
                                              int64_t partition, int64_t rid, const int64_t *begins,
                                              const int64_t *ends, size_t n, struct ArrowArray *out, od_error *err);
/* The worker lets go of it, if it can be told. */
void od_vgi_aggregate_window_close(const od_vgi_aggregate *aggregate, int64_t partition);

/* The worker lets go of all that it keeps, if it can be told. NULL allowed. */
void od_vgi_aggregate_close(od_vgi_aggregate *aggregate);

/* ---- secrets ----
 *
 * A catalog may name a secret service (the tag vgi_secret_service_url). It is a client of its own: open it with that URL, and with the
 * catalog's bearer token. */

/* Whether secrets may be asked for at URL: https, or http to this machine alone (127.0.0.1, localhost, [::1]). */
bool od_vgi_secret_url_is_safe(const char *url);
/* TYPE as DuckDB calls it, in lower case. Nothing found is no error. */
OD_MUST_CHECK od_code od_vgi_lookup_secret(od_vgi *service, od_vgi_interrupt interrupt, const char *path,
                                           const char *type, od_vgi_secret *out, od_error *err);
/* How many seconds from NOW (since 1970) the answer may be kept: as it says, 300 where it says nothing, 30 at most if nothing was found. */
int64_t od_vgi_secret_keep_seconds(const od_vgi_secret *secret, int64_t now);

#endif

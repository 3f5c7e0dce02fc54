/* openduck/vgi_worker.h: a VGI worker in plain C: a catalog of tables and table functions that clients attach.
 *
 * Make a worker, add what it has, then serve. What is added is copied, but for the functions' own `arg`. Rows are Arrow's C data
 * interface (struct ArrowSchema, struct ArrowArray): columns of a struct. Generations 2.2 and 1.3 of the protocol are spoken, each
 * with the clients that ask in it. A table is read by its branches: table functions of this worker, tables of catalogs that clients attach
 * beside it (companions), or files.
 *
 * Every function returns a code; ERR, which may be NULL, is the caller's, and filled only on failure. Adding is for one thread, before
 * anything is served. The functions of a worker are called by any thread, several at once. What a client sends is checked before it is
 * shown to them. */
#ifndef OPENDUCK_VGI_WORKER_H
#define OPENDUCK_VGI_WORKER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

struct ArrowSchema;
struct ArrowArray;

/* The numbers stay as they are; others may follow. */
typedef enum {
    OD_VGIW_OK = 0,
    OD_VGIW_INVALID = 1, /* an argument makes no sense */
    OD_VGIW_NOT_FOUND = 2,
    OD_VGIW_EXISTS = 3, /* the name is taken */
    OD_VGIW_IO = 4,     /* the system refused, or the client went away */
    OD_VGIW_NO_MEMORY = 5,
    OD_VGIW_PROTOCOL = 6, /* the client does not keep to the protocol */
    OD_VGIW_FAILED = 7    /* anything else; for functions of a worker: what the message says */
} od_vgiw_code;

typedef struct {
    od_vgiw_code code;
    char message[1000]; /* one line; a client is shown it */
} od_vgiw_error;

typedef struct od_vgiw od_vgiw;

typedef struct {
    const char *name;           /* what clients attach */
    const char *comment;        /* NULL: none */
    const char *default_schema; /* NULL: "main" */
    const char *secret_service; /* the URL of a service that clients over HTTP ask for secrets; NULL: none */
} od_vgiw_catalog;

od_vgiw_code od_vgiw_create(const od_vgiw_catalog *catalog, od_vgiw **out, od_vgiw_error *err);
void od_vgiw_free(od_vgiw *worker); /* NULL allowed; nothing is served any more */

/* ---- what it has ---- */

typedef struct {
    const char *key, *value;
} od_vgiw_pair;

/* A database that clients are to attach beside the catalog. */
typedef struct {
    const char *alias;           /* the catalog's name at the client */
    const char *target;          /* "ducklake:sqlite:/data/lake.sqlite" */
    const char *db_type;         /* NULL: what stands before the target's first ':' */
    const od_vgiw_pair *options; /* of ATTACH */
    size_t option_count;
    const char *secret_ref; /* the name of a secret of the client's; NULL: none */
    int hidden;             /* not listed */
    int optional;           /* not 0: attaching goes on without it */
} od_vgiw_companion;

od_vgiw_code od_vgiw_add_companion(od_vgiw *worker, const od_vgiw_companion *companion, od_vgiw_error *err);

/* The catalog's default schema is there without. */
od_vgiw_code od_vgiw_add_schema(od_vgiw *worker, const char *name, const char *comment, od_vgiw_error *err);

/* Columns of one row. Both NULL: none. */
typedef struct {
    const struct ArrowSchema *schema;
    const struct ArrowArray *array;
} od_vgiw_values;

typedef enum {
    OD_VGIW_COLUMN,
    OD_VGIW_VALUE,
    OD_VGIW_COMPARE, /* of two */
    OD_VGIW_AND,     /* of one or more, as OR */
    OD_VGIW_OR,
    OD_VGIW_NOT,
    OD_VGIW_IS_NULL,
    OD_VGIW_IN /* one, in a list of values */
} od_vgiw_filter_kind;

typedef enum {
    OD_VGIW_EQ,
    OD_VGIW_NE,
    OD_VGIW_LT,
    OD_VGIW_LE,
    OD_VGIW_GT,
    OD_VGIW_GE,
    OD_VGIW_DISTINCT,    /* as NE, but NULL is a value */
    OD_VGIW_NOT_DISTINCT /* as EQ, likewise */
} od_vgiw_compare;

/* A condition on rows. */
typedef struct od_vgiw_filter {
    od_vgiw_filter_kind kind;
    od_vgiw_compare op; /* of COMPARE */
    int negated;        /* of IS_NULL and IN */
    size_t
        column; /* of COLUMN: in the function's columns, whatever is asked for; of VALUE and IN: in the scan's `values` */
    size_t child_count;
    const struct od_vgiw_filter *const *children;
} od_vgiw_filter;

/* What is asked of a function. All borrowed until it returns from `open`. */
typedef struct {
    od_vgiw_values arguments;         /* "arg_N" is the N-th positional one; other names are named arguments */
    const struct ArrowSchema *schema; /* of the rows to give: `columns` in their order, or all */
    const int64_t *columns;           /* NULL: all, as always without `projection` */
    size_t column_count;
    const od_vgiw_filter *const
        *filters; /* all must hold; none without `filters`. A row too many does no harm: clients filter again */
    size_t filter_count;
    od_vgiw_values values; /* of the filters: "value_N" is column N; a list for IN */
} od_vgiw_scan;

/* A table function. Where one fails, it fills ERR. */
typedef struct {
    const char *schema; /* NULL: the catalog's default */
    const char *name;
    const char *comment; /* NULL: none */
    /* A struct of its parameters; NULL: none. Metadata of a field: vgi_arg=named, vgi_type=any, vgi_varargs=true, vgi_default. */
    const struct ArrowSchema *parameters;
    int projection, filters; /* whether scans may ask for columns, and tell filters */
    void *arg;
    /* The columns for these arguments: makes OUT a struct, which the caller releases. */
    od_vgiw_code (*bind)(void *arg, const od_vgiw_values *arguments, struct ArrowSchema *out, od_vgiw_error *err);
    /* About how many rows there are; -1: not known. NULL allowed. */
    int64_t (*count)(void *arg, const od_vgiw_values *arguments);
    od_vgiw_code (*open)(void *arg, const od_vgiw_scan *scan, void **rows, od_vgiw_error *err);
    /* The next batch; out->release NULL: there is none any more. Not called by two threads at once for the same ROWS. */
    od_vgiw_code (*next)(void *rows, struct ArrowArray *out, od_vgiw_error *err);
    void (*close)(void *rows); /* before the end, too */
} od_vgiw_function;

od_vgiw_code od_vgiw_add_function(od_vgiw *worker, const od_vgiw_function *function, od_vgiw_error *err);

/* Where rows of a table are: the first of these that is set. */
typedef struct {
    const char *source_table, *source_catalog,
        *source_schema; /* a table of a catalog at the client, such as a companion's */
    const char *format; /* "parquet", "csv", ...: files (generation 2.2) */
    const char *const *locations;
    size_t location_count;
    const char *function, *function_schema; /* of this worker (schema NULL: the table's), or of DuckDB's */
    od_vgiw_values arguments;               /* "arg_N" is the N-th positional one */
    const char *filter;                     /* SQL over its columns: which of its rows are the table's; NULL: all */
} od_vgiw_branch;

typedef struct {
    const char *schema; /* NULL: the catalog's default */
    const char *name;
    const char *comment;               /* NULL: none */
    const struct ArrowSchema *columns; /* a struct; fields without ARROW_FLAG_NULLABLE are NOT NULL */
    const od_vgiw_branch *branches;
    size_t branch_count;                    /* one at least */
    const char *const *required_extensions; /* of DuckDB's, which branches need */
    size_t extension_count;
    /* Asked for the branches' filters, all at once, whenever a client asks for the branches: fills OUT[i], of SIZE bytes, with that of
     * branch i as SQL, "" for all rows. So what divides the rows may move. NULL: the branches' own are what they are. */
    od_vgiw_code (*filters)(void *arg, char *const *out, size_t size, od_vgiw_error *err);
    void *arg;
} od_vgiw_table;

od_vgiw_code od_vgiw_add_table(od_vgiw *worker, const od_vgiw_table *table, od_vgiw_error *err);

/* A scan's filters as SQL for a WHERE, without the word: names of COLUMNS (the function's) in quotes, values as the parameters $value_N.
 * Appended to OUT, of SIZE bytes, and terminated; *LEN is how long the whole is, even if it does not fit. "" if there are no filters. */
void od_vgiw_filters_sql(const od_vgiw_scan *scan, const struct ArrowSchema *columns, char *out, size_t size,
                         size_t *len);

/* ---- serving ---- */

/* One client, whose requests come from the descriptor IN and whose answers go to OUT (0 and 1: the client started this process), until it
 * ends. A client that goes away at once is OD_VGIW_IO; where SIGPIPE is not ignored, it ends the process instead. */
od_vgiw_code od_vgiw_serve(od_vgiw *worker, int in, int out, od_vgiw_error *err);

/* Many clients at once, each connection served by a thread of its own, until od_vgiw_stop. */
typedef struct {
    unsigned max_connections; /* at once; more wait. 0: 64 */
    /* It listens now, at what clients have as LOCATION: "unix:///run/worker", "http://127.0.0.1:8080". NULL allowed. */
    void (*ready)(void *arg, const char *location);
    void *arg;
    const char *token; /* over HTTP, which clients have to show (bearer_token); NULL: none */
} od_vgiw_listen;

/* At a socket in the file system, for the processes of this user; one that a dead process has left is replaced. OPTIONS NULL: the defaults.
 *   OD_VGIW_EXISTS  somebody listens there, or it is no socket */
od_vgiw_code od_vgiw_serve_unix(od_vgiw *worker, const char *path, const od_vgiw_listen *options, od_vgiw_error *err);
/* At "HOST:PORT" (port 0: a free one), without TLS. A scan that is not asked for more is given up after ten minutes, or sooner where there are
 * too many. */
od_vgiw_code od_vgiw_serve_http(od_vgiw *worker, const char *address, const od_vgiw_listen *options,
                                od_vgiw_error *err);
/* Ends the two above, now or as soon as they begin: connections are closed, what a function is doing is waited for. From any thread, or a
 * signal handler; ERRNO stays. */
void od_vgiw_stop(od_vgiw *worker);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif

/* openduck/vgi_worker.h: a VGI worker in plain C: a catalog of tables and table functions that clients attach.
 *
 * Make a worker, add what it has, then serve. What is added is copied, but for the functions' own `arg`. Rows are Arrow's C data
 * interface (struct ArrowSchema, struct ArrowArray): columns of a struct. Generations 2.2 and 1.3 of the protocol are spoken, each
 * with the clients that ask in it. A table is read by its branches: table functions of this worker, tables of catalogs that clients attach
 * beside it (companions), or files. What is kept between two requests (rows of a function for its end, what streams share) is
 * in this process: a client that has several of them, as those of a LOCATION that is a command, reaches it in one of them only.
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
    const char *generation;     /* "2.2" or "1.3": the only one that is spoken; NULL: both */
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

/* A field of a struct, and a value of that type. */
typedef struct {
    const char *name;
    const char *description;        /* NULL: none */
    const struct ArrowSchema *type; /* its name does not count */
    const struct ArrowArray *value; /* an array of one: what it is where nobody says; NULL: nothing */
    int required, secret; /* of options, for clients of generation 2.2: it has to be given; it is not to be shown */
} od_vgiw_setting;

/* An option of ATTACH; functions are told. */
od_vgiw_code od_vgiw_add_option(od_vgiw *worker, const od_vgiw_setting *option, od_vgiw_error *err);
/* A variable of the client's session; the functions that name it are told. */
od_vgiw_code od_vgiw_add_setting(od_vgiw *worker, const od_vgiw_setting *setting, od_vgiw_error *err);
/* A type of secrets: KEYS is a struct of what they have. */
od_vgiw_code od_vgiw_add_secret_type(od_vgiw *worker, const char *name, const char *description,
                                     const struct ArrowSchema *keys, od_vgiw_error *err);

enum { OD_VGIW_ID = 33 };

/* Transactions of clients. Where one fails, it fills ERR. */
typedef struct {
    void *arg;
    od_vgiw_code (*begin)(void *arg, char id[OD_VGIW_ID], od_vgiw_error *err); /* names it */
    od_vgiw_code (*commit)(void *arg, const char *id, od_vgiw_error *err);
    od_vgiw_code (*rollback)(void *arg, const char *id, od_vgiw_error *err);
} od_vgiw_transactions;

/* Without, what is written stays. Once.
 *   OD_VGIW_EXISTS  the worker has some */
od_vgiw_code od_vgiw_set_transactions(od_vgiw *worker, const od_vgiw_transactions *transactions, od_vgiw_error *err);

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

/* What a function is called with. All borrowed. */
typedef struct {
    od_vgiw_values arguments;         /* "arg_N" is the N-th positional one; other names are named arguments */
    const struct ArrowSchema *input;  /* a struct: the rows that go in; NULL: none do */
    od_vgiw_values options;           /* of ATTACH, those that have a value */
    od_vgiw_values settings, secrets; /* those that the function needs and the client has; a secret is a struct */
    const char *at_unit, *at_value;   /* "VERSION" or "TIMESTAMP", and which: as of when; NULL: now */
    const char *transaction;          /* NULL: there is none */
} od_vgiw_call;

/* What is asked of a function. All borrowed until it returns from `open`, but for `shared`. */
typedef struct {
    const od_vgiw_call *call;
    void *shared;                     /* with the other streams of the scan; NULL without `share` */
    const struct ArrowSchema *schema; /* of the rows to give: `columns` in their order, or all */
    const int64_t *columns;           /* NULL: all, as always without `projection` */
    size_t column_count;
    const od_vgiw_filter *const
        *filters; /* all must hold; none without `filters`. A row too many does no harm: clients filter again */
    size_t filter_count;
    od_vgiw_values values; /* of the filters: "value_N" is column N; a list for IN */
} od_vgiw_scan;

typedef enum {
    OD_VGIW_TABLE,  /* gives rows */
    OD_VGIW_SCALAR, /* a batch of one column for each batch of its arguments, of as many rows */
    OD_VGIW_ROWS,   /* a batch, or several, for each batch that goes in; at their end what `next` has, if it is there */
    OD_VGIW_BUFFERED /* keeps all rows that go in; then `next` gives its own */
} od_vgiw_function_kind;

/* A secret that a function needs. */
typedef struct {
    const char *type;
    const char *scope, *name; /* NULL: any */
} od_vgiw_secret_need;

/* What a column's values are about. Clients only estimate by it. */
typedef struct {
    const char *column;
    int64_t distinct_count; /* -1: not known */
    int has_range;          /* of an integer, a float, a date or a time, as the numbers that Arrow has for them: */
    double min, max;
} od_vgiw_statistics;

/* A function. Where one of its own functions fails, it fills ERR. Several may have one name (overloads), if their parameters differ. */
typedef struct {
    const char *schema; /* NULL: the catalog's default */
    const char *name;
    const char *comment; /* NULL: none */
    od_vgiw_function_kind kind;
    /* A struct of its parameters; NULL: none. Metadata of a field: vgi_arg=named, vgi_type=any, vgi_varargs=true, vgi_default;
     * vgi_const=true (SCALAR: an argument, and no column of what goes in); vgi_type=table (ROWS, BUFFERED: the rows). */
    const struct ArrowSchema *parameters;
    int projection, filters; /* TABLE: whether scans may ask for columns, and tell filters; */
    int exact;               /* no row is given that the filters do not hold for */
    unsigned streams;        /* TABLE: at most that many share the rows of a scan; 0: one */
    int nulls;               /* SCALAR: called for NULLs, too */
    int is_volatile;         /* SCALAR: another value each time */
    const char *const *settings;
    size_t setting_count;
    const od_vgiw_secret_need *secrets;
    size_t secret_count;
    void *arg;
    /* The columns for this call: makes OUT a struct, which the caller releases. */
    od_vgiw_code (*bind)(void *arg, const od_vgiw_call *call, struct ArrowSchema *out, od_vgiw_error *err);
    /* About how many rows there are; -1: not known. NULL allowed. */
    int64_t (*count)(void *arg, const od_vgiw_call *call);
    /* Fills OUT[i], which says nothing yet of column i of COUNT of those that bind told. NULL allowed. */
    od_vgiw_code (*statistics)(void *arg, const od_vgiw_call *call, od_vgiw_statistics *out, size_t count,
                               od_vgiw_error *err);
    /* What all streams of a scan have in common, made with its first one and ended after its last; no thread is kept out. Both NULL: nothing.
     * A stream that comes when all others have ended, or to another process, has no rows. */
    od_vgiw_code (*share)(void *arg, const od_vgiw_call *call, void **shared, od_vgiw_error *err);
    void (*unshare)(void *shared);
    od_vgiw_code (*open)(void *arg, const od_vgiw_scan *scan, void **rows, od_vgiw_error *err);
    /* Not TABLE: takes the batch IN (it is moved: IN->release is NULL then, or the caller releases it). SCALAR, ROWS: makes OUT; ROWS: *more, set to 0
     * before, not 0: there is more for the same batch, which is asked for with an IN that has no rows and is none (release NULL). BUFFERED: OUT and
     * MORE are NULL. */
    od_vgiw_code (*put)(void *rows, struct ArrowArray *in, struct ArrowArray *out, int *more, od_vgiw_error *err);
    /* The next batch; out->release NULL: there is none any more. Not called by two threads at once for the same ROWS; nor is `put`. */
    od_vgiw_code (*next)(void *rows, struct ArrowArray *out, od_vgiw_error *err);
    void (*close)(void *rows); /* before the end, too */
} od_vgiw_function;

/*   OD_VGIW_EXISTS  there is one of that name, kind and number of parameters, all of the same types */
od_vgiw_code od_vgiw_add_function(od_vgiw *worker, const od_vgiw_function *function, od_vgiw_error *err);

/* Where rows of a table are: the first of these that is set. */
typedef struct {
    const char *source_table, *source_catalog,
        *source_schema; /* a table of a catalog at the client, such as a companion's */
    const char *format; /* "parquet", "csv", ...: files (generation 2.2) */
    const char *const *locations;
    size_t location_count;
    od_vgiw_values format_options;          /* of the format's reader */
    const char *function, *function_schema; /* of this worker (schema NULL: the table's), or of DuckDB's */
    od_vgiw_values arguments;               /* "arg_N" is the N-th positional one */
    const char *filter;                     /* SQL over its columns: which of its rows are the table's; NULL: all */
    int writable;                           /* rows that are inserted are there; of one branch at most */
} od_vgiw_branch;

/* Columns, counted from 0. */
typedef struct {
    const int32_t *columns;
    size_t count;
} od_vgiw_columns;

/* A query has to filter on one of the columns ("a", or "s.a" of a struct). */
typedef struct {
    const char *const *columns;
    size_t count;
} od_vgiw_required_filter;

typedef struct {
    const char *schema; /* NULL: the catalog's default */
    const char *name;
    const char *comment; /* NULL: none */
    /* A struct; fields without ARROW_FLAG_NULLABLE are NOT NULL. Metadata of a field: is_row_id (it is the row id, and no column), default (SQL). */
    const struct ArrowSchema *columns;
    const od_vgiw_columns *primary_key; /* NULL: none */
    const od_vgiw_columns *unique;
    size_t unique_count;
    const char *const *checks; /* SQL */
    size_t check_count;
    const od_vgiw_required_filter *required_filters; /* all of them */
    size_t required_filter_count;
    const od_vgiw_statistics *statistics;
    size_t statistics_count;
    int64_t row_count; /* about; 0: not told */
    const char
        *insert; /* a function of kind ROWS, in its schema, that takes rows and answers how many; NULL: read-only */
    /* As of when it is asked for (see od_vgiw_call): makes *TABLE the name of the table, in its schema, that it was then, which may be unlisted.
     * NULL: it has no past. */
    od_vgiw_code (*at)(void *arg, const char *unit, const char *value, const char **table, od_vgiw_error *err);
    int unlisted; /* it is not shown, and found by `at` alone */
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

typedef struct {
    const char *schema; /* NULL: the catalog's default */
    const char *name;
    const char *comment;    /* NULL: none */
    const char *definition; /* a query, which runs at the client */
} od_vgiw_view;

od_vgiw_code od_vgiw_add_view(od_vgiw *worker, const od_vgiw_view *view, od_vgiw_error *err);

typedef struct {
    const char *schema; /* NULL: the catalog's default */
    const char *name;
    const char *comment;    /* NULL: none */
    const char *definition; /* an expression of its parameters, or a query, which runs at the client */
    int table;              /* it is a query */
    const char *const *parameters;
    size_t parameter_count;
    od_vgiw_values defaults; /* a column for each parameter that has one */
} od_vgiw_macro;

od_vgiw_code od_vgiw_add_macro(od_vgiw *worker, const od_vgiw_macro *macro, od_vgiw_error *err);

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

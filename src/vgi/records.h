/* vgi/records.h: what a VGI worker tells, as plain structs.
 *
 * An answer owns everything its structs point to, until od_vgi_answer_free. Text and bytes are slices with a NUL behind them that is
 * not counted; data NULL: absent (a null). What a protocol generation does not have reads as absent, empty or false. */
#ifndef OD_VGI_RECORDS_H
#define OD_VGI_RECORDS_H

#include <stdint.h>

#include "arrow/c_data.h"
#include "base/buf.h"

typedef struct od_vgi_answer od_vgi_answer;

void od_vgi_answer_free(od_vgi_answer *answer); /* NULL allowed */

typedef struct {
    size_t count;
    const od_slice *items;
} od_vgi_texts;

typedef struct {
    od_slice key, value;
} od_vgi_pair;

typedef struct {
    size_t count;
    const od_vgi_pair *items;
} od_vgi_pairs;

typedef struct {
    size_t count;
    const int32_t *items; /* columns, counted from 0; checked: each is one of the table's */
} od_vgi_columns;

/* A batch of one row as of the C data interface: a struct array of length 1. Both releases NULL: none. The receiver may move them out
 * (set release to NULL); what stays the answer releases. */
typedef struct {
    struct ArrowSchema schema;
    struct ArrowArray array;
} od_vgi_values;

/* Number or nothing. */
typedef struct {
    bool known;
    int64_t value;
} od_vgi_number;

/* ---- catalogs ---- */

typedef struct {
    od_slice name, description;
    struct ArrowSchema type;     /* a struct of one field */
    od_vgi_values default_value; /* one column of that type; or none */
    bool required, secret;
} od_vgi_option_spec;

typedef struct {
    od_slice name, implementation_version, data_version_spec, source_url;
    size_t option_count;
    od_vgi_option_spec *options;
} od_vgi_catalog_info;

typedef struct {
    od_vgi_answer *answer;
    size_t count;
    od_vgi_catalog_info *items;
} od_vgi_catalogs;

/* A catalog that is to be attached beside. */
typedef struct {
    od_slice alias, target, db_type, secret_ref;
    od_vgi_pairs options;
    bool hidden, required;
} od_vgi_companion;

typedef struct {
    od_slice name, description;
    struct ArrowSchema parameters; /* a struct of its keys; metadata redact=true: not to be shown */
} od_vgi_secret_type;

typedef struct {
    od_vgi_answer *answer;
    od_slice opaque; /* goes back with every call */
    bool supports_transactions, supports_time_travel, supports_column_statistics, supports_contents;
    bool version_frozen;
    int64_t version;
    od_slice default_schema; /* "main" where the worker names none */
    od_slice comment, resolved_data_version, resolved_implementation_version, global_function_prefix;
    od_vgi_pairs tags;
    size_t companion_count;
    od_vgi_companion *companions;
    size_t setting_count;
    od_vgi_option_spec *settings;
    size_t secret_type_count;
    od_vgi_secret_type *secret_types;
} od_vgi_attached;

/* What is in a schema of one kind: 0 is a promise, unknown is none. */
typedef struct {
    od_slice name; /* the last of PATH */
    od_vgi_texts path;
    od_slice comment;
    od_vgi_pairs tags;
    struct {
        od_vgi_number table, view, scalar_function, aggregate_function, table_function, macro, index;
    } estimated;
} od_vgi_schema;

typedef struct {
    od_vgi_answer *answer;
    size_t count;
    od_vgi_schema *items;
} od_vgi_schemas;

/* ---- tables ---- */

/* A call of a function that the worker tells to make. ARGUMENTS: a column arg_N is the N-th positional one, any other is named. */
typedef struct {
    od_slice function;
    od_vgi_texts schema_path; /* where it is registered; empty: not told */
    od_vgi_values arguments;
    od_vgi_texts required_extensions;
} od_vgi_scan_function;

typedef struct {
    od_vgi_texts columns, referenced_columns, referenced_schema_path;
    od_slice referenced_table;
} od_vgi_foreign_key;

/* What a worker says of a column's values. Its word alone: it may be old or wrong, and no answer may rest on it. */
typedef struct {
    od_slice column;
    od_vgi_number distinct_count;
    bool has_range; /* of numbers, dates and times, as the integers that Arrow has for them */
    double min, max;
    od_slice format; /* of both, as of the C data interface */
} od_vgi_column_statistics;

typedef struct {
    od_vgi_answer *answer; /* NULL of a table's own: the table's answer has them */
    size_t count;
    od_vgi_column_statistics *items;
} od_vgi_statistics;

typedef struct {
    od_slice name, comment, schema; /* SCHEMA: the last of its path */
    od_vgi_pairs tags;
    struct ArrowSchema columns; /* a struct */
    int32_t row_id;             /* the column that is the rowid and no column of the table's; -1: none */
    od_vgi_columns not_null;
    size_t unique_count, primary_key_count, foreign_key_count;
    od_vgi_columns *unique, *primary_keys;
    od_vgi_foreign_key *foreign_keys;
    od_vgi_texts checks;
    bool supports_column_statistics; /* they can be asked for, where they are not told */
    od_vgi_statistics statistics;    /* told with the table */
    bool supports_insert, supports_update, supports_delete;
    bool has_scan_function;
    od_vgi_scan_function scan_function; /* told with the table: saves a call */
    od_vgi_number cardinality_estimate, cardinality_max;
    size_t required_filter_count;
    od_vgi_texts *required_filters; /* a query must filter on one column of each */
} od_vgi_table;

typedef struct {
    od_vgi_answer *answer;
    size_t count; /* of a table asked for by name: 0 or 1 */
    od_vgi_table *items;
} od_vgi_tables;

typedef struct {
    od_slice name, comment, definition;
    od_vgi_pairs tags, column_comments;
} od_vgi_view;

typedef struct {
    od_vgi_answer *answer;
    size_t count;
    od_vgi_view *items;
} od_vgi_views;

typedef struct {
    od_slice name, comment, definition;
    bool is_table; /* else scalar */
    od_vgi_pairs tags;
    od_vgi_texts parameters;
    od_vgi_values defaults; /* a column for each parameter that has one */
} od_vgi_macro;

typedef struct {
    od_vgi_answer *answer;
    size_t count;
    od_vgi_macro *items;
} od_vgi_macros;

typedef enum { OD_VGI_BRANCH_FUNCTION, OD_VGI_BRANCH_TABLE, OD_VGI_BRANCH_FORMAT } od_vgi_branch_kind;

/* One arm of a table. */
typedef struct {
    od_vgi_branch_kind kind;
    od_vgi_scan_function call; /* of a function's; a format's has arguments too, which are its reader's */
    od_slice filter;           /* SQL over the branch's columns; absent: all rows */
    bool writable;
    od_slice source_catalog, source_schema, source_table; /* of a table's */
    od_slice format_name;                                 /* of a format's */
    od_vgi_texts format_locations;
    od_vgi_values format_options;
} od_vgi_branch;

typedef struct {
    od_vgi_answer *answer;
    size_t count; /* may be 0: the worker's mistake */
    od_vgi_branch *items;
    od_vgi_texts required_extensions;
    bool by_function; /* the worker knows no branches: the one there is came from catalog_table_scan_function_get */
} od_vgi_branches;

/* What rows go into that are written to a table: a function over rows. */
typedef struct {
    od_vgi_answer *answer;
    od_vgi_scan_function call;
} od_vgi_write_function;

/* ---- functions ---- */

typedef enum {
    OD_VGI_SCALAR_FUNCTION,
    OD_VGI_AGGREGATE_FUNCTION,
    OD_VGI_TABLE_FUNCTION,
    OD_VGI_TABLE_BUFFERING_FUNCTION
} od_vgi_function_type;

typedef struct {
    od_slice secret_type, scope, name;
} od_vgi_secret_need;

typedef struct {
    od_slice name, comment, description;
    od_vgi_texts schema_path;
    od_vgi_function_type type;
    od_vgi_pairs tags;
    /* A struct; a field's metadata say more: vgi_arg=named, vgi_type=table|any, vgi_varargs=true, vgi_default. */
    struct ArrowSchema arguments;
    struct ArrowSchema output; /* release NULL: only told by a bind */
    od_vgi_values defaults;
    od_slice stability, null_handling, order_preservation; /* upper case: CONSISTENT, VOLATILE, ... */
    bool projection_pushdown, filter_pushdown, filters_exactly_applied;
    bool has_finalize, supports_batch_index, supports_window;
    bool input_from_args;              /* its parameters are columns of rows that go in */
    od_vgi_number input_rows_per_call; /* of those no more at once */
    od_vgi_number max_workers;
    od_vgi_texts required_settings;
    size_t secret_count;
    od_vgi_secret_need *secrets;
} od_vgi_function;

typedef struct {
    od_vgi_answer *answer;
    size_t count; /* overloads have one name */
    od_vgi_function *items;
} od_vgi_functions;

/* ---- secrets ---- */

/* What a secret service has for a path. */
typedef struct {
    od_vgi_answer *answer;
    bool found;
    od_slice secret_type, provider, name;
    od_vgi_texts scope, redact_keys;
    od_vgi_values *values;                /* a typed column for each key */
    int64_t ttl_seconds, expires_at_unix; /* 0: not told */
} od_vgi_secret;

#endif

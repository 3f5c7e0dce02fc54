/* vgi/layout.h: what a database is made of for its clients, beside the tables that are there: companions, and tables of several branches.
 *
 * Read of a file, whose format is in docs/vgi.md. Thread: any. */
#ifndef OD_VGI_LAYOUT_H
#define OD_VGI_LAYOUT_H

#include "base/buf.h"

enum { OD_LAYOUT_PARTS = 3 };

/* "lake.main.events": parts of a name, in quotes or without. */
typedef struct {
    size_t count;
    char *parts[OD_LAYOUT_PARTS];
} od_layout_name;

typedef struct {
    char *name, *value;
} od_layout_option;

typedef struct {
    char *alias, *target, *type, *secret;
    bool optional, hidden;
    od_buf options; /* od_layout_option */
    unsigned line;
} od_layout_companion;

/* Of a table (of the database, or with three parts of a companion), or files of a format. */
typedef struct {
    od_layout_name from;
    char *format, *where;
    od_buf locations; /* char * */
    unsigned line;
} od_layout_branch;

typedef struct {
    od_layout_name name;
    char *comment, *split;
    od_buf extensions; /* char * */
    od_buf branches;   /* od_layout_branch */
    unsigned line;
} od_layout_table;

typedef struct {
    char *comment, *default_schema, *secret_service;
    bool listed;       /* only what is listed here is served */
    od_buf companions; /* od_layout_companion */
    od_buf tables;     /* od_layout_table */
} od_layout;

/* How many there are, and the I-th. */
#define OD_LAYOUT_COUNT(list, type) ((list).len / sizeof(type))
#define OD_LAYOUT_AT(list, type, i) ((type *)(void *)(list).data + (i))

/* OD_E_INVALID: the line that is wrong; OD_E_NOT_FOUND, OD_E_IO: the file cannot be read. OUT is to be released whatever comes back. */
OD_MUST_CHECK od_code od_layout_read(const char *path, od_layout *out, od_error *err);
OD_MUST_CHECK od_code od_layout_add_companion(od_layout *layout, const char *alias, const char *target, od_error *err);
void od_layout_release(od_layout *layout);

/* True if LAYOUT has a companion called ALIAS, in any case. */
bool od_layout_has_companion(const od_layout *layout, const char *alias);

/* Whether LAYOUT makes sense for all that can be seen of it alone: companions that a policy of vgi/companion.h lets attach, tables of branches of
 * vgi/branch.h, each name once. OD_E_INVALID, OD_E_BINDER: what is wrong; no password in the text. */
OD_MUST_CHECK od_code od_layout_check(const od_layout *layout, od_error *err);
/* The schema and the name of a table, or of a branch that is of the database: "main" where NAME has one part. */
const char *od_layout_schema(const od_layout_name *name);
const char *od_layout_table_name(const od_layout_name *name);

/* ---- on the wire: openduck.v1.DatabaseLayout; what is for a VGI catalog alone ([catalog]) is not in it ---- */

OD_MUST_CHECK od_code od_layout_encode(const od_layout *layout, od_buf *out, od_error *err);
/* OD_E_PROTOCOL on bytes that are none. Unknown fields are skipped; lines are 0. OUT is to be released whatever comes back. */
OD_MUST_CHECK od_code od_layout_decode(od_slice bytes, od_layout *out, od_error *err);

/* ---- the division of rows ---- */

/* Appends the query whose one row and column, "answer", is TABLE's split as a typed literal; NULL divides nothing. TABLE has a split. */
OD_MUST_CHECK od_code od_layout_split_query(const od_layout_table *table, od_buf *out, od_error *err);
/* Appends WHERE (NULL: nothing) with SPLIT, a literal, wherever it says {split}. */
OD_MUST_CHECK od_code od_layout_condition(const char *where, const char *split, od_buf *out, od_error *err);

#endif

/* What a database's VGI catalog is made of, beside the tables that are there: companions, and tables of several branches. docs/vgi.md has the
 * file's format. */
#ifndef OD_CLI_VGI_LAYOUT_H
#define OD_CLI_VGI_LAYOUT_H

#include "base/buf.h"

enum { VGI_LAYOUT_PARTS = 3 };

/* "lake.main.events": parts of a name, in quotes or without. */
typedef struct {
    size_t count;
    char *parts[VGI_LAYOUT_PARTS];
} vgi_layout_name;

typedef struct {
    char *name, *value;
} vgi_layout_option;

typedef struct {
    char *alias, *target, *type, *secret;
    bool optional, hidden;
    od_buf options; /* vgi_layout_option */
    unsigned line;
} vgi_layout_companion;

/* Of a table (of the database, or with three parts of a companion), or files of a format. */
typedef struct {
    vgi_layout_name from;
    char *format, *where;
    od_buf locations; /* char * */
    unsigned line;
} vgi_layout_branch;

typedef struct {
    vgi_layout_name name;
    char *comment, *split;
    od_buf extensions; /* char * */
    od_buf branches;   /* vgi_layout_branch */
    unsigned line;
} vgi_layout_table;

typedef struct {
    char *comment, *default_schema, *secret_service;
    bool listed;       /* only what is listed here is served */
    od_buf companions; /* vgi_layout_companion */
    od_buf tables;     /* vgi_layout_table */
} vgi_layout;

/* How many there are, and the I-th. */
#define VGI_LAYOUT_COUNT(list, type) ((list).len / sizeof(type))
#define VGI_LAYOUT_AT(list, type, i) ((type *)(void *)(list).data + (i))

/* OD_E_INVALID: the line that is wrong; OD_E_NOT_FOUND, OD_E_IO: the file cannot be read. OUT is to be released whatever comes back. */
OD_MUST_CHECK od_code vgi_layout_read(const char *path, vgi_layout *out, od_error *err);
OD_MUST_CHECK od_code vgi_layout_add_companion(vgi_layout *layout, const char *alias, const char *target,
                                               od_error *err);
void vgi_layout_release(vgi_layout *layout);

#endif

/* vgi/worker/worker_internal.h: a worker's catalog. */
#ifndef OD_VGI_WORKER_INTERNAL_H
#define OD_VGI_WORKER_INTERNAL_H

#include "arrow/c_data.h"
#include "base/buf.h"
#include "openduck/vgi_worker.h"

/* Owned copies of what was added. Texts that are absent are NULL. */
typedef struct {
    char *alias, *target, *db_type, *secret_ref;
    od_vgiw_pair *options;
    size_t option_count;
    bool hidden, required;
} vgiw_companion;

typedef struct {
    char *name, *comment;
} vgiw_schema;

typedef struct {
    char *schema, *name, *comment;
    struct ArrowSchema parameters; /* a struct */
    od_vgiw_function call;         /* its functions and `arg`; what else it points to is not used */
} vgiw_function;

typedef struct {
    char *source_table, *source_catalog, *source_schema, *format, *function, *function_schema, *filter;
    char **locations;
    size_t location_count;
    od_buf arguments; /* a stream of one batch; empty: there are none */
} vgiw_branch;

typedef struct {
    char *schema, *name, *comment;
    struct ArrowSchema columns;
    vgiw_branch *branches;
    size_t branch_count;
    char **extensions;
    size_t extension_count;
    od_vgiw_code (*filters)(void *arg, char *const *out, size_t size, od_vgiw_error *err);
    void *arg;
} vgiw_table;

/* A list that grows; items are moved bytewise. */
typedef struct {
    void *items;
    size_t count, room;
} vgiw_list;

struct od_vgiw {
    char *name, *comment, *default_schema, *secret_service;
    od_buf attach;        /* attach_opaque_data: the same in every process of this catalog */
    vgiw_list companions; /* vgiw_companion */
    vgiw_list schemas;    /* vgiw_schema */
    vgiw_list functions;  /* vgiw_function */
    vgiw_list tables;     /* vgiw_table */
    int stop[2];          /* a pipe: readable once it is to stop */
};

/* NULL: there is none. Names are the same in any case. SCHEMA NULL: any, the default one first. */
const vgiw_schema *vgiw_find_schema(const od_vgiw *worker, const char *name);
const vgiw_table *vgiw_find_table(const od_vgiw *worker, const char *schema, const char *name);
const vgiw_function *vgiw_find_function(const od_vgiw *worker, const char *schema, const char *name);

void vgiw_companion_release(vgiw_companion *companion);
void vgiw_schema_release(vgiw_schema *schema);
void vgiw_function_release(vgiw_function *function);
void vgiw_table_release(vgiw_table *table);

/* Between the codes of the house and those of the door. */
od_vgiw_code vgiw_fail(od_vgiw_error *out, const od_error *err);
od_code vgiw_failed(od_error *out, od_vgiw_code code, const od_vgiw_error *err);

#endif

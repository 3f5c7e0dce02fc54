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
    char *name, *description;
    struct ArrowSchema type; /* a struct of one field; of a secret type: of its keys */
    od_buf value;            /* a stream of one batch; empty: none */
    bool required, secret;
} vgiw_setting;

typedef struct {
    char *schema, *name, *comment, *definition;
    bool table;
    char **parameters;
    size_t parameter_count;
    od_buf defaults;
} vgiw_definition; /* of a view or a macro */

/* Texts; of a secret that is needed: type, scope, name. */
typedef struct {
    char **items;
    size_t count;
} vgiw_texts;

typedef struct {
    char *schema, *name, *comment;
    struct ArrowSchema parameters; /* a struct */
    vgiw_texts settings;
    vgiw_texts *secrets;
    od_vgiw_function call; /* its functions, numbers and `arg`; what else it points to is not used */
} vgiw_function;

typedef struct {
    char *source_table, *source_catalog, *source_schema, *format, *function, *function_schema, *filter;
    char **locations;
    size_t location_count;
    od_buf arguments, format_options; /* a stream of one batch; empty: there are none */
    bool writable;
} vgiw_branch;

/* Columns, counted from 0. */
typedef struct {
    int32_t *items;
    size_t count;
} vgiw_columns;

typedef struct {
    char *schema, *name, *comment, *insert;
    struct ArrowSchema columns;
    vgiw_columns primary_key;
    vgiw_columns *unique;
    size_t unique_count;
    vgiw_texts checks;
    vgiw_texts *required_filters;
    size_t required_filter_count;
    od_vgiw_statistics *statistics; /* of each column, in their order; NULL: none is told */
    int64_t row_count;
    od_vgiw_code (*at)(void *arg, const char *unit, const char *value, const char **table, od_vgiw_error *err);
    bool unlisted;
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

struct vgiw_shelf;
struct vgiw_shares;

struct od_vgiw {
    char *name, *comment, *default_schema, *secret_service, *generation;
    od_buf attach;        /* what attach_opaque_data begins with: the same in every process of this catalog */
    vgiw_list companions; /* vgiw_companion */
    vgiw_list schemas;    /* vgiw_schema */
    vgiw_list options;    /* vgiw_setting, as the next two */
    vgiw_list settings;
    vgiw_list secret_types;
    vgiw_list views; /* vgiw_definition, as the next one */
    vgiw_list macros;
    vgiw_list functions; /* vgiw_function */
    vgiw_list tables;    /* vgiw_table */
    bool has_transactions, has_past;
    od_vgiw_transactions transactions;
    struct vgiw_shelf *kept;    /* rows of functions, until their end is asked for */
    struct vgiw_shares *shares; /* what streams of one scan have in common */
    int stop[2];                /* a pipe: readable once it is to stop */
};

/* NULL: there is none. Names are the same in any case. SCHEMA NULL: any, the default one first. */
const vgiw_schema *vgiw_find_schema(const od_vgiw *worker, const char *name);
const vgiw_table *vgiw_find_table(const od_vgiw *worker, const char *schema, const char *name);
const vgiw_function *vgiw_find_function(const od_vgiw *worker, const char *schema, const char *name);
const vgiw_setting *vgiw_find_setting(const vgiw_list *list, const char *name);
const vgiw_definition *vgiw_find_definition(const vgiw_list *list, const char *schema, const char *name);

/* ---- copies of what is added (keep.c) ---- */

bool vgiw_is_absent(const char *text); /* NULL, or "" */
/* A copy of TEXT at OUT; absent: NULL. */
OD_MUST_CHECK od_code vgiw_keep(const char *text, char **out, od_error *err);
OD_MUST_CHECK od_code vgiw_keep_all(const char *const *texts, size_t count, char ***out, size_t *kept, od_error *err);
/* VALUES as a stream of one batch. */
OD_MUST_CHECK od_code vgiw_keep_values(const od_vgiw_values *values, od_buf *out, od_error *err);
/* Moves ITEM, of SIZE bytes, to the end of LIST. */
OD_MUST_CHECK od_code vgiw_append(vgiw_list *list, const void *item, size_t size, od_error *err);
/* SCHEMA is a struct of columns with names of their own; WHAT and NAME are for the error. */
OD_MUST_CHECK od_code vgiw_check_struct(const struct ArrowSchema *schema, const char *what, const char *name,
                                        od_error *err);
/* The name of the schema that NAME (NULL: the default) is. */
OD_MUST_CHECK od_code vgiw_resolve_schema(const od_vgiw *worker, const char *name, char **out, od_error *err);

void vgiw_texts_release(vgiw_texts *texts);
void vgiw_setting_release(vgiw_setting *setting);
void vgiw_definition_release(vgiw_definition *definition);
void vgiw_companion_release(vgiw_companion *companion);
void vgiw_schema_release(vgiw_schema *schema);
void vgiw_function_release(vgiw_function *function);
void vgiw_table_release(vgiw_table *table);

/* Between the codes of the house and those of the door. */
od_vgiw_code vgiw_fail(od_vgiw_error *out, const od_error *err);
od_code vgiw_failed(od_error *out, od_vgiw_code code, const od_vgiw_error *err);

#endif

/* A VGI worker in C: a table function squares(count), and a table of it. Only libopenduck_vgi_worker is needed.
 *
 *   cc vgi_worker.c -lopenduck_vgi_worker -o squares
 *   duckdb> LOAD vgi; ATTACH 'demo' AS d (TYPE vgi, LOCATION './squares'); SELECT * FROM d.squares; */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openduck/vgi_worker.h>

/* ---- Arrow's C data interface, as its specification has it; a program with an Arrow library takes that one's ---- */

struct ArrowSchema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct ArrowSchema **children, *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

enum { COLUMNS = 2, BATCH = 1000 };

/* A schema or an array, and all that it points to, in one piece of memory. */
typedef struct {
    struct ArrowSchema fields[COLUMNS], *children[COLUMNS];
} schema_parts;

typedef struct {
    struct ArrowArray fields[COLUMNS], *children[COLUMNS];
    const void *buffers[COLUMNS][2], *none[1];
    int64_t values[COLUMNS][BATCH];
} array_parts;

static void release_schema(struct ArrowSchema *schema)
{
    free(schema->private_data);
    schema->release = NULL;
}

static void release_array(struct ArrowArray *array)
{
    free(array->private_data);
    array->release = NULL;
}

static void keep_schema(struct ArrowSchema *schema) /* a child's: it goes with the whole */
{
    schema->release = NULL;
}

static void keep_array(struct ArrowArray *array)
{
    array->release = NULL;
}

static int make_columns(struct ArrowSchema *out)
{
    static const char *const names[COLUMNS] = {"n", "square"};
    schema_parts *parts = calloc(1, sizeof *parts);

    if (parts == NULL)
        return 0;
    for (int i = 0; i < COLUMNS; i++) {
        parts->fields[i] = (struct ArrowSchema){.format = "l", .name = names[i], .release = keep_schema};
        parts->children[i] = &parts->fields[i];
    }
    *out = (struct ArrowSchema){.format = "+s",
                                .name = "",
                                .n_children = COLUMNS,
                                .children = parts->children,
                                .release = release_schema,
                                .private_data = parts};
    return 1;
}

/* ---- the function ---- */

typedef struct {
    int64_t at, count;
    int columns[COLUMNS], column_count; /* those that were asked for */
} progress;

static od_vgiw_code no_memory(od_vgiw_error *err)
{
    err->code = OD_VGIW_NO_MEMORY;
    snprintf(err->message, sizeof err->message, "out of memory");
    return err->code;
}

/* The first positional argument; 10 without. */
static int64_t count_of(const od_vgiw_values *arguments)
{
    for (int64_t i = 0; arguments->schema != NULL && i < arguments->schema->n_children; i++) {
        const struct ArrowArray *value = arguments->array->children[i];

        if (strcmp(arguments->schema->children[i]->name, "arg_0") == 0 &&
            strcmp(arguments->schema->children[i]->format, "l") == 0)
            return ((const int64_t *)value->buffers[1])[value->offset];
    }
    return 10;
}

static od_vgiw_code bind(void *arg, const od_vgiw_call *call, struct ArrowSchema *out, od_vgiw_error *err)
{
    (void)arg;
    (void)call;
    return make_columns(out) ? OD_VGIW_OK : no_memory(err);
}

static od_vgiw_code begin(void *arg, const od_vgiw_scan *scan, void **rows, od_vgiw_error *err)
{
    progress *p = calloc(1, sizeof *p);

    (void)arg;
    if (p == NULL)
        return no_memory(err);
    p->count = count_of(&scan->call->arguments);
    p->column_count = scan->columns != NULL ? (int)scan->column_count : COLUMNS;
    for (int i = 0; i < p->column_count; i++)
        p->columns[i] = scan->columns != NULL ? (int)scan->columns[i] : i;
    *rows = p;
    return OD_VGIW_OK;
}

static od_vgiw_code next(void *rows, struct ArrowArray *out, od_vgiw_error *err)
{
    progress *p = rows;
    int64_t n = p->count - p->at < BATCH ? p->count - p->at : BATCH;
    array_parts *parts;

    if (n <= 0)
        return OD_VGIW_OK; /* out->release is NULL: the end */
    parts = calloc(1, sizeof *parts);
    if (parts == NULL)
        return no_memory(err);
    for (int c = 0; c < p->column_count; c++) {
        for (int64_t i = 0; i < n; i++)
            parts->values[c][i] = p->columns[c] == 0 ? p->at + i : (p->at + i) * (p->at + i);
        parts->buffers[c][1] = parts->values[c];
        parts->fields[c] =
            (struct ArrowArray){.length = n, .n_buffers = 2, .buffers = parts->buffers[c], .release = keep_array};
        parts->children[c] = &parts->fields[c];
    }
    p->at += n;
    *out = (struct ArrowArray){.length = n,
                               .n_buffers = 1,
                               .buffers = parts->none,
                               .n_children = p->column_count,
                               .children = parts->children,
                               .release = release_array,
                               .private_data = parts};
    return OD_VGIW_OK;
}

int main(void)
{
    const od_vgiw_catalog catalog = {.name = "demo", .comment = "numbers and their squares"};
    const od_vgiw_function squares = {
        .name = "squares", .projection = 1, .bind = bind, .open = begin, .next = next, .close = free};
    const od_vgiw_branch branch = {.function = "squares"};
    struct ArrowSchema columns = {0};
    od_vgiw_table table = {.name = "squares", .columns = &columns, .branches = &branch, .branch_count = 1};
    od_vgiw_error err = {OD_VGIW_OK, ""};
    od_vgiw *worker = NULL;
    int ok;

    signal(SIGPIPE, SIG_IGN);
    ok = make_columns(&columns) && od_vgiw_create(&catalog, &worker, &err) == OD_VGIW_OK &&
         od_vgiw_add_function(worker, &squares, &err) == OD_VGIW_OK &&
         od_vgiw_add_table(worker, &table, &err) == OD_VGIW_OK && od_vgiw_serve(worker, 0, 1, &err) == OD_VGIW_OK;
    if (!ok)
        fprintf(stderr, "squares: %s\n", err.message);
    od_vgiw_free(worker);
    if (columns.release != NULL)
        columns.release(&columns);
    return !ok;
}

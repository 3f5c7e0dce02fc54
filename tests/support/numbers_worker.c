#include "support/numbers_worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arrow/record.h"
#include "arrow/row.h"
#include "arrow/schema.h"
#include "base/alloc.h"

enum { TEXT = 4096 };

typedef struct {
    numbers_state *state;
    struct ArrowSchema schema;
    int64_t at, count;
    int batches;
    char text[TEXT];
} run;

static od_vgiw_code fail(od_vgiw_error *err, const char *why)
{
    err->code = OD_VGIW_FAILED;
    snprintf(err->message, sizeof err->message, "%s", why);
    return OD_VGIW_FAILED;
}

static void make_columns(struct ArrowSchema *out)
{
    if (od_schema_make(out, "", "+s", 2, NULL) != OD_OK ||
        od_schema_make(out->children[0], "n", "l", 0, NULL) != OD_OK ||
        od_schema_make(out->children[1], "s", "u", 0, NULL) != OD_OK)
        abort();
}

static const struct ArrowArray *argument(const od_vgiw_values *values, const char *name, const char *format)
{
    for (int64_t i = 0; values->schema != NULL && i < values->schema->n_children; i++)
        if (strcmp(values->schema->children[i]->name, name) == 0 &&
            strcmp(values->schema->children[i]->format, format) == 0)
            return values->array->children[i];
    return NULL;
}

static od_vgiw_code bind(void *arg, const od_vgiw_call *call, struct ArrowSchema *out, od_vgiw_error *err)
{
    (void)arg;
    if (call->arguments.schema != NULL && argument(&call->arguments, "arg_0", "l") == NULL)
        return fail(err, "numbers needs a count");
    make_columns(out);
    return OD_VGIW_OK;
}

static int64_t count_of(const od_vgiw_values *arguments)
{
    const struct ArrowArray *count = argument(arguments, "arg_0", "l");

    return count != NULL ? ((const int64_t *)count->buffers[1])[count->offset] : 10;
}

static int64_t count(void *arg, const od_vgiw_call *call)
{
    (void)arg;
    return count_of(&call->arguments);
}

static od_vgiw_code open_run(void *arg, const od_vgiw_scan *scan, void **out, od_vgiw_error *err)
{
    const struct ArrowArray *label = argument(&scan->call->arguments, "label", "u");
    struct ArrowSchema columns;
    size_t len;
    run *r = calloc(1, sizeof *r);

    (void)err;
    make_columns(&columns);
    r->state = arg;
    r->state->opened++;
    r->count = count_of(&scan->call->arguments);
    od_vgiw_filters_sql(scan, &columns, r->text, sizeof r->text, &len);
    if (label != NULL) {
        const int32_t *offsets = label->buffers[1];

        snprintf(r->text, sizeof r->text, "%.*s", (int)(offsets[1] - offsets[0]),
                 (const char *)label->buffers[2] + offsets[0]);
    }
    if (od_schema_copy(scan->schema, &r->schema, NULL) != OD_OK)
        abort();
    od_schema_release(&columns);
    *out = r;
    return OD_VGIW_OK;
}

/* One row as a batch of its own: what od_row makes. */
static void make_row(run *r, struct ArrowArray *out)
{
    struct ArrowSchema schema = {0};
    od_record *record = NULL;
    od_row *row = NULL;
    od_msg *msg = NULL;

    if (od_row_create(&row, NULL) != OD_OK)
        abort();
    for (int64_t i = 0; i < r->schema.n_children; i++) {
        if (strcmp(r->schema.children[i]->name, "n") == 0)
            od_row_int64(row, "n", OD_ROW_NULLABLE, &r->at);
        else
            od_row_text(row, "s", OD_ROW_NULLABLE, od_slice_str(r->text));
    }
    if (od_row_finish(row, NULL, 0, &msg, NULL) != OD_OK ||
        od_record_of_payload(od_slice_of(od_msg_data(msg), od_msg_len(msg)), &record, NULL) != OD_OK)
        abort();
    od_record_take(record, &schema, out);
    od_schema_release(&schema);
    od_record_free(record);
    od_msg_unref(msg);
    od_row_free(row);
}

static od_vgiw_code next(void *rows, struct ArrowArray *out, od_vgiw_error *err)
{
    run *r = rows;

    if (r->at >= r->count)
        return OD_VGIW_OK;
    if (++r->batches == r->state->fail_at)
        return fail(err, "this batch cannot be made");
    make_row(r, out);
    r->at++;
    return OD_VGIW_OK;
}

static void close_run(void *rows)
{
    run *r = rows;

    r->state->closed++;
    od_schema_release(&r->schema);
    free(r);
}

static od_vgiw_code tell_filters(void *arg, char *const *out, size_t size, od_vgiw_error *err)
{
    numbers_state *state = arg;

    (void)err;
    state->asked++;
    snprintf(out[0], size, "n >= %u", state->asked);
    snprintf(out[1], size, "n < %u", state->asked);
    return OD_VGIW_OK;
}

static void must(od_vgiw_code code)
{
    if (code != OD_VGIW_OK)
        abort();
}

od_vgiw *numbers_worker(numbers_state *state)
{
    const od_vgiw_pair options[] = {{"read_only", "true"}};
    const od_vgiw_companion lake = {
        .alias = "lake", .target = "duckdb:/nowhere", .options = options, .option_count = 1, .optional = 1};
    const od_vgiw_function function = {.name = "numbers",
                                       .comment = "they count",
                                       .projection = 1,
                                       .filters = 1,
                                       .arg = state,
                                       .bind = bind,
                                       .count = count,
                                       .open = open_run,
                                       .next = next,
                                       .close = close_run};
    const od_vgiw_branch branches[] = {{.function = "numbers"},
                                       {.source_table = "numbers", .source_catalog = "lake", .source_schema = "main"}};
    const char *const extensions[] = {"parquet"};
    struct ArrowSchema columns;
    od_vgiw_table table = {.name = "numbers", .columns = &columns, .branches = branches, .branch_count = 1};
    od_vgiw *worker;

    make_columns(&columns);
    columns.children[0]->flags &= ~ARROW_FLAG_NULLABLE;
    must(od_vgiw_create(&(od_vgiw_catalog){.name = "hot", .comment = "for tests"}, &worker, NULL));
    must(od_vgiw_add_companion(worker, &lake, NULL));
    must(od_vgiw_add_schema(worker, "other", NULL, NULL));
    must(od_vgiw_add_function(worker, &function, NULL));
    must(od_vgiw_add_table(worker, &table, NULL));
    table.name = "moving";
    table.branch_count = 2;
    table.required_extensions = extensions;
    table.extension_count = 1;
    table.filters = tell_filters;
    table.arg = state;
    must(od_vgiw_add_table(worker, &table, NULL));
    od_schema_release(&columns);
    sum_functions(worker, state);
    return worker;
}

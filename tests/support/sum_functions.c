/* Functions that rows go into, and one whose rows several streams share, in the schema "other". All columns are 64-bit integers. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arrow/schema.h"
#include "support/fixture_sql.h"
#include "support/numbers_worker.h"

typedef struct {
    numbers_state *state;
    int64_t sum, factor;
    int rounds; /* of the batch that went in last */
    bool told;
} adding;

static od_vgiw_code fail(od_vgiw_error *err, const char *why)
{
    err->code = OD_VGIW_FAILED;
    snprintf(err->message, sizeof err->message, "%s", why);
    return OD_VGIW_FAILED;
}

static int64_t value_of(const od_vgiw_values *values, const char *name, int64_t otherwise)
{
    for (int64_t i = 0; values->schema != NULL && i < values->schema->n_children; i++)
        if (strcmp(values->schema->children[i]->name, name) == 0 && values->array->children[i]->null_count == 0)
            return ((const int64_t *)values->array->children[i]->buffers[1])[values->array->children[i]->offset];
    return otherwise;
}

/* A number whose name tells what it was bound with: sum_FACTOR. */
static od_vgiw_code bind(void *arg, const od_vgiw_call *call, struct ArrowSchema *out, od_vgiw_error *err)
{
    const int64_t factor = value_of(&call->options, "factor", 0) + value_of(&call->settings, "more", 0);
    char text[64];

    (void)arg;
    if (call->input != NULL && (call->input->n_children != 1 || strcmp(call->input->children[0]->format, "l") != 0))
        return fail(err, "these rows are not numbers");
    snprintf(text, sizeof text, "sum_%lld%s:l", (long long)factor, call->secrets.schema != NULL ? "_secret" : "");
    fixture_columns(text, out);
    return OD_VGIW_OK;
}

static od_vgiw_code open_adding(void *arg, const od_vgiw_scan *scan, void **rows, od_vgiw_error *err)
{
    adding *a = calloc(1, sizeof *a);

    if (a == NULL)
        return fail(err, "out of memory");
    a->state = arg;
    a->state->opened++;
    a->factor = value_of(&scan->call->options, "factor", 0);
    *rows = a;
    return OD_VGIW_OK;
}

static void close_adding(void *rows)
{
    adding *a = rows;

    a->state->closed++;
    free(a);
}

static void add(adding *a, struct ArrowArray *in)
{
    const struct ArrowArray *column = in->children[0];

    for (int64_t i = 0; i < column->length; i++)
        a->sum += ((const int64_t *)column->buffers[1])[column->offset + i];
    in->release(in);
}

/* SCALAR: 0, FACTOR, ...: one too few where the worker is to fail. */
static od_vgiw_code count_values(void *rows, struct ArrowArray *in, struct ArrowArray *out, int *more,
                                 od_vgiw_error *err)
{
    adding *a = rows;
    int64_t count = in->length - (a->state->fail_at == 1);

    (void)more;
    if (a->state->fail_at == 2)
        return fail(err, "these values cannot be counted");
    in->release(in);
    fixture_integers(0, a->factor, count, out);
    return OD_VGIW_OK;
}

/* ROWS: what was added so far, twice for each batch. */
static od_vgiw_code add_rows(void *rows, struct ArrowArray *in, struct ArrowArray *out, int *more, od_vgiw_error *err)
{
    adding *a = rows;

    (void)err;
    if (in->release != NULL) {
        add(a, in);
        a->rounds = 0;
    }
    *more = a->rounds++ == 0;
    fixture_integers(a->sum, 0, 1, out);
    return OD_VGIW_OK;
}

static od_vgiw_code keep_rows(void *rows, struct ArrowArray *in, struct ArrowArray *out, int *more, od_vgiw_error *err)
{
    (void)out;
    (void)more;
    (void)err;
    add(rows, in);
    return OD_VGIW_OK;
}

static od_vgiw_code tell_sum(void *rows, struct ArrowArray *out, od_vgiw_error *err)
{
    adding *a = rows;

    (void)err;
    if (!a->told)
        fixture_integers(a->sum, 0, 1, out);
    a->told = true;
    return OD_VGIW_OK;
}

/* ---- streams ---- */

typedef struct {
    numbers_state *state;
    atomic_int left;
} shared_rows;

static od_vgiw_code share(void *arg, const od_vgiw_call *call, void **out, od_vgiw_error *err)
{
    shared_rows *s = calloc(1, sizeof *s);

    if (s == NULL)
        return fail(err, "out of memory");
    s->state = arg;
    s->state->opened++;
    atomic_init(&s->left, (int)value_of(&call->arguments, "arg_0", 50));
    *out = s;
    return OD_VGIW_OK;
}

static void unshare(void *shared)
{
    shared_rows *s = shared;

    s->state->closed++;
    free(s);
}

static od_vgiw_code open_shared(void *arg, const od_vgiw_scan *scan, void **rows, od_vgiw_error *err)
{
    (void)arg;
    (void)err;
    *rows = scan->shared;
    return OD_VGIW_OK;
}

static od_vgiw_code next_shared(void *rows, struct ArrowArray *out, od_vgiw_error *err)
{
    shared_rows *s = rows;

    (void)err;
    if (atomic_fetch_sub(&s->left, 1) > 0)
        fixture_integers(1, 0, 1, out);
    return OD_VGIW_OK;
}

static void close_shared(void *rows)
{
    (void)rows;
}

static od_vgiw_code tell_statistics(void *arg, const od_vgiw_call *call, od_vgiw_statistics *out, size_t count,
                                    od_vgiw_error *err)
{
    (void)arg;
    (void)call;
    (void)err;
    if (count == 1)
        out[0] = (od_vgiw_statistics){.distinct_count = 7, .has_range = 1, .min = -3, .max = 1e300};
    return OD_VGIW_OK;
}

/* ---- adding ---- */

static void add_function(od_vgiw *worker, od_vgiw_function function, const char *parameters)
{
    struct ArrowSchema schema;
    od_vgiw_error err = {.code = OD_VGIW_OK};

    fixture_columns(parameters, &schema);
    function.schema = "other";
    function.parameters = &schema;
    function.bind = bind;
    fixture_must(od_vgiw_add_function(worker, &function, &err), &err);
    od_schema_release(&schema);
}

void sum_functions(od_vgiw *worker, numbers_state *state)
{
    static const char *const settings[] = {"more"};
    static const od_vgiw_secret_need secrets[] = {{.type = "purse", .scope = "s3://there"}};
    struct ArrowSchema number;
    const od_vgiw_function adds = {.arg = state, .open = open_adding, .close = close_adding};
    od_vgiw_setting setting = {.name = "factor", .description = "of counting", .type = &number};
    od_vgiw_function f = adds;
    od_vgiw_error err = {.code = OD_VGIW_OK};

    if (od_schema_make(&number, "", "l", 0, NULL) != OD_OK)
        abort();
    fixture_must(od_vgiw_add_option(worker, &setting, &err), &err);
    setting.name = "more";
    fixture_must(od_vgiw_add_setting(worker, &setting, &err), &err);
    od_schema_release(&number);
    f.name = "counted";
    f.kind = OD_VGIW_SCALAR;
    f.put = count_values;
    add_function(worker, f, "value:l");
    f = adds;
    f.name = "running";
    f.kind = OD_VGIW_ROWS;
    f.put = add_rows;
    f.next = tell_sum;
    add_function(worker, f, "data:table");
    f.name = "endless";
    f.next = NULL;
    add_function(worker, f, "data:table");
    f = adds;
    f.name = "whole";
    f.kind = OD_VGIW_BUFFERED;
    f.put = keep_rows;
    f.next = tell_sum;
    f.settings = settings;
    f.setting_count = 1;
    f.secrets = secrets;
    f.secret_count = 1;
    add_function(worker, f, "data:table");
    f = (od_vgiw_function){.name = "ones",
                           .streams = 3,
                           .arg = state,
                           .statistics = tell_statistics,
                           .share = share,
                           .unshare = unshare,
                           .open = open_shared,
                           .next = next_shared,
                           .close = close_shared};
    add_function(worker, f, "count:l,optional");
    /* The same name for other arguments. */
    f.name = "ones";
    f.streams = 0;
    add_function(worker, f, "word:u count:l");
}

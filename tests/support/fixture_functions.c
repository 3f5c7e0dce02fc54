/* The functions of the catalog "example". */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "arrow/schema.h"
#include "support/fixture_catalogs.h"
#include "support/fixture_sql.h"

static const sql_function functions[] = {
    {.name = "sequence",
     .parameters = "count:l batch_size:l,named increment:l,named",
     .sql = "SELECT range * coalesce($increment, 1) AS n "
            "FROM range(CASE WHEN $arg_0 < 0 THEN error('the count is negative')::BIGINT ELSE $arg_0 END)",
     .projection = 1,
     .filters = 1,
     .distinct = 1},
    {.name = "filter_echo",
     .parameters = "count:l batch_size:l,named",
     .sql =
         "SELECT range AS n, 'row_' || range AS s, coalesce($pushed, '')::VARCHAR AS pushed_filters FROM range($arg_0)",
     .projection = 1,
     .filters = 1},
    {.name = "settings_aware",
     .parameters = "count:l",
     .sql = "SELECT range AS id, $greeting AS greeting, range * 2.5::DOUBLE * $multiplier AS value, "
            "CASE WHEN $vgi_verbose_mode THEN 'row_' || range END AS details FROM range($arg_0)",
     .setting = "greeting multiplier vgi_verbose_mode"},
    {.name = "struct_settings",
     .parameters = "count:l",
     .sql = "SELECT c.start + range * c.step AS n, c.label AS label "
            "FROM range($arg_0), (SELECT $config::STRUCT(start BIGINT, step BIGINT, label VARCHAR) AS c)",
     .setting = "config"},
    {.name = "secret_demo",
     .sql = "SELECT key, value, 'string' AS arrow_type FROM (VALUES ('secret_string', $secret_secret_string::VARCHAR), "
            "('api_key', $secret_api_key::VARCHAR), ('port', $secret_port::VARCHAR)) t(key, value) "
            "WHERE value IS NOT NULL",
     .secret = "vgi_example"},
    /* Of values. */
    {.name = "multiply",
     .kind = OD_VGIW_SCALAR,
     .parameters = "value:l factor:l,const",
     .sql = "SELECT value * $arg_0 AS result FROM input"},
    {.name = "add_values",
     .kind = OD_VGIW_SCALAR,
     .parameters = "col1:any col2:any",
     .sql = "SELECT col1 + col2 AS result FROM input"},
    {.name = "upper_case",
     .kind = OD_VGIW_SCALAR,
     .parameters = "value:u",
     .sql = "SELECT upper(value) AS result FROM input"},
    {.name = "null_handling",
     .kind = OD_VGIW_SCALAR,
     .parameters = "value:l",
     .nulls = 1,
     .sql = "SELECT coalesce(value, -5000)::BIGINT AS result FROM input"},
    {.name = "pair_type",
     .kind = OD_VGIW_SCALAR,
     .parameters = "a:l b:l",
     .sql = "SELECT 'int+int' AS result FROM input"},
    {.name = "pair_type",
     .kind = OD_VGIW_SCALAR,
     .parameters = "a:l b:u",
     .sql = "SELECT 'int+str' AS result FROM input"},
    {.name = "pair_type",
     .kind = OD_VGIW_SCALAR,
     .parameters = "a:u b:u",
     .sql = "SELECT 'str+str' AS result FROM input"},
    {.name = "format_number",
     .kind = OD_VGIW_SCALAR,
     .parameters = "value:g",
     .sql = "SELECT printf('%.0f', value) AS result FROM input"},
    {.name = "format_number",
     .kind = OD_VGIW_SCALAR,
     .parameters = "precision:l,const value:g",
     .sql = "SELECT printf('%.' || $arg_0 || 'f', value) AS result FROM input"},
    {.name = "concat_values",
     .kind = OD_VGIW_SCALAR,
     .parameters = "values:u,varargs",
     .sql = "SELECT concat(*COLUMNS(*)) AS result FROM input"},
    {.name = "sum_values",
     .kind = OD_VGIW_SCALAR,
     .parameters = "values:any,varargs",
     .sql = "SELECT list_sum(list_value(*COLUMNS(*)))::BIGINT AS result FROM input"},
    {.name = "double",
     .kind = OD_VGIW_SCALAR,
     .parameters = "value:any",
     .sql = "SELECT value * 2 AS result FROM input"},
    {.name = "bernoulli",
     .kind = OD_VGIW_SCALAR,
     .is_volatile = 1,
     .sql = "SELECT random() > 0.5 AS result FROM input"},
    {.name = "multiply_by_setting",
     .kind = OD_VGIW_SCALAR,
     .parameters = "value:l",
     .sql = "SELECT value * $multiplier AS result FROM input",
     .setting = "multiplier"},
    {.name = "secret_field",
     .kind = OD_VGIW_SCALAR,
     .sql = "SELECT 'port=' || $secret_port || ';name=' || $secret_secret_string AS result FROM input",
     .secret = "vgi_example"},
    /* Over rows. */
    {.name = "echo", .kind = OD_VGIW_ROWS, .parameters = "data:table", .sql = "FROM input"},
    {.name = "repeat_inputs",
     .kind = OD_VGIW_ROWS,
     .parameters = "repeat_count:l data:table",
     .sql = "SELECT input.* FROM input, range($arg_0)"},
    {.name = "substream_partial_sum",
     .kind = OD_VGIW_ROWS,
     .parameters = "data:table",
     .sql = "SELECT sum(n)::BIGINT AS n FROM input HAVING $at_end",
     .ends = 1},
    {.name = "multi_batch_finish",
     .kind = OD_VGIW_ROWS,
     .parameters = "data:table",
     .sql = "FROM input WHERE $at_end",
     .ends = 1},
    {.name = "paged_explode",
     .kind = OD_VGIW_ROWS,
     .parameters = "data:table page_size:l,named",
     .sql = "SELECT input.n AS n, r.range AS i FROM input, range(input.n) r"},
    {.name = "buffer_input", .kind = OD_VGIW_BUFFERED, .parameters = "data:table", .sql = "FROM input"},
    {.name = "batch_index_buffer_input", .kind = OD_VGIW_BUFFERED, .parameters = "data:table", .sql = "FROM input"},
    {.name = "sum_all_columns",
     .kind = OD_VGIW_BUFFERED,
     .parameters = "data:table",
     .sql = "SELECT sum(COLUMNS(*))::BIGINT FROM input"},
};

/* ---- rows that streams share ---- */

enum { BATCH = 2048, STREAMS = 4 };

typedef struct {
    atomic_llong at;
    int64_t count;
} sequence;

static od_vgiw_code bind(void *arg, const od_vgiw_call *call, struct ArrowSchema *out, od_vgiw_error *err)
{
    (void)arg;
    (void)call;
    (void)err;
    fixture_columns("n:l", out);
    return OD_VGIW_OK;
}

static int64_t count(void *arg, const od_vgiw_call *call)
{
    const struct ArrowArray *value = call->arguments.array->children[0];

    (void)arg;
    return ((const int64_t *)value->buffers[1])[value->offset];
}

static od_vgiw_code share(void *arg, const od_vgiw_call *call, void **shared, od_vgiw_error *err)
{
    sequence *s = malloc(sizeof *s);

    (void)err;
    if (s == NULL)
        return OD_VGIW_NO_MEMORY;
    atomic_init(&s->at, 0);
    s->count = count(arg, call);
    *shared = s;
    return OD_VGIW_OK;
}

static od_vgiw_code open_stream(void *arg, const od_vgiw_scan *scan, void **rows, od_vgiw_error *err)
{
    (void)arg;
    (void)err;
    *rows = scan->shared;
    return OD_VGIW_OK;
}

static od_vgiw_code next(void *rows, struct ArrowArray *out, od_vgiw_error *err)
{
    sequence *s = rows;
    int64_t at = atomic_fetch_add(&s->at, BATCH), left = s->count - at;

    (void)err;
    if (left > 0)
        fixture_integers(at, 1, left < BATCH ? left : BATCH, out);
    return OD_VGIW_OK;
}

static void close_stream(void *rows)
{
    (void)rows; /* it is shared */
}

void fixture_example_functions(od_vgiw *worker)
{
    struct ArrowSchema parameters;
    const od_vgiw_function partitioned = {.name = "partitioned_sequence",
                                          .parameters = &parameters,
                                          .streams = STREAMS,
                                          .bind = bind,
                                          .count = count,
                                          .share = share,
                                          .unshare = free,
                                          .open = open_stream,
                                          .next = next,
                                          .close = close_stream};
    od_vgiw_error err = {.code = OD_VGIW_OK};

    fixture_columns("count:l increment:l,named", &parameters);
    fixture_must(od_vgiw_add_function(worker, &partitioned, &err), &err);
    od_schema_release(&parameters);
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        fixture_add(worker, &functions[i]);
}

/* The tables, views and macros of the catalog "example". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arrow/schema.h"
#include "support/fixture_catalogs.h"
#include "support/fixture_sql.h"

/* A table of its own function, which is called as the table is, or of another one: of "main", or of DuckDB's. */
typedef struct {
    const char *name, *columns, *comment;
    const char *sql;                  /* of its own function; or: */
    const char *function, *arguments; /* arguments: SQL that gives them, as arg_0, arg_1 */
    const char *required;             /* "a b|c": columns to filter on: a, and b or c */
    od_vgiw_code (*at)(void *arg, const char *unit, const char *value, const char **table, od_vgiw_error *err);
    int unlisted;
} table;

/* ---- versions ---- */

static od_vgiw_code version_at(void *arg, const char *unit, const char *value, const char **out, od_vgiw_error *err)
{
    static const char *const versions[] = {"versioned_data_1", "versioned_data_2", "versioned_data"};
    bool number = strcmp(unit, "VERSION") == 0;
    long which = strtol(value, NULL, 10);

    (void)arg;
    if (!number)
        which = which <= 2020 ? 1 : which <= 2022 ? 2 : 3;
    if (which < 1 || which > 3) {
        snprintf(err->message, sizeof err->message, "Unknown version: %s", value);
        return OD_VGIW_NOT_FOUND;
    }
    *out = versions[which - 1];
    return OD_VGIW_OK;
}

static od_vgiw_code always(const char *name, const char **out)
{
    *out = name;
    return OD_VGIW_OK;
}

static od_vgiw_code function_at(void *arg, const char *unit, const char *value, const char **out, od_vgiw_error *err)
{
    (void)arg;
    (void)unit;
    (void)value;
    (void)err;
    return always("tt_pushdown_fn", out);
}

static od_vgiw_code columns_at(void *arg, const char *unit, const char *value, const char **out, od_vgiw_error *err)
{
    (void)arg;
    (void)unit;
    (void)value;
    (void)err;
    return always("tt_pushdown_cols", out);
}

#define TRAVELLED                                                                               \
    "SELECT range AS id, range * 10 AS val, coalesce($at_value, '3')::BIGINT AS seen_version, " \
    "coalesce($pushed, '')::VARCHAR AS pushed_filters FROM range(5)"
#define TRAVELLED_COLUMNS "id:l val:l seen_version:l pushed_filters:u"

static const table tables[] = {
    {"numbers", "value:l", "the first 100 integers", .function = "sequence",
     .arguments = "SELECT 100::BIGINT AS arg_0"},
    {"funny_numbers", "n:l", NULL, .function = "sequence", .arguments = "SELECT 123456::BIGINT AS arg_0"},
    {"large_sequence", "n:l", NULL, .function = "sequence", .arguments = "SELECT 1000000::BIGINT AS arg_0"},
    {"filter_echo_table", "n:l s:u pushed_filters:u", NULL, .function = "filter_echo",
     .arguments = "SELECT 100::BIGINT AS arg_0"},
    {"secret_demo_table", "key:u value:u arrow_type:u", NULL, .function = "secret_demo"},
    {"colors", "id:l color:u hex_code:u", "colours",
     .sql = "SELECT * FROM (VALUES (1::BIGINT, 'red', '#ff0000'), (2, 'green', '#00ff00'), (3, 'blue', '#0000ff')) "
            "t(id, color, hex_code)"},
    {"rowid_first", "row_id:l,rowid name:u value:u", NULL,
     .sql = "SELECT range AS row_id, 'n' || range AS name, 'v' || range AS value FROM range(5)"},
    {"rowid_middle", "name:u row_id:l,rowid value:u", NULL,
     .sql = "SELECT 'n' || range AS name, range AS row_id, 'v' || range AS value FROM range(5)"},
    {"rowid_last", "name:u value:u row_id:l,rowid", NULL,
     .sql = "SELECT 'n' || range AS name, 'v' || range AS value, range AS row_id FROM range(5)"},
    {"rowid_string", "row_id:u,rowid value:l", NULL,
     .sql = "SELECT 'r' || range AS row_id, range AS value FROM range(5)"},
    {"rowid_struct", "row_id:(a:l;b:u),rowid value:u", NULL,
     .sql = "SELECT {'a': range, 'b': 'b' || range} AS row_id, 'v' || range AS value FROM range(5)"},
    {"rff_simple", "a:l b:l", NULL, .required = "a", .sql = "SELECT 1::BIGINT AS a, 10::BIGINT AS b"},
    {"rff_struct", "s:(a:l;b:l) other:l", NULL, .required = "s.a s.b",
     .sql = "SELECT {'a': 1::BIGINT, 'b': 2::BIGINT} AS s, 1::BIGINT AS other"},
    {"rff_nested", "wrapper:(mid:(leaf:l))", NULL, .required = "wrapper.mid.leaf",
     .sql = "SELECT {'mid': {'leaf': 3::BIGINT}} AS wrapper"},
    {"rff_or", "a:l b:l", NULL, .required = "a|b", .sql = "SELECT 1::BIGINT AS a, 10::BIGINT AS b"},
    {"rff_none", "a:l b:l", NULL, .sql = "SELECT range + 1 AS a, range * 10 + 10 AS b FROM range(3)"},
    {"versioned_data", "id:l score:g", NULL, .at = version_at,
     .sql = "SELECT range AS id, range / 2 AS score FROM range(5)"},
    {"versioned_data_1", "id:l", NULL, .unlisted = 1, .sql = "SELECT range AS id FROM range(2)"},
    {"versioned_data_2", "id:l name:u", NULL, .unlisted = 1,
     .sql = "SELECT range AS id, 'n' || range AS name FROM range(3)"},
    {"tt_pushdown_fn", TRAVELLED_COLUMNS, NULL, .at = function_at, .sql = TRAVELLED},
    {"tt_pushdown_cols", TRAVELLED_COLUMNS, NULL, .at = columns_at, .sql = TRAVELLED},
};

/* ---- adding ---- */

/* What a SQL text gives, as long as it is there. */
typedef struct {
    struct ArrowSchema schema;
    struct ArrowArray row;
} values;

static od_vgiw_values make_values(const char *sql, values *out)
{
    *out = (values){.schema = {.release = NULL}};
    if (sql == NULL)
        return (od_vgiw_values){NULL, NULL};
    fixture_row(sql, &out->schema, &out->row);
    return (od_vgiw_values){&out->schema, &out->row};
}

static void values_release(values *v)
{
    if (v->row.release != NULL)
        v->row.release(&v->row);
    od_schema_release(&v->schema);
}

static void add_function(od_vgiw *worker, const table *t)
{
    static sql_function own[sizeof tables / sizeof tables[0]]; /* as long as the process */
    sql_function *f = &own[t - tables];

    *f = (sql_function){.schema = "data", .name = t->name, .sql = t->sql, .count = -1, .projection = 1, .filters = 1};
    fixture_add(worker, f);
}

static void add_table(od_vgiw *worker, const table *t)
{
    char words[64];
    const char *columns[8];
    od_vgiw_required_filter required[4];
    struct ArrowSchema schema;
    values arguments;
    od_vgiw_branch branch = {.function = t->function != NULL ? t->function : t->name,
                             .function_schema = t->function != NULL ? "main" : "data"};
    od_vgiw_table made = {.schema = "data",
                          .name = t->name,
                          .comment = t->comment,
                          .columns = &schema,
                          .required_filters = required,
                          .at = t->at,
                          .unlisted = t->unlisted,
                          .branches = &branch,
                          .branch_count = 1};
    od_vgiw_error err = {.code = OD_VGIW_OK};
    size_t n = 0;

    if (t->sql != NULL)
        add_function(worker, t);
    branch.arguments = make_values(t->arguments, &arguments);
    fixture_columns(t->columns, &schema);
    snprintf(words, sizeof words, "%s", t->required != NULL ? t->required : "");
    /* A blank begins another filter, a '|' another column of the same. */
    for (char *at = words, before = ' '; *at != '\0';) {
        size_t len = strcspn(at, " |");

        if (before == ' ')
            required[made.required_filter_count++] = (od_vgiw_required_filter){&columns[n], 0};
        required[made.required_filter_count - 1].count++;
        columns[n++] = at;
        before = at[len];
        at[len] = '\0';
        at += len + (before != '\0');
    }
    fixture_must(od_vgiw_add_table(worker, &made, &err), &err);
    values_release(&arguments);
    od_schema_release(&schema);
}

/* ---- statistics and constraints ---- */

static void add_departments(od_vgiw *worker)
{
    static const sql_function rows = {
        .schema = "data",
        .name = "departments",
        .projection = 1,
        .filters = 1,
        .count = 4,
        .sql = "SELECT range + 1 AS id, 'd' || range AS name, range * 100.0::DOUBLE AS budget FROM range(4)"};
    static const int32_t first[] = {0}, second[] = {1};
    static const char *const checks[] = {"budget >= 0"};
    const od_vgiw_columns primary = {first, 1}, unique = {second, 1};
    const od_vgiw_statistics statistics[] = {{.column = "id", .distinct_count = 4, .has_range = 1, .min = 1, .max = 4},
                                             {.column = "name", .distinct_count = 4}};
    const od_vgiw_branch branch = {.function = "departments", .function_schema = "data"};
    struct ArrowSchema columns;
    const od_vgiw_table made = {.schema = "data",
                                .name = "departments",
                                .comment = "who works where",
                                .columns = &columns,
                                .primary_key = &primary,
                                .unique = &unique,
                                .unique_count = 1,
                                .checks = checks,
                                .check_count = 1,
                                .statistics = statistics,
                                .statistics_count = 2,
                                .row_count = 4,
                                .branches = &branch,
                                .branch_count = 1};
    od_vgiw_error err = {.code = OD_VGIW_OK};

    fixture_add(worker, &rows);
    fixture_columns("id:l,notnull name:u budget:g,default=0", &columns);
    fixture_must(od_vgiw_add_table(worker, &made, &err), &err);
    od_schema_release(&columns);
}

/* ---- tables of branches ---- */

enum { MAX_BRANCHES = 3 };

static void add_branches(od_vgiw *worker, const char *name, const char *columns, const od_vgiw_branch *branches,
                         size_t count)
{
    struct ArrowSchema schema;
    const od_vgiw_table made = {
        .schema = "data", .name = name, .columns = &schema, .branches = branches, .branch_count = count};
    od_vgiw_error err = {.code = OD_VGIW_OK};

    fixture_columns(columns, &schema);
    fixture_must(od_vgiw_add_table(worker, &made, &err), &err);
    od_schema_release(&schema);
}

/* Files of FOLDER, each read by FUNCTION, after the 50 first integers if FIRST says so. */
static void add_files(od_vgiw *worker, const char *name, const char *columns, const char *function, bool first,
                      const char *folder, const char *const *files, size_t count)
{
    od_vgiw_branch branches[MAX_BRANCHES] = {{.function = NULL}};
    values arguments[MAX_BRANCHES] = {{.schema = {.release = NULL}}};
    char sql[1200];
    size_t n = 0;

    if (first) {
        branches[0] = (od_vgiw_branch){.function = "sequence", .function_schema = "main"};
        branches[0].arguments = make_values("SELECT 50::BIGINT AS arg_0", &arguments[n++]);
    }
    for (size_t i = 0; i < count; i++, n++) {
        snprintf(sql, sizeof sql, "SELECT '%s/%s' AS arg_0", folder, files[i]);
        branches[n] = (od_vgiw_branch){.function = function, .arguments = make_values(sql, &arguments[n])};
    }
    add_branches(worker, name, columns, branches, n);
    for (size_t i = 0; i < n; i++)
        values_release(&arguments[i]);
}

static void add_format(od_vgiw *worker, const char *folder)
{
    char path[1100];
    const char *const locations[] = {path};
    values options;
    const od_vgiw_branch branch = {
        .format = "csv",
        .locations = locations,
        .location_count = 1,
        .format_options = make_values("SELECT '|' AS delim, true AS header, 'row_3' AS nullstr", &options)};

    snprintf(path, sizeof path, "%s/vgi_format_branch.csv", folder);
    add_branches(worker, "multi_branch_format", "n:l label:u", &branch, 1);
    values_release(&options);
}

static void add_all_branches(od_vgiw *worker, const char *folder)
{
    static const char *const parquet[] = {"vgi_hetero_branch.parquet"}, *const csv[] = {"vgi_nopushdown_branch.csv"};
    static const char *const recon[] = {"vgi_recon_a_b.parquet", "vgi_recon_b_a.parquet", "vgi_recon_a_only.parquet"};
    values fifty, hundred;
    od_vgiw_branch branches[2] = {{.function = "sequence", .function_schema = "main"},
                                  {.function = "sequence", .function_schema = "main"}};

    branches[0].arguments = branches[1].arguments = make_values("SELECT 50::BIGINT AS arg_0", &fifty);
    add_branches(worker, "multi_branch_numbers", "n:l", branches, 2);
    branches[0].arguments = branches[1].arguments = make_values("SELECT 100::BIGINT AS arg_0", &hundred);
    branches[0].filter = "n < 50";
    branches[1].filter = "n >= 50";
    add_branches(worker, "multi_branch_filtered_numbers", "n:l", branches, 2);
    values_release(&fifty);
    values_release(&hundred);
    if (folder == NULL)
        return;
    add_files(worker, "multi_branch_hetero", "n:l", "read_parquet", true, folder, parquet, 1);
    add_files(worker, "multi_branch_nopushdown", "n:l", "read_csv_auto", true, folder, csv, 1);
    add_files(worker, "multi_branch_recon", "a:l b:l", "read_parquet", false, folder, recon, 3);
    add_format(worker, folder);
}

/* ---- views, macros ---- */

static void add_definitions(od_vgiw *worker)
{
    static const od_vgiw_view views[] = {
        {.name = "first_ten", .definition = "SELECT * FROM sequence(10)"},
        {.name = "even_numbers",
         .definition = "SELECT * FROM sequence(100) WHERE n % 2 = 0",
         .comment = "half of them"},
        {.schema = "data", .name = "small_numbers", .definition = "SELECT * FROM numbers WHERE value < 10"},
    };
    static const char *const factors[] = {"x", "y"}, *const bounds[] = {"val", "lo", "hi"}, *const one[] = {"n"};
    values defaults;
    const od_vgiw_macro macros[] = {
        {.name = "vgi_multiply", .definition = "x * y", .parameters = factors, .parameter_count = 2},
        {.name = "vgi_clamp",
         .definition = "greatest(lo, least(hi, val))",
         .parameters = bounds,
         .parameter_count = 3,
         .defaults = make_values("SELECT 0::BIGINT AS lo, 100::BIGINT AS hi", &defaults)},
        {.name = "vgi_range_table",
         .definition = "SELECT * FROM range(n)",
         .table = 1,
         .parameters = one,
         .parameter_count = 1},
    };
    od_vgiw_error err = {.code = OD_VGIW_OK};

    for (size_t i = 0; i < sizeof views / sizeof views[0]; i++)
        fixture_must(od_vgiw_add_view(worker, &views[i], &err), &err);
    for (size_t i = 0; i < sizeof macros / sizeof macros[0]; i++)
        fixture_must(od_vgiw_add_macro(worker, &macros[i], &err), &err);
    values_release(&defaults);
}

void fixture_example_tables(od_vgiw *worker, const char *folder)
{
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        add_table(worker, &tables[i]);
    add_departments(worker);
    add_all_branches(worker, folder);
    add_definitions(worker);
}

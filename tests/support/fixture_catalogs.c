#include "support/fixture_catalogs.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arrow/schema.h"
#include "support/fixture_sql.h"

/* A setting or an option, whose type and value are those of SQL; NULL is none. */
typedef struct {
    const char *name, *description, *sql;
    int required, secret;
} declared;

static void declare(od_vgiw *worker, const declared *d, bool option)
{
    char sql[300];
    struct ArrowSchema schema;
    struct ArrowArray row;
    od_vgiw_setting setting = {
        .name = d->name, .description = d->description, .required = d->required, .secret = d->secret};
    od_vgiw_error err = {.code = OD_VGIW_OK};

    snprintf(sql, sizeof sql, "SELECT %s AS value", d->sql);
    fixture_row(sql, &schema, &row);
    setting.type = schema.children[0];
    setting.value = row.children[0]->null_count == 0 ? row.children[0] : NULL;
    fixture_must(option ? od_vgiw_add_option(worker, &setting, &err) : od_vgiw_add_setting(worker, &setting, &err),
                 &err);
    row.release(&row);
    od_schema_release(&schema);
}

static void make_example(od_vgiw *worker, const char *folder)
{
    static const declared settings[] = {
        {.name = "vgi_verbose_mode", .sql = "false", .description = "tell more"},
        {.name = "greeting", .sql = "'Hello'"},
        {.name = "multiplier", .sql = "1::BIGINT"},
        {.name = "config", .sql = "NULL::STRUCT(start BIGINT, step BIGINT, label VARCHAR)"},
    };
    struct ArrowSchema keys;
    od_vgiw_error err = {.code = OD_VGIW_OK};

    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        declare(worker, &settings[i], false);
    fixture_columns("secret_string:u,redact api_key:u,redact port:i use_ssl:b timeout:g", &keys);
    fixture_must(od_vgiw_add_secret_type(worker, "vgi_example", "for tests", &keys, &err), &err);
    od_schema_release(&keys);
    fixture_must(od_vgiw_add_schema(worker, "data", "tables", &err), &err);
    fixture_example_functions(worker);
    fixture_example_tables(worker, folder);
    fixture_items(worker);
}

/* What a client says at ATTACH comes back as a row. */
static void make_options(od_vgiw *worker, const char *folder)
{
    static const declared options[] = {
        {.name = "opt_bool", .sql = "true"},
        {.name = "opt_int8", .sql = "-8::TINYINT"},
        {.name = "opt_int32", .sql = "-32::INTEGER"},
        {.name = "opt_int64", .sql = "64::BIGINT"},
        {.name = "opt_float64", .sql = "0.5::DOUBLE"},
        {.name = "opt_string", .sql = "'text'"},
        {.name = "opt_date", .sql = "DATE '2020-01-01'"},
        {.name = "opt_decimal", .sql = "1.25::DECIMAL(18, 4)"},
        {.name = "opt_list", .sql = "[1::BIGINT, 2]"},
        {.name = "opt_struct", .sql = "{'a': 1::BIGINT, 'b': 'x'}"},
        {.name = "opt_nothing", .sql = "NULL::VARCHAR"},
    };
    static const sql_function echo = {
        .name = "echo_attach_options",
        .sql = "SELECT $opt_bool AS opt_bool, $opt_int8 AS opt_int8, $opt_int32 AS opt_int32, $opt_int64 AS opt_int64, "
               "$opt_float64 AS opt_float64, $opt_string AS opt_string, $opt_date AS opt_date, "
               "$opt_decimal AS opt_decimal, $opt_list AS opt_list, $opt_struct AS opt_struct",
        .count = 1};

    (void)folder;
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        declare(worker, &options[i], true);
    fixture_add(worker, &echo);
}

static void make_required_options(od_vgiw *worker, const char *folder)
{
    static const declared options[] = {{.name = "api_key", .sql = "NULL::VARCHAR", .required = 1, .secret = 1},
                                       {.name = "region", .sql = "'nowhere'"}};
    static const sql_function echo = {
        .name = "echo_attach_options", .sql = "SELECT $region AS region, length($api_key) AS length", .count = 1};

    (void)folder;
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        declare(worker, &options[i], true);
    fixture_add(worker, &echo);
}

static void make_writable(od_vgiw *worker, const char *folder)
{
    (void)folder;
    fixture_items(worker);
}

od_vgiw *fixture_catalog(const char *name, const char *generation, const char *folder)
{
    static const struct {
        const char *name;
        void (*make)(od_vgiw *worker, const char *folder);
    } all[] = {
        {"example", make_example},
        {"attach_options", make_options},
        {"attach_options_required", make_required_options},
        {"simple_writable", make_writable},
    };
    const od_vgiw_catalog catalog = {.name = name, .comment = "for tests", .generation = generation};
    od_vgiw_error err = {.code = OD_VGIW_OK};
    od_vgiw *worker;

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(all[i].name, name) != 0)
            continue;
        fixture_must(od_vgiw_create(&catalog, &worker, &err), &err);
        all[i].make(worker, folder);
        return worker;
    }
    return NULL;
}

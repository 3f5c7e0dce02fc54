#include "support/fixture_sql.h"

#include <ctype.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <duckdb.h>

#include "arrow/schema.h"
#include "base/buf.h"
#include "support/fixture_filter.h"

static duckdb_database database;

void fixture_must(od_vgiw_code code, const od_vgiw_error *err)
{
    if (code == OD_VGIW_OK)
        return;
    fprintf(stderr, "fixture: %s\n", err != NULL ? err->message : "");
    abort();
}

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "fixture: %s\n", what);
    abort();
}

static od_vgiw_code fail(od_vgiw_error *err, const char *why)
{
    err->code = OD_VGIW_FAILED;
    snprintf(err->message, sizeof err->message, "%s", why != NULL ? why : "");
    for (char *at = err->message; *at != '\0'; at++)
        if (*at == '\n')
            *at = ' ';
    return OD_VGIW_FAILED;
}

void fixture_open(void)
{
    must(duckdb_open(NULL, &database) == DuckDBSuccess, "no DuckDB");
}

void fixture_close(void)
{
    duckdb_close(&database);
}

/* ---- texts of columns ---- */

/* One field of TEXT, which ends at a blank, a ';' or a ')'; what is behind it. */
static const char *make_field(const char *text, struct ArrowSchema *out)
{
    char name[64] = "", type[16] = "n", mark[64], value[64];
    const char *end = text + strcspn(text, ":");
    struct ArrowSchema members[8];
    int64_t count = 0;

    snprintf(name, sizeof name, "%.*s", (int)(end - text), text);
    text = end + 1;
    if (*text == '(') {
        snprintf(type, sizeof type, "+s");
        for (text++; *text != ')'; text += *text == ';')
            text = make_field(text, &members[count++]);
        text++;
    } else {
        size_t n = strcspn(text, ",; )");

        snprintf(type, sizeof type, "%.*s", (int)n, text);
        text += n;
    }
    must(od_schema_make(out, name, strcmp(type, "any") == 0 || strcmp(type, "table") == 0 ? "n" : type, count, NULL) ==
             OD_OK,
         "a field");
    for (int64_t i = 0; i < count; i++)
        *out->children[i] = members[i];
    if (strcmp(type, "any") == 0 || strcmp(type, "table") == 0)
        must(od_schema_set_metadata(out, "vgi_type", od_slice_str(type), NULL) == OD_OK, "a mark");
    while (*text == ',') {
        size_t n = strcspn(++text, ",; )=");

        snprintf(mark, sizeof mark, "%.*s", (int)n, text);
        text += n;
        n = *text == '=' ? strcspn(text + 1, ",; )") : 0;
        snprintf(value, sizeof value, "%.*s", (int)n, text + 1);
        text += *text == '=' ? n + 1 : 0;
        if (strcmp(mark, "notnull") == 0) {
            out->flags &= ~ARROW_FLAG_NULLABLE;
            continue;
        }
        const char *key = strcmp(mark, "named") == 0      ? "vgi_arg"
                          : strcmp(mark, "const") == 0    ? "vgi_const"
                          : strcmp(mark, "varargs") == 0  ? "vgi_varargs"
                          : strcmp(mark, "optional") == 0 ? "vgi_default"
                          : strcmp(mark, "rowid") == 0    ? "is_row_id"
                                                          : mark;
        const char *told = strcmp(mark, "named") == 0 ? "named" : value[0] != '\0' ? value : "true";

        must(od_schema_set_metadata(out, key, od_slice_str(told), NULL) == OD_OK, "a mark");
    }
    return text;
}

void fixture_columns(const char *text, struct ArrowSchema *out)
{
    struct ArrowSchema fields[16];
    int64_t count = 0;

    for (; text != NULL && *text != '\0'; text += strspn(text, " "))
        text = make_field(text, &fields[count++]);
    must(od_schema_make(out, "", "+s", count, NULL) == OD_OK, "columns");
    for (int64_t i = 0; i < count; i++)
        *out->children[i] = fields[i];
}

/* ---- SQL ---- */

od_vgiw_code fixture_query(void *con, const char *sql, od_vgiw_error *err)
{
    duckdb_result result;
    bool ok = duckdb_query(con, sql, &result) == DuckDBSuccess;

    if (!ok)
        (void)fail(err, duckdb_result_error(&result));
    duckdb_destroy_result(&result);
    return ok ? OD_VGIW_OK : OD_VGIW_FAILED;
}

void *fixture_connect(void)
{
    duckdb_connection con;
    od_vgiw_error err;

    must(duckdb_connect(database, &con) == DuckDBSuccess, "no connection");
    fixture_must(fixture_query(con, "SET threads = 1", &err), &err);
    return con;
}

void fixture_disconnect(void *connection)
{
    duckdb_connection con = connection;

    duckdb_disconnect(&con);
}

int fixture_run(const char *sql, od_vgiw_error *err)
{
    void *con = fixture_connect();
    od_vgiw_code code = fixture_query(con, sql, err);

    fixture_disconnect(con);
    return code == OD_VGIW_OK;
}

static void keep_borrowed(struct ArrowArray *array)
{
    array->release = NULL;
}

od_vgiw_code fixture_lend(void *con, const struct ArrowSchema *schema, const struct ArrowArray *array, const char *sql,
                          od_vgiw_error *err)
{
    static atomic_uint count; /* a view is everybody's, so each has a name of its own */
    struct ArrowArray copy = *array;
    duckdb_arrow_stream stream = NULL;
    char name[32], text[200];
    od_vgiw_code code = OD_VGIW_FAILED;

    copy.release = keep_borrowed;
    snprintf(name, sizeof name, "lent_%u", atomic_fetch_add(&count, 1));
    snprintf(text, sizeof text, "%s %s", sql, name);
    if (duckdb_arrow_array_scan(con, name, (duckdb_arrow_schema)(uintptr_t)schema, (duckdb_arrow_array)&copy,
                                &stream) == DuckDBSuccess)
        code = fixture_query(con, text, err);
    else
        (void)fail(err, "the rows cannot be read");
    snprintf(text, sizeof text, "DROP VIEW IF EXISTS %s", name);
    if (code == OD_VGIW_OK)
        code = fixture_query(con, text, err);
    duckdb_destroy_arrow_stream(&stream);
    return code;
}

/* $NAME is a variable. */
static void put_sql(const char *sql, od_buf *out)
{
    for (const char *at = sql; *at != '\0';) {
        size_t n = *at == '$' ? 1 : 0;

        while (n > 0 && (isalnum((unsigned char)at[n]) || at[n] == '_'))
            n++;
        must(n > 1 ? od_buf_printf(out, NULL, "getvariable('%.*s')", (int)n - 1, at + 1) == OD_OK
                   : od_buf_append(out, at, 1, NULL) == OD_OK,
             "no memory");
        at += n > 1 ? n : 1;
    }
}

static od_vgiw_code set_text(duckdb_connection con, const char *name, const char *value, od_vgiw_error *err)
{
    od_buf sql = {0};
    od_vgiw_code code;

    if (value == NULL)
        return OD_VGIW_OK;
    must(od_buf_printf(&sql, NULL, "SET VARIABLE %s = '", name) == OD_OK, "no memory");
    for (; *value != '\0'; value++)
        must(od_buf_printf(&sql, NULL, *value == '\'' ? "''" : "%c", *value) == OD_OK, "no memory");
    must(od_buf_printf(&sql, NULL, "'") == OD_OK, "no memory");
    code = fixture_query(con, od_buf_cstr(&sql), err);
    od_buf_release(&sql);
    return code;
}

/* Makes each column of VALUES a variable, with PREFIX; of a struct's, if OPENED, each of its fields. */
static od_vgiw_code set_variables(duckdb_connection con, const od_vgiw_values *values, const char *prefix, bool opened,
                                  od_vgiw_error *err)
{
    od_vgiw_code code = OD_VGIW_OK;

    /* What is lent is read as a whole: its scan takes for granted that it is given those columns alone that a query names. */
    if (values->schema != NULL)
        code = fixture_lend(con, values->schema, values->array, "CREATE OR REPLACE TEMP TABLE told AS FROM", err);
    for (int64_t i = 0; values->schema != NULL && code == OD_VGIW_OK && i < values->schema->n_children; i++) {
        const struct ArrowSchema *column = values->schema->children[i];

        for (int64_t k = 0; k < (opened ? column->n_children : 1) && code == OD_VGIW_OK; k++) {
            const char *name = opened ? column->children[k]->name : column->name;
            od_buf sql = {0};

            must(od_buf_printf(&sql, NULL, "SET VARIABLE %s%s = (SELECT \"%s\"%s%s%s FROM told)", prefix, name,
                               column->name, opened ? ".\"" : "", opened ? name : "", opened ? "\"" : "") == OD_OK,
                 "no memory");
            code = fixture_query(con, od_buf_cstr(&sql), err);
            od_buf_release(&sql);
        }
    }
    return code;
}

static od_vgiw_code set_call(duckdb_connection con, const od_vgiw_call *call, od_vgiw_error *err)
{
    od_vgiw_code code = set_variables(con, &call->arguments, "", false, err);

    if (code == OD_VGIW_OK)
        code = set_variables(con, &call->options, "", false, err);
    if (code == OD_VGIW_OK)
        code = set_variables(con, &call->settings, "", false, err);
    if (code == OD_VGIW_OK)
        code = set_variables(con, &call->secrets, "secret_", true, err);
    if (code == OD_VGIW_OK)
        code = set_text(con, "at_unit", call->at_unit, err);
    if (code == OD_VGIW_OK)
        code = set_text(con, "at_value", call->at_value, err);
    return code == OD_VGIW_OK ? set_text(con, "transaction", call->transaction, err) : code;
}

/* ---- results ---- */

typedef struct {
    duckdb_prepared_statement statement;
    duckdb_pending_result pending;
    duckdb_result result;
    bool open;
} answer;

static void answer_close(answer *a)
{
    if (a->open)
        duckdb_destroy_result(&a->result);
    duckdb_destroy_pending(&a->pending);
    duckdb_destroy_prepare(&a->statement);
    *a = (answer){0};
}

static od_vgiw_code answer_open(duckdb_connection con, const char *sql, answer *out, od_vgiw_error *err)
{
    *out = (answer){0};
    if (duckdb_prepare(con, sql, &out->statement) != DuckDBSuccess)
        (void)fail(err, duckdb_prepare_error(out->statement));
    else if (duckdb_pending_prepared_streaming(out->statement, &out->pending) != DuckDBSuccess)
        (void)fail(err, duckdb_pending_error(out->pending));
    else if (duckdb_execute_pending(out->pending, &out->result) != DuckDBSuccess)
        (void)fail(err, duckdb_result_error(&out->result));
    else
        out->open = true;
    if (out->open)
        return OD_VGIW_OK;
    answer_close(out);
    return OD_VGIW_FAILED;
}

static od_vgiw_code told(duckdb_error_data why, od_vgiw_error *err)
{
    bool failed = duckdb_error_data_has_error(why);

    if (failed)
        (void)fail(err, duckdb_error_data_message(why));
    duckdb_destroy_error_data(&why);
    return failed ? OD_VGIW_FAILED : OD_VGIW_OK;
}

static od_vgiw_code answer_schema(answer *a, struct ArrowSchema *out, od_vgiw_error *err)
{
    duckdb_arrow_options options = duckdb_result_get_arrow_options(&a->result);
    duckdb_logical_type types[64];
    const char *names[64];
    idx_t n = duckdb_column_count(&a->result);
    od_vgiw_code code;

    must(n <= 64, "too many columns");
    for (idx_t i = 0; i < n; i++) {
        types[i] = duckdb_column_logical_type(&a->result, i);
        names[i] = duckdb_column_name(&a->result, i);
    }
    code = told(duckdb_to_arrow_schema(options, types, names, n, out), err);
    for (idx_t i = 0; i < n; i++)
        duckdb_destroy_logical_type(&types[i]);
    duckdb_destroy_arrow_options(&options);
    return code;
}

static od_vgiw_code answer_next(answer *a, struct ArrowArray *out, od_vgiw_error *err)
{
    duckdb_arrow_options options;
    duckdb_data_chunk chunk = duckdb_fetch_chunk(a->result);
    od_vgiw_code code;

    if (chunk == NULL) {
        const char *why = duckdb_result_error(&a->result);

        return why != NULL && why[0] != '\0' ? fail(err, why) : OD_VGIW_OK;
    }
    options = duckdb_result_get_arrow_options(&a->result);
    code = told(duckdb_data_chunk_to_arrow(options, chunk, out), err);
    duckdb_destroy_arrow_options(&options);
    duckdb_destroy_data_chunk(&chunk);
    return code;
}

void *fixture_answer_all(void *connection, const char *sql, od_vgiw_error *err)
{
    answer *a = calloc(1, sizeof *a);

    must(a != NULL, "no memory");
    a->open = duckdb_query(connection, sql, &a->result) == DuckDBSuccess;
    if (a->open)
        return a;
    (void)fail(err, duckdb_result_error(&a->result));
    duckdb_destroy_result(&a->result);
    free(a);
    return NULL;
}

od_vgiw_code fixture_answer_next(void *rows, struct ArrowArray *out, od_vgiw_error *err)
{
    return answer_next(rows, out, err);
}

void fixture_answer_close(void *rows)
{
    if (rows != NULL)
        answer_close(rows);
    free(rows);
}

/* ---- batches ---- */

typedef struct {
    struct ArrowArray column, *columns[1];
    const void *buffers[2], *none[1];
    int64_t values[];
} integers;

static void free_integers(struct ArrowArray *array)
{
    free(array->private_data);
    array->release = NULL;
}

void fixture_integers(int64_t first, int64_t step, int64_t n, struct ArrowArray *out)
{
    integers *made = calloc(1, sizeof *made + (size_t)n * sizeof(int64_t));

    must(made != NULL, "no memory");
    for (int64_t i = 0; i < n; i++)
        made->values[i] = first + i * step;
    made->buffers[1] = made->values;
    made->column = (struct ArrowArray){.length = n, .n_buffers = 2, .buffers = made->buffers, .release = keep_borrowed};
    made->columns[0] = &made->column;
    *out = (struct ArrowArray){.length = n,
                               .n_buffers = 1,
                               .buffers = made->none,
                               .n_children = 1,
                               .children = made->columns,
                               .release = free_integers,
                               .private_data = made};
}

void fixture_row(const char *sql, struct ArrowSchema *schema, struct ArrowArray *row)
{
    void *con = fixture_connect();
    od_vgiw_error err = {.code = OD_VGIW_OK};
    answer a;

    fixture_must(answer_open(con, sql, &a, &err), &err);
    fixture_must(answer_schema(&a, schema, &err), &err);
    fixture_must(answer_next(&a, row, &err), &err);
    answer_close(&a);
    fixture_disconnect(con);
}

/* ---- functions ---- */

/* No rows of the columns that go in, as `input` and `kept`. */
static od_vgiw_code make_input(duckdb_connection con, const struct ArrowSchema *input, od_vgiw_error *err)
{
    struct ArrowArray none = {0};
    od_vgiw_code code;

    if (input == NULL)
        return OD_VGIW_OK;
    must(od_schema_empty_array(input, &none, NULL) == OD_OK, "no memory");
    code = fixture_lend(con, input, &none, "CREATE TEMP TABLE input AS FROM", err);
    if (code == OD_VGIW_OK)
        code = fixture_query(con, "CREATE TEMP TABLE kept AS FROM input", err);
    none.release(&none);
    return code;
}

static od_vgiw_code bind(void *arg, const od_vgiw_call *call, struct ArrowSchema *out, od_vgiw_error *err)
{
    const sql_function *f = arg;
    duckdb_connection con = fixture_connect();
    od_buf sql = {0};
    answer a = {0};
    od_vgiw_code code = set_call(con, call, err);

    if (code == OD_VGIW_OK)
        code = make_input(con, call->input, err);
    must(od_buf_printf(&sql, NULL, "SELECT * FROM (") == OD_OK, "no memory");
    put_sql(f->sql, &sql);
    must(od_buf_printf(&sql, NULL, ") LIMIT 0") == OD_OK, "no memory");
    if (code == OD_VGIW_OK)
        code = answer_open(con, od_buf_cstr(&sql), &a, err);
    if (code == OD_VGIW_OK)
        code = answer_schema(&a, out, err);
    answer_close(&a);
    od_buf_release(&sql);
    duckdb_disconnect(&con);
    return code;
}

static int64_t count(void *arg, const od_vgiw_call *call)
{
    const sql_function *f = arg;
    const struct ArrowSchema *schema = call->arguments.schema;

    if (f->count != 0)
        return f->count;
    if (schema == NULL || schema->n_children == 0 || strcmp(schema->children[0]->format, "l") != 0)
        return -1;
    return (
        (const int64_t *)call->arguments.array->children[0]->buffers[1])[call->arguments.array->children[0]->offset];
}

static od_vgiw_code statistics(void *arg, const od_vgiw_call *call, od_vgiw_statistics *out, size_t n,
                               od_vgiw_error *err)
{
    const sql_function *f = arg;
    int64_t rows = count(arg, call);

    (void)n;
    (void)err;
    if (f->distinct != 0)
        out[0] = (od_vgiw_statistics){
            .column = out[0].column, .distinct_count = rows, .has_range = rows > 0, .max = (double)(rows - 1)};
    return OD_VGIW_OK;
}

typedef struct {
    const sql_function *function;
    duckdb_connection con;
    struct ArrowSchema input;
    od_buf sql;
    answer a; /* of TABLE; of the others at their end; of a batch that has more */
} run;

static void close_run(void *rows)
{
    run *r = rows;

    answer_close(&r->a);
    duckdb_disconnect(&r->con);
    od_schema_release(&r->input);
    od_buf_release(&r->sql);
    free(r);
}

/* The statement for SCAN, of what the function has. */
static od_vgiw_code write_sql(run *r, const od_vgiw_scan *scan, od_vgiw_error *err)
{
    struct ArrowSchema columns = {0};
    od_buf pushed = {0}, where = {0};
    char text[4096];
    size_t len;
    od_vgiw_code code = bind((void *)(uintptr_t)r->function, scan->call, &columns, err);

    if (code != OD_VGIW_OK)
        return code;
    fixture_filters(scan, &columns, &pushed);
    code = set_text(r->con, "pushed", pushed.len > 0 ? od_buf_cstr(&pushed) : NULL, err);
    must(od_buf_printf(&r->sql, NULL, "SELECT ") == OD_OK, "no memory");
    for (int64_t i = 0; i < scan->schema->n_children; i++)
        must(od_buf_printf(&r->sql, NULL, "%s\"%s\"", i > 0 ? ", " : "", scan->schema->children[i]->name) == OD_OK,
             "no memory");
    must(od_buf_printf(&r->sql, NULL, " FROM (") == OD_OK, "no memory");
    put_sql(r->function->sql, &r->sql);
    must(od_buf_printf(&r->sql, NULL, ")") == OD_OK, "no memory");
    od_vgiw_filters_sql(scan, &columns, text, sizeof text, &len);
    if (len > 0 && len < sizeof text) {
        must(od_buf_printf(&where, NULL, " WHERE %s", text) == OD_OK, "no memory");
        put_sql(od_buf_cstr(&where), &r->sql);
    }
    od_schema_release(&columns);
    od_buf_release(&pushed);
    od_buf_release(&where);
    return code;
}

static od_vgiw_code open_run(void *arg, const od_vgiw_scan *scan, void **out, od_vgiw_error *err)
{
    run *r = calloc(1, sizeof *r);
    od_vgiw_code code;

    must(r != NULL, "no memory");
    r->function = arg;
    r->con = fixture_connect();
    if (scan->call->input != NULL)
        must(od_schema_copy(scan->call->input, &r->input, NULL) == OD_OK, "no memory");
    code = set_call(r->con, scan->call, err);
    if (code == OD_VGIW_OK)
        code = set_variables(r->con, &scan->values, "", false, err);
    if (code == OD_VGIW_OK)
        code = make_input(r->con, scan->call->input, err);
    if (code == OD_VGIW_OK)
        code = write_sql(r, scan, err);
    if (code == OD_VGIW_OK && r->function->kind == OD_VGIW_TABLE)
        code = answer_open(r->con, od_buf_cstr(&r->sql), &r->a, err);
    if (code != OD_VGIW_OK)
        close_run(r);
    else
        *out = r;
    return code;
}

/* All that the statement gives, as one batch; or up to a page of it, *more then. */
static od_vgiw_code whole(run *r, int *more, struct ArrowArray *out, od_vgiw_error *err)
{
    od_vgiw_code code = r->a.open ? OD_VGIW_OK : answer_open(r->con, od_buf_cstr(&r->sql), &r->a, err);

    if (code == OD_VGIW_OK)
        code = answer_next(&r->a, out, err);
    if (code == OD_VGIW_OK && out->release != NULL && more != NULL && r->function->kind == OD_VGIW_ROWS) {
        *more = 1;
        return code;
    }
    /* There is no more: a batch all the same. */
    if (code == OD_VGIW_OK && out->release == NULL) {
        struct ArrowSchema schema = {0};

        code = answer_schema(&r->a, &schema, err);
        if (code == OD_VGIW_OK)
            must(od_schema_empty_array(&schema, out, NULL) == OD_OK, "no memory");
        od_schema_release(&schema);
    }
    answer_close(&r->a);
    return code;
}

static od_vgiw_code put(void *rows, struct ArrowArray *in, struct ArrowArray *out, int *more, od_vgiw_error *err)
{
    run *r = rows;
    bool keeps = r->function->ends || r->function->kind == OD_VGIW_BUFFERED;
    od_vgiw_code code = OD_VGIW_OK;

    if (in->release != NULL)
        code = fixture_lend(r->con, &r->input, in,
                            keeps ? "INSERT INTO kept FROM" : "CREATE OR REPLACE TEMP TABLE input AS FROM", err);
    if (in->release != NULL)
        in->release(in);
    return code == OD_VGIW_OK && out != NULL ? whole(r, more, out, err) : code;
}

static od_vgiw_code next(void *rows, struct ArrowArray *out, od_vgiw_error *err)
{
    run *r = rows;
    od_vgiw_code code = OD_VGIW_OK;

    if (!r->a.open) {
        /* The end of what went in: the statement is about all of it. */
        code = fixture_query(r->con, "CREATE OR REPLACE TEMP TABLE input AS FROM kept", err);
        if (code == OD_VGIW_OK)
            code = fixture_query(r->con, "SET VARIABLE at_end = true", err);
        if (code == OD_VGIW_OK)
            code = answer_open(r->con, od_buf_cstr(&r->sql), &r->a, err);
    }
    return code == OD_VGIW_OK ? answer_next(&r->a, out, err) : code;
}

/* ---- adding ---- */

void fixture_add(od_vgiw *worker, const sql_function *f)
{
    const od_vgiw_secret_need secret = {.type = f->secret};
    struct ArrowSchema parameters;
    od_vgiw_function function = {.schema = f->schema,
                                 .name = f->name,
                                 .kind = f->kind,
                                 .parameters = &parameters,
                                 .projection = f->projection,
                                 .filters = f->filters,
                                 .exact = f->exact,
                                 .nulls = f->nulls,
                                 .is_volatile = f->is_volatile,
                                 .secrets = &secret,
                                 .secret_count = f->secret != NULL,
                                 .arg = (void *)(uintptr_t)f,
                                 .bind = bind,
                                 .count = count,
                                 .statistics = statistics,
                                 .open = open_run,
                                 .close = close_run};
    const char *settings[8];
    char *words = strdup(f->setting != NULL ? f->setting : ""), *at = NULL;
    od_vgiw_error err = {.code = OD_VGIW_OK};

    must(words != NULL, "no memory");
    function.settings = settings;
    for (const char *word = strtok_r(words, " ", &at); word != NULL; word = strtok_r(NULL, " ", &at))
        settings[function.setting_count++] = word;
    function.put = f->kind == OD_VGIW_TABLE ? NULL : put;
    function.next = f->kind == OD_VGIW_SCALAR || (f->kind == OD_VGIW_ROWS && !f->ends) ? NULL : next;
    fixture_columns(f->parameters, &parameters);
    fixture_must(od_vgiw_add_function(worker, &function, &err), &err);
    od_schema_release(&parameters);
    free(words);
}

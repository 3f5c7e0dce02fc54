#include "cli/vgi_source.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "arrow/ipc_read.h"
#include "arrow/record.h"
#include "arrow/schema.h"
#include "base/alloc.h"
#include "base/ident.h"
#include "vgi/wire.h"
#include "base/banned.h"

/* ---- small results ---- */

/* Tells TAKE of each row of what SQL gives. */
static od_code each_row(od_engine *engine, const char *database, const char *sql,
                        od_code (*take)(void *, const od_record *, int64_t, od_error *), void *arg, od_error *err)
{
    const od_execution_request request = {.sql = od_slice_str(sql), .database = od_slice_str(database)};
    od_execution *execution = NULL;
    od_ipc_reader *reader = NULL;
    od_record *record = NULL;
    od_msg *payload = NULL;
    od_code rc;

    OD_TRY(od_ipc_reader_create(&reader, err));
    OD_TRY(od_execution_start(engine, &request, &execution, err));
    for (;;) {
        struct ArrowArray array = {0};

        OD_TRY(od_execution_next(execution, &payload, err));
        if (payload == NULL)
            break;
        OD_TRY(od_ipc_reader_start(reader, od_slice_of(od_msg_data(payload), od_msg_len(payload)), NULL, err));
        for (;;) {
            OD_TRY(od_ipc_reader_next_array(reader, payload, &array, err));
            if (array.release == NULL)
                break;
            OD_TRY(od_record_wrap(od_ipc_reader_schema(reader), &array, &record, err));
            for (int64_t i = 0; i < od_record_rows(record); i++)
                OD_TRY(take(arg, record, i, err));
            od_record_free(record);
            record = NULL;
        }
        od_msg_unref(payload);
        payload = NULL;
    }
out:
    od_record_free(record);
    od_ipc_reader_free(reader);
    od_msg_unref(payload);
    od_execution_end(execution);
    return rc;
}

static od_code copy_text(const od_record *record, const char *name, int64_t row, char **out, od_error *err)
{
    od_slice text;
    od_code rc = od_cell_bytes(od_record_cell(record, name, row), &text, err);

    if (rc != OD_OK || text.data == NULL)
        return rc;
    *out = od_strndup((const char *)text.data, text.len);
    return *out != NULL ? OD_OK : od_fail(err, OD_E_NO_MEMORY, "out of memory");
}

/* As copy_text, of what is never NULL. */
static od_code copy_name(const od_record *record, const char *name, int64_t row, char **out, od_error *err)
{
    od_code rc = copy_text(record, name, row, out, err);

    return rc == OD_OK && *out == NULL ? od_fail(err, OD_E_INTERNAL, "a name is NULL") : rc;
}

typedef struct {
    char *out;
    size_t size;
} answer;

static od_code take_answer(void *arg, const od_record *record, int64_t row, od_error *err)
{
    const answer *a = arg;
    od_slice text;
    od_code rc = od_cell_bytes(od_record_cell(record, "answer", row), &text, err);

    if (rc == OD_OK)
        snprintf(a->out, a->size, "%.*s", (int)text.len, text.len > 0 ? (const char *)text.data : "");
    return rc;
}

od_code vgi_source_ask(od_engine *engine, const char *database, const char *sql, char *out, size_t size, od_error *err)
{
    answer a = {out, size};

    out[0] = '\0';
    return each_row(engine, database, sql, take_answer, &a, err);
}

/* ---- what there is ---- */

static void source_free(vgi_source *source)
{
    if (source == NULL)
        return;
    od_free(source->schema);
    od_free(source->name);
    od_free(source->comment);
    od_schema_release(&source->columns);
    od_free(source);
}

void vgi_sources_close(vgi_sources *sources)
{
    for (size_t i = 0; i < sources->count; i++)
        source_free(sources->items[i]);
    od_free((void *)sources->items);
    *sources = (vgi_sources){0};
}

const vgi_source *vgi_sources_find(const vgi_sources *sources, const char *schema, const char *name)
{
    for (size_t i = 0; i < sources->count; i++)
        if (strcasecmp(sources->items[i]->schema, schema) == 0 && strcasecmp(sources->items[i]->name, name) == 0)
            return sources->items[i];
    return NULL;
}

typedef struct {
    od_engine *engine;
    vgi_sources *out;
    size_t room;
} listing;

static od_code take_source(void *arg, const od_record *record, int64_t row, od_error *err)
{
    listing *l = arg;
    vgi_sources *out = l->out;
    vgi_source *source = od_calloc(1, sizeof *source);
    od_code rc = OD_OK;

    if (source == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    if (out->count == l->room) {
        size_t room = 2 * l->room + 16;
        void *items = od_realloc((void *)out->items, room * sizeof(vgi_source *));

        if (items == NULL)
            OD_TRY(od_fail(err, OD_E_NO_MEMORY, "out of memory"));
        out->items = items;
        l->room = room;
    }
    source->engine = l->engine;
    OD_TRY(copy_name(record, "s", row, &source->schema, err));
    OD_TRY(copy_name(record, "n", row, &source->name, err));
    OD_TRY(copy_text(record, "c", row, &source->comment, err));
    OD_TRY(od_cell_int(od_record_cell(record, "size", row), &source->rows, err));
    out->items[out->count++] = source;
    source = NULL;
out:
    source_free(source);
    return rc;
}

static od_code put_name(od_buf *out, const char *name, od_error *err)
{
    return od_quote_ident(out, od_slice_str(name), err);
}

static od_code put_from(const vgi_source *source, od_buf *out, od_error *err)
{
    od_code rc;

    OD_TRY(od_buf_printf(out, err, " FROM "));
    OD_TRY(put_name(out, source->schema, err));
    OD_TRY(od_buf_printf(out, err, "."));
    OD_TRY(put_name(out, source->name, err));
out:
    return rc;
}

static od_code describe(vgi_source *source, od_error *err)
{
    od_execution_request request = {.format = OD_FORMAT_LOSSLESS, .describe_only = true};
    od_execution *execution = NULL;
    od_msg *payload = NULL;
    od_buf sql = {0};
    od_code rc;

    OD_TRY(od_buf_printf(&sql, err, "SELECT *"));
    OD_TRY(put_from(source, &sql, err));
    request.sql = od_slice_of(sql.data, sql.len);
    OD_TRY(od_execution_start(source->engine, &request, &execution, err));
    OD_TRY(od_execution_next(execution, &payload, err));
    if (payload == NULL)
        OD_TRY(od_fail(err, OD_E_INTERNAL, "a table without columns"));
    OD_TRY(od_record_schema_only(od_slice_of(od_msg_data(payload), od_msg_len(payload)), &source->columns, err));
out:
    od_msg_unref(payload);
    od_execution_end(execution);
    od_buf_release(&sql);
    if (rc != OD_OK)
        od_error_prefix(err, "'%s.%s'", source->schema, source->name);
    return rc;
}

static od_code take_not_null(void *arg, const od_record *record, int64_t row, od_error *err)
{
    const listing *l = arg;
    char *schema = NULL, *name = NULL, *column = NULL;
    const vgi_source *source;
    od_code rc;

    OD_TRY(copy_name(record, "s", row, &schema, err));
    OD_TRY(copy_name(record, "n", row, &name, err));
    OD_TRY(copy_name(record, "c", row, &column, err));
    source = vgi_sources_find(l->out, schema, name);
    for (int64_t i = 0; source != NULL && i < source->columns.n_children; i++)
        if (strcmp(source->columns.children[i]->name, column) == 0)
            source->columns.children[i]->flags &= ~ARROW_FLAG_NULLABLE;
out:
    od_free(schema);
    od_free(name);
    od_free(column);
    return rc;
}

od_code vgi_sources_open(od_engine *engine, vgi_sources *out, od_error *err)
{
    static const char tables[] =
        "SELECT schema_name s, table_name n, comment c, estimated_size::BIGINT size FROM duckdb_tables() "
        "WHERE database_name = current_database() AND NOT internal UNION ALL "
        "SELECT schema_name, view_name, comment, -1 FROM duckdb_views() "
        "WHERE database_name = current_database() AND NOT internal ORDER BY s, n";
    static const char not_null[] = "SELECT schema_name s, table_name n, column_name c FROM duckdb_columns() "
                                   "WHERE database_name = current_database() AND NOT internal AND NOT is_nullable";
    listing l = {.engine = engine, .out = out};
    od_code rc;

    OD_TRY(each_row(engine, NULL, tables, take_source, &l, err));
    for (size_t i = 0; i < out->count; i++)
        OD_TRY(describe(out->items[i], err));
    OD_TRY(each_row(engine, NULL, not_null, take_not_null, &l, err));
out:
    if (rc != OD_OK)
        vgi_sources_close(out);
    return rc;
}

/* ---- the function ---- */

/* A statement that runs, and the batches of the payload that it gave last. */
typedef struct {
    od_execution *execution;
    od_ipc_reader *reader;
    od_msg *payload; /* NULL: the next is due */
} rows;

static od_vgiw_code tell(od_code rc, const od_error *why, od_vgiw_error *err)
{
    if (rc == OD_OK)
        return OD_VGIW_OK;
    if (err != NULL) {
        err->code = OD_VGIW_FAILED;
        snprintf(err->message, sizeof err->message, "%s", why->message);
    }
    return OD_VGIW_FAILED;
}

static void keep_borrowed(struct ArrowArray *array)
{
    array->release = NULL;
}

static od_code make_sql(const vgi_source *source, const od_vgiw_scan *scan, od_buf *sql, od_error *err)
{
    size_t len;
    od_code rc;

    OD_TRY(od_buf_printf(sql, err, "SELECT "));
    for (int64_t i = 0; i < scan->schema->n_children; i++) {
        OD_TRY(od_buf_printf(sql, err, i > 0 ? ", " : ""));
        OD_TRY(put_name(sql, scan->schema->children[i]->name, err));
    }
    OD_TRY(put_from(source, sql, err));
    if (scan->filter_count == 0)
        return OD_OK;
    OD_TRY(od_buf_printf(sql, err, " WHERE "));
    od_vgiw_filters_sql(scan, &source->columns, NULL, 0, &len);
    OD_TRY(od_buf_reserve(sql, len + 1, err));
    od_vgiw_filters_sql(scan, &source->columns, (char *)sql->data + sql->len, len + 1, &len);
    sql->len += len;
out:
    return rc;
}

static void close_rows(void *arg)
{
    rows *r = arg;

    od_execution_end(r->execution);
    od_ipc_reader_free(r->reader);
    od_msg_unref(r->payload);
    od_free(r);
}

static od_code start_rows(const vgi_source *source, const od_vgiw_scan *scan, rows *r, od_error *err)
{
    od_execution_request request = {.format = OD_FORMAT_LOSSLESS};
    struct ArrowArray lent;
    od_msg *values = NULL;
    od_buf sql = {0};
    od_code rc;

    OD_TRY(od_ipc_reader_create(&r->reader, err));
    OD_TRY(make_sql(source, scan, &sql, err));
    if (scan->values.array != NULL) {
        lent = *scan->values.array;
        lent.release = keep_borrowed;
        OD_TRY(od_vgi_batch_write(scan->values.schema, &lent, &values, err));
    }
    request.sql = od_slice_of(sql.data, sql.len);
    request.parameters = od_vgi_msg_bytes(values);
    OD_TRY(od_execution_start(source->engine, &request, &r->execution, err));
out:
    od_msg_unref(values);
    od_buf_release(&sql);
    return rc;
}

static od_vgiw_code open_rows(void *arg, const od_vgiw_scan *scan, void **out, od_vgiw_error *err)
{
    od_error why = {.code = OD_OK};
    rows *r = od_calloc(1, sizeof *r);
    od_code rc = r != NULL ? start_rows(arg, scan, r, &why) : od_fail(&why, OD_E_NO_MEMORY, "out of memory");

    *out = r;
    if (rc != OD_OK && r != NULL)
        close_rows(r);
    return tell(rc, &why, err);
}

static od_code read_rows(rows *r, struct ArrowArray *out, od_error *err)
{
    od_code rc = OD_OK;

    for (;;) {
        if (r->payload != NULL) {
            OD_TRY(od_ipc_reader_next_array(r->reader, r->payload, out, err));
            if (out->release != NULL)
                return OD_OK;
            od_msg_unref(r->payload);
            r->payload = NULL;
        }
        OD_TRY(od_execution_next(r->execution, &r->payload, err));
        if (r->payload == NULL)
            return OD_OK;
        OD_TRY(od_ipc_reader_start(r->reader, od_slice_of(od_msg_data(r->payload), od_msg_len(r->payload)), NULL, err));
    }
out:
    return rc;
}

static od_vgiw_code next_rows(void *arg, struct ArrowArray *out, od_vgiw_error *err)
{
    od_error why = {.code = OD_OK};

    *out = (struct ArrowArray){0};
    return tell(read_rows(arg, out, &why), &why, err);
}

static od_vgiw_code bind_source(void *arg, const od_vgiw_call *call, struct ArrowSchema *out, od_vgiw_error *err)
{
    const vgi_source *source = arg;
    od_error why = {.code = OD_OK};

    if (call->arguments.schema != NULL)
        return tell(od_fail(&why, OD_E_INVALID, "'%s' takes no arguments", source->name), &why, err);
    return tell(od_schema_copy(&source->columns, out, &why), &why, err);
}

static int64_t count_source(void *arg, const od_vgiw_call *call)
{
    (void)call;
    return ((const vgi_source *)arg)->rows;
}

od_vgiw_code vgi_source_publish(const vgi_source *source, od_vgiw *worker, od_vgiw_error *err)
{
    const od_vgiw_function function = {
        .schema = source->schema,
        .name = source->name,
        .comment = source->comment,
        .projection = 1,
        .filters = 1,
        .arg = (void *)(uintptr_t)source,
        .bind = bind_source,
        .count = count_source,
        .open = open_rows,
        .next = next_rows,
        .close = close_rows,
    };

    return od_vgiw_add_function(worker, &function, err);
}

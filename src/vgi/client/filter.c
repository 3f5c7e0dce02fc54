#include "vgi/client/filter.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"

#include "base/banned.h"

/* The protocol's own limits, or below. */
enum { MAX_DEPTH = 32, MAX_NODES = 8192, MAX_FILTERS = 1024 };
#define MAX_TEXT ((size_t)1 << 20)

static const char *const operators[] = {"eq", "ne", "lt", "le", "gt", "ge"};

typedef struct {
    const od_vgi_dialect *dialect;
    const struct ArrowSchema *schema;
    const int64_t *columns;
    size_t column_count;
    od_row *row;
    od_json json;
    size_t values; /* that have a column of their own */
} filter_writer;

/* ---- what can be told ---- */

/* NOLINTBEGIN(misc-no-recursion): no deeper than MAX_DEPTH */
static od_code check(const filter_writer *w, const od_vgi_expr *e, int depth, size_t *nodes, od_error *err)
{
    static const size_t least[] = {0, 0, 2, 2, 2, 1, 1, 1};

    ++*nodes;
    if (depth > MAX_DEPTH || *nodes > MAX_NODES)
        return OD_OK; /* it is then left out */
    if (e->child_count < least[e->kind])
        return od_fail(err, OD_E_INVALID, "a filter lacks a part");
    if (e->kind == OD_VGI_COLUMN && (e->column < 0 || e->column >= w->schema->n_children))
        return od_fail(err, OD_E_INVALID, "a filter on column %lld of %lld", (long long)e->column,
                       (long long)w->schema->n_children);
    if ((e->kind == OD_VGI_LITERAL || e->kind == OD_VGI_IN) &&
        (e->value == NULL || e->value->array.release == NULL || e->value->array.n_children != 1 ||
         e->value->array.length != 1))
        return od_fail(err, OD_E_INVALID, "a filter's literal is not one value");
    for (size_t i = 0; i < e->child_count; i++) {
        od_code rc = check(w, e->children[i], depth + 1, nodes, err);

        if (rc != OD_OK)
            return rc;
    }
    return OD_OK;
}

static int height(const od_vgi_expr *e, int depth)
{
    int most = depth;

    for (size_t i = 0; i < e->child_count && depth <= MAX_DEPTH; i++) {
        int h = height(e->children[i], depth + 1);

        most = h > most ? h : most;
    }
    return most;
}

/* Generation 1.3 has conditions of one column and constants only: which column, or -1. */
static int64_t one_column(const od_vgi_expr *e)
{
    int64_t column = -1;

    switch (e->kind) {
    case OD_VGI_COMPARE:
        return e->children[0]->kind == OD_VGI_COLUMN && e->children[1]->kind == OD_VGI_LITERAL ? e->children[0]->column
                                                                                               : -1;
    case OD_VGI_IN:
    case OD_VGI_IS_NULL:
        return e->children[0]->kind == OD_VGI_COLUMN && !(e->kind == OD_VGI_IN && e->negated) ? e->children[0]->column
                                                                                              : -1;
    case OD_VGI_AND:
    case OD_VGI_OR:
        column = one_column(e->children[0]);
        for (size_t i = 1; i < e->child_count; i++)
            if (one_column(e->children[i]) != column)
                return -1;
        return column;
    default:
        return -1;
    }
}
/* NOLINTEND(misc-no-recursion) */

/* Where COLUMN of the bound schema is among those that come; -1: nowhere. */
static int64_t place_of(const filter_writer *w, int64_t column)
{
    if (w->columns == NULL)
        return column;
    for (size_t i = 0; i < w->column_count; i++)
        if (w->columns[i] == column)
            return (int64_t)i;
    return -1;
}

/* In generation 1.3 the worker compares as it likes: of numbers that may be NaN not as DuckDB does. */
static bool may_be_nan(const filter_writer *w, int64_t column)
{
    const char *format = w->schema->children[column]->format;

    return format != NULL && (format[0] == 'e' || format[0] == 'f' || format[0] == 'g') && format[1] == '\0';
}

static bool can_tell(const filter_writer *w, const od_vgi_expr *e, size_t nodes)
{
    int64_t column;

    if (nodes > MAX_NODES || height(e, 0) > MAX_DEPTH)
        return false;
    if (w->dialect->expressions)
        return true;
    column = one_column(e);
    return column >= 0 && place_of(w, column) >= 0 && !may_be_nan(w, column);
}

/* ---- values ---- */

/* Moves the value into a column of its own, PREFIX and a number; returns the number. */
static size_t put_value(filter_writer *w, const char *prefix, od_vgi_values *value)
{
    char name[32];

    snprintf(name, sizeof name, "%s%zu", prefix, w->values);
    od_row_array(w->row, name, value->schema.children[0], value->array.children[0]);
    value->array.release(&value->array); /* as the interface asks, once a child was moved out */
    return w->values++;
}

static void put_name(filter_writer *w, int64_t column)
{
    const char *name = w->schema->children[column]->name;

    od_json_text(&w->json, od_slice_str(name != NULL ? name : ""));
}

/* ---- generation 2.2 ---- */

/* NOLINTBEGIN(misc-no-recursion): no deeper than MAX_DEPTH */
static void put_expr(filter_writer *w, const od_vgi_expr *e)
{
    od_json *json = &w->json;

    switch (e->kind) {
    case OD_VGI_COLUMN:
        od_json_put(json, "{\"node\":\"column_ref\",\"column_index\":%lld,\"column_name\":", (long long)e->column);
        put_name(w, e->column);
        od_json_put(json, "}");
        break;
    case OD_VGI_LITERAL:
        od_json_put(json, "{\"node\":\"literal\",\"value_ref\":%zu}", put_value(w, "value_", e->value));
        break;
    case OD_VGI_COMPARE:
        od_json_put(json, "{\"node\":\"comparison\",\"op\":\"%s\",\"left\":", operators[e->op]);
        put_expr(w, e->children[0]);
        od_json_put(json, ",\"right\":");
        put_expr(w, e->children[1]);
        od_json_put(json, "}");
        break;
    case OD_VGI_AND:
    case OD_VGI_OR:
        od_json_put(json, "{\"node\":\"%s\",\"children\":[", e->kind == OD_VGI_AND ? "and" : "or");
        for (size_t i = 0; i < e->child_count; i++) {
            od_json_put(json, i > 0 ? "," : "");
            put_expr(w, e->children[i]);
        }
        od_json_put(json, "]}");
        break;
    case OD_VGI_NOT:
        od_json_put(json, "{\"node\":\"not\",\"expression\":");
        put_expr(w, e->children[0]);
        od_json_put(json, "}");
        break;
    case OD_VGI_IS_NULL:
        od_json_put(json, "{\"node\":\"is_null\",\"expression\":");
        put_expr(w, e->children[0]);
        od_json_put(json, ",\"negated\":%s}", e->negated ? "true" : "false");
        break;
    case OD_VGI_IN:
        od_json_put(json, "{\"node\":\"in\",\"expression\":");
        put_expr(w, e->children[0]);
        od_json_put(json, ",\"set\":{\"kind\":\"literal\",\"value_ref\":%zu},\"negated\":%s}",
                    put_value(w, "value_", e->value), e->negated ? "true" : "false");
        break;
    }
}

/* ---- generation 1.3 ---- */

static void put_node(filter_writer *w, const od_vgi_expr *e)
{
    od_json *json = &w->json;
    int64_t column = one_column(e);

    od_json_put(json, "{\"column_name\":");
    put_name(w, column);
    od_json_put(json, ",\"column_index\":%lld,", (long long)place_of(w, column));
    switch (e->kind) {
    case OD_VGI_COMPARE:
        od_json_put(json, "\"type\":\"constant\",\"op\":\"%s\",\"value_ref\":%zu", operators[e->op],
                    put_value(w, "_val_", e->children[1]->value));
        break;
    case OD_VGI_IN:
        od_json_put(json, "\"type\":\"in\",\"value_ref\":%zu", put_value(w, "_val_", e->value));
        break;
    case OD_VGI_IS_NULL:
        od_json_put(json, "\"type\":\"%s\"", e->negated ? "is_not_null" : "is_null");
        break;
    default:
        od_json_put(json, "\"type\":\"%s\",\"children\":[", e->kind == OD_VGI_AND ? "and" : "or");
        for (size_t i = 0; i < e->child_count; i++) {
            od_json_put(json, i > 0 ? "," : "");
            put_node(w, e->children[i]);
        }
        od_json_put(json, "]");
        break;
    }
    od_json_put(json, "}");
}
/* NOLINTEND(misc-no-recursion) */

/* ---- documents ---- */

static void put_document(filter_writer *w, const od_vgi_expr *const *filters, size_t count)
{
    od_json *json = &w->json;

    if (!w->dialect->expressions) {
        od_json_put(json, "[");
        for (size_t i = 0; i < count; i++) {
            od_json_put(json, i > 0 ? "," : "");
            put_node(w, filters[i]);
        }
        od_json_put(json, "]");
        return;
    }
    od_json_put(json, "{\"encoding\":\"vgi.filters.v2\",\"semantics\":\"vgi.duckdb.standard.v1\",\"kind\":\"snapshot\","
                      "\"predicates\":[");
    for (size_t i = 0; i < count; i++) {
        od_json_put(json,
                    "%s{\"id\":\"q%zu\",\"revision\":0,\"mode\":\"required\",\"source\":\"query\",\"expression\":",
                    i > 0 ? "," : "", i);
        put_expr(w, filters[i]);
        od_json_put(json, "}");
    }
    od_json_put(json, "]}");
}

/* The text is the first column, but known last: values go to a row of their own first. */
static od_code finish(filter_writer *w, od_row *values, const od_buf *text, od_msg **out, od_error *err)
{
    od_row_prepend_text(values, "filter_spec", od_slice_of(text->data, text->len));
    if (w->dialect->expressions) {
        od_row_metadata(values, NULL, "vgi_filter_encoding", od_slice_str("vgi.filters.v2"));
        od_row_metadata(values, NULL, "vgi_filter_version", od_slice_str("2"));
        od_row_metadata(values, NULL, "vgi_evaluation_context", od_slice_str("vgi.none.v1"));
    } else {
        od_row_metadata(values, "filter_spec", "vgi_filter_version", od_slice_str("1"));
    }
    return od_row_finish(values, NULL, 0, out, err);
}

/* Those of FILTERS that can be told, all together, into TOLD; returns how many. */
static size_t pick(const filter_writer *w, const od_vgi_expr *const *filters, size_t count, const od_vgi_expr **told)
{
    size_t used = 0, n = 0;

    for (size_t i = 0; i < count && n < MAX_FILTERS; i++) {
        size_t nodes = used;

        (void)check(w, filters[i], 0, &nodes, NULL);
        if (!can_tell(w, filters[i], nodes))
            continue;
        told[n++] = filters[i];
        used = nodes;
    }
    return n;
}

od_code od_vgi_filters_write(const od_vgi_dialect *dialect, const struct ArrowSchema *schema, const int64_t *columns,
                             size_t column_count, const od_vgi_expr *const *filters, size_t filter_count, od_msg **out,
                             size_t *sent, od_error *err)
{
    filter_writer w = {.dialect = dialect, .schema = schema, .columns = columns, .column_count = column_count};
    const od_vgi_expr **told = NULL;
    od_buf text = {0};
    size_t nodes = 0, n;
    od_code rc = OD_OK;

    *out = NULL;
    *sent = 0;
    if (filter_count == 0)
        return OD_OK;
    for (size_t i = 0; i < filter_count; i++)
        OD_TRY(check(&w, filters[i], 0, &nodes, err));
    told = od_calloc(filter_count, sizeof *told);
    if (told == NULL)
        OD_TRY(od_fail(err, OD_E_NO_MEMORY, "out of memory"));
    n = pick(&w, filters, filter_count, told);
    if (n == 0)
        goto out;
    OD_TRY(od_row_create(&w.row, err));
    w.json = (od_json){.out = &text, .err = err};
    put_document(&w, told, n);
    OD_TRY(w.json.rc);
    if (text.len > MAX_TEXT)
        goto out;
    OD_TRY(finish(&w, w.row, &text, out, err));
    *sent = n;
out:
    od_free((void *)told);
    od_row_free(w.row);
    od_buf_release(&text);
    return rc;
}

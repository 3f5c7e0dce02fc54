/* Conditions on rows, as SQL. */
#include <stdio.h>
#include <string.h>

#include "arrow/c_data.h"
#include "base/buf.h"
#include "openduck/vgi_worker.h"

#include "base/banned.h"

typedef struct {
    const struct ArrowSchema *columns;
    char *out;
    size_t size, len;
} writer;

static void put_char(writer *w, char c)
{
    if (w->len + 1 < w->size)
        w->out[w->len] = c;
    w->len++;
}

static void put(writer *w, const char *text)
{
    for (; *text != '\0'; text++)
        put_char(w, *text);
}

static void put_name(writer *w, const char *name)
{
    put_char(w, '"');
    for (; *name != '\0'; name++) {
        if (*name == '"')
            put_char(w, '"');
        put_char(w, *name);
    }
    put_char(w, '"');
}

static void put_value(writer *w, size_t value)
{
    char name[40];

    snprintf(name, sizeof name, "$value_%zu", value);
    put(w, name);
}

/* NOLINTBEGIN(misc-no-recursion): no deeper than what was read */
static void put_filter(writer *w, const od_vgiw_filter *filter)
{
    static const char *const operators[] = {
        " = ", " <> ", " < ", " <= ", " > ", " >= ", " IS DISTINCT FROM ", " IS NOT DISTINCT FROM "};
    const char *between = filter->kind == OD_VGIW_AND  ? " AND "
                          : filter->kind == OD_VGIW_OR ? " OR "
                                                       : operators[filter->op];

    if (filter->kind == OD_VGIW_COLUMN) {
        put_name(w, w->columns->children[filter->column]->name);
        return;
    }
    if (filter->kind == OD_VGIW_VALUE) {
        put_value(w, filter->column);
        return;
    }
    put(w, filter->kind == OD_VGIW_NOT ? "(NOT " : "(");
    for (size_t i = 0; i < filter->child_count; i++) {
        put(w, i > 0 ? between : "");
        put_filter(w, filter->children[i]);
    }
    if (filter->kind == OD_VGIW_IS_NULL)
        put(w, filter->negated ? " IS NOT NULL" : " IS NULL");
    if (filter->kind == OD_VGIW_IN) {
        put(w, filter->negated ? " NOT IN (SELECT unnest(" : " IN (SELECT unnest(");
        put_value(w, filter->column);
        put(w, "))");
    }
    put_char(w, ')');
}
/* NOLINTEND(misc-no-recursion) */

void od_vgiw_filters_sql(const od_vgiw_scan *scan, const struct ArrowSchema *columns, char *out, size_t size,
                         size_t *len)
{
    writer w = {.columns = columns, .out = out, .size = size};

    for (size_t i = 0; i < scan->filter_count; i++) {
        put(&w, i > 0 ? " AND " : "");
        put_filter(&w, scan->filters[i]);
    }
    if (size > 0)
        out[w.len < size ? w.len : size - 1] = '\0';
    *len = w.len;
}

#include "support/fixture_filter.h"

#include <stdlib.h>
#include <string.h>

#include "arrow/c_data.h"

static void put(od_buf *out, const char *text)
{
    if (od_buf_append(out, text, strlen(text), NULL) != OD_OK)
        abort();
}

/* Row AT of ARRAY, a number or a text. */
static void put_cell(const char *format, const struct ArrowArray *array, int64_t at, od_buf *out)
{
    int64_t i = at + array->offset;

    if (strcmp(format, "l") == 0) {
        if (od_buf_printf(out, NULL, "%lld", (long long)((const int64_t *)array->buffers[1])[i]) != OD_OK)
            abort();
    } else if (strcmp(format, "u") == 0) {
        const int32_t *ends = array->buffers[1];

        if (od_buf_printf(out, NULL, "'%.*s'", (int)(ends[i + 1] - ends[i]),
                          (const char *)array->buffers[2] + ends[i]) != OD_OK)
            abort();
    } else {
        put(out, "?");
    }
}

static void put_value(const od_vgiw_values *values, size_t column, od_buf *out)
{
    put_cell(values->schema->children[column]->format, values->array->children[column], 0, out);
}

static void put_list(const od_vgiw_values *values, size_t column, od_buf *out)
{
    const struct ArrowArray *list = values->array->children[column];
    const int32_t *ends = (const int32_t *)list->buffers[1] + list->offset;

    put(out, "(");
    for (int32_t i = ends[0]; i < ends[1]; i++) {
        put(out, i > ends[0] ? ", " : "");
        put_cell(values->schema->children[column]->children[0]->format, list->children[0], i, out);
    }
    put(out, ")");
}

static void put_filter(const od_vgiw_scan *scan, const struct ArrowSchema *columns, const od_vgiw_filter *f,
                       od_buf *out)
{
    static const char *const signs[] = {[OD_VGIW_EQ] = " = ",
                                        [OD_VGIW_NE] = " != ",
                                        [OD_VGIW_LT] = " < ",
                                        [OD_VGIW_LE] = " <= ",
                                        [OD_VGIW_GT] = " > ",
                                        [OD_VGIW_GE] = " >= ",
                                        [OD_VGIW_DISTINCT] = " IS DISTINCT FROM ",
                                        [OD_VGIW_NOT_DISTINCT] = " IS NOT DISTINCT FROM "};

    switch (f->kind) {
    case OD_VGIW_COLUMN:
        put(out, columns->children[f->column]->name);
        break;
    case OD_VGIW_VALUE:
        put_value(&scan->values, f->column, out);
        break;
    case OD_VGIW_COMPARE:
        put_filter(scan, columns, f->children[0], out);
        put(out, signs[f->op]);
        put_filter(scan, columns, f->children[1], out);
        break;
    case OD_VGIW_AND:
    case OD_VGIW_OR:
        put(out, "(");
        for (size_t i = 0; i < f->child_count; i++) {
            put(out, i == 0 ? "" : f->kind == OD_VGIW_AND ? " AND " : " OR ");
            put_filter(scan, columns, f->children[i], out);
        }
        put(out, ")");
        break;
    case OD_VGIW_NOT:
        put(out, "NOT ");
        put_filter(scan, columns, f->children[0], out);
        break;
    case OD_VGIW_IS_NULL:
        put_filter(scan, columns, f->children[0], out);
        put(out, f->negated ? " IS NOT NULL" : " IS NULL");
        break;
    case OD_VGIW_IN:
    default:
        put_filter(scan, columns, f->children[0], out);
        put(out, f->negated ? " NOT IN " : " IN ");
        put_list(&scan->values, f->column, out);
        break;
    }
}

void fixture_filters(const od_vgiw_scan *scan, const struct ArrowSchema *columns, od_buf *out)
{
    for (size_t i = 0; i < scan->filter_count; i++) {
        put(out, i > 0 ? " AND " : "");
        put_filter(scan, columns, scan->filters[i], out);
    }
}

/* What is told of columns: a batch with a row for each of them. */
#include <stdio.h>
#include <string.h>

#include "arrow/schema.h"
#include "base/alloc.h"
#include "vgi/worker/encode.h"

#include "base/banned.h"

enum { COLUMNS = 6, MAX_TOLD = 127 };

/* A batch that is made by hand: what it points to is given up at once, when it was written. */
typedef struct {
    size_t count;   /* of what is told */
    size_t *places; /* which columns these are */
    uint8_t *codes; /* of the unions' members: each column has one of its own */
    od_buf names;
    int32_t *name_ends;
    int64_t *distinct;
    uint8_t *known, *yes;
    const void *name_buffers[3], *distinct_buffers[2], *yes_buffers[2];
    struct ArrowArray columns[COLUMNS], *children[COLUMNS], *members[2];
    struct ArrowArray **member_lists[2];
    uint8_t *bounds[2]; /* 8 bytes for each value of each member */
    const void **bound_buffers[2];
    const void *union_buffers[1], *no_buffer[1];
} batch;

static void keep_borrowed(struct ArrowArray *array)
{
    array->release = NULL;
}

static void set_bit(uint8_t *bits, size_t i)
{
    bits[i / 8] = (uint8_t)(bits[i / 8] | 1u << i % 8);
}

/* How wide a value of FORMAT is, of a number, a date or a time; 0: it is something else. */
static size_t width_of(const char *format)
{
    if (strcmp(format, "c") == 0 || strcmp(format, "C") == 0)
        return 1;
    if (strcmp(format, "s") == 0 || strcmp(format, "S") == 0)
        return 2;
    if (strcmp(format, "i") == 0 || strcmp(format, "I") == 0 || strcmp(format, "f") == 0 || strcmp(format, "tdD") == 0)
        return 4;
    return strcmp(format, "l") == 0 || strcmp(format, "L") == 0 || strcmp(format, "g") == 0 ||
                   strncmp(format, "ts", 2) == 0
               ? 8
               : 0;
}

/* VALUE as FORMAT has it; what does not fit is cut to what does. */
static void write_value(const char *format, double value, uint8_t *out)
{
    const size_t width = width_of(format);
    const bool natural = format[0] == 'C' || format[0] == 'S' || format[0] == 'I' || format[0] == 'L';
    const double top =
        width == 8 || width == 0 ? 9223372036854774784.0 : (double)((INT64_C(1) << (8 * width - !natural)) - 1);
    const double bottom = natural ? 0 : -top;
    float narrow = (float)value;
    int64_t whole = (int64_t)(value > top ? top : value >= bottom ? value : bottom);

    if (format[0] == 'f')
        memcpy(out, &narrow, sizeof narrow);
    else if (format[0] == 'g')
        memcpy(out, &value, sizeof value);
    else
        memcpy(out, &whole, width); /* the low bytes come first */
}

static void release(batch *b)
{
    for (size_t i = 0; i < 2; i++) {
        od_free(b->members[i]);
        od_free((void *)b->member_lists[i]);
        od_free(b->bounds[i]);
        od_free((void *)b->bound_buffers[i]);
    }
    od_free(b->places);
    od_free(b->codes);
    od_buf_release(&b->names);
    od_free(b->name_ends);
    od_free(b->distinct);
    od_free(b->known);
    od_free(b->yes);
}

static bool allocate(batch *b)
{
    size_t n = b->count, bits = n / 8 + 1;

    b->codes = od_calloc(n + 1, 1);
    b->name_ends = od_calloc(n + 1, sizeof *b->name_ends);
    b->distinct = od_calloc(n + 1, sizeof *b->distinct);
    b->known = od_calloc(bits, 1);
    b->yes = od_calloc(bits, 1);
    for (size_t i = 0; i < 2; i++) {
        b->members[i] = od_calloc(n + 1, sizeof *b->members[i]);
        b->member_lists[i] = od_calloc(n + 1, sizeof *b->member_lists[i]);
        b->bounds[i] = od_calloc(n * n + 1, 8);
        b->bound_buffers[i] = od_calloc(2 * n + 1, sizeof *b->bound_buffers[i]);
        if (b->members[i] == NULL || b->member_lists[i] == NULL || b->bounds[i] == NULL || b->bound_buffers[i] == NULL)
            return false;
    }
    return b->codes != NULL && b->name_ends != NULL && b->distinct != NULL && b->known != NULL && b->yes != NULL;
}

static od_code collect(batch *b, const struct ArrowSchema *columns, const od_vgiw_statistics *statistics, od_error *err)
{
    b->places = od_calloc((size_t)columns->n_children + 1, sizeof *b->places);
    if (b->places == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    /* The members of a union are few; columns beyond go without. */
    for (size_t i = 0; i < (size_t)columns->n_children && b->count < MAX_TOLD; i++)
        if (statistics[i].distinct_count >= 0 || statistics[i].has_range)
            b->places[b->count++] = i;
    return allocate(b) ? OD_OK : od_fail(err, OD_E_NO_MEMORY, "out of memory");
}

static od_code fill_names(batch *b, const struct ArrowSchema *columns, const od_vgiw_statistics *statistics,
                          od_error *err)
{
    od_code rc = OD_OK;

    for (size_t i = 0; i < b->count; i++) {
        const char *name = columns->children[b->places[i]]->name;
        int64_t distinct = statistics[b->places[i]].distinct_count;

        OD_TRY(od_buf_append(&b->names, name, strlen(name), err));
        b->name_ends[i + 1] = (int32_t)b->names.len;
        b->distinct[i] = distinct;
        if (distinct >= 0)
            set_bit(b->known, i);
        set_bit(b->yes, i);
    }
out:
    return rc;
}

/* Makes OUT a union of a member for each column; row K has the value of member K. */
static void fill_bound(batch *b, size_t which, const struct ArrowSchema *columns, const od_vgiw_statistics *statistics,
                       struct ArrowArray *out)
{
    const size_t n = b->count;

    for (size_t k = 0; k < n; k++) {
        const od_vgiw_statistics *told = &statistics[b->places[k]];
        const char *format = columns->children[b->places[k]]->format;
        const size_t width = width_of(format);
        struct ArrowArray *member = &b->members[which][k];

        b->codes[k] = (uint8_t)k;
        b->member_lists[which][k] = member;
        *member = (struct ArrowArray){.length = (int64_t)n, .null_count = (int64_t)n, .release = keep_borrowed};
        if (width == 0 || !told->has_range)
            continue; /* of the type of nulls */
        member->null_count = 0;
        member->n_buffers = 2;
        member->buffers = &b->bound_buffers[which][2 * k];
        b->bound_buffers[which][2 * k + 1] = b->bounds[which] + 8 * n * k;
        write_value(format, which == 0 ? told->min : told->max, b->bounds[which] + 8 * n * k + width * k);
    }
    b->union_buffers[0] = b->codes;
    *out = (struct ArrowArray){.length = (int64_t)n,
                               .n_buffers = 1,
                               .buffers = b->union_buffers,
                               .n_children = (int64_t)n,
                               .children = b->member_lists[which],
                               .release = keep_borrowed};
}

static od_code make_union(const batch *b, const char *name, const struct ArrowSchema *columns,
                          const od_vgiw_statistics *statistics, struct ArrowSchema *out, od_error *err)
{
    od_buf format = {0};
    char member[24];
    od_code rc;

    OD_TRY(od_buf_printf(&format, err, "+us:"));
    for (size_t k = 0; k < b->count; k++)
        OD_TRY(od_buf_printf(&format, err, k > 0 ? ",%zu" : "%zu", k));
    if (od_buf_cstr(&format) == NULL)
        OD_TRY(od_fail(err, OD_E_NO_MEMORY, "out of memory"));
    OD_TRY(od_schema_make(out, name, od_buf_cstr(&format), (int64_t)b->count, err));
    for (size_t k = 0; k < b->count; k++) {
        const char *type = columns->children[b->places[k]]->format;

        snprintf(member, sizeof member, "%zu", k);
        OD_TRY(od_schema_make(out->children[k], member,
                              width_of(type) > 0 && statistics[b->places[k]].has_range ? type : "n", 0, err));
    }
out:
    od_buf_release(&format);
    return rc;
}

static od_code make_schema(const batch *b, const struct ArrowSchema *columns, const od_vgiw_statistics *statistics,
                           struct ArrowSchema *out, od_error *err)
{
    od_code rc;

    OD_TRY(od_schema_make(out, "", "+s", COLUMNS, err));
    OD_TRY(od_schema_make(out->children[0], "column_name", "u", 0, err));
    OD_TRY(make_union(b, "min", columns, statistics, out->children[1], err));
    OD_TRY(make_union(b, "max", columns, statistics, out->children[2], err));
    OD_TRY(od_schema_make(out->children[3], "has_null", "b", 0, err));
    OD_TRY(od_schema_make(out->children[4], "has_not_null", "b", 0, err));
    OD_TRY(od_schema_make(out->children[5], "distinct_count", "l", 0, err));
out:
    return rc;
}

static struct ArrowArray column(const batch *b, int64_t buffers, const void **values)
{
    return (struct ArrowArray){
        .length = (int64_t)b->count, .n_buffers = buffers, .buffers = values, .release = keep_borrowed};
}

static void fill_columns(batch *b, const struct ArrowSchema *columns, const od_vgiw_statistics *statistics)
{
    b->name_buffers[1] = b->name_ends;
    b->name_buffers[2] = b->names.data;
    b->columns[0] = column(b, 3, b->name_buffers);
    fill_bound(b, 0, columns, statistics, &b->columns[1]);
    fill_bound(b, 1, columns, statistics, &b->columns[2]);
    b->yes_buffers[1] = b->yes;
    b->columns[3] = column(b, 2, b->yes_buffers); /* it may: nothing else is known */
    b->columns[4] = column(b, 2, b->yes_buffers);
    b->distinct_buffers[0] = b->known;
    b->distinct_buffers[1] = b->distinct;
    b->columns[5] = column(b, 2, b->distinct_buffers);
    b->columns[5].null_count = -1;
    for (size_t i = 0; i < COLUMNS; i++)
        b->children[i] = &b->columns[i];
}

od_code vgiw_write_statistics(const struct ArrowSchema *columns, const od_vgiw_statistics *statistics, od_msg **out,
                              od_error *err)
{
    struct ArrowSchema schema = {0};
    struct ArrowArray array;
    batch b = {.count = 0};
    od_code rc;

    *out = NULL;
    OD_TRY(collect(&b, columns, statistics, err));
    if (b.count == 0)
        goto out;
    OD_TRY(fill_names(&b, columns, statistics, err));
    fill_columns(&b, columns, statistics);
    OD_TRY(make_schema(&b, columns, statistics, &schema, err));
    array = column(&b, 1, b.no_buffer);
    array.n_children = COLUMNS;
    array.children = b.children;
    OD_TRY(od_vgi_batch_write(&schema, &array, out, err));
out:
    od_schema_release(&schema);
    release(&b);
    return rc;
}

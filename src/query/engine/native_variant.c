/* Whether VARIANTs are what DuckDB's readers take them for: they follow indexes and offsets without a look at what lies there.
 *
 * A VARIANT is a tree of values: the first one is its root, and those below come after those above, as DuckDB writes them. A nested value's
 * data are how many children it has, and where they begin; a child has a value and, in an object, a key. */
#include <string.h>

#include "base/alloc.h"
#include "query/engine/native_read.h"
#include "base/banned.h"

enum { MAX_DEPTH = 250 };
enum {
    DECIMAL = 15,
    VARCHAR = 16,
    BLOB = 17,
    TIME = 20,
    TIME_NS = 21,
    TIME_TZ = 26,
    OBJECT = 29,
    ARRAY = 30,
    BIGNUM = 31,
    BITS = 32,
    GEOMETRY = 33,
    TYPES
};

/* One row: its parts, from their first element on. */
typedef struct {
    const od_column *keys_index, *values_index, *type_ids, *byte_offsets;
    uint32_t first_child, children, first_value, values, keys;
    const uint8_t *data;
    size_t data_len;
    uint8_t *depth; /* of each value; 0: nothing refers to it */
} variant;

static bool bit(const od_column *column, uint32_t i)
{
    return column->validity == NULL || column->null_count == 0 || (column->validity[i / 8] >> (i % 8) & 1);
}

static uint32_t u32_at(const od_column *column, uint32_t i)
{
    uint32_t value;
    memcpy(&value, column->data + (size_t)i * 4, 4);
    return value;
}

static bool take_varint(const uint8_t **at, const uint8_t *end, uint32_t *out)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 35 && *at < end; shift += 7) {
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if ((byte & 0x80) == 0) {
            *out = (uint32_t)value;
            return value <= UINT32_MAX;
        }
    }
    return false;
}

/* ---- one value ---- */

static bool decimal_fits(const uint8_t *at, const uint8_t *end)
{
    uint32_t width, scale;
    if (!take_varint(&at, end, &width) || !take_varint(&at, end, &scale) || width < 1 || width > 38 || scale > width)
        return false;
    return (size_t)(end - at) >= (width > 18 ? 16U : width > 9 ? 8U : width > 4 ? 4U : 2U);
}

static bool text_fits(uint8_t type, const uint8_t *at, const uint8_t *end)
{
    static const uint8_t checks[TYPES] = {
        [VARCHAR] = OD_TEXT_UTF8, [BIGNUM] = OD_TEXT_BIGNUM, [BITS] = OD_TEXT_BIT, [GEOMETRY] = OD_TEXT_GEOMETRY};
    uint32_t len;
    return take_varint(&at, end, &len) && (size_t)(end - at) >= len &&
           od_text_check(checks[type], at, len, NULL) == OD_OK;
}

static bool time_fits(uint8_t type, const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return od_time_valid(type == TIME ? OD_TIME_US : type == TIME_NS ? OD_TIME_NS : OD_TIME_TZ, value);
}

/* Value V's children come after it, each of them for the first time. */
static bool nested_fits(const variant *x, uint32_t v, bool object, const uint8_t *at, const uint8_t *end)
{
    uint32_t count, begin = 0;
    if (!take_varint(&at, end, &count) || (count > 0 && !take_varint(&at, end, &begin)))
        return false;
    if (begin > x->children || count > x->children - begin || (count > 0 && x->depth[v] >= MAX_DEPTH))
        return false;
    for (uint32_t i = x->first_child + begin; i < x->first_child + begin + count; i++) {
        uint32_t below = u32_at(x->values_index, i);
        if (!bit(x->values_index, i) || below <= v || below >= x->values || x->depth[below] != 0)
            return false;
        if (object && (!bit(x->keys_index, i) || u32_at(x->keys_index, i) >= x->keys))
            return false;
        x->depth[below] = (uint8_t)(x->depth[v] + 1);
    }
    return true;
}

static bool value_fits(const variant *x, uint32_t v)
{
    /* By type; 0xFF: see below. */
    static const uint8_t sizes[] = {0,    0,  0, 1, 2, 4, 8, 16, 1, 2, 4, 8,  16,   4,    8,    0xFF, 0xFF,
                                    0xFF, 16, 4, 8, 8, 8, 8, 8,  8, 8, 8, 16, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
    uint32_t i = x->first_value + v;
    uint8_t type = x->type_ids->data[i];
    if (!bit(x->type_ids, i) || !bit(x->byte_offsets, i) || type >= TYPES || u32_at(x->byte_offsets, i) > x->data_len)
        return false;
    const uint8_t *at = x->data + u32_at(x->byte_offsets, i), *end = x->data + x->data_len;
    if (sizes[type] != 0xFF)
        return (size_t)(end - at) >= sizes[type] &&
               ((type != TIME && type != TIME_NS && type != TIME_TZ) || time_fits(type, at));
    if (type == DECIMAL)
        return decimal_fits(at, end);
    if (type == OBJECT || type == ARRAY)
        return nested_fits(x, v, type == OBJECT, at, end);
    return text_fits(type, at, end);
}

/* ---- rows ---- */

static uint32_t range(const od_column *list, idx_t row, uint32_t *count)
{
    const int32_t *offsets = (const int32_t *)(const void *)list->data;
    *count = (uint32_t)(offsets[row + 1] - offsets[row]);
    return (uint32_t)offsets[row];
}

static bool row_fits(const od_column *column, idx_t row, od_buf *scratch)
{
    const od_column *keys = &column->children[0], *children = &column->children[1], *values = &column->children[2];
    const od_column *data = &column->children[3], *child = &children->children[0], *value = &values->children[0];
    variant x = {&child->children[0],
                 &child->children[1],
                 &value->children[0],
                 &value->children[1],
                 0,
                 0,
                 0,
                 0,
                 0,
                 NULL,
                 0,
                 NULL};
    uint32_t first_key = range(keys, row, &x.keys), len, start = range(data, row, &len);
    x.first_child = range(children, row, &x.children);
    x.first_value = range(values, row, &x.values);
    x.data = data->bytes != NULL ? data->bytes + start : (const uint8_t *)"";
    x.data_len = len;
    if (!bit(keys, (uint32_t)row) || !bit(children, (uint32_t)row) || !bit(values, (uint32_t)row) ||
        !bit(data, (uint32_t)row) || x.values == 0)
        return false;
    for (uint32_t i = 0; i < x.keys; i++)
        if (!bit(&keys->children[0], first_key + i))
            return false;
    for (uint32_t i = 0; i < x.children; i++)
        if (!bit(child, x.first_child + i))
            return false;
    scratch->len = 0;
    if (od_buf_reserve(scratch, x.values, NULL) != OD_OK)
        return false;
    x.depth = memset(scratch->data, 0, x.values);
    x.depth[0] = 1;
    for (uint32_t v = 0; v < x.values; v++)
        if (!bit(value, x.first_value + v) || !value_fits(&x, v))
            return false;
    return true;
}

bool od_variants_valid(const od_column *column, idx_t first, idx_t count, const uint64_t *validity)
{
    od_buf scratch = {0};
    bool valid = true;
    for (idx_t i = 0; i < count && valid; i++)
        if (validity == NULL || (validity[i / 64] >> (i % 64) & 1))
            valid = row_fits(column, first + i, &scratch);
    od_buf_release(&scratch);
    return valid;
}

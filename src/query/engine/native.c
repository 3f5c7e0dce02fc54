#include "query/engine/native_internal.h"

#include <string.h>

#include "arrow/schema.h"
#include "base/alloc.h"
#include "base/banned.h"

/* Values that lie in one vector: rows [first, first + count), or those that SEL lists (then first is 0). */
typedef struct {
    const void *data;
    const uint64_t *validity; /* NULL: all valid */
    const uint32_t *sel;
    uint32_t first, count;
    uint32_t nulls;
    uint32_t pad;
} segment;

/* What has been measured of a field. */
typedef struct {
    segment *segments;
    size_t segment_count, segment_cap;
    int64_t length, nulls;
    size_t bytes;      /* of TEXT */
    size_t child_rows; /* of LIST */
} field_state;

/* As much of field_state as a drop takes back. */
typedef struct {
    size_t segment_count;
    int64_t length, nulls;
    size_t bytes, child_rows;
} field_mark;

/* Enough of a top-level column's type to know it again; nested types and enums are never known again. */
typedef struct {
    duckdb_type id;
    uint8_t width, scale;
} column_type;

struct od_native {
    struct ArrowSchema schema;
    column_type *types;
    od_ipc_writer *writer;
    const od_field *fields;
    od_buf fields_buf;
    size_t field_count, span_count, column_count;
    field_state *states;
    field_mark *marks;    /* before the last _add */
    size_t *column_bytes; /* of the last _add */
    od_ipc_node *nodes;
    od_ipc_span *spans;
    int64_t rows, rows_mark;
    size_t body;           /* bytes, padded, of what has been measured */
    uint32_t **selections; /* owned by the payload */
    size_t selection_count, selection_cap;
};

static size_t pad64(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

/* ---- create, free ---- */

static column_type type_of(duckdb_logical_type type)
{
    column_type out = {.id = duckdb_get_type_id(type)};
    switch (out.id) {
    case DUCKDB_TYPE_DECIMAL:
        out.width = duckdb_decimal_width(type);
        out.scale = duckdb_decimal_scale(type);
        break;
    case DUCKDB_TYPE_ENUM:
    case DUCKDB_TYPE_LIST:
    case DUCKDB_TYPE_STRUCT:
    case DUCKDB_TYPE_MAP:
    case DUCKDB_TYPE_ARRAY:
    case DUCKDB_TYPE_UNION:
        out.id = DUCKDB_TYPE_INVALID;
        break;
    default:
        break;
    }
    return out;
}

bool od_native_fits(const od_native *native, const char *const *names, const duckdb_logical_type *types, size_t count)
{
    if (count != native->column_count)
        return false;
    for (size_t i = 0; i < count; i++) {
        column_type type = type_of(types[i]), known = native->types[i];
        if (type.id == DUCKDB_TYPE_INVALID || type.id != known.id || type.width != known.width ||
            type.scale != known.scale || strcmp(names[i], native->schema.children[i]->name) != 0)
            return false;
    }
    return true;
}

static od_code make_schema(od_native *native, const char *const *names, duckdb_logical_type *types, size_t count,
                           od_error *err)
{
    od_code rc = od_schema_make(&native->schema, "", "+s", (int64_t)count, err);
    for (size_t i = 0; i < count && rc == OD_OK; i++)
        rc = od_native_field(names[i], names[i], types[i], &native->fields_buf, native->schema.children[i], err);
    native->fields = (const od_field *)(const void *)native->fields_buf.data;
    native->field_count = native->fields_buf.len / sizeof(od_field);
    native->column_count = count;
    native->types = od_calloc(count > 0 ? count : 1, sizeof *native->types);
    if (native->types == NULL && rc == OD_OK)
        rc = od_fail(err, OD_E_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < count && rc == OD_OK; i++)
        native->types[i] = type_of(types[i]);
    return rc;
}

static size_t spans_of(od_field_kind kind)
{
    return kind == OD_FIELD_TEXT ? 3 : kind == OD_FIELD_ARRAY || kind == OD_FIELD_STRUCT ? 1 : 2;
}

od_code od_native_create(const char *const *names, duckdb_logical_type *types, size_t count, od_native **out,
                         od_error *err)
{
    od_code rc = OD_OK;
    *out = NULL;
    od_native *native = od_calloc(1, sizeof *native);
    if (native == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    OD_TRY(make_schema(native, names, types, count, err));
    OD_TRY(od_ipc_writer_create(&native->schema, &native->writer, err));
    for (size_t i = 0; i < native->field_count; i++)
        native->span_count += spans_of(native->fields[i].kind);
    size_t n = native->field_count > 0 ? native->field_count : 1;
    native->states = od_calloc(n, sizeof *native->states);
    native->marks = od_calloc(n, sizeof *native->marks);
    native->column_bytes = od_calloc(n, sizeof *native->column_bytes);
    native->nodes = od_calloc(n, sizeof *native->nodes);
    native->spans = od_calloc(native->span_count + 1, sizeof *native->spans);
    if (native->states == NULL || native->marks == NULL || native->column_bytes == NULL || native->nodes == NULL ||
        native->spans == NULL)
        rc = od_fail(err, OD_E_NO_MEMORY, "out of memory");
    *out = native;
    native = NULL;
out:
    if (rc != OD_OK) {
        od_native_free(native != NULL ? native : *out);
        *out = NULL;
    }
    return rc;
}

static void forget_selections(od_native *native, size_t keep)
{
    while (native->selection_count > keep)
        od_free(native->selections[--native->selection_count]);
}

void od_native_free(od_native *native)
{
    if (native == NULL)
        return;
    forget_selections(native, 0);
    od_free(native->selections);
    od_ipc_writer_free(native->writer);
    od_schema_release(&native->schema);
    for (size_t i = 0; i < native->field_count && native->states != NULL; i++)
        od_free(native->states[i].segments);
    od_free(native->states);
    od_free(native->types);
    od_free(native->marks);
    od_free(native->column_bytes);
    od_free(native->nodes);
    od_free(native->spans);
    od_buf_release(&native->fields_buf);
    od_free(native);
}

const struct ArrowSchema *od_native_schema(const od_native *native)
{
    return &native->schema;
}

void od_native_reset(od_native *native)
{
    for (size_t i = 0; i < native->field_count; i++) {
        field_state *state = &native->states[i];
        state->segment_count = 0;
        state->length = state->nulls = 0;
        state->bytes = state->child_rows = 0;
    }
    native->rows = 0;
    native->body = 0;
    forget_selections(native, 0);
}

/* ---- measuring ---- */

static bool bit(const uint64_t *validity, size_t row)
{
    return validity == NULL || (validity[row / 64] >> (row % 64) & 1);
}

static uint32_t count_nulls(const uint64_t *validity, const uint32_t *sel, uint32_t first, uint32_t count)
{
    uint32_t nulls = 0;
    if (validity == NULL)
        return 0;
    if (sel != NULL) {
        for (uint32_t i = 0; i < count; i++)
            nulls += !bit(validity, sel[i]);
        return nulls;
    }
    uint32_t row = first, end = first + count;
    for (; row < end && row % 64 != 0; row++)
        nulls += !bit(validity, row);
    for (; row + 64 <= end; row += 64)
        nulls += (uint32_t)__builtin_popcountll(~validity[row / 64]);
    for (; row < end; row++)
        nulls += !bit(validity, row);
    return nulls;
}

static od_code push_segment(field_state *state, const segment *added, od_error *err)
{
    if (state->segment_count == state->segment_cap) {
        size_t cap = state->segment_cap ? state->segment_cap * 2 : 8;
        segment *grown = od_realloc(state->segments, cap * sizeof *grown);
        if (grown == NULL)
            return od_fail(err, OD_E_NO_MEMORY, "out of memory");
        state->segments = grown;
        state->segment_cap = cap;
    }
    state->segments[state->segment_count++] = *added;
    state->length += added->count;
    state->nulls += added->nulls;
    return OD_OK;
}

static uint32_t *new_selection(od_native *native, size_t count)
{
    if (native->selection_count == native->selection_cap) {
        size_t cap = native->selection_cap ? native->selection_cap * 2 : 8;
        uint32_t **grown = od_realloc(native->selections, cap * sizeof *grown);
        if (grown == NULL)
            return NULL;
        native->selections = grown;
        native->selection_cap = cap;
    }
    uint32_t *sel = od_alloc((count ? count : 1) * sizeof *sel);
    if (sel != NULL)
        native->selections[native->selection_count++] = sel;
    return sel;
}

static uint32_t row_of(const segment *rows, uint32_t i)
{
    return rows->sel != NULL ? rows->sel[i] : rows->first + i;
}

static size_t text_bytes(const segment *rows)
{
    const duckdb_string_t *text = rows->data;
    size_t sum = 0;
    if (rows->sel == NULL && rows->nulls == 0) {
        text += rows->first;
        for (uint32_t i = 0; i < rows->count; i++)
            sum += text[i].value.inlined.length;
        return sum;
    }
    for (uint32_t i = 0; i < rows->count; i++) {
        uint32_t row = row_of(rows, i);
        if (bit(rows->validity, row))
            sum += text[row].value.inlined.length;
    }
    return sum;
}

/* Makes CHILD the rows that the lists of ROWS name: a range if they lie one after another, else a selection. */
static od_code list_child(od_native *native, const segment *rows, segment *child, od_error *err)
{
    const duckdb_list_entry *lists = rows->data;
    uint64_t total = 0, start = 0;
    bool compact = true;
    for (uint32_t i = 0; i < rows->count; i++) {
        uint32_t row = row_of(rows, i);
        if (!bit(rows->validity, row) || lists[row].length == 0)
            continue;
        if (total == 0)
            start = lists[row].offset;
        compact = compact && lists[row].offset == start + total;
        total += lists[row].length;
    }
    if (total > INT32_MAX)
        return od_fail(err, OD_E_TOO_LARGE, "lists of %llu values in one payload", (unsigned long long)total);
    *child = (segment){.first = (uint32_t)start, .count = (uint32_t)total};
    if (compact)
        return OD_OK;
    uint32_t *sel = new_selection(native, total);
    if (sel == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    *child = (segment){.sel = sel, .count = (uint32_t)total};
    for (uint32_t i = 0; i < rows->count; i++) {
        uint32_t row = row_of(rows, i);
        if (bit(rows->validity, row))
            for (uint64_t k = 0; k < lists[row].length; k++)
                *sel++ = (uint32_t)(lists[row].offset + k);
    }
    return OD_OK;
}

static od_code array_child(od_native *native, const segment *rows, uint32_t width, segment *child, od_error *err)
{
    *child = (segment){.first = rows->first * width, .count = rows->count * width};
    if (rows->sel == NULL)
        return OD_OK;
    uint32_t *sel = new_selection(native, (size_t)rows->count * width);
    if (sel == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    *child = (segment){.sel = sel, .count = rows->count * width};
    for (uint32_t i = 0; i < rows->count; i++)
        for (uint32_t k = 0; k < width; k++)
            *sel++ = rows->sel[i] * width + k;
    return OD_OK;
}

/* NOLINTBEGIN(misc-no-recursion): as deep as the type, which native_type.c bounds */
/* Measures the rows that ROWS (first, count, sel) names in VECTOR as values of field INDEX, and what lies below. */
static od_code measure(od_native *native, size_t index, duckdb_vector vector, segment rows, od_error *err)
{
    const od_field *field = &native->fields[index];
    field_state *state = &native->states[index];
    od_code rc;
    rows.data = duckdb_vector_get_data(vector);
    rows.validity = duckdb_vector_get_validity(vector);
    rows.nulls =
        field->kind == OD_FIELD_NULL ? rows.count : count_nulls(rows.validity, rows.sel, rows.first, rows.count);
    if (rows.nulls == 0)
        rows.validity = NULL;
    rc = push_segment(state, &rows, err);
    if (rc != OD_OK || rows.count == 0)
        return rc;
    segment child = {0};
    switch (field->kind) {
    case OD_FIELD_TEXT:
        state->bytes += text_bytes(&rows);
        return OD_OK;
    case OD_FIELD_LIST:
        rc = list_child(native, &rows, &child, err);
        state->child_rows += child.count;
        return rc == OD_OK ? measure(native, index + 1, duckdb_list_vector_get_child(vector), child, err) : rc;
    case OD_FIELD_ARRAY:
        rc = array_child(native, &rows, field->width, &child, err);
        return rc == OD_OK ? measure(native, index + 1, duckdb_array_vector_get_child(vector), child, err) : rc;
    case OD_FIELD_STRUCT: {
        size_t at = index + 1;
        child = (segment){.sel = rows.sel, .first = rows.first, .count = rows.count};
        for (uint32_t i = 0; i < field->child_count && rc == OD_OK; i++) {
            rc = measure(native, at, duckdb_struct_vector_get_child(vector, i), child, err);
            at = native->fields[at].next;
        }
        return rc;
    }
    default:
        return OD_OK;
    }
}
/* NOLINTEND(misc-no-recursion) */

/* Lays out the buffers of field INDEX from *at on. */
static void span_field(const od_native *native, size_t index, od_ipc_span *spans, size_t *at)
{
    const od_field *field = &native->fields[index];
    const field_state *state = &native->states[index];
    size_t n = (size_t)state->length, sizes[3] = {state->nulls > 0 ? (n + 7) / 8 : 0, 0, 0};
    switch (field->kind) {
    case OD_FIELD_FIXED:
    case OD_FIELD_NULL:
        sizes[1] = n * field->width;
        break;
    case OD_FIELD_TEXT:
        sizes[2] = state->bytes; /* fall through */
    case OD_FIELD_LIST:
        sizes[1] = (n + 1) * sizeof(int32_t);
        break;
    default:
        break;
    }
    for (size_t i = 0; i < spans_of(field->kind); i++) {
        if (spans != NULL)
            spans[i] = (od_ipc_span){(int64_t)*at, (int64_t)sizes[i]};
        *at += pad64(sizes[i]);
    }
}

od_code od_native_add(od_native *native, duckdb_data_chunk chunk, idx_t first, idx_t count, od_error *err)
{
    od_code rc = OD_OK;
    native->rows_mark = native->rows;
    for (size_t i = 0; i < native->field_count; i++) {
        const field_state *state = &native->states[i];
        native->marks[i] =
            (field_mark){state->segment_count, state->length, state->nulls, state->bytes, state->child_rows};
    }
    segment rows = {.first = (uint32_t)first, .count = (uint32_t)count};
    size_t index = 0;
    for (size_t i = 0; i < native->column_count && rc == OD_OK; i++) {
        size_t before = 0, after = 0, end = native->fields[index].next;
        for (size_t k = index; k < end; k++)
            span_field(native, k, NULL, &before);
        rc = measure(native, index, duckdb_data_chunk_get_vector(chunk, i), rows, err);
        for (size_t k = index; k < end; k++)
            span_field(native, k, NULL, &after);
        native->column_bytes[i] = after - before;
        index = end;
    }
    native->rows += (int64_t)count;
    native->body = 0;
    for (size_t i = 0; i < native->field_count; i++)
        span_field(native, i, NULL, &native->body);
    if (rc != OD_OK)
        od_native_drop(native);
    return rc;
}

void od_native_drop(od_native *native)
{
    native->rows = native->rows_mark;
    native->body = 0;
    for (size_t i = 0; i < native->field_count; i++) {
        field_state *state = &native->states[i];
        state->segment_count = native->marks[i].segment_count;
        state->length = native->marks[i].length;
        state->nulls = native->marks[i].nulls;
        state->bytes = native->marks[i].bytes;
        state->child_rows = native->marks[i].child_rows;
        span_field(native, i, NULL, &native->body);
    }
}

size_t od_native_size(const od_native *native)
{
    return od_ipc_writer_layout_size(native->writer, native->field_count, native->span_count, native->body);
}

const char *od_native_widest(const od_native *native)
{
    size_t widest = 0;
    for (size_t i = 1; i < native->column_count; i++)
        if (native->column_bytes[i] > native->column_bytes[widest])
            widest = i;
    return native->column_count > 0 ? native->schema.children[widest]->name : "";
}

/* ---- writing ---- */

/* Sets bits [at, at + count) of BITS, which are zero, to those of the rows. */
static void write_bits(uint8_t *bits, size_t at, const segment *rows)
{
    if (rows->sel == NULL && rows->validity == NULL) {
        uint32_t i = 0;
        for (; i < rows->count && (at + i) % 8 != 0; i++)
            bits[(at + i) / 8] |= (uint8_t)(1U << ((at + i) % 8));
        uint32_t whole = (rows->count - i) / 8;
        memset(bits + (at + i) / 8, 0xff, whole);
        for (i += whole * 8; i < rows->count; i++)
            bits[(at + i) / 8] |= (uint8_t)(1U << ((at + i) % 8));
        return;
    }
    if (rows->sel == NULL && at % 8 == 0 && rows->first % 64 == 0) {
        const uint8_t *from = (const uint8_t *)rows->validity + rows->first / 8;
        memcpy(bits + at / 8, from, rows->count / 8);
        if (rows->count % 8 != 0)
            bits[(at + rows->count) / 8] = (uint8_t)(from[rows->count / 8] & ((1U << (rows->count % 8)) - 1));
        return;
    }
    for (uint32_t i = 0; i < rows->count; i++)
        if (bit(rows->validity, row_of(rows, i)))
            bits[(at + i) / 8] |= (uint8_t)(1U << ((at + i) % 8));
}

static void write_validity(const field_state *state, od_field_kind kind, uint8_t *to, size_t len)
{
    memset(to, 0, pad64(len));
    size_t at = 0;
    for (size_t i = 0; i < state->segment_count && kind != OD_FIELD_NULL; i++) {
        write_bits(to, at, &state->segments[i]);
        at += state->segments[i].count;
    }
}

static void gather(const uint8_t *from, const uint32_t *sel, uint32_t count, uint32_t width, uint8_t *to)
{
    for (uint32_t i = 0; i < count; i++)
        memcpy(to + (size_t)i * width, from + (size_t)sel[i] * width, width);
}

static void write_fixed(const field_state *state, uint32_t width, uint8_t *to)
{
    for (size_t i = 0; i < state->segment_count; i++) {
        const segment *rows = &state->segments[i];
        size_t len = (size_t)rows->count * width;
        if (rows->sel != NULL)
            gather(rows->data, rows->sel, rows->count, width, to);
        else if (len > 0)
            memcpy(to, (const uint8_t *)rows->data + (size_t)rows->first * width, len);
        to += len;
    }
}

/* Copies a text of LEN bytes; may write up to 15 bytes more if ROOM says that so many are there. */
static inline void copy_text(uint8_t *to, const duckdb_string_t *text, size_t len, bool room)
{
    if (len <= 12) {
        if (room)
            memcpy(to, text->value.inlined.inlined, 12);
        else
            memcpy(to, text->value.inlined.inlined, len);
        return;
    }
    const char *from = text->value.pointer.ptr;
    if (len <= 16) {
        memcpy(to, from, 8);
        memcpy(to + len - 8, from + len - 8, 8);
    } else if (len <= 32) {
        memcpy(to, from, 16);
        memcpy(to + len - 16, from + len - 16, 16);
    } else if (len <= 64) {
        memcpy(to, from, 32);
        memcpy(to + len - 32, from + len - 32, 32);
    } else {
        memcpy(to, from, len);
    }
}

static uint8_t *write_text_plain(const segment *rows, int32_t *offsets, uint8_t *start, uint8_t *at, const uint8_t *end)
{
    const duckdb_string_t *text = (const duckdb_string_t *)rows->data + rows->first;
    for (uint32_t i = 0; i < rows->count; i++) {
        size_t len = text[i].value.inlined.length;
        copy_text(at, &text[i], len, end - at >= 16);
        at += len;
        offsets[i] = (int32_t)(at - start);
    }
    return at;
}

static uint8_t *write_text_any(const segment *rows, int32_t *offsets, uint8_t *start, uint8_t *at, const uint8_t *end)
{
    const duckdb_string_t *text = rows->data;
    for (uint32_t i = 0; i < rows->count; i++) {
        uint32_t row = row_of(rows, i);
        if (bit(rows->validity, row)) {
            size_t len = text[row].value.inlined.length;
            copy_text(at, &text[row], len, end - at >= 16);
            at += len;
        }
        offsets[i] = (int32_t)(at - start);
    }
    return at;
}

static void write_text(const field_state *state, int32_t *offsets, uint8_t *bytes)
{
    uint8_t *at = bytes;
    *offsets++ = 0;
    for (size_t i = 0; i < state->segment_count; i++) {
        const segment *rows = &state->segments[i];
        bool plain = rows->sel == NULL && rows->validity == NULL;
        at = (plain ? write_text_plain : write_text_any)(rows, offsets, bytes, at, bytes + state->bytes);
        offsets += rows->count;
    }
}

static void write_lists(const field_state *state, int32_t *offsets)
{
    int32_t at = 0;
    *offsets++ = 0;
    for (size_t i = 0; i < state->segment_count; i++) {
        const segment *rows = &state->segments[i];
        const duckdb_list_entry *lists = rows->data;
        for (uint32_t k = 0; k < rows->count; k++) {
            uint32_t row = row_of(rows, k);
            if (bit(rows->validity, row))
                at += (int32_t)lists[row].length;
            *offsets++ = at;
        }
    }
}

static void write_field(const od_field *field, const field_state *state, const od_ipc_span *spans, uint8_t *body)
{
    if (spans[0].length > 0)
        write_validity(state, field->kind, body + spans[0].offset, (size_t)spans[0].length);
    switch (field->kind) {
    case OD_FIELD_FIXED:
        write_fixed(state, field->width, body + spans[1].offset);
        break;
    case OD_FIELD_NULL:
        memset(body + spans[1].offset, 0, (size_t)spans[1].length);
        break;
    case OD_FIELD_TEXT:
        write_text(state, (int32_t *)(void *)(body + spans[1].offset), body + spans[2].offset);
        break;
    case OD_FIELD_LIST:
        write_lists(state, (int32_t *)(void *)(body + spans[1].offset));
        break;
    default:
        break;
    }
    for (size_t i = 1; i < spans_of(field->kind); i++) {
        size_t len = (size_t)spans[i].length;
        memset(body + spans[i].offset + len, 0, pad64(len) - len);
    }
}

od_code od_native_write(od_native *native, od_msg **out, od_error *err)
{
    if (native->rows == 0)
        return od_ipc_writer_empty(native->writer, out, err);
    size_t body = 0, at = 0, body_at;
    od_ipc_span *spans = native->spans;
    for (size_t i = 0; i < native->field_count; i++) {
        native->nodes[i] = (od_ipc_node){native->states[i].length, native->states[i].nulls};
        span_field(native, i, spans, &body);
        spans += spans_of(native->fields[i].kind);
    }
    od_ipc_layout layout = {native->rows, native->nodes, native->field_count, native->spans, native->span_count, body};
    od_code rc = od_ipc_writer_layout(native->writer, &layout, out, &body_at, err);
    if (rc != OD_OK)
        return rc;
    uint8_t *bytes = od_msg_data(*out) + body_at;
    for (size_t i = 0; i < native->field_count; i++) {
        write_field(&native->fields[i], &native->states[i], native->spans + at, bytes);
        at += spans_of(native->fields[i].kind);
    }
    od_native_reset(native);
    return OD_OK;
}

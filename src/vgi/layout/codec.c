/* A layout as openduck.v1.DatabaseLayout. */
#include "vgi/layout/layout_internal.h"

#include <string.h>

#include "base/alloc.h"
#include "base/pb.h"
#include "base/banned.h"

enum { COMPANIONS = 1, TABLES };
enum { ALIAS = 1, TARGET, DB_TYPE, SECRET_REF, HIDDEN, OPTIONAL, OPTIONS };
enum { OPTION_KEY = 1, OPTION_VALUE };
enum { TABLE_NAME = 1, COMMENT, SPLIT, EXTENSIONS, BRANCHES };
enum { FROM = 1, FORMAT, LOCATIONS, CONDITION };

/* ---- writing ---- */

static od_code put(od_buf *out, uint32_t field, od_slice bytes, od_error *err)
{
    od_code rc = od_buf_reserve(out, bytes.len + PB_FIELD_MAX, err);

    if (rc == OD_OK)
        out->len = (size_t)(pb_put_bytes_always(out->data + out->len, field, bytes) - out->data);
    return rc;
}

/* NULL and empty are left out. */
static od_code put_text(od_buf *out, uint32_t field, const char *text, od_error *err)
{
    return text != NULL && text[0] != '\0' ? put(out, field, od_slice_str(text), err) : OD_OK;
}

static od_code put_flag(od_buf *out, uint32_t field, bool flag, od_error *err)
{
    od_code rc = od_buf_reserve(out, PB_FIELD_MAX, err);

    if (rc == OD_OK)
        out->len = (size_t)(pb_put_number(out->data + out->len, field, flag) - out->data);
    return rc;
}

static od_code put_texts(od_buf *out, uint32_t field, char *const *texts, size_t count, od_error *err)
{
    od_code rc = OD_OK;

    for (size_t i = 0; i < count && rc == OD_OK; i++)
        rc = put(out, field, od_slice_str(texts[i]), err);
    return rc;
}

/* Appends FIELD, the message that WRITE makes of ITEM. */
static od_code put_message(od_buf *out, uint32_t field, od_code (*write)(const void *item, od_buf *out, od_error *err),
                           const void *item, od_error *err)
{
    od_buf inner = {0};
    od_code rc = write(item, &inner, err);

    if (rc == OD_OK)
        rc = put(out, field, od_slice_of(inner.data, inner.len), err);
    od_buf_release(&inner);
    return rc;
}

static od_code write_option(const void *item, od_buf *out, od_error *err)
{
    const od_layout_option *option = item;
    od_code rc = put_text(out, OPTION_KEY, option->name, err);

    return rc == OD_OK ? put_text(out, OPTION_VALUE, option->value, err) : rc;
}

static od_code write_companion(const void *item, od_buf *out, od_error *err)
{
    const od_layout_companion *c = item;
    od_code rc;

    OD_TRY(put_text(out, ALIAS, c->alias, err));
    OD_TRY(put_text(out, TARGET, c->target, err));
    OD_TRY(put_text(out, DB_TYPE, c->type, err));
    OD_TRY(put_text(out, SECRET_REF, c->secret, err));
    OD_TRY(put_flag(out, HIDDEN, c->hidden, err));
    OD_TRY(put_flag(out, OPTIONAL, c->optional, err));
    for (size_t i = 0; i < OD_LAYOUT_COUNT(c->options, od_layout_option); i++)
        OD_TRY(put_message(out, OPTIONS, write_option, OD_LAYOUT_AT(c->options, od_layout_option, i), err));
out:
    return rc;
}

static od_code write_branch(const void *item, od_buf *out, od_error *err)
{
    const od_layout_branch *b = item;
    od_code rc;

    OD_TRY(put_texts(out, FROM, b->from.parts, b->from.count, err));
    OD_TRY(put_text(out, FORMAT, b->format, err));
    OD_TRY(
        put_texts(out, LOCATIONS, OD_LAYOUT_AT(b->locations, char *, 0), OD_LAYOUT_COUNT(b->locations, char *), err));
    OD_TRY(put_text(out, CONDITION, b->where, err));
out:
    return rc;
}

static od_code write_table(const void *item, od_buf *out, od_error *err)
{
    const od_layout_table *t = item;
    od_code rc;

    OD_TRY(put_texts(out, TABLE_NAME, t->name.parts, t->name.count, err));
    OD_TRY(put_text(out, COMMENT, t->comment, err));
    OD_TRY(put_text(out, SPLIT, t->split, err));
    OD_TRY(put_texts(out, EXTENSIONS, OD_LAYOUT_AT(t->extensions, char *, 0), OD_LAYOUT_COUNT(t->extensions, char *),
                     err));
    for (size_t i = 0; i < OD_LAYOUT_COUNT(t->branches, od_layout_branch); i++)
        OD_TRY(put_message(out, BRANCHES, write_branch, OD_LAYOUT_AT(t->branches, od_layout_branch, i), err));
out:
    return rc;
}

od_code od_layout_encode(const od_layout *layout, od_buf *out, od_error *err)
{
    od_code rc = OD_OK;

    for (size_t i = 0; i < OD_LAYOUT_COUNT(layout->companions, od_layout_companion); i++)
        OD_TRY(put_message(out, COMPANIONS, write_companion, OD_LAYOUT_AT(layout->companions, od_layout_companion, i),
                           err));
    for (size_t i = 0; i < OD_LAYOUT_COUNT(layout->tables, od_layout_table); i++)
        OD_TRY(put_message(out, TABLES, write_table, OD_LAYOUT_AT(layout->tables, od_layout_table, i), err));
out:
    return rc;
}

/* ---- reading ---- */

static od_code take_text(const pb_field *field, char **out, od_error *err)
{
    od_slice text;
    od_code rc = pb_text(field, "a text of a layout", &text, err);

    if (rc != OD_OK)
        return rc;
    od_free(*out);
    *out = od_strndup((const char *)text.data, text.len);
    return *out != NULL ? OD_OK : od_fail(err, OD_E_NO_MEMORY, "out of memory");
}

static od_code take_item(const pb_field *field, od_buf *list, od_error *err)
{
    char *text = NULL;
    od_code rc = take_text(field, &text, err);

    if (rc == OD_OK)
        rc = layout_add_text(list, text, err);
    od_free(text);
    return rc;
}

static od_code take_part(const pb_field *field, od_layout_name *name, od_error *err)
{
    od_code rc;

    if (name->count == OD_LAYOUT_PARTS)
        return od_fail(err, OD_E_PROTOCOL, "a name of a layout has too many parts");
    rc = take_text(field, &name->parts[name->count], err);
    if (rc == OD_OK)
        name->count++;
    return rc;
}

/* Shows TAKE each field of BYTES that carries bytes or a number. */
static od_code each_field(od_slice bytes, od_code (*take)(void *to, const pb_field *field, od_error *err), void *to,
                          od_error *err)
{
    pb_reader reader = pb_reader_of(bytes);
    pb_field field;
    od_code rc;

    while (pb_next(&reader, &field, &rc, err)) {
        if (field.type == PB_BYTES || field.type == PB_VARINT)
            rc = take(to, &field, err);
        if (rc != OD_OK)
            return rc;
    }
    return rc;
}

static od_code take_option(void *to, const pb_field *field, od_error *err)
{
    od_layout_option *option = to;

    if (field->type == PB_BYTES && field->field == OPTION_KEY)
        return take_text(field, &option->name, err);
    if (field->type == PB_BYTES && field->field == OPTION_VALUE)
        return take_text(field, &option->value, err);
    return OD_OK;
}

static od_code take_companion(void *to, const pb_field *field, od_error *err)
{
    od_layout_companion *c = to;
    od_layout_option *option;
    od_code rc;

    if (field->type == PB_VARINT) {
        c->hidden = field->field == HIDDEN ? field->number != 0 : c->hidden;
        c->optional = field->field == OPTIONAL ? field->number != 0 : c->optional;
        return OD_OK;
    }
    switch (field->field) {
    case ALIAS:
        return take_text(field, &c->alias, err);
    case TARGET:
        return take_text(field, &c->target, err);
    case DB_TYPE:
        return take_text(field, &c->type, err);
    case SECRET_REF:
        return take_text(field, &c->secret, err);
    case OPTIONS:
        rc = layout_add_item(&c->options, sizeof *option, (void *)&option, err);
        return rc == OD_OK ? each_field(field->bytes, take_option, option, err) : rc;
    default:
        return OD_OK;
    }
}

static od_code take_branch(void *to, const pb_field *field, od_error *err)
{
    od_layout_branch *b = to;

    if (field->type != PB_BYTES)
        return OD_OK;
    switch (field->field) {
    case FROM:
        return take_part(field, &b->from, err);
    case FORMAT:
        return take_text(field, &b->format, err);
    case LOCATIONS:
        return take_item(field, &b->locations, err);
    case CONDITION:
        return take_text(field, &b->where, err);
    default:
        return OD_OK;
    }
}

static od_code take_table(void *to, const pb_field *field, od_error *err)
{
    od_layout_table *t = to;
    od_layout_branch *branch;
    od_code rc;

    if (field->type != PB_BYTES)
        return OD_OK;
    switch (field->field) {
    case TABLE_NAME:
        return take_part(field, &t->name, err);
    case COMMENT:
        return take_text(field, &t->comment, err);
    case SPLIT:
        return take_text(field, &t->split, err);
    case EXTENSIONS:
        return take_item(field, &t->extensions, err);
    case BRANCHES:
        rc = layout_add_item(&t->branches, sizeof *branch, (void *)&branch, err);
        return rc == OD_OK ? each_field(field->bytes, take_branch, branch, err) : rc;
    default:
        return OD_OK;
    }
}

static od_code take_layout(void *to, const pb_field *field, od_error *err)
{
    od_layout *layout = to;
    od_layout_companion *companion;
    od_layout_table *table;
    od_code rc;

    if (field->type == PB_BYTES && field->field == COMPANIONS) {
        rc = layout_add_item(&layout->companions, sizeof *companion, (void *)&companion, err);
        return rc == OD_OK ? each_field(field->bytes, take_companion, companion, err) : rc;
    }
    if (field->type == PB_BYTES && field->field == TABLES) {
        rc = layout_add_item(&layout->tables, sizeof *table, (void *)&table, err);
        return rc == OD_OK ? each_field(field->bytes, take_table, table, err) : rc;
    }
    return OD_OK;
}

od_code od_layout_decode(od_slice bytes, od_layout *out, od_error *err)
{
    od_code rc = each_field(bytes, take_layout, out, err);

    for (size_t i = 0; rc == OD_OK && i < OD_LAYOUT_COUNT(out->companions, od_layout_companion); i++)
        if (OD_LAYOUT_AT(out->companions, od_layout_companion, i)->alias == NULL)
            return od_fail(err, OD_E_PROTOCOL, "a companion of a layout has no name");
    for (size_t i = 0; rc == OD_OK && i < OD_LAYOUT_COUNT(out->tables, od_layout_table); i++) {
        const od_layout_table *table = OD_LAYOUT_AT(out->tables, od_layout_table, i);

        if (table->name.count == 0 || table->name.count > 2)
            return od_fail(err, OD_E_PROTOCOL, "a table of a layout has no name, or one of three parts");
    }
    return rc;
}

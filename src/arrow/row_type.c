#include <string.h>

#include "arrow/row_internal.h"

#include "base/banned.h"

enum { MAX_DEPTH = 8, MAX_NAME = 64 };

/* NOLINTBEGIN(misc-no-recursion): no deeper than MAX_DEPTH */
static ArrowErrorCode make(const char **type, int depth, struct ArrowSchema *out);

/* A field called NAME in FIELD, which is initialised. */
static ArrowErrorCode make_named(const char **type, int depth, const char *name, struct ArrowSchema *field)
{
    NANOARROW_RETURN_NOT_OK(make(type, depth + 1, field));
    return ArrowSchemaSetName(field, name);
}

static ArrowErrorCode make_list(const char **type, int depth, struct ArrowSchema *out)
{
    NANOARROW_RETURN_NOT_OK(ArrowSchemaSetFormat(out, "+l"));
    NANOARROW_RETURN_NOT_OK(ArrowSchemaAllocateChildren(out, 1));
    ArrowSchemaInit(out->children[0]);
    return make_named(type, depth, "item", out->children[0]);
}

static ArrowErrorCode make_map(const char **type, int depth, struct ArrowSchema *out)
{
    struct ArrowSchema *entries;

    NANOARROW_RETURN_NOT_OK(ArrowSchemaSetFormat(out, "+m"));
    NANOARROW_RETURN_NOT_OK(ArrowSchemaAllocateChildren(out, 1));
    entries = out->children[0];
    ArrowSchemaInit(entries);
    NANOARROW_RETURN_NOT_OK(ArrowSchemaSetFormat(entries, "+s"));
    NANOARROW_RETURN_NOT_OK(ArrowSchemaSetName(entries, "entries"));
    entries->flags &= ~ARROW_FLAG_NULLABLE;
    NANOARROW_RETURN_NOT_OK(ArrowSchemaAllocateChildren(entries, 2));
    ArrowSchemaInit(entries->children[0]);
    ArrowSchemaInit(entries->children[1]);
    NANOARROW_RETURN_NOT_OK(make_named(type, depth, "key", entries->children[0]));
    return make_named(type, depth, "value", entries->children[1]);
}

static ArrowErrorCode make_dictionary(const char **type, int depth, struct ArrowSchema *out)
{
    NANOARROW_RETURN_NOT_OK(make(type, depth + 1, out));
    NANOARROW_RETURN_NOT_OK(ArrowSchemaAllocateDictionary(out));
    ArrowSchemaInit(out->dictionary);
    return make(type, depth + 1, out->dictionary);
}

/* How many fields there are before the bracket that closes. */
static int64_t count_fields(const char *type)
{
    int64_t n = 1;
    int open = 0;

    for (; *type != '\0' && !(open == 0 && *type == ')'); type++) {
        open += (*type == '(') - (*type == ')');
        n += open == 0 && *type == ',';
    }
    return n;
}

static ArrowErrorCode make_struct(const char **type, int depth, struct ArrowSchema *out)
{
    int64_t n = count_fields(*type);

    NANOARROW_RETURN_NOT_OK(ArrowSchemaSetFormat(out, "+s"));
    NANOARROW_RETURN_NOT_OK(ArrowSchemaAllocateChildren(out, n));
    for (int64_t i = 0; i < n; i++)
        ArrowSchemaInit(out->children[i]);
    for (int64_t i = 0; i < n; i++) {
        char name[MAX_NAME];
        size_t len = strcspn(*type, ":");

        if (len >= sizeof name || (*type)[len] != ':')
            return EINVAL;
        memcpy(name, *type, len);
        name[len] = '\0';
        *type += len + 1;
        NANOARROW_RETURN_NOT_OK(make_named(type, depth, name, out->children[i]));
        if (**type != (i + 1 < n ? ',' : ')'))
            return EINVAL;
        ++*type;
    }
    return NANOARROW_OK;
}

static ArrowErrorCode make(const char **type, int depth, struct ArrowSchema *out)
{
    char format[] = {0, '\0'};
    ArrowErrorCode rc;

    if (depth > MAX_DEPTH)
        return EINVAL;
    format[0] = *(*type)++;
    switch (format[0]) {
    case '!':
        rc = make(type, depth + 1, out);
        out->flags &= ~ARROW_FLAG_NULLABLE;
        return rc;
    case '[':
        return make_list(type, depth, out);
    case '{':
        return make_map(type, depth, out);
    case '<':
        return make_dictionary(type, depth, out);
    case '(':
        return make_struct(type, depth, out);
    case '@':
        return ArrowSchemaSetFormat(out, "tsu:UTC");
    default:
        return format[0] != '\0' && strchr("bcsilCSILfguUzZ", format[0]) != NULL ? ArrowSchemaSetFormat(out, format)
                                                                                 : EINVAL;
    }
}
/* NOLINTEND(misc-no-recursion) */

ArrowErrorCode od_row_type_make(const char *type, struct ArrowSchema *out)
{
    ArrowErrorCode rc;

    ArrowSchemaInit(out);
    rc = make(&type, 0, out);
    if (rc == NANOARROW_OK && *type != '\0')
        rc = EINVAL;
    if (rc != NANOARROW_OK)
        ArrowSchemaRelease(out);
    return rc;
}

#include "arrow/schema.h"

#include <string.h>

#include <nanoarrow/nanoarrow.h>

#include "base/banned.h"

static od_code made(ArrowErrorCode na, od_error *err)
{
    if (na == NANOARROW_OK)
        return OD_OK;
    return na == ENOMEM ? od_fail(err, OD_E_NO_MEMORY, "out of memory")
                        : od_fail(err, OD_E_INTERNAL, "arrow: a schema cannot be made");
}

od_code od_schema_make(struct ArrowSchema *out, const char *name, const char *format, int64_t child_count,
                       od_error *err)
{
    ArrowSchemaInit(out);
    ArrowErrorCode na = ArrowSchemaSetFormat(out, format);
    if (na == NANOARROW_OK)
        na = ArrowSchemaSetName(out, name);
    if (na == NANOARROW_OK && child_count > 0)
        na = ArrowSchemaAllocateChildren(out, child_count);
    if (na != NANOARROW_OK)
        ArrowSchemaRelease(out);
    return made(na, err);
}

od_code od_schema_copy(const struct ArrowSchema *schema, struct ArrowSchema *out, od_error *err)
{
    return made(ArrowSchemaDeepCopy(schema, out), err);
}

od_code od_schema_empty_array(const struct ArrowSchema *schema, struct ArrowArray *out, od_error *err)
{
    ArrowErrorCode na = ArrowArrayInitFromSchema(out, schema, NULL);
    if (na != NANOARROW_OK) {
        out->release = NULL;
        return made(na, err);
    }
    na = ArrowArrayStartAppending(out);
    if (na == NANOARROW_OK)
        na = ArrowArrayFinishBuildingDefault(out, NULL);
    if (na != NANOARROW_OK)
        ArrowArrayRelease(out);
    return made(na, err);
}

od_code od_schema_rename(struct ArrowSchema *field, const char *name, od_error *err)
{
    return made(ArrowSchemaSetName(field, name), err);
}

/* A decimal of 128 bits has two spellings: "d:18,4" and "d:18,4,128". */
static bool same_format(const char *a, const char *b)
{
    static const char wide[] = ",128";
    size_t la = strlen(a), lb = strlen(b), n = strlen(wide);

    if (strncmp(a, "d:", 2) == 0 && strncmp(b, "d:", 2) == 0) {
        la -= la > n && strcmp(a + la - n, wide) == 0 ? n : 0;
        lb -= lb > n && strcmp(b + lb - n, wide) == 0 ? n : 0;
    }
    return la == lb && memcmp(a, b, la) == 0;
}

/* NOLINTBEGIN(misc-no-recursion): as deep as the schemas */
static bool same_type(const struct ArrowSchema *a, const struct ArrowSchema *b)
{
    if (!same_format(a->format, b->format) || a->n_children != b->n_children ||
        (a->dictionary == NULL) != (b->dictionary == NULL))
        return false;
    if (a->dictionary != NULL && !same_type(a->dictionary, b->dictionary))
        return false;
    for (int64_t i = 0; i < a->n_children; i++) {
        const char *left = a->children[i]->name, *right = b->children[i]->name;

        /* What a list's or a map's parts are called means nothing. */
        if (a->format[0] == '+' && a->format[1] == 's' && strcmp(left ? left : "", right ? right : "") != 0)
            return false;
        if (!same_type(a->children[i], b->children[i]))
            return false;
    }
    return true;
}
/* NOLINTEND(misc-no-recursion) */

bool od_schema_same(const struct ArrowSchema *a, const struct ArrowSchema *b)
{
    return same_type(a, b);
}

od_code od_schema_set_metadata(struct ArrowSchema *field, const char *key, od_slice value, od_error *err)
{
    struct ArrowBuffer metadata;
    struct ArrowStringView text = {(const char *)value.data, (int64_t)value.len};
    ArrowErrorCode na = ArrowMetadataBuilderInit(&metadata, field->metadata);
    if (na == NANOARROW_OK)
        na = ArrowMetadataBuilderSet(&metadata, ArrowCharView(key), text);
    if (na == NANOARROW_OK)
        na = ArrowSchemaSetMetadata(field, (const char *)metadata.data);
    ArrowBufferReset(&metadata);
    return made(na, err);
}

void od_schema_release(struct ArrowSchema *schema)
{
    if (schema->release != NULL)
        schema->release(schema);
}

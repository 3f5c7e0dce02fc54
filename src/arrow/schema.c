#include "arrow/schema.h"

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

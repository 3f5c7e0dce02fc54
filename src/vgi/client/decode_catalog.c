/* Catalogs and schemas. */
#include "vgi/client/decode.h"

#include "base/banned.h"

static od_code read_option(od_vgi_answer *answer, const od_record *record, void *item, od_error *err)
{
    od_vgi_option_spec *option = item;
    od_code rc;

    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "name"), &option->name, err));
    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "description"), &option->description, err));
    OD_TRY(od_vgi_answer_schema(answer, od_vgi_cell(record, "type"), &option->type, err));
    OD_TRY(od_vgi_answer_values(answer, od_vgi_cell(record, "default_value"), &option->default_value, err));
    OD_TRY(od_cell_bool(od_vgi_cell(record, "required"), &option->required, err));
    OD_TRY(od_cell_bool(od_vgi_cell(record, "secret"), &option->secret, err));
    if (option->name.len == 0 || option->type.release == NULL || option->type.n_children != 1)
        rc = od_fail(err, OD_E_CORRUPT, "an option without a name and one type");
out:
    return rc;
}

static od_code read_catalog(od_vgi_answer *answer, const od_record *record, void *item, od_error *err)
{
    od_vgi_catalog_info *info = item;
    od_code rc;

    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "name"), &info->name, err));
    OD_TRY(
        od_vgi_answer_text(answer, od_vgi_cell(record, "implementation_version"), &info->implementation_version, err));
    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "data_version_spec"), &info->data_version_spec, err));
    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "source_url"), &info->source_url, err));
    OD_TRY(od_vgi_answer_items(answer, od_vgi_cell(record, "attach_option_specs"), read_option, sizeof *info->options,
                               &info->option_count, (void *)&info->options, err));
out:
    return rc;
}

od_code od_vgi_decode_catalogs(od_slice bytes, od_vgi_catalogs *out, od_error *err)
{
    *out = (od_vgi_catalogs){0};
    return od_vgi_decode_items(bytes, read_catalog, sizeof *out->items, &out->answer, &out->count, (void *)&out->items,
                               err);
}

/* ---- an attached catalog ---- */

static od_code read_companion(od_vgi_answer *answer, const od_record *record, void *item, od_error *err)
{
    od_vgi_companion *companion = item;
    od_code rc;

    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "alias"), &companion->alias, err));
    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "target"), &companion->target, err));
    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "db_type"), &companion->db_type, err));
    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "secret_ref"), &companion->secret_ref, err));
    OD_TRY(od_vgi_answer_pairs(answer, od_vgi_cell(record, "options"), &companion->options, err));
    OD_TRY(od_cell_bool(od_vgi_cell(record, "hidden"), &companion->hidden, err));
    OD_TRY(od_cell_bool(od_vgi_cell(record, "required"), &companion->required, err));
    if (companion->alias.len == 0 || companion->target.len == 0)
        rc = od_fail(err, OD_E_CORRUPT, "a companion catalog without an alias or a target");
    companion->db_type = od_vgi_text_or(companion->db_type, "");
    companion->secret_ref = od_vgi_text_or(companion->secret_ref, "");
out:
    return rc;
}

static od_code read_secret_type(od_vgi_answer *answer, const od_record *record, void *item, od_error *err)
{
    od_vgi_secret_type *type = item;
    od_code rc;

    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "name"), &type->name, err));
    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "description"), &type->description, err));
    OD_TRY(od_vgi_answer_schema(answer, od_vgi_cell(record, "parameters_schema"), &type->parameters, err));
    if (type->name.len == 0 || type->parameters.release == NULL)
        rc = od_fail(err, OD_E_CORRUPT, "a secret type without a name or a schema");
out:
    return rc;
}

static od_code read_attached_flags(const od_record *record, od_vgi_attached *out, od_error *err)
{
    od_code rc;

    OD_TRY(od_cell_bool(od_vgi_cell(record, "supports_transactions"), &out->supports_transactions, err));
    OD_TRY(od_cell_bool(od_vgi_cell(record, "supports_time_travel"), &out->supports_time_travel, err));
    OD_TRY(od_cell_bool(od_vgi_cell(record, "supports_column_statistics"), &out->supports_column_statistics, err));
    OD_TRY(od_cell_bool(od_vgi_cell(record, "supports_catalog_contents"), &out->supports_contents, err));
    OD_TRY(od_cell_bool(od_vgi_cell(record, "catalog_version_frozen"), &out->version_frozen, err));
    OD_TRY(od_cell_int(od_vgi_cell(record, "catalog_version"), &out->version, err));
out:
    return rc;
}

static od_code read_attached(od_vgi_answer *a, const od_record *record, void *item, od_error *err)
{
    od_vgi_attached *out = item;
    od_code rc;

    OD_TRY(read_attached_flags(record, out, err));
    OD_TRY(od_vgi_answer_text(a, od_vgi_cell(record, "attach_opaque_data"), &out->opaque, err));
    OD_TRY(od_vgi_answer_text(a, od_vgi_cell(record, "default_schema"), &out->default_schema, err));
    OD_TRY(od_vgi_answer_text(a, od_vgi_cell(record, "comment"), &out->comment, err));
    OD_TRY(od_vgi_answer_text(a, od_vgi_cell(record, "resolved_data_version"), &out->resolved_data_version, err));
    OD_TRY(od_vgi_answer_text(a, od_vgi_cell(record, "resolved_implementation_version"),
                              &out->resolved_implementation_version, err));
    OD_TRY(od_vgi_answer_text(a, od_vgi_cell(record, "global_function_prefix"), &out->global_function_prefix, err));
    OD_TRY(od_vgi_answer_pairs(a, od_vgi_cell(record, "tags"), &out->tags, err));
    OD_TRY(od_vgi_answer_items(a, od_vgi_cell(record, "attach_catalogs"), read_companion, sizeof *out->companions,
                               &out->companion_count, (void *)&out->companions, err));
    OD_TRY(od_vgi_answer_items(a, od_vgi_cell(record, "settings"), read_option, sizeof *out->settings,
                               &out->setting_count, (void *)&out->settings, err));
    OD_TRY(od_vgi_answer_items(a, od_vgi_cell(record, "secret_types"), read_secret_type, sizeof *out->secret_types,
                               &out->secret_type_count, (void *)&out->secret_types, err));
    out->default_schema = od_vgi_text_or(out->default_schema, "main");
out:
    return rc;
}

od_code od_vgi_decode_attached(od_slice bytes, od_vgi_attached *out, od_error *err)
{
    return od_vgi_decode_one(bytes, read_attached, sizeof *out, &out->answer, out, err);
}

/* ---- schemas ---- */

static od_code read_estimates(od_cell map, od_vgi_schema *schema, od_error *err)
{
    const struct {
        const char *name;
        od_vgi_number *number;
    } kinds[] = {
        {"table", &schema->estimated.table},
        {"view", &schema->estimated.view},
        {"scalar_function", &schema->estimated.scalar_function},
        {"aggregate_function", &schema->estimated.aggregate_function},
        {"table_function", &schema->estimated.table_function},
        {"macro", &schema->estimated.macro},
        {"index", &schema->estimated.index},
    };
    int64_t n;
    od_code rc;

    OD_TRY(od_cell_count(map, &n, err));
    for (int64_t i = 0; i < n; i++) {
        od_cell item = od_cell_item(map, i);
        od_slice key;

        OD_TRY(od_cell_bytes(od_cell_key(item), &key, err));
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
            if (od_slice_equal(key, od_slice_str(kinds[k].name)))
                OD_TRY(od_vgi_answer_number(od_cell_value(item), kinds[k].number, err));
    }
out:
    return rc;
}

static od_code read_schema(od_vgi_answer *answer, const od_record *record, void *item, od_error *err)
{
    od_vgi_schema *schema = item;
    od_code rc;

    OD_TRY(od_vgi_answer_texts(answer, od_vgi_cell(record, "path"), &schema->path, err));
    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "name"), &schema->name, err));
    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "comment"), &schema->comment, err));
    OD_TRY(od_vgi_answer_pairs(answer, od_vgi_cell(record, "tags"), &schema->tags, err));
    OD_TRY(read_estimates(od_vgi_cell(record, "estimated_object_count"), schema, err));
    if (schema->path.count > 0)
        schema->name = schema->path.items[schema->path.count - 1];
    if (schema->name.len == 0)
        rc = od_fail(err, OD_E_CORRUPT, "a schema without a name");
out:
    return rc;
}

od_code od_vgi_decode_schemas(od_slice bytes, od_vgi_schemas *out, od_error *err)
{
    *out = (od_vgi_schemas){0};
    return od_vgi_decode_items(bytes, read_schema, sizeof *out->items, &out->answer, &out->count, (void *)&out->items,
                               err);
}

#include "vgi/worker/encode.h"

#include "base/alloc.h"

#include "base/banned.h"

/* ---- lists of records ---- */

void vgiw_records_release(vgiw_records *records)
{
    od_msg **items = (od_msg **)(void *)records->items.data;

    for (size_t i = 0; i < records->items.len / sizeof *items; i++)
        od_msg_unref(items[i]);
    od_buf_release(&records->items);
}

od_code vgiw_records_add(vgiw_records *records, const od_vgi_dialect *dialect, vgiw_record kind, od_row *row,
                         od_error *err)
{
    od_msg *msg;
    od_code rc;

    vgiw_complete(dialect, kind, row);
    rc = od_row_finish(row, NULL, 0, &msg, err);
    if (rc == OD_OK)
        rc = od_buf_append(&records->items, (const void *)&msg, sizeof(od_msg *), err);
    if (rc != OD_OK)
        od_msg_unref(msg);
    return rc;
}

od_code vgiw_records_put(const vgiw_records *records, od_row *row, const char *name, od_error *err)
{
    od_msg *const *items = (od_msg *const *)(const void *)records->items.data;
    size_t n = records->items.len / sizeof *items;
    od_slice *bytes = od_calloc(n + 1, sizeof *bytes);

    if (bytes == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < n; i++)
        bytes[i] = od_vgi_msg_bytes(items[i]);
    od_row_binary_list(row, name, OD_ROW_NOT_NULL, bytes, n);
    od_free(bytes);
    return OD_OK;
}

od_slice *vgiw_slices(char *const *texts, size_t count)
{
    od_slice *out = od_calloc(count + 1, sizeof *out);

    for (size_t i = 0; out != NULL && i < count; i++)
        out[i] = od_slice_str(texts[i]);
    return out;
}

/* ---- catalogs ---- */

static od_code put_companion(const vgiw_companion *companion, od_row *row, od_error *err)
{
    od_ipc_pair *options = od_calloc(companion->option_count + 1, sizeof *options);

    if (options == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < companion->option_count; i++)
        options[i] = (od_ipc_pair){od_slice_str(companion->options[i].key), od_slice_str(companion->options[i].value)};
    od_row_text(row, "alias", OD_ROW_NOT_NULL, od_slice_str(companion->alias));
    od_row_text(row, "target", OD_ROW_NOT_NULL, od_slice_str(companion->target));
    if (companion->db_type != NULL)
        od_row_text(row, "db_type", OD_ROW_NOT_NULL, od_slice_str(companion->db_type));
    if (companion->secret_ref != NULL)
        od_row_text(row, "secret_ref", OD_ROW_NOT_NULL, od_slice_str(companion->secret_ref));
    od_row_text_map(row, "options", OD_ROW_NOT_NULL, options, companion->option_count);
    od_row_bool(row, "hidden", companion->hidden);
    od_row_bool(row, "required", companion->required);
    od_free(options);
    return OD_OK;
}

static od_code put_declared(const vgiw_setting *setting, const char *type_name, od_row *row, od_error *err)
{
    od_msg *type = NULL;
    od_code rc = od_vgi_schema_write(&setting->type, &type, err);

    if (rc != OD_OK)
        return rc;
    od_row_text(row, "name", OD_ROW_NOT_NULL, od_slice_str(setting->name));
    od_row_text(row, "description", OD_ROW_NOT_NULL,
                od_slice_str(setting->description != NULL ? setting->description : ""));
    od_row_binary(row, type_name, OD_ROW_NOT_NULL, od_vgi_msg_bytes(type));
    od_msg_unref(type);
    return OD_OK;
}

/* The items of LIST, as the column NAME of ROW; INNER is for their making. */
static od_code put_settings(const od_vgi_dialect *dialect, const vgiw_list *list, vgiw_record kind, const char *name,
                            od_row *inner, od_row *row, od_error *err)
{
    const vgiw_setting *settings = list->items;
    vgiw_records records = {0};
    od_code rc = OD_OK;

    for (size_t i = 0; i < list->count; i++) {
        const vgiw_setting *setting = &settings[i];

        OD_TRY(put_declared(setting, kind == VGIW_SECRET_TYPE_INFO ? "parameters_schema" : "type", inner, err));
        if (kind != VGIW_SECRET_TYPE_INFO)
            od_row_binary(inner, "default_value", OD_ROW_NULLABLE,
                          setting->value.len > 0 ? od_slice_of(setting->value.data, setting->value.len)
                                                 : (od_slice){NULL, 0});
        if (kind == VGIW_OPTION_INFO && dialect->paths) {
            od_row_bool(inner, "required", setting->required);
            od_row_bool(inner, "secret", setting->secret);
        }
        OD_TRY(vgiw_records_add(&records, dialect, kind, inner, err));
    }
    OD_TRY(vgiw_records_put(&records, row, name, err));
out:
    vgiw_records_release(&records);
    return rc;
}

od_code vgiw_put_catalog(const od_vgi_dialect *dialect, const od_vgiw *worker, od_row *row, od_error *err)
{
    od_row *inner = NULL;
    od_code rc;

    OD_TRY(od_row_create(&inner, err));
    od_row_text(row, "name", OD_ROW_NOT_NULL, od_slice_str(worker->name));
    OD_TRY(put_settings(dialect, &worker->options, VGIW_OPTION_INFO, "attach_option_specs", inner, row, err));
out:
    od_row_free(inner);
    return rc;
}

/* The catalog's name, and what ATTACH said, come back with every call: so any process of the worker's knows them. */
static od_code put_opaque(const od_vgiw *worker, od_slice options, od_row *row, od_error *err)
{
    od_buf opaque = {0};
    od_code rc;

    OD_TRY(od_buf_append(&opaque, worker->attach.data, worker->attach.len, err));
    if (options.len > 0) {
        OD_TRY(od_buf_append(&opaque, "", 1, err));
        OD_TRY(od_buf_append(&opaque, options.data, options.len, err));
    }
    od_row_binary(row, "attach_opaque_data", OD_ROW_NOT_NULL, od_slice_of(opaque.data, opaque.len));
out:
    od_buf_release(&opaque);
    return rc;
}

static bool has_statistics(const od_vgiw *worker)
{
    const vgiw_table *tables = worker->tables.items;

    for (size_t i = 0; i < worker->tables.count; i++)
        if (tables[i].statistics != NULL)
            return true;
    return false;
}

od_code vgiw_put_attached(const od_vgi_dialect *dialect, const od_vgiw *worker, od_slice options, od_row *row,
                          od_error *err)
{
    const vgiw_companion *companions = worker->companions.items;
    const int64_t version = 1;
    vgiw_records records = {0};
    od_ipc_pair tag;
    od_row *inner = NULL;
    od_code rc;

    OD_TRY(od_row_create(&inner, err));
    for (size_t i = 0; i < worker->companions.count; i++) {
        OD_TRY(put_companion(&companions[i], inner, err));
        OD_TRY(vgiw_records_add(&records, dialect, VGIW_COMPANION_INFO, inner, err));
    }
    OD_TRY(put_opaque(worker, options, row, err));
    od_row_bool(row, "supports_transactions", worker->has_transactions);
    od_row_bool(row, "supports_time_travel", worker->has_past);
    od_row_bool(row, "supports_column_statistics", has_statistics(worker));
    od_row_bool(row, "catalog_version_frozen", true);
    od_row_int64(row, "catalog_version", OD_ROW_NOT_NULL, &version);
    od_row_bool(row, "attach_opaque_data_required", true);
    od_row_text(row, "default_schema", OD_ROW_NOT_NULL, od_slice_str(worker->default_schema));
    OD_TRY(put_settings(dialect, &worker->settings, VGIW_SETTING_INFO, "settings", inner, row, err));
    OD_TRY(put_settings(dialect, &worker->secret_types, VGIW_SECRET_TYPE_INFO, "secret_types", inner, row, err));
    OD_TRY(vgiw_records_put(&records, row, "attach_catalogs", err));
    od_vgi_put_text(row, "comment", worker->comment);
    if (worker->secret_service != NULL) {
        tag = (od_ipc_pair){od_slice_str("vgi_secret_service_url"), od_slice_str(worker->secret_service)};
        od_row_text_map(row, "tags", OD_ROW_NOT_NULL, &tag, 1);
    }
    vgiw_complete(dialect, VGIW_ATTACH_RESULT, row);
out:
    vgiw_records_release(&records);
    od_row_free(inner);
    return rc;
}

void vgiw_put_schema(const od_vgi_dialect *dialect, const od_vgiw *worker, const vgiw_schema *schema, od_row *row)
{
    od_vgi_put_text(row, "comment", schema->comment);
    od_vgi_put_schema(dialect, row, "path", "name", schema->name, OD_ROW_NOT_NULL);
    if (!dialect->paths)
        od_row_binary(row, "attach_opaque_data", OD_ROW_NOT_NULL, od_slice_of(worker->attach.data, worker->attach.len));
}

/* ---- definitions ---- */

/* What views and macros have. */
static void put_definition(const od_vgi_dialect *dialect, const vgiw_definition *definition, od_row *row)
{
    od_vgi_put_text(row, "comment", definition->comment);
    od_row_text(row, "name", OD_ROW_NOT_NULL, od_slice_str(definition->name));
    od_vgi_put_schema(dialect, row, "schema_path", "schema_name", definition->schema, OD_ROW_NOT_NULL);
    od_row_text(row, "definition", OD_ROW_NOT_NULL, od_slice_str(definition->definition));
}

void vgiw_put_view(const od_vgi_dialect *dialect, const vgiw_definition *view, od_row *row)
{
    put_definition(dialect, view, row);
}

od_code vgiw_put_macro(const od_vgi_dialect *dialect, const vgiw_definition *macro, od_row *row, od_error *err)
{
    od_slice *parameters = vgiw_slices(macro->parameters, macro->parameter_count);

    if (parameters == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    put_definition(dialect, macro, row);
    od_row_symbol(row, "macro_type", OD_ROW_NOT_NULL, od_slice_str(macro->table ? "TABLE" : "SCALAR"));
    od_row_text_list(row, "parameters", OD_ROW_NOT_NULL, parameters, macro->parameter_count);
    if (macro->defaults.len > 0)
        od_row_binary(row, "parameter_default_values", OD_ROW_NULLABLE,
                      od_slice_of(macro->defaults.data, macro->defaults.len));
    od_free(parameters);
    return OD_OK;
}

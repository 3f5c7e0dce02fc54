#include "vgi/worker/encode.h"

#include "arrow/schema.h"
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

od_code vgiw_put_attached(const od_vgi_dialect *dialect, const od_vgiw *worker, od_row *row, od_error *err)
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
    od_row_binary(row, "attach_opaque_data", OD_ROW_NOT_NULL, od_slice_of(worker->attach.data, worker->attach.len));
    od_row_bool(row, "catalog_version_frozen", true);
    od_row_int64(row, "catalog_version", OD_ROW_NOT_NULL, &version);
    od_row_bool(row, "attach_opaque_data_required", true);
    od_row_text(row, "default_schema", OD_ROW_NOT_NULL, od_slice_str(worker->default_schema));
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

/* ---- tables, functions ---- */

static od_code put_columns(const struct ArrowSchema *schema, const char *name, bool shared, od_row *row, od_error *err)
{
    od_msg *msg;
    od_code rc = od_vgi_schema_write(schema, &msg, err);

    if (rc != OD_OK)
        return rc;
    if (shared)
        od_row_shared_binary(row, name, OD_ROW_NOT_NULL, od_vgi_msg_bytes(msg));
    else
        od_row_binary(row, name, OD_ROW_NOT_NULL, od_vgi_msg_bytes(msg));
    od_msg_unref(msg);
    return OD_OK;
}

od_code vgiw_put_table(const od_vgi_dialect *dialect, const vgiw_table *table, od_row *row, od_error *err)
{
    int32_t *not_null = od_calloc((size_t)table->columns.n_children + 1, sizeof *not_null);
    size_t n = 0;
    od_code rc = OD_OK;

    if (not_null == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    for (int64_t i = 0; i < table->columns.n_children; i++)
        if (!(table->columns.children[i]->flags & ARROW_FLAG_NULLABLE))
            not_null[n++] = (int32_t)i;
    od_vgi_put_text(row, "comment", table->comment);
    od_row_text(row, "name", OD_ROW_NOT_NULL, od_slice_str(table->name));
    od_vgi_put_schema(dialect, row, "schema_path", "schema_name", table->schema, OD_ROW_NOT_NULL);
    OD_TRY(put_columns(&table->columns, "columns", false, row, err));
    od_row_int32_list(row, "not_null_constraints", OD_ROW_NOT_NULL, not_null, n);
    vgiw_complete(dialect, VGIW_TABLE_INFO, row);
out:
    od_free(not_null);
    return rc;
}

od_code vgiw_put_function(const od_vgi_dialect *dialect, const vgiw_function *function, od_row *row, od_error *err)
{
    const od_slice semantics = od_slice_str("vgi.duckdb.standard.v1");
    struct ArrowSchema nothing = {0};
    od_code rc;

    od_vgi_put_text(row, "comment", function->comment);
    od_row_text(row, "name", OD_ROW_NOT_NULL, od_slice_str(function->name));
    od_vgi_put_schema(dialect, row, "schema_path", "schema_name", function->schema, OD_ROW_NOT_NULL);
    od_row_symbol(row, "function_type", OD_ROW_NOT_NULL, od_slice_str("TABLE"));
    OD_TRY(put_columns(&function->parameters, "arguments", dialect->paths, row, err));
    OD_TRY(od_schema_make(&nothing, "", "+s", 0, err));
    OD_TRY(put_columns(&nothing, "output_schema", dialect->paths, row, err));
    od_row_symbol(row, "stability", OD_ROW_NULLABLE, od_slice_str("CONSISTENT_WITHIN_QUERY"));
    od_row_bool(row, "projection_pushdown", function->call.projection != 0);
    od_row_bool(row, "filter_pushdown", function->call.filters != 0);
    if (dialect->paths && function->call.filters != 0)
        od_row_text_list(row, "filter_semantic_profiles", OD_ROW_NOT_NULL, &semantics, 1);
    od_row_symbol(row, "partition_kind", OD_ROW_NOT_NULL, od_slice_str("NOT_PARTITIONED"));
    od_row_symbol(row, "order_dependent", OD_ROW_NOT_NULL, od_slice_str("NOT_ORDER_DEPENDENT"));
    od_row_symbol(row, "distinct_dependent", OD_ROW_NOT_NULL, od_slice_str("NOT_DISTINCT_DEPENDENT"));
    if (!dialect->paths)
        od_row_int32(row, "max_workers", OD_ROW_NOT_NULL, 1);
    vgiw_complete(dialect, VGIW_FUNCTION_INFO, row);
out:
    od_schema_release(&nothing);
    return rc;
}

/* ---- branches ---- */

enum { MAX_FILTER = 65536 };

/* The filters of TABLE's branches as they are now; "" or NULL: all rows. */
typedef struct {
    const char **texts;
    char **room; /* what the worker's function fills */
} filters;

static void filters_release(filters *f, size_t count)
{
    for (size_t i = 0; f->room != NULL && i < count; i++)
        od_free(f->room[i]);
    od_free((void *)f->room);
    od_free((void *)f->texts);
}

static od_code filters_ask(const vgiw_table *table, filters *out, od_error *err)
{
    od_vgiw_error why = {.code = OD_VGIW_OK};
    size_t n = table->branch_count;

    out->texts = od_calloc(n, sizeof *out->texts);
    out->room = od_calloc(n, sizeof *out->room);
    if (out->texts == NULL || out->room == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < n; i++) {
        out->texts[i] = table->branches[i].filter;
        if (table->filters == NULL)
            continue;
        out->texts[i] = out->room[i] = od_calloc(1, MAX_FILTER);
        if (out->room[i] == NULL)
            return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    }
    if (table->filters == NULL)
        return OD_OK;
    return vgiw_failed(err, table->filters(table->arg, out->room, MAX_FILTER, &why), &why);
}

static od_code put_locations(const vgiw_branch *branch, od_row *row, od_error *err)
{
    od_slice *texts = od_calloc(branch->location_count + 1, sizeof *texts);

    if (texts == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < branch->location_count; i++)
        texts[i] = od_slice_str(branch->locations[i]);
    od_row_text_list(row, "format_locations", OD_ROW_NULLABLE, texts, branch->location_count);
    od_free(texts);
    return OD_OK;
}

/* No values are a stream all the same: of a batch without columns. */
static od_code put_arguments(const od_buf *arguments, od_row *row, od_error *err)
{
    od_row *none = NULL;
    od_msg *msg = NULL;
    od_code rc = OD_OK;

    if (arguments->len > 0) {
        od_row_binary(row, "arguments", OD_ROW_NOT_NULL, od_slice_of(arguments->data, arguments->len));
        return OD_OK;
    }
    OD_TRY(od_row_create(&none, err));
    OD_TRY(od_row_finish(none, NULL, 0, &msg, err));
    od_row_binary(row, "arguments", OD_ROW_NOT_NULL, od_vgi_msg_bytes(msg));
out:
    od_row_free(none);
    od_msg_unref(msg);
    return rc;
}

static od_code put_branch(const od_vgi_dialect *dialect, const vgiw_table *table, const vgiw_branch *branch,
                          const char *filter, od_row *row, od_error *err)
{
    od_code rc = OD_OK;

    if (!dialect->paths && branch->source_table == NULL && branch->format != NULL)
        return od_fail(err, OD_E_NOT_IMPLEMENTED, "table '%s' has files, which generation 1.3 of the protocol does not",
                       table->name);
    od_row_text(row, "function_name", OD_ROW_NOT_NULL,
                od_slice_str(branch->source_table == NULL && branch->format == NULL ? branch->function : ""));
    OD_TRY(put_arguments(&branch->arguments, row, err));
    od_vgi_put_text(row, "branch_filter", filter);
    if (branch->source_table != NULL) {
        od_vgi_put_text(row, "source_catalog", branch->source_catalog);
        od_vgi_put_schema(dialect, row, "source_schema_path", "source_schema",
                          branch->source_schema != NULL ? branch->source_schema : "main", OD_ROW_NULLABLE);
        od_vgi_put_text(row, "source_table", branch->source_table);
    } else if (branch->format != NULL) {
        od_vgi_put_text(row, "format_name", branch->format);
        OD_TRY(put_locations(branch, row, err));
    } else if (dialect->paths && branch->function_schema != NULL) {
        od_vgi_put_schema(dialect, row, "schema_path", "schema_name", branch->function_schema, OD_ROW_NULLABLE);
    }
out:
    return rc;
}

static od_code put_extensions(const vgiw_table *table, od_row *row, od_error *err)
{
    od_slice *extensions = od_calloc(table->extension_count + 1, sizeof *extensions);

    if (extensions == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < table->extension_count; i++)
        extensions[i] = od_slice_str(table->extensions[i]);
    od_row_text_list(row, "required_extensions", OD_ROW_NOT_NULL, extensions, table->extension_count);
    od_free(extensions);
    return OD_OK;
}

od_code vgiw_put_branches(const od_vgi_dialect *dialect, const vgiw_table *table, od_row *row, od_error *err)
{
    vgiw_records records = {0};
    filters f = {0};
    od_row *inner = NULL;
    od_code rc;

    OD_TRY(od_row_create(&inner, err));
    OD_TRY(filters_ask(table, &f, err));
    for (size_t i = 0; i < table->branch_count; i++) {
        const char *filter = f.texts[i] != NULL && f.texts[i][0] != '\0' ? f.texts[i] : NULL;

        OD_TRY(put_branch(dialect, table, &table->branches[i], filter, inner, err));
        OD_TRY(vgiw_records_add(&records, dialect, VGIW_BRANCH_INFO, inner, err));
    }
    OD_TRY(vgiw_records_put(&records, row, "branches", err));
    OD_TRY(put_extensions(table, row, err));
out:
    vgiw_records_release(&records);
    od_row_free(inner);
    filters_release(&f, table->branch_count);
    return rc;
}

od_code vgiw_put_scan_function(const od_vgi_dialect *dialect, const vgiw_table *table, od_row *row, od_error *err)
{
    const vgiw_branch *branch = table->branches;
    filters f = {0};
    od_code rc;

    OD_TRY(filters_ask(table, &f, err));
    if (table->branch_count != 1 || branch->source_table != NULL || branch->format != NULL ||
        (f.texts[0] != NULL && f.texts[0][0] != '\0'))
        OD_TRY(od_fail(err, OD_E_NOT_IMPLEMENTED, "table '%s' is read by its branches", table->name));
    od_row_text(row, "function_name", OD_ROW_NOT_NULL, od_slice_str(branch->function));
    OD_TRY(put_arguments(&branch->arguments, row, err));
    OD_TRY(put_extensions(table, row, err));
    if (dialect->paths && branch->function_schema != NULL)
        od_vgi_put_schema(dialect, row, "schema_path", "schema_name", branch->function_schema, OD_ROW_NULLABLE);
    vgiw_complete(dialect, VGIW_SCAN_FUNCTION_RESULT, row);
out:
    filters_release(&f, table->branch_count);
    return rc;
}

/* What tables are read from and written to, as records. */
#include "base/alloc.h"
#include "vgi/worker/encode.h"

#include "base/banned.h"

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
    od_slice *texts = vgiw_slices(branch->locations, branch->location_count);

    if (texts == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
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
    od_row_bool(row, "writable", branch->writable);
    if (branch->source_table != NULL) {
        od_vgi_put_text(row, "source_catalog", branch->source_catalog);
        od_vgi_put_schema(dialect, row, "source_schema_path", "source_schema",
                          branch->source_schema != NULL ? branch->source_schema : "main", OD_ROW_NULLABLE);
        od_vgi_put_text(row, "source_table", branch->source_table);
    } else if (branch->format != NULL) {
        od_vgi_put_text(row, "format_name", branch->format);
        OD_TRY(put_locations(branch, row, err));
        if (branch->format_options.len > 0)
            od_row_binary(row, "format_options", OD_ROW_NULLABLE,
                          od_slice_of(branch->format_options.data, branch->format_options.len));
    } else if (dialect->paths && branch->function_schema != NULL) {
        od_vgi_put_schema(dialect, row, "schema_path", "schema_name", branch->function_schema, OD_ROW_NULLABLE);
    }
out:
    return rc;
}

static od_code put_extensions(const vgiw_table *table, od_row *row, od_error *err)
{
    od_slice *extensions = vgiw_slices(table->extensions, table->extension_count);

    if (extensions == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
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

od_code vgiw_put_insert_function(const od_vgi_dialect *dialect, const vgiw_table *table, od_row *row, od_error *err)
{
    const od_buf none = {0};
    od_code rc;

    od_row_text(row, "function_name", OD_ROW_NOT_NULL, od_slice_str(table->insert));
    OD_TRY(put_arguments(&none, row, err));
    if (dialect->paths)
        od_vgi_put_schema(dialect, row, "schema_path", "schema_name", table->schema, OD_ROW_NULLABLE);
    vgiw_complete(dialect, VGIW_SCAN_FUNCTION_RESULT, row);
out:
    return rc;
}

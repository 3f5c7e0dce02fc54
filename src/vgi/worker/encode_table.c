/* Tables and functions, as records. */
#include "arrow/schema.h"
#include "base/alloc.h"
#include "vgi/worker/encode.h"

#include "base/banned.h"

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

/* ---- constraints ---- */

static od_code put_not_null(const vgiw_table *table, od_row *row, od_error *err)
{
    int32_t *not_null = od_calloc((size_t)table->columns.n_children + 1, sizeof *not_null);
    size_t n = 0;

    if (not_null == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    for (int64_t i = 0; i < table->columns.n_children; i++)
        if (!(table->columns.children[i]->flags & ARROW_FLAG_NULLABLE))
            not_null[n++] = (int32_t)i;
    od_row_int32_list(row, "not_null_constraints", OD_ROW_NOT_NULL, not_null, n);
    od_free(not_null);
    return OD_OK;
}

static od_code put_unique(const vgiw_table *table, od_row *row, od_error *err)
{
    const int32_t *primary = table->primary_key.items;
    size_t n = table->unique_count, *counts = od_calloc(n + 1, sizeof *counts);
    const int32_t **lists = od_calloc(n + 1, sizeof *lists);
    od_code rc = counts != NULL && lists != NULL ? OD_OK : od_fail(err, OD_E_NO_MEMORY, "out of memory");

    for (size_t i = 0; rc == OD_OK && i < n; i++) {
        lists[i] = table->unique[i].items;
        counts[i] = table->unique[i].count;
    }
    if (rc == OD_OK) {
        od_row_int32_lists(row, "unique_constraints", lists, counts, n);
        od_row_int32_lists(row, "primary_key_constraints", &primary, &table->primary_key.count,
                           table->primary_key.count > 0);
    }
    od_free((void *)lists);
    od_free(counts);
    return rc;
}

static od_code put_texts(const vgiw_texts *texts, const char *name, od_row *row, od_error *err)
{
    od_slice *slices = vgiw_slices(texts->items, texts->count);

    if (slices == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    od_row_text_list(row, name, OD_ROW_NOT_NULL, slices, texts->count);
    od_free(slices);
    return OD_OK;
}

static od_code put_required_filters(const vgiw_table *table, od_row *row, od_error *err)
{
    size_t n = table->required_filter_count, *counts = od_calloc(n + 1, sizeof *counts);
    od_slice **lists = od_calloc(n + 1, sizeof *lists);
    od_code rc = counts != NULL && lists != NULL ? OD_OK : od_fail(err, OD_E_NO_MEMORY, "out of memory");

    for (size_t i = 0; rc == OD_OK && i < n; i++) {
        counts[i] = table->required_filters[i].count;
        lists[i] = vgiw_slices(table->required_filters[i].items, counts[i]);
        if (lists[i] == NULL)
            rc = od_fail(err, OD_E_NO_MEMORY, "out of memory");
    }
    if (rc == OD_OK)
        od_row_text_lists(row, "required_filters", (const od_slice *const *)lists, counts, n);
    for (size_t i = 0; lists != NULL && i < n; i++)
        od_free(lists[i]);
    od_free((void *)lists);
    od_free(counts);
    return rc;
}

/* ---- tables ---- */

static void put_writes(const od_vgi_dialect *dialect, od_row *row)
{
    const od_ipc_pair insert = {od_slice_str("insert"), od_slice_str("count")};

    if (dialect->paths)
        od_row_text_map(row, "write_result_modes", OD_ROW_NOT_NULL, &insert, 1);
    else
        od_row_bool(row, "supports_insert", true);
}

static od_code put_statistics(const vgiw_table *table, od_row *row, od_error *err)
{
    od_msg *msg;
    od_code rc = vgiw_write_statistics(&table->columns, table->statistics, &msg, err);

    if (rc != OD_OK)
        return rc;
    od_row_bool(row, "supports_column_statistics", true);
    od_row_binary(row, "column_statistics", OD_ROW_NULLABLE, od_vgi_msg_bytes(msg));
    od_msg_unref(msg);
    return OD_OK;
}

od_code vgiw_put_table(const od_vgi_dialect *dialect, const vgiw_table *table, const char *name, od_row *row,
                       od_error *err)
{
    od_code rc;

    od_vgi_put_text(row, "comment", table->comment);
    od_row_text(row, "name", OD_ROW_NOT_NULL, od_slice_str(name));
    od_vgi_put_schema(dialect, row, "schema_path", "schema_name", table->schema, OD_ROW_NOT_NULL);
    OD_TRY(put_columns(&table->columns, "columns", false, row, err));
    OD_TRY(put_not_null(table, row, err));
    OD_TRY(put_unique(table, row, err));
    OD_TRY(put_texts(&table->checks, "check_constraints", row, err));
    OD_TRY(put_required_filters(table, row, err));
    if (table->insert != NULL)
        put_writes(dialect, row);
    if (table->statistics != NULL)
        OD_TRY(put_statistics(table, row, err));
    if (table->row_count > 0)
        od_row_int64(row, "cardinality_estimate", OD_ROW_NULLABLE, &table->row_count);
    vgiw_complete(dialect, VGIW_TABLE_INFO, row);
out:
    return rc;
}

/* ---- functions ---- */

od_code vgiw_put_function(const od_vgi_dialect *dialect, const vgiw_function *function, od_row *row, od_error *err)
{
    const od_slice semantics = od_slice_str("vgi.duckdb.standard.v1");
    static const char *const kinds[] = {[OD_VGIW_TABLE] = "TABLE",
                                        [OD_VGIW_SCALAR] = "SCALAR",
                                        [OD_VGIW_ROWS] = "TABLE",
                                        [OD_VGIW_BUFFERED] = "TABLE_BUFFERING"};
    const od_vgiw_function *f = &function->call;
    struct ArrowSchema nothing = {0};
    od_code rc;

    od_vgi_put_text(row, "comment", function->comment);
    od_row_text(row, "name", OD_ROW_NOT_NULL, od_slice_str(function->name));
    od_vgi_put_schema(dialect, row, "schema_path", "schema_name", function->schema, OD_ROW_NOT_NULL);
    od_row_symbol(row, "function_type", OD_ROW_NOT_NULL, od_slice_str(kinds[function->call.kind]));
    OD_TRY(put_columns(&function->parameters, "arguments", dialect->paths, row, err));
    OD_TRY(od_schema_make(&nothing, "", "+s", 0, err));
    OD_TRY(put_columns(&nothing, "output_schema", dialect->paths, row, err));
    od_row_symbol(row, "stability", OD_ROW_NULLABLE,
                  od_slice_str(f->is_volatile              ? "VOLATILE"
                               : f->kind == OD_VGIW_SCALAR ? "CONSISTENT"
                                                           : "CONSISTENT_WITHIN_QUERY"));
    if (f->kind == OD_VGIW_SCALAR)
        od_row_symbol(row, "null_handling", OD_ROW_NULLABLE, od_slice_str(f->nulls ? "SPECIAL" : "DEFAULT"));
    od_row_bool(row, "projection_pushdown", f->projection != 0);
    od_row_bool(row, "filter_pushdown", f->filters != 0);
    if (dialect->paths && f->filters != 0) {
        od_row_text_list(row, "filter_semantic_profiles", OD_ROW_NOT_NULL, &semantics, 1);
        od_row_bool(row, "filters_exactly_applied", f->exact != 0);
    }
    od_row_bool(row, "has_finalize", f->kind == OD_VGIW_ROWS && f->next != NULL);
    OD_TRY(put_texts(&function->settings, "required_settings", row, err));
    od_row_symbol(row, "partition_kind", OD_ROW_NOT_NULL, od_slice_str("NOT_PARTITIONED"));
    od_row_symbol(row, "order_dependent", OD_ROW_NOT_NULL, od_slice_str("NOT_ORDER_DEPENDENT"));
    od_row_symbol(row, "distinct_dependent", OD_ROW_NOT_NULL, od_slice_str("NOT_DISTINCT_DEPENDENT"));
    if (!dialect->paths || f->streams > 1)
        od_row_int32(row, "max_workers", dialect->paths ? OD_ROW_NULLABLE : OD_ROW_NOT_NULL,
                     f->streams > 1 ? (int32_t)f->streams : 1);
    vgiw_complete(dialect, VGIW_FUNCTION_INFO, row);
out:
    od_schema_release(&nothing);
    return rc;
}

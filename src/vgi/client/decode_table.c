/* Tables, views, macros, and the branches of tables. */
#include <string.h>

#include "arrow/ipc_read.h"
#include "vgi/client/decode.h"

#include "base/banned.h"

/* The last of a path (2.2), or the name that is in its place (1.3). */
static od_code read_schema_name(od_vgi_answer *answer, const od_record *record, const char *path_field,
                                const char *name_field, od_slice *out, od_error *err)
{
    od_vgi_texts path;
    od_code rc;

    OD_TRY(od_vgi_answer_texts(answer, od_vgi_cell(record, path_field), &path, err));
    if (path.count > 0)
        *out = path.items[path.count - 1];
    else
        OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, name_field), out, err));
out:
    return rc;
}

od_code od_vgi_read_scan_function(od_vgi_answer *answer, const od_record *record, od_vgi_scan_function *out,
                                  od_error *err)
{
    od_code rc;

    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "function_name"), &out->function, err));
    OD_TRY(od_vgi_answer_texts(answer, od_vgi_cell(record, "schema_path"), &out->schema_path, err));
    OD_TRY(od_vgi_answer_values(answer, od_vgi_cell(record, "arguments"), &out->arguments, err));
    OD_TRY(od_vgi_answer_texts(answer, od_vgi_cell(record, "required_extensions"), &out->required_extensions, err));
out:
    return rc;
}

/* ---- tables ---- */

static od_code read_columns(od_vgi_answer *answer, od_cell list, int64_t limit, od_vgi_columns *out, od_error *err)
{
    int32_t *items;
    int64_t n;
    od_code rc;

    OD_TRY(od_cell_count(list, &n, err));
    if (n == 0)
        return OD_OK;
    OD_TRY(od_vgi_answer_alloc(answer, n, sizeof *items, (void *)&items, err));
    for (int64_t i = 0; i < n; i++) {
        int64_t column;

        OD_TRY(od_cell_int(od_cell_item(list, i), &column, err));
        if (column < 0 || column >= limit)
            OD_TRY(
                od_fail(err, OD_E_CORRUPT, "a constraint on column %lld of %lld", (long long)column, (long long)limit));
        items[i] = (int32_t)column;
    }
    *out = (od_vgi_columns){(size_t)n, items};
out:
    return rc;
}

static od_code read_column_sets(od_vgi_answer *answer, od_cell list, int64_t limit, size_t *count, od_vgi_columns **out,
                                od_error *err)
{
    int64_t n;
    od_code rc;

    OD_TRY(od_cell_count(list, &n, err));
    OD_TRY(od_vgi_answer_alloc(answer, n, sizeof **out, (void *)out, err));
    for (int64_t i = 0; i < n; i++)
        OD_TRY(read_columns(answer, od_cell_item(list, i), limit, &(*out)[i], err));
    *count = (size_t)n;
out:
    return rc;
}

static od_code read_foreign_key(od_vgi_answer *answer, const od_record *record, void *item, od_error *err)
{
    od_vgi_foreign_key *key = item;
    od_code rc;

    OD_TRY(od_vgi_answer_texts(answer, od_vgi_cell(record, "fk_columns"), &key->columns, err));
    OD_TRY(od_vgi_answer_texts(answer, od_vgi_cell(record, "pk_columns"), &key->referenced_columns, err));
    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "referenced_table"), &key->referenced_table, err));
    OD_TRY(
        od_vgi_answer_texts(answer, od_vgi_cell(record, "referenced_schema_path"), &key->referenced_schema_path, err));
out:
    return rc;
}

static od_code read_constraints(od_vgi_answer *answer, const od_record *record, od_vgi_table *table, od_error *err)
{
    int64_t limit = table->columns.n_children;
    od_code rc;

    OD_TRY(read_columns(answer, od_vgi_cell(record, "not_null_constraints"), limit, &table->not_null, err));
    OD_TRY(read_column_sets(answer, od_vgi_cell(record, "unique_constraints"), limit, &table->unique_count,
                            &table->unique, err));
    OD_TRY(read_column_sets(answer, od_vgi_cell(record, "primary_key_constraints"), limit, &table->primary_key_count,
                            &table->primary_keys, err));
    OD_TRY(od_vgi_answer_items(answer, od_vgi_cell(record, "foreign_key_constraints"), read_foreign_key,
                               sizeof *table->foreign_keys, &table->foreign_key_count, (void *)&table->foreign_keys,
                               err));
    OD_TRY(od_vgi_answer_texts(answer, od_vgi_cell(record, "check_constraints"), &table->checks, err));
out:
    return rc;
}

/* 2.2 tells modes, 1.3 booleans. */
static od_code read_writes(od_vgi_answer *answer, const od_record *record, od_vgi_table *table, od_error *err)
{
    od_vgi_pairs modes;
    od_code rc;

    OD_TRY(od_cell_bool(od_vgi_cell(record, "supports_insert"), &table->supports_insert, err));
    OD_TRY(od_cell_bool(od_vgi_cell(record, "supports_update"), &table->supports_update, err));
    OD_TRY(od_cell_bool(od_vgi_cell(record, "supports_delete"), &table->supports_delete, err));
    OD_TRY(od_vgi_answer_pairs(answer, od_vgi_cell(record, "write_result_modes"), &modes, err));
    for (size_t i = 0; i < modes.count; i++) {
        od_slice key = modes.items[i].key;

        table->supports_insert = table->supports_insert || od_slice_equal(key, od_slice_str("insert"));
        table->supports_update = table->supports_update || od_slice_equal(key, od_slice_str("update"));
        table->supports_delete = table->supports_delete || od_slice_equal(key, od_slice_str("delete"));
    }
out:
    return rc;
}

static od_code read_required_filters(od_vgi_answer *answer, od_cell list, od_vgi_table *table, od_error *err)
{
    int64_t n;
    od_code rc;

    OD_TRY(od_cell_count(list, &n, err));
    OD_TRY(od_vgi_answer_alloc(answer, n, sizeof *table->required_filters, (void *)&table->required_filters, err));
    for (int64_t i = 0; i < n; i++)
        OD_TRY(od_vgi_answer_texts(answer, od_cell_item(list, i), &table->required_filters[i], err));
    table->required_filter_count = (size_t)n;
out:
    return rc;
}

static od_code read_inlined(od_vgi_answer *answer, const od_record *record, od_vgi_table *table, od_error *err)
{
    od_record *inner = NULL;
    od_slice bytes;
    od_code rc;

    OD_TRY(od_cell_bytes(od_vgi_cell(record, "scan_function"), &bytes, err));
    if (bytes.len == 0)
        return OD_OK;
    OD_TRY(od_vgi_record_one(bytes, &inner, err));
    OD_TRY(od_vgi_read_scan_function(answer, inner, &table->scan_function, err));
    table->has_scan_function = true;
out:
    od_record_free(inner);
    return rc;
}

static od_code read_told_statistics(od_vgi_answer *answer, const od_record *record, od_vgi_table *table, od_error *err)
{
    od_slice bytes;
    od_code rc = od_cell_bytes(od_vgi_cell(record, "column_statistics"), &bytes, err);

    return rc == OD_OK ? od_vgi_read_statistics(answer, bytes, &table->statistics, err) : rc;
}

static od_code find_row_id(od_vgi_table *table, od_error *err)
{
    table->row_id = -1;
    for (int64_t i = 0; i < table->columns.n_children; i++) {
        if (od_schema_metadata(table->columns.children[i], "is_row_id").data == NULL)
            continue;
        if (table->row_id >= 0)
            return od_fail(err, OD_E_CORRUPT, "more than one column is the row id");
        table->row_id = (int32_t)i;
    }
    return OD_OK;
}

static od_code read_table_facts(od_vgi_answer *answer, const od_record *record, od_vgi_table *table, od_error *err)
{
    od_code rc;

    OD_TRY(find_row_id(table, err));
    OD_TRY(read_constraints(answer, record, table, err));
    OD_TRY(read_writes(answer, record, table, err));
    OD_TRY(od_cell_bool(od_vgi_cell(record, "supports_column_statistics"), &table->supports_column_statistics, err));
    OD_TRY(od_vgi_answer_number(od_vgi_cell(record, "cardinality_estimate"), &table->cardinality_estimate, err));
    OD_TRY(od_vgi_answer_number(od_vgi_cell(record, "cardinality_max"), &table->cardinality_max, err));
    OD_TRY(read_required_filters(answer, od_vgi_cell(record, "required_filters"), table, err));
    OD_TRY(read_inlined(answer, record, table, err));
    OD_TRY(read_told_statistics(answer, record, table, err));
out:
    return rc;
}

static od_code read_table(od_vgi_answer *answer, const od_record *record, void *item, od_error *err)
{
    od_vgi_table *table = item;
    od_code rc;

    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "name"), &table->name, err));
    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "comment"), &table->comment, err));
    OD_TRY(od_vgi_answer_pairs(answer, od_vgi_cell(record, "tags"), &table->tags, err));
    OD_TRY(read_schema_name(answer, record, "schema_path", "schema_name", &table->schema, err));
    OD_TRY(od_vgi_answer_schema(answer, od_vgi_cell(record, "columns"), &table->columns, err));
    if (table->name.len == 0 || table->columns.release == NULL)
        OD_TRY(od_fail(err, OD_E_CORRUPT, "a table without a name or columns"));
    OD_TRY(read_table_facts(answer, record, table, err));
out:
    if (rc != OD_OK)
        od_error_prefix(err, "table '%.*s'", (int)table->name.len,
                        table->name.len ? (const char *)table->name.data : "");
    return rc;
}

od_code od_vgi_decode_tables(od_slice bytes, od_vgi_tables *out, od_error *err)
{
    *out = (od_vgi_tables){0};
    return od_vgi_decode_items(bytes, read_table, sizeof *out->items, &out->answer, &out->count, (void *)&out->items,
                               err);
}

/* ---- views and macros ---- */

static od_code read_view(od_vgi_answer *answer, const od_record *record, void *item, od_error *err)
{
    od_vgi_view *view = item;
    od_code rc;

    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "name"), &view->name, err));
    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "comment"), &view->comment, err));
    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "definition"), &view->definition, err));
    OD_TRY(od_vgi_answer_pairs(answer, od_vgi_cell(record, "tags"), &view->tags, err));
    OD_TRY(od_vgi_answer_pairs(answer, od_vgi_cell(record, "column_comments"), &view->column_comments, err));
    if (view->name.len == 0)
        rc = od_fail(err, OD_E_CORRUPT, "a view without a name");
out:
    return rc;
}

od_code od_vgi_decode_views(od_slice bytes, od_vgi_views *out, od_error *err)
{
    *out = (od_vgi_views){0};
    return od_vgi_decode_items(bytes, read_view, sizeof *out->items, &out->answer, &out->count, (void *)&out->items,
                               err);
}

static od_code read_macro(od_vgi_answer *answer, const od_record *record, void *item, od_error *err)
{
    od_vgi_macro *macro = item;
    od_slice type;
    od_code rc;

    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "name"), &macro->name, err));
    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "comment"), &macro->comment, err));
    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "definition"), &macro->definition, err));
    OD_TRY(od_vgi_answer_pairs(answer, od_vgi_cell(record, "tags"), &macro->tags, err));
    OD_TRY(od_vgi_answer_texts(answer, od_vgi_cell(record, "parameters"), &macro->parameters, err));
    OD_TRY(od_vgi_answer_values(answer, od_vgi_cell(record, "parameter_default_values"), &macro->defaults, err));
    OD_TRY(od_cell_bytes(od_vgi_cell(record, "macro_type"), &type, err));
    macro->is_table = od_slice_equal(type, od_slice_str("TABLE"));
    if (macro->name.len == 0)
        rc = od_fail(err, OD_E_CORRUPT, "a macro without a name");
out:
    return rc;
}

od_code od_vgi_decode_macros(od_slice bytes, od_vgi_macros *out, od_error *err)
{
    *out = (od_vgi_macros){0};
    return od_vgi_decode_items(bytes, read_macro, sizeof *out->items, &out->answer, &out->count, (void *)&out->items,
                               err);
}

/* ---- branches ---- */

static od_code read_branch(od_vgi_answer *answer, const od_record *record, void *item, od_error *err)
{
    od_vgi_branch *branch = item;
    od_code rc;

    OD_TRY(od_vgi_read_scan_function(answer, record, &branch->call, err));
    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "branch_filter"), &branch->filter, err));
    OD_TRY(od_cell_bool(od_vgi_cell(record, "writable"), &branch->writable, err));
    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "source_catalog"), &branch->source_catalog, err));
    OD_TRY(read_schema_name(answer, record, "source_schema_path", "source_schema", &branch->source_schema, err));
    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "source_table"), &branch->source_table, err));
    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "format_name"), &branch->format_name, err));
    OD_TRY(od_vgi_answer_texts(answer, od_vgi_cell(record, "format_locations"), &branch->format_locations, err));
    OD_TRY(od_vgi_answer_values(answer, od_vgi_cell(record, "format_options"), &branch->format_options, err));
    if (branch->source_table.len > 0)
        branch->kind = OD_VGI_BRANCH_TABLE;
    else if (branch->format_name.len > 0)
        branch->kind = OD_VGI_BRANCH_FORMAT;
    else if (branch->call.function.len == 0)
        rc = od_fail(err, OD_E_CORRUPT, "a branch without a function, a table or a format");
    if (branch->filter.len == 0)
        branch->filter = (od_slice){NULL, 0};
out:
    return rc;
}

static od_code read_branches(od_vgi_answer *answer, const od_record *record, void *item, od_error *err)
{
    od_vgi_branches *out = item;
    od_code rc;

    OD_TRY(od_vgi_answer_items(answer, od_vgi_cell(record, "branches"), read_branch, sizeof *out->items, &out->count,
                               (void *)&out->items, err));
    OD_TRY(od_vgi_answer_texts(answer, od_vgi_cell(record, "required_extensions"), &out->required_extensions, err));
out:
    return rc;
}

od_code od_vgi_decode_branches(od_slice bytes, od_vgi_branches *out, od_error *err)
{
    return od_vgi_decode_one(bytes, read_branches, sizeof *out, &out->answer, out, err);
}

static od_code read_one_branch(od_vgi_answer *answer, const od_record *record, void *item, od_error *err)
{
    od_vgi_branches *out = item;
    od_code rc;

    OD_TRY(od_vgi_answer_alloc(answer, 1, sizeof *out->items, (void *)&out->items, err));
    OD_TRY(od_vgi_read_scan_function(answer, record, &out->items->call, err));
    if (out->items->call.function.len == 0)
        OD_TRY(od_fail(err, OD_E_CORRUPT, "a scan function without a name"));
    out->required_extensions = out->items->call.required_extensions;
    out->count = 1;
    out->by_function = true;
out:
    return rc;
}

od_code od_vgi_decode_one_branch(od_slice bytes, od_vgi_branches *out, od_error *err)
{
    return od_vgi_decode_one(bytes, read_one_branch, sizeof *out, &out->answer, out, err);
}

static od_code read_write_function(od_vgi_answer *answer, const od_record *record, void *item, od_error *err)
{
    od_vgi_write_function *out = item;
    od_code rc = od_vgi_read_scan_function(answer, record, &out->call, err);

    if (rc == OD_OK && out->call.function.len == 0)
        rc = od_fail(err, OD_E_CORRUPT, "a function to write with without a name");
    return rc;
}

od_code od_vgi_decode_write_function(od_slice bytes, od_vgi_write_function *out, od_error *err)
{
    return od_vgi_decode_one(bytes, read_write_function, sizeof *out, &out->answer, out, err);
}

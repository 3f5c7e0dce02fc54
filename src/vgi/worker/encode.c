#include "vgi/worker/encode.h"

#include <string.h>

#include "arrow/schema.h"
#include "base/alloc.h"

#include "base/banned.h"

/* NEWER: may be null in generation 2.2 only. */
enum { MAY_BE_NULL = 1, NULL_IF_NEWER = 2, ONLY_OLDER = 4, ONLY_NEWER = 8 };

typedef struct {
    const char *name, *type; /* as od_row_blank has it */
    unsigned flags;
} field;

#define EXAMPLES "[(sql:!u,description:!u,expected_output:u)"
#define VERSIONED "[(namespace:!u,name:!u,version:!L)"

static const field catalog_info[] = {
    {"name", "u", 0},
    {"implementation_version", "u", MAY_BE_NULL},
    {"data_version_spec", "u", MAY_BE_NULL},
    {"attach_option_specs", "[z", 0},
    {"releases", "[(version:!u,released_at:@,summary:!u,notes_url:u)", 0},
    {"source_url", "u", MAY_BE_NULL},
};

static const field attach_result[] = {
    {"attach_opaque_data", "z", 0},
    {"supports_transactions", "b", 0},
    {"supports_time_travel", "b", 0},
    {"catalog_version_frozen", "b", 0},
    {"catalog_version", "l", 0},
    {"attach_opaque_data_required", "b", 0},
    {"default_schema", "u", 0},
    {"settings", "[z", 0},
    {"secret_types", "[z", 0},
    {"attach_catalogs", "[z", 0},
    {"comment", "u", MAY_BE_NULL},
    {"tags", "{!uu", 0},
    {"supports_column_statistics", "b", 0},
    {"global_functions", "[z", 0},
    {"global_function_prefix", "u", 0},
    {"resolved_data_version", "u", MAY_BE_NULL},
    {"resolved_implementation_version", "u", MAY_BE_NULL},
    {"supports_catalog_contents", "b", ONLY_NEWER},
};

static const field companion_info[] = {
    {"alias", "u", 0},  {"target", "u", 0},   {"db_type", "u", 0},    {"options", "{!uu", 0},
    {"hidden", "b", 0}, {"required", "b", 0}, {"secret_ref", "u", 0},
};

static const field schema_info[] = {
    {"comment", "u", MAY_BE_NULL}, {"tags", "{!uu", 0},        {"attach_opaque_data", "z", ONLY_OLDER},
    {"name", "u", ONLY_OLDER},     {"path", "[u", ONLY_NEWER}, {"estimated_object_count", "{!ul", MAY_BE_NULL},
};

/* Numbers that are not known are null in 1.3, too, whatever its schema says. */
static const field table_info[] = {
    {"comment", "u", MAY_BE_NULL},
    {"tags", "{!uu", 0},
    {"name", "u", 0},
    {"schema_name", "u", ONLY_OLDER},
    {"schema_path", "[u", ONLY_NEWER},
    {"columns", "z", 0},
    {"not_null_constraints", "[i", 0},
    {"unique_constraints", "[[i", 0},
    {"check_constraints", "[u", 0},
    {"primary_key_constraints", "[[i", 0},
    {"foreign_key_constraints", "[z", 0},
    {"supports_insert", "b", ONLY_OLDER},
    {"supports_update", "b", ONLY_OLDER},
    {"supports_delete", "b", ONLY_OLDER},
    {"supports_returning", "b", ONLY_OLDER},
    {"write_result_modes", "{!uu", ONLY_NEWER},
    {"supports_column_statistics", "b", 0},
    {"scan_function", "z", NULL_IF_NEWER},
    {"insert_function", "z", NULL_IF_NEWER},
    {"update_function", "z", NULL_IF_NEWER},
    {"delete_function", "z", NULL_IF_NEWER},
    {"cardinality_estimate", "l", MAY_BE_NULL},
    {"cardinality_max", "l", MAY_BE_NULL},
    {"column_statistics", "z", NULL_IF_NEWER},
    {"bind_result", "z", NULL_IF_NEWER},
    {"required_filters", "[[u", 0},
};

static const field function_info[] = {
    {"comment", "u", MAY_BE_NULL},
    {"tags", "{!uu", 0},
    {"name", "u", 0},
    {"schema_name", "u", ONLY_OLDER},
    {"schema_path", "[u", ONLY_NEWER},
    {"function_type", "<su", 0},
    {"arguments", "<iz", ONLY_NEWER},
    {"output_schema", "<iz", ONLY_NEWER},
    {"arguments", "z", ONLY_OLDER},
    {"output_schema", "z", ONLY_OLDER},
    {"parameter_default_values", "<iz", ONLY_NEWER | MAY_BE_NULL},
    {"stability", "<su", MAY_BE_NULL},
    {"null_handling", "<su", MAY_BE_NULL},
    {"argument_monotonicity", "[u", ONLY_NEWER | MAY_BE_NULL},
    {"description", "u", 0},
    {"examples", EXAMPLES, 0},
    {"categories", "[u", 0},
    {"projection_pushdown", "b", MAY_BE_NULL},
    {"filter_pushdown", "b", MAY_BE_NULL},
    {"sampling_pushdown", "b", MAY_BE_NULL},
    {"late_materialization", "b", MAY_BE_NULL},
    {"supported_expression_filters", "[u", ONLY_OLDER},
    {"filter_semantic_profiles", "[u", ONLY_NEWER},
    {"additional_filter_functions", VERSIONED, ONLY_NEWER},
    {"runtime_filter_algorithms", VERSIONED, ONLY_NEWER},
    {"filter_evaluation_contexts", "[(profile:!u,provider_fingerprint:u)", ONLY_NEWER},
    {"order_preservation", "<su", MAY_BE_NULL},
    {"max_workers", "i", NULL_IF_NEWER},
    {"supports_batch_index", "b", 0},
    {"supports_splits", "b", ONLY_NEWER},
    {"filters_exactly_applied", "b", ONLY_NEWER},
    {"supports_positions", "b", ONLY_NEWER},
    {"split_token_ttl_seconds", "l", ONLY_NEWER | MAY_BE_NULL},
    {"partition_kind", "<su", 0},
    {"order_dependent", "<su", 0},
    {"distinct_dependent", "<su", 0},
    {"supports_window", "b", 0},
    {"streaming_partitioned", "b", 0},
    {"has_finalize", "b", 0},
    {"source_order_dependent", "b", 0},
    {"sink_order_dependent", "b", 0},
    {"requires_input_batch_index", "b", 0},
    {"input_from_args", "b", 0},
    {"input_rows_per_call", "l", ONLY_NEWER | MAY_BE_NULL},
    {"required_settings", "[u", 0},
    {"required_secrets", "[(secret_type:!u,scope:u,secret_name:u)", 0},
};

static const field branch_info[] = {
    {"function_name", "u", 0},
    {"arguments", "z", 0},
    {"branch_filter", "u", MAY_BE_NULL},
    {"writable", "b", 0},
    {"source_catalog", "u", MAY_BE_NULL},
    {"source_schema", "u", ONLY_OLDER | MAY_BE_NULL},
    {"source_schema_path", "[u", ONLY_NEWER | MAY_BE_NULL},
    {"source_table", "u", MAY_BE_NULL},
    {"format_name", "u", ONLY_NEWER | MAY_BE_NULL},
    {"format_locations", "[u", ONLY_NEWER | MAY_BE_NULL},
    {"format_options", "z", ONLY_NEWER | MAY_BE_NULL},
    {"schema_path", "[u", ONLY_NEWER | MAY_BE_NULL},
};

static const field branches_result[] = {
    {"branches", "[z", 0},
    {"required_extensions", "[u", 0},
};

static const field scan_function_result[] = {
    {"function_name", "u", 0},
    {"arguments", "z", 0},
    {"required_extensions", "[u", 0},
    {"schema_path", "[u", ONLY_NEWER | MAY_BE_NULL},
};

static const field bind_response[] = {
    {"output_schema", "z", 0},  {"opaque_data", "z", NULL_IF_NEWER}, {"lookup_secret_types", "[u", 0},
    {"lookup_scopes", "[u", 0}, {"lookup_names", "[u", 0},
};

static const field init_response[] = {
    {"execution_id", "z", 0},
    {"opaque_data", "z", NULL_IF_NEWER},
    {"max_workers", "l", 0},
};

static const field cardinality[] = {
    {"estimate", "l", MAY_BE_NULL},
    {"max", "l", MAY_BE_NULL},
};

#define TABLE(fields)                                \
    {                                                \
        fields, sizeof(fields) / sizeof((fields)[0]) \
    }

static const struct {
    const field *fields;
    size_t count;
} tables[VGIW_RECORDS] = {
    [VGIW_CATALOG_INFO] = TABLE(catalog_info),
    [VGIW_ATTACH_RESULT] = TABLE(attach_result),
    [VGIW_COMPANION_INFO] = TABLE(companion_info),
    [VGIW_SCHEMA_INFO] = TABLE(schema_info),
    [VGIW_TABLE_INFO] = TABLE(table_info),
    [VGIW_FUNCTION_INFO] = TABLE(function_info),
    [VGIW_BRANCH_INFO] = TABLE(branch_info),
    [VGIW_BRANCHES_RESULT] = TABLE(branches_result),
    [VGIW_SCAN_FUNCTION_RESULT] = TABLE(scan_function_result),
    [VGIW_BIND_RESPONSE] = TABLE(bind_response),
    [VGIW_INIT_RESPONSE] = TABLE(init_response),
    [VGIW_CARDINALITY] = TABLE(cardinality),
};

void vgiw_complete(const od_vgi_dialect *dialect, vgiw_record kind, od_row *row)
{
    for (size_t i = 0; i < tables[kind].count; i++) {
        const field *f = &tables[kind].fields[i];
        bool null = (f->flags & MAY_BE_NULL) || ((f->flags & NULL_IF_NEWER) && dialect->nulls);

        if ((f->flags & (dialect->paths ? ONLY_OLDER : ONLY_NEWER)) || od_row_has(row, f->name))
            continue;
        od_row_blank(row, f->name, null ? OD_ROW_NULLABLE : OD_ROW_NOT_NULL, f->type);
    }
}

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

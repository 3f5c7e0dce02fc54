/* The columns of each record of the protocol. */
#include "vgi/worker/encode.h"

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

static const field view_info[] = {
    {"comment", "u", MAY_BE_NULL},
    {"tags", "{!uu", 0},
    {"name", "u", 0},
    {"schema_name", "u", ONLY_OLDER},
    {"schema_path", "[u", ONLY_NEWER},
    {"definition", "u", 0},
    {"column_comments", "{!uu", 0},
};

static const field macro_info[] = {
    {"comment", "u", MAY_BE_NULL},
    {"tags", "{!uu", 0},
    {"name", "u", 0},
    {"schema_name", "u", ONLY_OLDER},
    {"schema_path", "[u", ONLY_NEWER},
    {"macro_type", "<su", 0},
    {"parameters", "[u", 0},
    {"parameter_default_values", "z", NULL_IF_NEWER},
    {"definition", "u", 0},
    {"arguments_schema", "z", NULL_IF_NEWER},
};

static const field setting_info[] = {
    {"name", "u", 0},
    {"description", "u", 0},
    {"type", "z", 0},
    {"default_value", "z", MAY_BE_NULL},
};

static const field option_info[] = {
    {"name", "u", 0},
    {"description", "u", 0},
    {"type", "z", 0},
    {"default_value", "z", MAY_BE_NULL},
    {"required", "b", ONLY_NEWER},
    {"secret", "b", ONLY_NEWER},
};

static const field secret_type_info[] = {
    {"name", "u", 0},
    {"description", "u", 0},
    {"parameters_schema", "z", 0},
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
    [VGIW_VIEW_INFO] = TABLE(view_info),
    [VGIW_MACRO_INFO] = TABLE(macro_info),
    [VGIW_SETTING_INFO] = TABLE(setting_info),
    [VGIW_OPTION_INFO] = TABLE(option_info),
    [VGIW_SECRET_TYPE_INFO] = TABLE(secret_type_info),
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

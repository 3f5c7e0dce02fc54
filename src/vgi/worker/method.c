/* The methods that are answered with one record. */
#include <string.h>
#include <strings.h>

#include "vgi/worker/call.h"

#include "base/banned.h"

/* ---- what comes before ---- */

/* Whether the client has attached this catalog. */
static od_code check_attached(const vgiw_call *call, od_error *err)
{
    const od_buf *ours = &call->worker->attach;
    od_slice told;
    od_code rc = od_cell_bytes(od_record_cell(call->request, "attach_opaque_data", 0), &told, err);

    if (rc == OD_OK && !od_slice_equal(told, od_slice_of(ours->data, ours->len)))
        rc = od_fail(err, OD_E_INVALID, "attach_opaque_data not recognized");
    return rc;
}

static od_code put_items(const vgiw_call *call, const vgiw_records *records, od_error *err)
{
    return vgiw_records_put(records, call->out, "items", err);
}

static od_code no_items(const vgiw_call *call, od_error *err)
{
    const vgiw_records none = {{0}};
    od_code rc = check_attached(call, err);

    return rc == OD_OK ? put_items(call, &none, err) : rc;
}

static od_code nothing(const vgiw_call *call, od_error *err)
{
    return check_attached(call, err);
}

/* ---- catalogs ---- */

static od_code list_catalogs(const vgiw_call *call, od_error *err)
{
    vgiw_records records = {0};
    od_row *row = NULL;
    od_code rc;

    OD_TRY(od_row_create(&row, err));
    od_row_text(row, "name", OD_ROW_NOT_NULL, od_slice_str(call->worker->name));
    OD_TRY(vgiw_records_add(&records, call->dialect, VGIW_CATALOG_INFO, row, err));
    OD_TRY(put_items(call, &records, err));
out:
    vgiw_records_release(&records);
    od_row_free(row);
    return rc;
}

/* A catalog without options and versions takes none. */
static od_code check_attach(const od_record *request, od_error *err)
{
    static const char *const versions[] = {"data_version_spec", "implementation_version"};
    od_record *options = NULL;
    od_slice value;
    od_code rc = OD_OK;

    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        OD_TRY(od_cell_bytes(od_record_cell(request, versions[i], 0), &value, err));
        if (value.len > 0)
            OD_TRY(od_fail(err, OD_E_INVALID, "this catalog has no versions, so no '%s'", versions[i]));
    }
    OD_TRY(od_cell_bytes(od_record_cell(request, "options", 0), &value, err));
    if (value.len == 0)
        return OD_OK;
    OD_TRY(vgiw_inner(request, "options", &options, err));
    if (od_record_schema(options)->n_children > 0)
        rc =
            od_fail(err, OD_E_INVALID, "this catalog has no option '%s'", od_record_schema(options)->children[0]->name);
out:
    od_record_free(options);
    return rc;
}

static od_code attach(const vgiw_call *call, od_error *err)
{
    od_record *request = NULL;
    od_buf buf = {0};
    const char *name;
    od_code rc;

    OD_TRY(vgiw_inner(call->request, "request", &request, err));
    OD_TRY(vgiw_text(request, "name", &buf, &name, err));
    if (name == NULL || strcasecmp(name, call->worker->name) != 0)
        OD_TRY(od_fail(err, OD_E_NOT_FOUND, "there is no catalog '%s': there is '%s'", name != NULL ? name : "",
                       call->worker->name));
    OD_TRY(check_attach(request, err));
    OD_TRY(vgiw_put_attached(call->dialect, call->worker, call->out, err));
out:
    od_record_free(request);
    od_buf_release(&buf);
    return rc;
}

static od_code version(const vgiw_call *call, od_error *err)
{
    const int64_t one = 1;
    od_code rc = check_attached(call, err);

    if (rc == OD_OK)
        od_row_int64(call->out, "version", OD_ROW_NOT_NULL, &one);
    return rc;
}

static od_code begin_transaction(const vgiw_call *call, od_error *err)
{
    od_code rc = check_attached(call, err);

    if (rc == OD_OK)
        od_row_binary(call->out, "transaction_opaque_data", OD_ROW_NULLABLE, (od_slice){NULL, 0});
    return rc;
}

/* ---- schemas ---- */

/* Adds the items of an answer to RECORDS; ROW is for their making. */
typedef od_code collect(const vgiw_call *call, vgiw_records *records, od_row *row, od_error *err);

static od_code answer_items(const vgiw_call *call, collect *items, od_error *err)
{
    vgiw_records records = {0};
    od_row *row = NULL;
    od_code rc;

    OD_TRY(od_row_create(&row, err));
    OD_TRY(items(call, &records, row, err));
    OD_TRY(put_items(call, &records, err));
out:
    vgiw_records_release(&records);
    od_row_free(row);
    return rc;
}

static od_code add_schema(const vgiw_call *call, const vgiw_schema *schema, vgiw_records *records, od_row *row,
                          od_error *err)
{
    vgiw_put_schema(call->dialect, call->worker, schema, row);
    return vgiw_records_add(records, call->dialect, VGIW_SCHEMA_INFO, row, err);
}

static od_code collect_schemas(const vgiw_call *call, vgiw_records *records, od_row *row, od_error *err)
{
    const vgiw_schema *schemas = call->worker->schemas.items;
    od_code rc = check_attached(call, err);

    for (size_t i = 0; rc == OD_OK && i < call->worker->schemas.count; i++)
        rc = add_schema(call, &schemas[i], records, row, err);
    return rc;
}

static od_code list_schemas(const vgiw_call *call, od_error *err)
{
    return answer_items(call, collect_schemas, err);
}

static od_code find_schema(const vgiw_call *call, const vgiw_schema **out, od_error *err)
{
    od_buf buf = {0};
    const char *name;
    od_code rc;

    *out = NULL;
    OD_TRY(check_attached(call, err));
    OD_TRY(vgiw_schema_text(call, call->request, "path", "name", &buf, &name, err));
    if (name != NULL)
        *out = vgiw_find_schema(call->worker, name);
out:
    od_buf_release(&buf);
    return rc;
}

static od_code collect_schema(const vgiw_call *call, vgiw_records *records, od_row *row, od_error *err)
{
    const vgiw_schema *schema;
    od_code rc = find_schema(call, &schema, err);

    return rc == OD_OK && schema != NULL ? add_schema(call, schema, records, row, err) : rc;
}

static od_code get_schema(const vgiw_call *call, od_error *err)
{
    return answer_items(call, collect_schema, err);
}

/* ---- what is in them ---- */

static od_code add_table(const vgiw_call *call, const vgiw_table *table, vgiw_records *records, od_row *row,
                         od_error *err)
{
    od_code rc = vgiw_put_table(call->dialect, table, row, err);

    return rc == OD_OK ? vgiw_records_add(records, call->dialect, VGIW_TABLE_INFO, row, err) : rc;
}

static od_code collect_tables(const vgiw_call *call, vgiw_records *records, od_row *row, od_error *err)
{
    const vgiw_table *tables = call->worker->tables.items;
    const vgiw_schema *schema;
    od_code rc = find_schema(call, &schema, err);

    for (size_t i = 0; rc == OD_OK && schema != NULL && i < call->worker->tables.count; i++)
        if (strcasecmp(tables[i].schema, schema->name) == 0)
            rc = add_table(call, &tables[i], records, row, err);
    return rc;
}

static od_code list_tables(const vgiw_call *call, od_error *err)
{
    return answer_items(call, collect_tables, err);
}

static od_code collect_functions(const vgiw_call *call, vgiw_records *records, od_row *row, od_error *err)
{
    const vgiw_function *functions = call->worker->functions.items;
    const vgiw_schema *schema;
    od_slice type;
    bool tables;
    od_code rc;

    OD_TRY(find_schema(call, &schema, err));
    OD_TRY(od_cell_bytes(od_record_cell(call->request, "type", 0), &type, err));
    tables = od_slice_equal(type, od_slice_str("TABLE_FUNCTION")) || od_slice_equal(type, od_slice_str("TABLE"));
    for (size_t i = 0; tables && schema != NULL && i < call->worker->functions.count; i++) {
        if (strcasecmp(functions[i].schema, schema->name) != 0)
            continue;
        OD_TRY(vgiw_put_function(call->dialect, &functions[i], row, err));
        OD_TRY(vgiw_records_add(records, call->dialect, VGIW_FUNCTION_INFO, row, err));
    }
out:
    return rc;
}

static od_code list_functions(const vgiw_call *call, od_error *err)
{
    return answer_items(call, collect_functions, err);
}

/* ---- tables ---- */

/* *out NULL: there is none. NEEDED: then it fails. */
static od_code find_table(const vgiw_call *call, bool needed, const vgiw_table **out, od_error *err)
{
    od_buf schema_buf = {0}, name_buf = {0};
    const char *schema, *name;
    od_slice at;
    od_code rc;

    *out = NULL;
    OD_TRY(check_attached(call, err));
    OD_TRY(vgiw_schema_text(call, call->request, "schema_path", "schema_name", &schema_buf, &schema, err));
    OD_TRY(vgiw_text(call->request, "name", &name_buf, &name, err));
    OD_TRY(od_cell_bytes(od_record_cell(call->request, "at_unit", 0), &at, err));
    if (at.len > 0)
        OD_TRY(od_fail(err, OD_E_NOT_IMPLEMENTED, "this catalog has no time travel"));
    if (schema != NULL && name != NULL)
        *out = vgiw_find_table(call->worker, schema, name);
    if (*out == NULL && needed)
        rc = od_fail(err, OD_E_NOT_FOUND, "there is no table '%s.%s'", schema != NULL ? schema : "",
                     name != NULL ? name : "");
out:
    od_buf_release(&schema_buf);
    od_buf_release(&name_buf);
    return rc;
}

static od_code collect_table(const vgiw_call *call, vgiw_records *records, od_row *row, od_error *err)
{
    const vgiw_table *table;
    od_code rc = find_table(call, false, &table, err);

    return rc == OD_OK && table != NULL ? add_table(call, table, records, row, err) : rc;
}

static od_code get_table(const vgiw_call *call, od_error *err)
{
    return answer_items(call, collect_table, err);
}

static od_code get_branches(const vgiw_call *call, od_error *err)
{
    const vgiw_table *table;
    od_code rc = find_table(call, true, &table, err);

    return rc == OD_OK ? vgiw_put_branches(call->dialect, table, call->out, err) : rc;
}

static od_code get_scan_function(const vgiw_call *call, od_error *err)
{
    const vgiw_table *table;
    od_code rc = find_table(call, true, &table, err);

    return rc == OD_OK ? vgiw_put_scan_function(call->dialect, table, call->out, err) : rc;
}

/* ---- functions ---- */

static od_code bind(const vgiw_call *call, od_error *err)
{
    od_record *request = NULL;
    od_msg *schema = NULL;
    vgiw_bound bound = {0};
    od_code rc;

    OD_TRY(vgiw_inner(call->request, "request", &request, err));
    OD_TRY(vgiw_bind(call, request, &bound, err));
    OD_TRY(od_vgi_schema_write(&bound.output, &schema, err));
    od_row_binary(call->out, "output_schema", OD_ROW_NOT_NULL, od_vgi_msg_bytes(schema));
    vgiw_complete(call->dialect, VGIW_BIND_RESPONSE, call->out);
out:
    od_msg_unref(schema);
    vgiw_bound_release(&bound);
    od_record_free(request);
    return rc;
}

static od_code cardinality(const vgiw_call *call, od_error *err)
{
    od_record *request = NULL, *inner = NULL;
    vgiw_bound bound = {0};
    int64_t rows;
    od_code rc;

    OD_TRY(vgiw_inner(call->request, "request", &request, err));
    OD_TRY(vgiw_inner(request, "bind_call", &inner, err));
    OD_TRY(vgiw_bind(call, inner, &bound, err));
    rows =
        bound.function->call.count != NULL ? bound.function->call.count(bound.function->call.arg, &bound.values) : -1;
    if (rows >= 0)
        od_row_int64(call->out, "estimate", OD_ROW_NULLABLE, &rows);
    vgiw_complete(call->dialect, VGIW_CARDINALITY, call->out);
out:
    vgiw_bound_release(&bound);
    od_record_free(inner);
    od_record_free(request);
    return rc;
}

static const vgiw_method methods[] = {
    {"catalog_catalogs", list_catalogs, false},
    {"catalog_attach", attach, false},
    {"catalog_detach", nothing, true},
    {"catalog_version", version, false},
    {"catalog_transaction_begin", begin_transaction, false},
    {"catalog_transaction_commit", nothing, true},
    {"catalog_transaction_rollback", nothing, true},
    {"catalog_schemas", list_schemas, false},
    {"catalog_schema_get", get_schema, false},
    {"catalog_schema_contents_tables", list_tables, false},
    {"catalog_schema_contents_functions", list_functions, false},
    {"catalog_schema_contents_views", no_items, false},
    {"catalog_schema_contents_macros", no_items, false},
    {"catalog_schema_contents_indexes", no_items, false},
    {"catalog_table_get", get_table, false},
    {"catalog_table_scan_branches_get", get_branches, false},
    {"catalog_table_scan_function_get", get_scan_function, false},
    {"catalog_view_get", no_items, false},
    {"catalog_macro_get", no_items, false},
    {"catalog_index_get", no_items, false},
    {"catalog_copy_from_formats", no_items, false},
    {"bind", bind, false},
    {"table_function_cardinality", cardinality, false},
};

const vgiw_method *vgiw_method_find(od_slice name)
{
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if (od_slice_equal(name, od_slice_str(methods[i].name)))
            return &methods[i];
    return NULL;
}

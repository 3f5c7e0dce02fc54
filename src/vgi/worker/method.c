/* The methods that are answered with one record. */
#include <string.h>
#include <strings.h>

#include "vgi/worker/call.h"

#include "base/banned.h"

/* ---- what comes before ---- */

/* Whether the client has attached this catalog. */
static od_code check_attached(const vgiw_call *call, od_error *err)
{
    od_slice told, options;
    od_code rc = od_cell_bytes(od_record_cell(call->request, "attach_opaque_data", 0), &told, err);

    return rc == OD_OK ? vgiw_check_attached(call->worker, told, &options, err) : rc;
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
    OD_TRY(vgiw_put_catalog(call->dialect, call->worker, row, err));
    OD_TRY(vgiw_records_add(&records, call->dialect, VGIW_CATALOG_INFO, row, err));
    OD_TRY(put_items(call, &records, err));
out:
    vgiw_records_release(&records);
    od_row_free(row);
    return rc;
}

static od_code attach(const vgiw_call *call, od_error *err)
{
    od_record *request = NULL;
    od_msg *options = NULL;
    od_buf buf = {0};
    const char *name;
    od_code rc;

    OD_TRY(vgiw_inner(call->request, "request", &request, err));
    OD_TRY(vgiw_text(request, "name", &buf, &name, err));
    if (name == NULL || strcasecmp(name, call->worker->name) != 0)
        OD_TRY(od_fail(err, OD_E_NOT_FOUND, "there is no catalog '%s': there is '%s'", name != NULL ? name : "",
                       call->worker->name));
    OD_TRY(vgiw_attach_options(call->worker, request, &options, err));
    OD_TRY(vgiw_put_attached(call->dialect, call->worker, od_vgi_msg_bytes(options), call->out, err));
out:
    od_msg_unref(options);
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
    const od_vgiw_transactions *t = &call->worker->transactions;
    od_vgiw_error why = {.code = OD_VGIW_OK};
    char id[OD_VGIW_ID] = "";
    od_code rc;

    OD_TRY(check_attached(call, err));
    if (call->worker->has_transactions)
        OD_TRY(vgiw_failed(err, t->begin(t->arg, id, &why), &why));
    id[OD_VGIW_ID - 1] = '\0';
    od_row_binary(call->out, "transaction_opaque_data", OD_ROW_NULLABLE,
                  id[0] != '\0' ? od_slice_str(id) : (od_slice){NULL, 0});
out:
    return rc;
}

/* END is the worker's commit or rollback. */
static od_code end_transaction(const vgiw_call *call, od_vgiw_code (*end)(void *, const char *, od_vgiw_error *),
                               od_error *err)
{
    od_vgiw_error why = {.code = OD_VGIW_OK};
    od_buf buf = {0};
    const char *id;
    od_code rc;

    OD_TRY(check_attached(call, err));
    OD_TRY(vgiw_text(call->request, "transaction_opaque_data", &buf, &id, err));
    if (id != NULL && end != NULL)
        OD_TRY(vgiw_failed(err, end(call->worker->transactions.arg, id, &why), &why));
out:
    od_buf_release(&buf);
    return rc;
}

static od_code commit(const vgiw_call *call, od_error *err)
{
    return end_transaction(call, call->worker->transactions.commit, err);
}

static od_code rollback(const vgiw_call *call, od_error *err)
{
    return end_transaction(call, call->worker->transactions.rollback, err);
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

static od_code add_table(const vgiw_call *call, const vgiw_table *table, const char *name, vgiw_records *records,
                         od_row *row, od_error *err)
{
    od_code rc = vgiw_put_table(call->dialect, table, name, row, err);

    return rc == OD_OK ? vgiw_records_add(records, call->dialect, VGIW_TABLE_INFO, row, err) : rc;
}

static od_code collect_tables(const vgiw_call *call, vgiw_records *records, od_row *row, od_error *err)
{
    const vgiw_table *tables = call->worker->tables.items;
    const vgiw_schema *schema;
    od_code rc = find_schema(call, &schema, err);

    for (size_t i = 0; rc == OD_OK && schema != NULL && i < call->worker->tables.count; i++)
        if (!tables[i].unlisted && strcasecmp(tables[i].schema, schema->name) == 0)
            rc = add_table(call, &tables[i], tables[i].name, records, row, err);
    return rc;
}

static od_code list_tables(const vgiw_call *call, od_error *err)
{
    return answer_items(call, collect_tables, err);
}

/* What TYPE, of a request for functions, means: 1.3 and some clients have shorter words. */
static bool is_asked(od_slice type, od_vgiw_function_kind kind)
{
    const char *const words[] = {kind == OD_VGIW_SCALAR ? "SCALAR_FUNCTION" : "TABLE_FUNCTION",
                                 kind == OD_VGIW_SCALAR ? "SCALAR" : "TABLE"};

    return od_slice_equal(type, od_slice_str(words[0])) || od_slice_equal(type, od_slice_str(words[1]));
}

static od_code collect_functions(const vgiw_call *call, vgiw_records *records, od_row *row, od_error *err)
{
    const vgiw_function *functions = call->worker->functions.items;
    const vgiw_schema *schema;
    od_slice type;
    od_code rc;

    OD_TRY(find_schema(call, &schema, err));
    OD_TRY(od_cell_bytes(od_record_cell(call->request, "type", 0), &type, err));
    for (size_t i = 0; schema != NULL && i < call->worker->functions.count; i++) {
        if (strcasecmp(functions[i].schema, schema->name) != 0 || !is_asked(type, functions[i].call.kind))
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

/* ---- views, macros ---- */

static od_code add_view(const vgiw_call *call, const vgiw_definition *view, vgiw_records *records, od_row *row,
                        od_error *err)
{
    vgiw_put_view(call->dialect, view, row);
    return vgiw_records_add(records, call->dialect, VGIW_VIEW_INFO, row, err);
}

static od_code add_macro(const vgiw_call *call, const vgiw_definition *macro, vgiw_records *records, od_row *row,
                         od_error *err)
{
    od_code rc = vgiw_put_macro(call->dialect, macro, row, err);

    return rc == OD_OK ? vgiw_records_add(records, call->dialect, VGIW_MACRO_INFO, row, err) : rc;
}

static od_code collect_views(const vgiw_call *call, vgiw_records *records, od_row *row, od_error *err)
{
    const vgiw_definition *views = call->worker->views.items;
    const vgiw_schema *schema;
    od_code rc = find_schema(call, &schema, err);

    for (size_t i = 0; rc == OD_OK && schema != NULL && i < call->worker->views.count; i++)
        if (strcasecmp(views[i].schema, schema->name) == 0)
            rc = add_view(call, &views[i], records, row, err);
    return rc;
}

static od_code collect_macros(const vgiw_call *call, vgiw_records *records, od_row *row, od_error *err)
{
    const vgiw_definition *macros = call->worker->macros.items;
    const vgiw_schema *schema;
    od_slice type;
    od_code rc;

    OD_TRY(find_schema(call, &schema, err));
    OD_TRY(od_cell_bytes(od_record_cell(call->request, "type", 0), &type, err));
    for (size_t i = 0; schema != NULL && i < call->worker->macros.count; i++) {
        bool table = macros[i].table;

        if (strcasecmp(macros[i].schema, schema->name) == 0 &&
            (od_slice_equal(type, od_slice_str(table ? "TABLE_MACRO" : "SCALAR_MACRO")) ||
             od_slice_equal(type, od_slice_str(table ? "TABLE" : "SCALAR"))))
            OD_TRY(add_macro(call, &macros[i], records, row, err));
    }
out:
    return rc;
}

static od_code list_views(const vgiw_call *call, od_error *err)
{
    return answer_items(call, collect_views, err);
}

static od_code list_macros(const vgiw_call *call, od_error *err)
{
    return answer_items(call, collect_macros, err);
}

/* What a request names. */
typedef struct {
    od_buf schema_buf, name_buf;
    const char *schema, *name; /* NULL: not told */
} names;

static od_code read_names(const vgiw_call *call, names *out, od_error *err)
{
    od_code rc;

    OD_TRY(check_attached(call, err));
    OD_TRY(vgiw_schema_text(call, call->request, "schema_path", "schema_name", &out->schema_buf, &out->schema, err));
    OD_TRY(vgiw_text(call->request, "name", &out->name_buf, &out->name, err));
out:
    return rc;
}

static void names_release(names *n)
{
    od_buf_release(&n->schema_buf);
    od_buf_release(&n->name_buf);
}

/* Of LIST the one that is named, if it is there, by ADD. */
static od_code collect_definition(const vgiw_call *call, const vgiw_list *list,
                                  od_code (*add)(const vgiw_call *, const vgiw_definition *, vgiw_records *, od_row *,
                                                 od_error *),
                                  vgiw_records *records, od_row *row, od_error *err)
{
    const vgiw_definition *found = NULL;
    names n = {0};
    od_code rc;

    OD_TRY(read_names(call, &n, err));
    if (n.schema != NULL && n.name != NULL)
        found = vgiw_find_definition(list, n.schema, n.name);
    if (found != NULL)
        OD_TRY(add(call, found, records, row, err));
out:
    names_release(&n);
    return rc;
}

static od_code collect_view(const vgiw_call *call, vgiw_records *records, od_row *row, od_error *err)
{
    return collect_definition(call, &call->worker->views, add_view, records, row, err);
}

static od_code collect_macro(const vgiw_call *call, vgiw_records *records, od_row *row, od_error *err)
{
    return collect_definition(call, &call->worker->macros, add_macro, records, row, err);
}

static od_code get_view(const vgiw_call *call, od_error *err)
{
    return answer_items(call, collect_view, err);
}

static od_code get_macro(const vgiw_call *call, od_error *err)
{
    return answer_items(call, collect_macro, err);
}

/* ---- tables ---- */

/* The table that *TABLE was, as of when the request says. */
static od_code look_back(const vgiw_call *call, const vgiw_table **table, od_error *err)
{
    od_vgiw_error why = {.code = OD_VGIW_OK};
    od_buf unit_buf = {0}, value_buf = {0};
    const char *unit, *value, *name = NULL;
    const vgiw_table *found;
    od_code rc;

    OD_TRY(vgiw_text(call->request, "at_unit", &unit_buf, &unit, err));
    OD_TRY(vgiw_text(call->request, "at_value", &value_buf, &value, err));
    if (unit == NULL || *table == NULL)
        goto out;
    if ((*table)->at == NULL)
        OD_TRY(od_fail(err, OD_E_NOT_IMPLEMENTED, "table '%s' does not support time travel", (*table)->name));
    OD_TRY(vgiw_failed(err, (*table)->at((*table)->arg, unit, value != NULL ? value : "", &name, &why), &why));
    found = name != NULL ? vgiw_find_table(call->worker, (*table)->schema, name) : NULL;
    if (found == NULL)
        OD_TRY(od_fail(err, OD_E_INTERNAL, "table '%s' was '%s' then, which is not there", (*table)->name,
                       name != NULL ? name : ""));
    *table = found;
out:
    od_buf_release(&unit_buf);
    od_buf_release(&value_buf);
    return rc;
}

/* *out NULL: there is none. NEEDED: then it fails. *NAMED (NULL allowed) is what it is called, whatever it was then. */
static od_code find_table(const vgiw_call *call, bool needed, const vgiw_table **out, const char **named, od_error *err)
{
    names n = {0};
    od_code rc;

    *out = NULL;
    OD_TRY(read_names(call, &n, err));
    if (n.schema != NULL && n.name != NULL)
        *out = vgiw_find_table(call->worker, n.schema, n.name);
    if (*out != NULL && (*out)->unlisted)
        *out = NULL;
    if (*out == NULL && needed)
        OD_TRY(od_fail(err, OD_E_NOT_FOUND, "there is no table '%s.%s'", n.schema != NULL ? n.schema : "",
                       n.name != NULL ? n.name : ""));
    if (named != NULL && *out != NULL)
        *named = (*out)->name;
    OD_TRY(look_back(call, out, err));
out:
    names_release(&n);
    return rc;
}

static od_code collect_table(const vgiw_call *call, vgiw_records *records, od_row *row, od_error *err)
{
    const vgiw_table *table;
    const char *name = NULL;
    od_code rc = find_table(call, false, &table, &name, err);

    return rc == OD_OK && table != NULL ? add_table(call, table, name, records, row, err) : rc;
}

static od_code get_table(const vgiw_call *call, od_error *err)
{
    return answer_items(call, collect_table, err);
}

static od_code get_branches(const vgiw_call *call, od_error *err)
{
    const vgiw_table *table;
    od_code rc = find_table(call, true, &table, NULL, err);

    return rc == OD_OK ? vgiw_put_branches(call->dialect, table, call->out, err) : rc;
}

static od_code get_scan_function(const vgiw_call *call, od_error *err)
{
    const vgiw_table *table;
    od_code rc = find_table(call, true, &table, NULL, err);

    return rc == OD_OK ? vgiw_put_scan_function(call->dialect, table, call->out, err) : rc;
}

static od_code get_insert_function(const vgiw_call *call, od_error *err)
{
    const vgiw_table *table;
    od_code rc = find_table(call, true, &table, NULL, err);

    if (rc == OD_OK && table->insert == NULL)
        rc = od_fail(err, OD_E_INVALID, "table '%s' takes no rows", table->name);
    return rc == OD_OK ? vgiw_put_insert_function(call->dialect, table, call->out, err) : rc;
}

static od_code get_table_statistics(const vgiw_call *call, od_error *err)
{
    const vgiw_table *table;
    od_code rc = find_table(call, true, &table, NULL, err);

    return rc == OD_OK && table->statistics != NULL
               ? vgiw_write_statistics(&table->columns, table->statistics, call->stream, err)
               : rc;
}

static const vgiw_method methods[] = {
    {"catalog_catalogs", list_catalogs, VGIW_RECORD},
    {"catalog_attach", attach, VGIW_RECORD},
    {"catalog_detach", nothing, VGIW_NO_RESULT},
    {"catalog_version", version, VGIW_RECORD},
    {"catalog_transaction_begin", begin_transaction, VGIW_RECORD},
    {"catalog_transaction_commit", commit, VGIW_NO_RESULT},
    {"catalog_transaction_rollback", rollback, VGIW_NO_RESULT},
    {"catalog_schemas", list_schemas, VGIW_RECORD},
    {"catalog_schema_get", get_schema, VGIW_RECORD},
    {"catalog_schema_contents_tables", list_tables, VGIW_RECORD},
    {"catalog_schema_contents_functions", list_functions, VGIW_RECORD},
    {"catalog_schema_contents_views", list_views, VGIW_RECORD},
    {"catalog_schema_contents_macros", list_macros, VGIW_RECORD},
    {"catalog_schema_contents_indexes", no_items, VGIW_RECORD},
    {"catalog_table_get", get_table, VGIW_RECORD},
    {"catalog_table_scan_branches_get", get_branches, VGIW_RECORD},
    {"catalog_table_scan_function_get", get_scan_function, VGIW_RECORD},
    {"catalog_view_get", get_view, VGIW_RECORD},
    {"catalog_macro_get", get_macro, VGIW_RECORD},
    {"catalog_index_get", no_items, VGIW_RECORD},
    {"catalog_copy_from_formats", no_items, VGIW_RECORD},
    {"catalog_table_insert_function_get", get_insert_function, VGIW_RECORD},
    {"catalog_table_column_statistics_get", get_table_statistics, VGIW_STREAM},
    {"bind", vgiw_answer_bind, VGIW_RECORD},
    {"table_function_cardinality", vgiw_answer_cardinality, VGIW_RECORD},
    {"table_function_statistics", vgiw_answer_statistics, VGIW_STREAM},
    {"table_buffering_process", vgiw_answer_process, VGIW_RECORD},
    {"table_buffering_combine", vgiw_answer_combine, VGIW_RECORD},
    {"table_buffering_destructor", vgiw_answer_destructor, VGIW_RECORD},
};

const vgiw_method *vgiw_method_find(od_slice name)
{
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if (od_slice_equal(name, od_slice_str(methods[i].name)))
            return &methods[i];
    return NULL;
}

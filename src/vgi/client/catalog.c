/* The methods that tell about catalogs. */
#include "vgi/client/client_internal.h"
#include "vgi/client/decode.h"

#include "base/banned.h"

/* A call that is made: its row, and the bytes of its answer. */
typedef struct {
    od_vgi *vgi;
    const od_vgi_dialect *dialect;
    od_row *row;
    const char *method; /* once it is asked */
    od_buf answer;
} call;

static od_code begin(call *c, od_vgi *vgi, od_vgi_interrupt interrupt, od_error *err)
{
    *c = (call){.vgi = vgi};
    od_code rc = od_vgi_dialect_of(vgi, interrupt, &c->dialect, err);
    return rc == OD_OK ? od_row_create(&c->row, err) : rc;
}

static od_code end(call *c, od_code rc, od_error *err)
{
    if (rc != OD_OK && c->method != NULL)
        od_error_prefix(err, "vgi %s", c->method);
    od_row_free(c->row);
    od_buf_release(&c->answer);
    return rc;
}

static od_slice bytes_of(const call *c)
{
    return od_slice_of(c->answer.data, c->answer.len);
}

static od_code run(call *c, od_vgi_interrupt interrupt, const char *method, od_error *err)
{
    c->method = method;
    return od_vgi_call(c->vgi, interrupt, method, c->row, &c->answer, err);
}

static void put_attach(call *c, const od_vgi_context *context)
{
    od_row_binary(c->row, "attach_opaque_data", OD_ROW_NOT_NULL, context->attach);
}

static void put_transaction(call *c, const od_vgi_context *context)
{
    od_row_binary(c->row, "transaction_opaque_data", OD_ROW_NULLABLE, context->transaction);
}

/* ---- catalogs ---- */

od_code od_vgi_list_catalogs(od_vgi *vgi, od_vgi_interrupt interrupt, od_vgi_catalogs *out, od_error *err)
{
    call c;
    od_code rc;

    *out = (od_vgi_catalogs){0};
    OD_TRY(begin(&c, vgi, interrupt, err));
    OD_TRY(run(&c, interrupt, "catalog_catalogs", err));
    OD_TRY(od_vgi_decode_catalogs(bytes_of(&c), out, err));
out:
    return end(&c, rc, err);
}

static od_code put_attach_request(call *c, const od_vgi_attach *attach, od_error *err)
{
    od_row *record = NULL;
    od_msg *options = NULL;
    od_code rc;

    OD_TRY(od_row_create(&record, err));
    OD_TRY(od_vgi_values_write(attach->options, &options, err));
    od_row_text(record, "name", OD_ROW_NOT_NULL, od_slice_str(attach->name));
    od_vgi_put_bytes(c->dialect, record, "options", od_vgi_msg_bytes(options));
    od_vgi_put_text(record, "data_version_spec", attach->data_version_spec);
    od_vgi_put_text(record, "implementation_version", attach->implementation_version);
    OD_TRY(od_vgi_put_request(c->row, record, err));
out:
    od_row_free(record);
    od_msg_unref(options);
    return rc;
}

od_code od_vgi_attach_catalog(od_vgi *vgi, od_vgi_interrupt interrupt, const od_vgi_attach *attach,
                              od_vgi_attached *out, od_error *err)
{
    call c;
    od_code rc;

    *out = (od_vgi_attached){0};
    OD_TRY(begin(&c, vgi, interrupt, err));
    OD_TRY(put_attach_request(&c, attach, err));
    OD_TRY(run(&c, interrupt, "catalog_attach", err));
    OD_TRY(od_vgi_decode_attached(bytes_of(&c), out, err));
out:
    return end(&c, rc, err);
}

od_code od_vgi_detach_catalog(od_vgi *vgi, const od_vgi_context *context, od_error *err)
{
    call c;
    od_code rc;

    OD_TRY(begin(&c, vgi, context->interrupt, err));
    put_attach(&c, context);
    OD_TRY(run(&c, context->interrupt, "catalog_detach", err));
out:
    rc = end(&c, rc, err);
    return rc == OD_E_NOT_IMPLEMENTED ? OD_OK : rc;
}

/* ---- versions and transactions ---- */

/* The column NAME of a record of one row. */
static od_code read_one(const call *c, const char *name, int64_t *number, od_buf *bytes, od_error *err)
{
    od_record *record = NULL;
    od_slice value;
    od_code rc;

    OD_TRY(od_vgi_record_one(bytes_of(c), &record, err));
    if (number != NULL) {
        OD_TRY(od_cell_int(od_vgi_cell(record, name), number, err));
    } else {
        OD_TRY(od_cell_bytes(od_vgi_cell(record, name), &value, err));
        OD_TRY(od_buf_append(bytes, value.data, value.len, err));
    }
out:
    od_record_free(record);
    return rc;
}

od_code od_vgi_catalog_version(od_vgi *vgi, const od_vgi_context *context, int64_t *out, od_error *err)
{
    call c;
    od_code rc;

    *out = 0;
    OD_TRY(begin(&c, vgi, context->interrupt, err));
    put_attach(&c, context);
    put_transaction(&c, context);
    OD_TRY(run(&c, context->interrupt, "catalog_version", err));
    OD_TRY(read_one(&c, "version", out, NULL, err));
out:
    return end(&c, rc, err);
}

od_code od_vgi_begin(od_vgi *vgi, const od_vgi_context *context, od_buf *out, od_error *err)
{
    call c;
    od_code rc;

    OD_TRY(begin(&c, vgi, context->interrupt, err));
    put_attach(&c, context);
    OD_TRY(run(&c, context->interrupt, "catalog_transaction_begin", err));
    OD_TRY(read_one(&c, "transaction_opaque_data", NULL, out, err));
out:
    return end(&c, rc, err);
}

static od_code end_transaction(od_vgi *vgi, const od_vgi_context *context, const char *method, od_error *err)
{
    call c;
    od_code rc;

    if (context->transaction.len == 0)
        return OD_OK;
    OD_TRY(begin(&c, vgi, context->interrupt, err));
    put_attach(&c, context);
    od_row_binary(c.row, "transaction_opaque_data", OD_ROW_NOT_NULL, context->transaction);
    OD_TRY(run(&c, context->interrupt, method, err));
out:
    return end(&c, rc, err);
}

od_code od_vgi_commit(od_vgi *vgi, const od_vgi_context *context, od_error *err)
{
    return end_transaction(vgi, context, "catalog_transaction_commit", err);
}

od_code od_vgi_rollback(od_vgi *vgi, const od_vgi_context *context, od_error *err)
{
    return end_transaction(vgi, context, "catalog_transaction_rollback", err);
}

/* ---- what is in them ---- */

od_code od_vgi_list_schemas(od_vgi *vgi, const od_vgi_context *context, od_vgi_schemas *out, od_error *err)
{
    call c;
    od_code rc;

    *out = (od_vgi_schemas){0};
    OD_TRY(begin(&c, vgi, context->interrupt, err));
    put_attach(&c, context);
    put_transaction(&c, context);
    OD_TRY(run(&c, context->interrupt, "catalog_schemas", err));
    OD_TRY(od_vgi_decode_schemas(bytes_of(&c), out, err));
out:
    return end(&c, rc, err);
}

/* TYPE: of the two methods that have that parameter, else NULL. */
static od_code ask_contents(call *c, od_vgi *vgi, const od_vgi_context *context, const char *method, const char *schema,
                            const char *type, od_error *err)
{
    od_code rc = begin(c, vgi, context->interrupt, err);

    if (rc != OD_OK)
        return rc;
    put_attach(c, context);
    od_vgi_put_schema(c->dialect, c->row, "path", "name", schema, OD_ROW_NOT_NULL);
    if (type != NULL && c->dialect->symbols)
        od_row_symbol(c->row, "type", OD_ROW_NOT_NULL, od_slice_str(type));
    else if (type != NULL)
        od_row_text(c->row, "type", OD_ROW_NOT_NULL, od_slice_str(type));
    put_transaction(c, context);
    return run(c, context->interrupt, method, err);
}

od_code od_vgi_list_tables(od_vgi *vgi, const od_vgi_context *context, const char *schema, od_vgi_tables *out,
                           od_error *err)
{
    call c;
    od_code rc;

    *out = (od_vgi_tables){0};
    OD_TRY(ask_contents(&c, vgi, context, "catalog_schema_contents_tables", schema, NULL, err));
    OD_TRY(od_vgi_decode_tables(bytes_of(&c), out, err));
out:
    return end(&c, rc, err);
}

od_code od_vgi_list_views(od_vgi *vgi, const od_vgi_context *context, const char *schema, od_vgi_views *out,
                          od_error *err)
{
    call c;
    od_code rc;

    *out = (od_vgi_views){0};
    OD_TRY(ask_contents(&c, vgi, context, "catalog_schema_contents_views", schema, NULL, err));
    OD_TRY(od_vgi_decode_views(bytes_of(&c), out, err));
out:
    return end(&c, rc, err);
}

od_code od_vgi_list_macros(od_vgi *vgi, const od_vgi_context *context, const char *schema, bool table,
                           od_vgi_macros *out, od_error *err)
{
    call c;
    od_code rc;

    *out = (od_vgi_macros){0};
    OD_TRY(ask_contents(&c, vgi, context, "catalog_schema_contents_macros", schema,
                        table ? "TABLE_MACRO" : "SCALAR_MACRO", err));
    OD_TRY(od_vgi_decode_macros(bytes_of(&c), out, err));
out:
    return end(&c, rc, err);
}

od_code od_vgi_list_functions(od_vgi *vgi, const od_vgi_context *context, const char *schema, od_vgi_function_type type,
                              od_vgi_functions *out, od_error *err)
{
    const char *name = type == OD_VGI_SCALAR_FUNCTION      ? "SCALAR_FUNCTION"
                       : type == OD_VGI_AGGREGATE_FUNCTION ? "AGGREGATE_FUNCTION"
                                                           : "TABLE_FUNCTION";
    call c;
    od_code rc;

    *out = (od_vgi_functions){0};
    OD_TRY(ask_contents(&c, vgi, context, "catalog_schema_contents_functions", schema, name, err));
    OD_TRY(od_vgi_decode_functions(bytes_of(&c), out, err));
out:
    return end(&c, rc, err);
}

/* ---- one table ---- */

/* What is asked about every table. */
static od_code begin_table(call *c, od_vgi *vgi, const od_vgi_context *context, const char *schema, const char *name,
                           od_error *err)
{
    od_code rc = begin(c, vgi, context->interrupt, err);

    if (rc != OD_OK)
        return rc;
    put_attach(c, context);
    od_vgi_put_schema(c->dialect, c->row, "schema_path", "schema_name", schema, OD_ROW_NOT_NULL);
    od_row_text(c->row, "name", OD_ROW_NOT_NULL, od_slice_str(name));
    return OD_OK;
}

static od_code ask_table(call *c, od_vgi *vgi, const od_vgi_context *context, const char *method,
                         const od_vgi_table_ref *table, od_error *err)
{
    od_code rc = begin_table(c, vgi, context, table->schema, table->name, err);

    if (rc != OD_OK)
        return rc;
    od_vgi_put_text(c->row, "at_unit", table->at_unit);
    od_vgi_put_text(c->row, "at_value", table->at_value);
    put_transaction(c, context);
    return run(c, context->interrupt, method, err);
}

od_code od_vgi_get_table_statistics(od_vgi *vgi, const od_vgi_context *context, const char *schema, const char *table,
                                    od_vgi_statistics *out, od_error *err)
{
    call c;
    od_code rc;

    *out = (od_vgi_statistics){0};
    OD_TRY(begin_table(&c, vgi, context, schema, table, err));
    put_transaction(&c, context);
    OD_TRY(run(&c, context->interrupt, "catalog_table_column_statistics_get", err));
    OD_TRY(od_vgi_decode_statistics(bytes_of(&c), out, err));
out:
    rc = end(&c, rc, err);
    return rc == OD_E_NOT_IMPLEMENTED ? OD_OK : rc;
}

od_code od_vgi_get_table(od_vgi *vgi, const od_vgi_context *context, const od_vgi_table_ref *table, od_vgi_tables *out,
                         od_error *err)
{
    call c;
    od_code rc;

    *out = (od_vgi_tables){0};
    OD_TRY(ask_table(&c, vgi, context, "catalog_table_get", table, err));
    OD_TRY(od_vgi_decode_tables(bytes_of(&c), out, err));
out:
    return end(&c, rc, err);
}

static od_code ask_branches(od_vgi *vgi, const od_vgi_context *context, const od_vgi_table_ref *table,
                            od_vgi_branches *out, od_error *err)
{
    call c;
    od_code rc;

    OD_TRY(ask_table(&c, vgi, context, "catalog_table_scan_branches_get", table, err));
    OD_TRY(od_vgi_decode_branches(bytes_of(&c), out, err));
out:
    return end(&c, rc, err);
}

od_code od_vgi_get_branches(od_vgi *vgi, const od_vgi_context *context, const od_vgi_table_ref *table,
                            od_vgi_branches *out, od_error *err)
{
    call c = {0};
    od_code rc;

    *out = (od_vgi_branches){0};
    if (!atomic_load(&vgi->no_branches)) {
        rc = ask_branches(vgi, context, table, out, err);
        if (rc != OD_E_NOT_IMPLEMENTED)
            return rc;
        atomic_store(&vgi->no_branches, true);
    }
    OD_TRY(ask_table(&c, vgi, context, "catalog_table_scan_function_get", table, err));
    OD_TRY(od_vgi_decode_one_branch(bytes_of(&c), out, err));
out:
    return end(&c, rc, err);
}

od_code od_vgi_get_insert_function(od_vgi *vgi, const od_vgi_context *context, const char *schema, const char *table,
                                   const char *branch, od_vgi_write_function *out, od_error *err)
{
    call c;
    od_code rc;

    *out = (od_vgi_write_function){0};
    OD_TRY(begin_table(&c, vgi, context, schema, table, err));
    put_transaction(&c, context);
    od_vgi_put_text(c.row, "writable_branch_function_name", branch);
    OD_TRY(run(&c, context->interrupt, "catalog_table_insert_function_get", err));
    OD_TRY(od_vgi_decode_write_function(bytes_of(&c), out, err));
out:
    return end(&c, rc, err);
}

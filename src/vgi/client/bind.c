#include <string.h>

#include "arrow/schema.h"
#include "base/alloc.h"
#include "vgi/client/bound.h"
#include "vgi/client/decode.h"

#include "base/banned.h"

od_vgi_bound *od_vgi_bound_ref(od_vgi_bound *bound)
{
    atomic_fetch_add(&bound->refs, 1);
    return bound;
}

void od_vgi_bound_free(od_vgi_bound *bound)
{
    if (bound == NULL || atomic_fetch_sub(&bound->refs, 1) != 1)
        return;
    od_msg_unref(bound->request);
    od_buf_release(&bound->schema_bytes);
    od_buf_release(&bound->opaque);
    od_schema_release(&bound->schema);
    od_vgi_answer_free(bound->answer);
    od_free(bound);
}

const struct ArrowSchema *od_vgi_bound_schema(const od_vgi_bound *bound)
{
    return &bound->schema;
}

size_t od_vgi_bound_secret_count(const od_vgi_bound *bound)
{
    return bound->secret_count;
}

const od_vgi_secret_need *od_vgi_bound_secrets(const od_vgi_bound *bound)
{
    return bound->secrets;
}

/* ---- the request ---- */

/* What a branch calls arg_N and a bind positional_N; other names are named arguments. */
static od_code argument_name(const char *name, od_buf *out, od_error *err)
{
    static const char branch[] = "arg_", bind[] = "positional_", named[] = "named_";
    size_t prefix = strncmp(name, branch, strlen(branch)) == 0 ? strlen(branch)
                    : strncmp(name, bind, strlen(bind)) == 0   ? strlen(bind)
                                                               : 0;
    const char *digits = name + prefix;
    size_t n = strspn(digits, "0123456789");

    out->len = 0;
    if (prefix > 0 && n > 0 && n <= 3 && digits[n] == '\0')
        return od_buf_printf(out, err, "%s%s", bind, digits);
    return od_buf_printf(out, err, "%s%s", named,
                         strncmp(name, named, strlen(named)) == 0 ? name + strlen(named) : name);
}

static od_code write_arguments(od_vgi_values *arguments, od_msg **out, od_error *err)
{
    struct ArrowSchema schema = {0};
    od_row *row = NULL;
    od_buf name = {0};
    od_code rc;

    *out = NULL;
    OD_TRY(od_row_create(&row, err));
    if (arguments == NULL || arguments->array.release == NULL || arguments->schema.n_children == 0) {
        od_row_empty_struct(row, "args");
    } else {
        OD_TRY(od_schema_copy(&arguments->schema, &schema, err));
        for (int64_t i = 0; i < schema.n_children; i++) {
            OD_TRY(argument_name(schema.children[i]->name, &name, err));
            if (od_buf_cstr(&name) == NULL)
                OD_TRY(od_fail(err, OD_E_NO_MEMORY, "out of memory"));
            OD_TRY(od_schema_rename(schema.children[i], od_buf_cstr(&name), err));
        }
        od_row_array(row, "args", &schema, &arguments->array);
    }
    OD_TRY(od_row_finish(row, NULL, 0, out, err));
out:
    od_schema_release(&schema);
    od_buf_release(&name);
    od_row_free(row);
    return rc;
}

static const char *type_name(od_vgi_function_type type)
{
    switch (type) {
    case OD_VGI_SCALAR_FUNCTION:
        return "SCALAR";
    case OD_VGI_AGGREGATE_FUNCTION:
        return "AGGREGATE";
    case OD_VGI_TABLE_BUFFERING_FUNCTION:
        return "TABLE_BUFFERING";
    case OD_VGI_TABLE_FUNCTION:
    default:
        return "TABLE";
    }
}

od_code od_vgi_bind_parts_make(od_vgi_bind_parts *parts, const od_vgi_bind *bind, od_error *err)
{
    od_code rc;

    OD_TRY(write_arguments(bind->arguments, &parts->arguments, err));
    OD_TRY(od_vgi_values_write(bind->settings, &parts->settings, err));
    OD_TRY(od_vgi_values_write(bind->secrets, &parts->secrets, err));
    if (bind->input != NULL)
        OD_TRY(od_vgi_schema_write(bind->input, &parts->input, err));
out:
    return rc;
}

void od_vgi_bind_parts_put(const od_vgi_bind_parts *parts, const od_vgi_dialect *dialect, od_row *row)
{
    od_row_binary(row, "arguments", OD_ROW_NOT_NULL, od_vgi_msg_bytes(parts->arguments));
    od_vgi_put_bytes(dialect, row, "input_schema", od_vgi_msg_bytes(parts->input));
    od_vgi_put_bytes(dialect, row, "settings", od_vgi_msg_bytes(parts->settings));
    od_vgi_put_bytes(dialect, row, "secrets", od_vgi_msg_bytes(parts->secrets));
}

void od_vgi_bind_parts_release(od_vgi_bind_parts *parts)
{
    od_msg_unref(parts->arguments);
    od_msg_unref(parts->settings);
    od_msg_unref(parts->secrets);
    od_msg_unref(parts->input);
}

static od_code make_request(const od_vgi_dialect *dialect, const od_vgi_context *context, const od_vgi_bind *bind,
                            od_msg **out, od_error *err)
{
    od_vgi_bind_parts parts = {0};
    od_row *row = NULL;
    od_code rc;

    *out = NULL;
    OD_TRY(od_row_create(&row, err));
    OD_TRY(od_vgi_bind_parts_make(&parts, bind, err));
    od_row_text(row, "function_name", OD_ROW_NOT_NULL, od_slice_str(bind->function));
    od_vgi_bind_parts_put(&parts, dialect, row);
    od_row_symbol(row, "function_type", OD_ROW_NOT_NULL, od_slice_str(type_name(bind->type)));
    od_row_binary(row, "attach_opaque_data", OD_ROW_NULLABLE, context->attach);
    od_row_binary(row, "transaction_opaque_data", OD_ROW_NULLABLE, context->transaction);
    od_row_bool(row, "resolved_secrets_provided", bind->secrets_resolved);
    od_vgi_put_text(row, "at_unit", bind->at_unit);
    od_vgi_put_text(row, "at_value", bind->at_value);
    od_vgi_put_schema(dialect, row, "schema_path", "schema_name", bind->schema, OD_ROW_NULLABLE);
    OD_TRY(od_row_finish(row, NULL, 0, out, err));
out:
    od_row_free(row);
    od_vgi_bind_parts_release(&parts);
    return rc;
}

/* ---- the answer ---- */

static od_code read_secrets(od_vgi_bound *bound, const od_record *record, od_error *err)
{
    od_vgi_texts types, scopes, names;
    od_code rc;

    OD_TRY(od_vgi_answer_texts(bound->answer, od_vgi_cell(record, "lookup_secret_types"), &types, err));
    OD_TRY(od_vgi_answer_texts(bound->answer, od_vgi_cell(record, "lookup_scopes"), &scopes, err));
    OD_TRY(od_vgi_answer_texts(bound->answer, od_vgi_cell(record, "lookup_names"), &names, err));
    if (scopes.count != types.count || names.count != types.count)
        OD_TRY(od_fail(err, OD_E_CORRUPT, "%zu secrets are asked for with %zu scopes and %zu names", types.count,
                       scopes.count, names.count));
    OD_TRY(
        od_vgi_answer_alloc(bound->answer, (int64_t)types.count, sizeof *bound->secrets, (void *)&bound->secrets, err));
    for (size_t i = 0; i < types.count; i++)
        bound->secrets[i] = (od_vgi_secret_need){types.items[i], scopes.items[i], names.items[i]};
    bound->secret_count = types.count;
out:
    return rc;
}

static od_code read_bound(od_vgi_bound *bound, od_slice bytes, bool again, od_error *err)
{
    od_record *record = NULL;
    od_slice schema, opaque;
    od_code rc;

    OD_TRY(od_vgi_answer_create(&bound->answer, err));
    OD_TRY(od_vgi_record_one(bytes, &record, err));
    OD_TRY(read_secrets(bound, record, err));
    if (bound->secret_count > 0) {
        if (again)
            rc = od_fail(err, OD_E_PROTOCOL, "the worker asks for secrets a second time");
        goto out;
    }
    OD_TRY(od_cell_bytes(od_vgi_cell(record, "output_schema"), &schema, err));
    OD_TRY(od_cell_bytes(od_vgi_cell(record, "opaque_data"), &opaque, err));
    bound->has_opaque = opaque.data != NULL;
    OD_TRY(od_buf_append(&bound->opaque, opaque.data, opaque.len, err));
    OD_TRY(od_buf_append(&bound->schema_bytes, schema.data, schema.len, err));
    OD_TRY(od_record_schema_only(schema, &bound->schema, err));
out:
    od_record_free(record);
    return rc;
}

od_code od_vgi_bind_function(od_vgi *vgi, const od_vgi_context *context, const od_vgi_bind *bind, od_vgi_bound **out,
                             od_error *err)
{
    const od_vgi_dialect *dialect;
    od_vgi_bound *bound = od_calloc(1, sizeof *bound);
    od_row *row = NULL;
    od_buf answer = {0};
    od_code rc = OD_OK;

    *out = NULL;
    if (bound == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    atomic_init(&bound->refs, 1);
    OD_TRY(od_vgi_dialect_of(vgi, context->interrupt, &dialect, err));
    OD_TRY(make_request(dialect, context, bind, &bound->request, err));
    OD_TRY(od_row_create(&row, err));
    od_row_binary(row, "request", OD_ROW_NOT_NULL, od_vgi_msg_bytes(bound->request));
    OD_TRY(od_vgi_call(vgi, context->interrupt, "bind", row, &answer, err));
    OD_TRY(read_bound(bound, od_slice_of(answer.data, answer.len), bind->secrets_resolved, err));
    *out = bound;
    bound = NULL;
out:
    if (rc != OD_OK)
        od_error_prefix(err, "vgi bind of function '%s'", bind->function);
    od_vgi_bound_free(bound);
    od_row_free(row);
    od_buf_release(&answer);
    return rc;
}

/* Asks METHOD about BOUND; the bytes of its answer are appended to OUT. A worker that does not have it answers nothing. */
static od_code ask_about(od_vgi *vgi, const od_vgi_context *context, const od_vgi_bound *bound, const char *method,
                         od_buf *out, od_error *err)
{
    const od_vgi_dialect *dialect;
    od_row *row = NULL, *inner = NULL;
    od_code rc;

    OD_TRY(od_vgi_dialect_of(vgi, context->interrupt, &dialect, err));
    OD_TRY(od_row_create(&row, err));
    OD_TRY(od_row_create(&inner, err));
    od_row_binary(inner, "bind_call", OD_ROW_NOT_NULL, od_vgi_msg_bytes(bound->request));
    od_vgi_put_bytes(dialect, inner, "bind_opaque_data",
                     bound->has_opaque ? od_slice_of(bound->opaque.data, bound->opaque.len) : (od_slice){NULL, 0});
    OD_TRY(od_vgi_put_request(row, inner, err));
    OD_TRY(od_vgi_call(vgi, context->interrupt, method, row, out, err));
out:
    od_row_free(row);
    od_row_free(inner);
    return rc == OD_E_NOT_IMPLEMENTED ? OD_OK : rc;
}

od_code od_vgi_bound_cardinality(od_vgi *vgi, const od_vgi_context *context, const od_vgi_bound *bound,
                                 od_vgi_number *estimate, od_vgi_number *max, od_error *err)
{
    static const char method[] = "table_function_cardinality";
    od_record *record = NULL;
    od_buf answer = {0};
    od_code rc;

    *estimate = *max = (od_vgi_number){0};
    OD_TRY(ask_about(vgi, context, bound, method, &answer, err));
    if (answer.len == 0)
        goto out;
    OD_TRY(od_vgi_record_one(od_slice_of(answer.data, answer.len), &record, err));
    OD_TRY(od_vgi_answer_number(od_vgi_cell(record, "estimate"), estimate, err));
    OD_TRY(od_vgi_answer_number(od_vgi_cell(record, "max"), max, err));
out:
    if (rc != OD_OK)
        od_error_prefix(err, "vgi %s", method);
    od_record_free(record);
    od_buf_release(&answer);
    return rc;
}

od_code od_vgi_bound_statistics(od_vgi *vgi, const od_vgi_context *context, const od_vgi_bound *bound,
                                od_vgi_statistics *out, od_error *err)
{
    static const char method[] = "table_function_statistics";
    od_buf answer = {0};
    od_code rc;

    *out = (od_vgi_statistics){0};
    OD_TRY(ask_about(vgi, context, bound, method, &answer, err));
    OD_TRY(od_vgi_decode_statistics(od_slice_of(answer.data, answer.len), out, err));
out:
    if (rc != OD_OK)
        od_error_prefix(err, "vgi %s", method);
    od_buf_release(&answer);
    return rc;
}

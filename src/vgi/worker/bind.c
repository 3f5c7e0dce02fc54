/* Functions, found and bound. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "arrow/ipc_read.h"
#include "arrow/schema.h"
#include "base/alloc.h"
#include "vgi/worker/call.h"

#include "base/banned.h"

/* ---- columns of one row ---- */

void vgiw_held_release(vgiw_held *held)
{
    if (held->array.release != NULL)
        held->array.release(&held->array);
    od_schema_release(&held->schema);
    *held = (vgiw_held){0};
}

od_code vgiw_held_read(od_slice bytes, vgiw_held *out, od_error *err)
{
    od_record *record = NULL;
    od_code rc;

    if (bytes.len == 0)
        return OD_OK;
    OD_TRY(od_record_of_payload(bytes, &record, err));
    if (od_record_schema(record)->n_children == 0)
        goto out;
    if (od_record_rows(record) != 1)
        OD_TRY(od_fail(err, OD_E_CORRUPT, "a record has %lld rows", (long long)od_record_rows(record)));
    od_record_take(record, &out->schema, &out->array);
out:
    od_record_free(record);
    return rc;
}

od_vgiw_values vgiw_held_values(const vgiw_held *held)
{
    return held->array.release != NULL ? (od_vgiw_values){&held->schema, &held->array} : (od_vgiw_values){NULL, NULL};
}

/* Whether A and B are of one type; what they are called does not count. */
static bool same_type(const struct ArrowSchema *a, const struct ArrowSchema *b)
{
    struct ArrowSchema renamed = *a;

    renamed.name = b->name;
    return od_schema_same(&renamed, b);
}

od_code vgiw_held_check(const vgiw_held *held, const vgiw_list *list, const char *what, od_error *err)
{
    for (int64_t i = 0; held->array.release != NULL && i < held->schema.n_children; i++) {
        const struct ArrowSchema *column = held->schema.children[i];
        const vgiw_setting *setting = vgiw_find_setting(list, column->name);

        if (setting == NULL)
            return od_fail(err, OD_E_INVALID, "this catalog has no %s '%s'", what, column->name);
        if (!same_type(column, setting->type.children[0]))
            return od_fail(err, OD_E_INVALID, "the %s '%s' is of another type than the catalog says", what,
                           column->name);
    }
    return OD_OK;
}

/* ---- arguments ---- */

/* What a bind calls positional_N is arg_N to functions, and named_X is X. */
static od_code rename_argument(struct ArrowSchema *field, od_error *err)
{
    static const char positional[] = "positional_", named[] = "named_";
    char name[64];

    if (strncmp(field->name, named, strlen(named)) == 0) {
        char *copy = od_strdup(field->name + strlen(named));
        od_code rc = copy != NULL ? od_schema_rename(field, copy, err) : od_fail(err, OD_E_NO_MEMORY, "out of memory");

        od_free(copy);
        return rc;
    }
    if (strncmp(field->name, positional, strlen(positional)) != 0 || strlen(field->name) > 32)
        return od_fail(err, OD_E_INVALID, "an argument is neither positional nor named");
    snprintf(name, sizeof name, "arg_%s", field->name + strlen(positional));
    return od_schema_rename(field, name, err);
}

/* The one struct column of the batch in BYTES. */
static od_code read_arguments(od_slice bytes, vgiw_held *out, od_error *err)
{
    struct ArrowSchema schema = {0};
    struct ArrowArray array = {0};
    od_record *record = NULL;
    od_code rc;

    OD_TRY(od_record_of_payload(bytes, &record, err));
    if (od_record_rows(record) != 1 || od_record_schema(record)->n_children != 1 ||
        strcmp(od_record_schema(record)->children[0]->format, "+s") != 0)
        OD_TRY(od_fail(err, OD_E_CORRUPT, "the arguments of a function are not one struct"));
    od_record_take(record, &schema, &array);
    if (array.children[0]->null_count > 0 || array.children[0]->n_children == 0 || array.children[0]->offset != 0)
        goto out;
    OD_TRY(od_schema_copy(schema.children[0], &out->schema, err));
    out->array = *array.children[0];
    array.children[0]->release = NULL;
    for (int64_t i = 0; i < out->schema.n_children; i++)
        OD_TRY(rename_argument(out->schema.children[i], err));
out:
    if (array.release != NULL)
        array.release(&array);
    od_schema_release(&schema);
    od_record_free(record);
    return rc;
}

/* ---- overloads ---- */

static bool has_mark(const struct ArrowSchema *field, const char *key, const char *value)
{
    return od_slice_equal(od_schema_metadata(field, key), od_slice_str(value));
}

/* Walks the parameters that take what stands at a place, the last again and again if it takes any number. */
typedef struct {
    const struct ArrowSchema *all;
    bool columns; /* of a scalar function: those that are columns, else those that are constants */
    int64_t at;
} walk;

static const struct ArrowSchema *next_parameter(walk *w, bool scalar)
{
    for (; w->at < w->all->n_children; w->at++) {
        const struct ArrowSchema *field = w->all->children[w->at];

        if (has_mark(field, "vgi_arg", "named") || has_mark(field, "vgi_type", "table") ||
            (scalar && has_mark(field, "vgi_const", "true") == w->columns))
            continue;
        if (!has_mark(field, "vgi_varargs", "true"))
            w->at++;
        return field;
    }
    return NULL;
}

/* Whether the fields of GIVEN, but named ones, are what W has. */
static bool fits(walk w, bool scalar, const struct ArrowSchema *given)
{
    const struct ArrowSchema *field;

    for (int64_t i = 0; given != NULL && i < given->n_children; i++) {
        if (!w.columns && strncmp(given->children[i]->name, "arg_", 4) != 0)
            continue;
        field = next_parameter(&w, scalar);
        if (field == NULL || (!has_mark(field, "vgi_type", "any") && !same_type(field, given->children[i])))
            return false;
    }
    field = next_parameter(&w, scalar);
    return field == NULL || has_mark(field, "vgi_varargs", "true") ||
           od_schema_metadata(field, "vgi_default").data != NULL;
}

static bool fits_call(const vgiw_function *function, const vgiw_bound *bound)
{
    const struct ArrowSchema *arguments = bound->arguments.array.release != NULL ? &bound->arguments.schema : NULL;
    const struct ArrowSchema *input = bound->input.release != NULL ? &bound->input : NULL;
    bool scalar = function->call.kind == OD_VGIW_SCALAR;
    walk columns = {&function->parameters, true, 0};

    if (!fits((walk){&function->parameters, false, 0}, scalar, arguments))
        return false;
    if (!scalar)
        return true;
    /* Without a column among the parameters, one of nothing tells how many rows there are. */
    return next_parameter(&(walk){&function->parameters, true, 0}, true) == NULL || fits(columns, true, input);
}

static bool is_kind(od_slice type, od_vgiw_function_kind kind)
{
    static const char *const names[] = {
        [OD_VGIW_TABLE] = "TABLE",
        [OD_VGIW_SCALAR] = "SCALAR",
        [OD_VGIW_ROWS] = "TABLE",
        [OD_VGIW_BUFFERED] = "TABLE_BUFFERING",
    };

    return od_slice_equal(type, od_slice_str(names[kind]));
}

/* Of several of one name the one that fits; one alone is asked whatever it is given. */
static const vgiw_function *choose(const vgiw_call *call, const char *schema, const char *name, od_slice type,
                                   const vgiw_bound *bound)
{
    const vgiw_function *all = call->worker->functions.items;
    const vgiw_function *any = vgiw_find_function(call->worker, schema, name), *last = NULL;
    size_t count = 0;

    for (size_t i = 0; any != NULL && i < call->worker->functions.count; i++) {
        if (strcasecmp(all[i].name, name) != 0 || strcasecmp(all[i].schema, any->schema) != 0 ||
            !is_kind(type, all[i].call.kind))
            continue;
        if (fits_call(&all[i], bound))
            return &all[i];
        last = &all[i];
        count++;
    }
    return count == 1 ? last : NULL;
}

static od_code find_function(const vgiw_call *call, const od_record *request, vgiw_bound *bound, od_error *err)
{
    od_buf schema_buf = {0}, name_buf = {0};
    const char *schema, *name;
    od_slice type;
    od_code rc;

    OD_TRY(vgiw_schema_text(call, request, "schema_path", "schema_name", &schema_buf, &schema, err));
    OD_TRY(vgiw_text(request, "function_name", &name_buf, &name, err));
    OD_TRY(od_cell_bytes(od_record_cell(request, "function_type", 0), &type, err));
    if (name != NULL)
        bound->function = choose(call, schema, name, type, bound);
    if (bound->function == NULL)
        rc = od_fail(err, OD_E_NOT_FOUND, "there is no %sfunction '%s'%s",
                     is_kind(type, OD_VGIW_SCALAR) ? "scalar " : "table ", name != NULL ? name : "",
                     name != NULL && vgiw_find_function(call->worker, schema, name) != NULL ? " for such arguments"
                                                                                            : "");
out:
    od_buf_release(&schema_buf);
    od_buf_release(&name_buf);
    return rc;
}

/* ---- binds ---- */

void vgiw_bound_release(vgiw_bound *bound)
{
    vgiw_held_release(&bound->arguments);
    vgiw_held_release(&bound->options);
    vgiw_held_release(&bound->settings);
    vgiw_held_release(&bound->secrets);
    od_schema_release(&bound->input);
    od_schema_release(&bound->output);
    od_buf_release(&bound->at_unit);
    od_buf_release(&bound->at_value);
    od_buf_release(&bound->transaction);
    *bound = (vgiw_bound){0};
}

static od_code read_held(const od_record *request, const char *name, vgiw_held *out, od_error *err)
{
    od_slice bytes;
    od_code rc;

    OD_TRY(od_cell_bytes(od_record_cell(request, name, 0), &bytes, err));
    OD_TRY(vgiw_held_read(bytes, out, err));
out:
    if (rc != OD_OK)
        od_error_prefix(err, "parameter '%s'", name);
    return rc;
}

static od_code read_options(const vgiw_call *call, const od_record *request, vgiw_bound *out, od_error *err)
{
    od_slice told, options = {NULL, 0};
    od_code rc;

    OD_TRY(od_cell_bytes(od_record_cell(request, "attach_opaque_data", 0), &told, err));
    if (told.len > 0)
        OD_TRY(vgiw_check_attached(call->worker, told, &options, err));
    OD_TRY(vgiw_held_read(options, &out->options, err));
    OD_TRY(vgiw_held_check(&out->options, &call->worker->options, "option", err));
out:
    return rc;
}

static od_code read_moment(const vgiw_call *call, const od_record *request, vgiw_bound *out, od_error *err)
{
    od_code rc;

    OD_TRY(vgiw_text(request, "at_unit", &out->at_unit, &out->call.at_unit, err));
    OD_TRY(vgiw_text(request, "at_value", &out->at_value, &out->call.at_value, err));
    OD_TRY(vgiw_text(request, "transaction_opaque_data", &out->transaction, &out->call.transaction, err));
    if (out->call.at_unit != NULL && !call->worker->has_past)
        rc = od_fail(err, OD_E_NOT_IMPLEMENTED, "this catalog has no time travel");
out:
    return rc;
}

/* Beside the arguments. */
static od_code read_rest(const vgiw_call *call, const od_record *request, vgiw_bound *out, od_error *err)
{
    od_code rc;

    OD_TRY(read_options(call, request, out, err));
    OD_TRY(read_moment(call, request, out, err));
    OD_TRY(read_held(request, "settings", &out->settings, err));
    OD_TRY(vgiw_held_check(&out->settings, &call->worker->settings, "setting", err));
    OD_TRY(read_held(request, "secrets", &out->secrets, err));
    for (int64_t i = 0; out->secrets.array.release != NULL && i < out->secrets.schema.n_children; i++)
        if (strcmp(out->secrets.schema.children[i]->format, "+s") != 0)
            OD_TRY(od_fail(err, OD_E_INVALID, "a secret is no struct"));
out:
    return rc;
}

static od_code check_bound(const vgiw_bound *bound, od_error *err)
{
    const struct ArrowSchema *output = &bound->output;
    int64_t most = bound->function->call.kind == OD_VGIW_SCALAR ? 1 : INT64_MAX;

    if (output->release != NULL && output->format != NULL && strcmp(output->format, "+s") == 0 &&
        output->n_children > 0 && output->n_children <= most)
        return OD_OK;
    return od_fail(err, OD_E_INTERNAL, "function '%s' tells no columns%s", bound->function->name,
                   most == 1 ? ", or more than one" : "");
}

static od_code ask_columns(vgiw_bound *bound, od_error *err)
{
    const od_vgiw_function *f = &bound->function->call;
    od_vgiw_error why = {.code = OD_VGIW_OK};
    od_code rc = vgiw_failed(err, f->bind(f->arg, &bound->call, &bound->output, &why), &why);

    return rc == OD_OK ? check_bound(bound, err) : rc;
}

od_code vgiw_bind(const vgiw_call *call, const od_record *request, vgiw_bound *out, od_error *err)
{
    od_slice arguments, input;
    bool resolved;
    od_code rc;

    OD_TRY(read_rest(call, request, out, err));
    OD_TRY(od_cell_bytes(od_record_cell(request, "arguments", 0), &arguments, err));
    if (arguments.len > 0)
        OD_TRY(read_arguments(arguments, &out->arguments, err));
    OD_TRY(od_cell_bytes(od_record_cell(request, "input_schema", 0), &input, err));
    if (input.len > 0)
        OD_TRY(od_record_schema_only(input, &out->input, err));
    OD_TRY(find_function(call, request, out, err));
    if (out->function->call.kind != OD_VGIW_TABLE && out->input.release == NULL)
        OD_TRY(od_fail(err, OD_E_INVALID, "function '%s' takes rows", out->function->name));
    out->call.arguments = vgiw_held_values(&out->arguments);
    out->call.options = vgiw_held_values(&out->options);
    out->call.settings = vgiw_held_values(&out->settings);
    out->call.secrets = vgiw_held_values(&out->secrets);
    out->call.input = out->input.release != NULL ? &out->input : NULL;
    OD_TRY(od_cell_bool(od_record_cell(request, "resolved_secrets_provided", 0), &resolved, err));
    out->wants_secrets = out->function->call.secret_count > 0 && !resolved && out->call.secrets.array == NULL;
    if (!out->wants_secrets)
        OD_TRY(ask_columns(out, err));
out:
    return rc;
}

/* The methods about functions. */
#include "base/alloc.h"
#include "vgi/worker/call.h"

#include "base/banned.h"

/* ---- bind ---- */

/* The secrets that FUNCTION needs, in place of columns. */
static od_code ask_secrets(const vgiw_function *function, od_row *row, od_error *err)
{
    static const char *const names[] = {"lookup_secret_types", "lookup_scopes", "lookup_names"};
    size_t n = function->call.secret_count;
    od_slice *texts = od_calloc(n + 1, sizeof *texts);

    if (texts == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    od_row_binary(row, "output_schema", OD_ROW_NOT_NULL, od_slice_str(""));
    for (size_t k = 0; k < 3; k++) {
        for (size_t i = 0; i < n; i++)
            texts[i] = vgiw_is_absent(function->secrets[i].items[k]) ? (od_slice){NULL, 0}
                                                                     : od_slice_str(function->secrets[i].items[k]);
        od_row_text_list(row, names[k], OD_ROW_NOT_NULL, texts, n);
    }
    od_free(texts);
    return OD_OK;
}

static od_code put_output(const vgiw_bound *bound, od_row *row, od_error *err)
{
    od_msg *schema;
    od_code rc = od_vgi_schema_write(&bound->output, &schema, err);

    if (rc != OD_OK)
        return rc;
    od_row_binary(row, "output_schema", OD_ROW_NOT_NULL, od_vgi_msg_bytes(schema));
    od_msg_unref(schema);
    return OD_OK;
}

od_code vgiw_answer_bind(const vgiw_call *call, od_error *err)
{
    od_record *request = NULL;
    vgiw_bound bound = {0};
    od_code rc;

    OD_TRY(vgiw_inner(call->request, "request", &request, err));
    OD_TRY(vgiw_bind(call, request, &bound, err));
    if (bound.wants_secrets)
        OD_TRY(ask_secrets(bound.function, call->out, err));
    else
        OD_TRY(put_output(&bound, call->out, err));
    vgiw_complete(call->dialect, VGIW_BIND_RESPONSE, call->out);
out:
    vgiw_bound_release(&bound);
    od_record_free(request);
    return rc;
}

/* ---- what is asked of what was bound ---- */

/* Binds again what the request has; its function then ANSWERS. */
static od_code ask_about(const vgiw_call *call, od_code (*answer)(const vgiw_call *, const vgiw_bound *, od_error *),
                         od_error *err)
{
    od_record *request = NULL, *inner = NULL;
    vgiw_bound bound = {0};
    od_code rc;

    OD_TRY(vgiw_inner(call->request, "request", &request, err));
    OD_TRY(vgiw_inner(request, "bind_call", &inner, err));
    OD_TRY(vgiw_bind(call, inner, &bound, err));
    if (bound.wants_secrets)
        OD_TRY(od_fail(err, OD_E_INVALID, "function '%s' has to be bound with secrets", bound.function->name));
    OD_TRY(answer(call, &bound, err));
out:
    vgiw_bound_release(&bound);
    od_record_free(inner);
    od_record_free(request);
    return rc;
}

static od_code put_cardinality(const vgiw_call *call, const vgiw_bound *bound, od_error *err)
{
    const od_vgiw_function *f = &bound->function->call;
    int64_t rows = f->count != NULL ? f->count(f->arg, &bound->call) : -1;

    (void)err;
    if (rows >= 0)
        od_row_int64(call->out, "estimate", OD_ROW_NULLABLE, &rows);
    vgiw_complete(call->dialect, VGIW_CARDINALITY, call->out);
    return OD_OK;
}

static od_code put_statistics(const vgiw_call *call, const vgiw_bound *bound, od_error *err)
{
    const od_vgiw_function *f = &bound->function->call;
    size_t n = (size_t)bound->output.n_children;
    od_vgiw_error why = {.code = OD_VGIW_OK};
    od_vgiw_statistics *told;
    od_code rc;

    if (f->statistics == NULL)
        return OD_OK;
    told = od_calloc(n + 1, sizeof *told);
    if (told == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < n; i++)
        told[i] = (od_vgiw_statistics){.column = bound->output.children[i]->name, .distinct_count = -1};
    OD_TRY(vgiw_failed(err, f->statistics(f->arg, &bound->call, told, n, &why), &why));
    OD_TRY(vgiw_write_statistics(&bound->output, told, call->stream, err));
out:
    od_free(told);
    return rc;
}

od_code vgiw_answer_cardinality(const vgiw_call *call, od_error *err)
{
    return ask_about(call, put_cardinality, err);
}

od_code vgiw_answer_statistics(const vgiw_call *call, od_error *err)
{
    return ask_about(call, put_statistics, err);
}

/* ---- functions that keep all rows ---- */

/* What ACTION makes of the request. */
static od_code buffer(const vgiw_call *call, od_code (*action)(const vgiw_call *, const od_record *, od_error *),
                      od_error *err)
{
    od_record *request = NULL;
    od_code rc;

    OD_TRY(vgiw_inner(call->request, "request", &request, err));
    OD_TRY(action(call, request, err));
out:
    od_record_free(request);
    return rc;
}

od_code vgiw_answer_process(const vgiw_call *call, od_error *err)
{
    return buffer(call, vgiw_buffer_put, err);
}

od_code vgiw_answer_combine(const vgiw_call *call, od_error *err)
{
    return buffer(call, vgiw_buffer_combine, err);
}

od_code vgiw_answer_destructor(const vgiw_call *call, od_error *err)
{
    return buffer(call, vgiw_buffer_drop, err);
}

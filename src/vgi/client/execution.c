#include "vgi/client/execution.h"

#include <string.h>

#include "vgi/client/scan_internal.h"

#include "base/banned.h"

od_code od_vgi_execution_init(od_vgi_execution *e, od_vgi *vgi, const od_vgi_context *context, const char *function,
                              const char *schema, od_error *err)
{
    od_code rc;

    e->vgi = od_vgi_ref(vgi);
    e->has_schema = schema != NULL;
    OD_TRY(od_vgi_dialect_of(vgi, context->interrupt, &e->dialect, err));
    OD_TRY(od_buf_append(&e->function, function, strlen(function), err));
    if (schema != NULL)
        OD_TRY(od_buf_append(&e->schema, schema, strlen(schema), err));
    OD_TRY(od_buf_append(&e->attach, context->attach.data, context->attach.len, err));
    if (od_buf_cstr(&e->function) == NULL || od_buf_cstr(&e->schema) == NULL)
        OD_TRY(od_fail(err, OD_E_NO_MEMORY, "out of memory"));
out:
    return rc;
}

void od_vgi_execution_release(od_vgi_execution *e)
{
    od_buf_release(&e->function);
    od_buf_release(&e->schema);
    od_buf_release(&e->attach);
    od_buf_release(&e->id);
    od_vgi_unref(e->vgi);
    *e = (od_vgi_execution){0};
}

od_code od_vgi_execution_request(const od_vgi_execution *e, od_row **out, od_error *err)
{
    od_code rc = od_row_create(out, err);

    if (rc != OD_OK)
        return rc;
    od_row_text(*out, "function_name", OD_ROW_NOT_NULL, od_vgi_bytes_of(&e->function));
    od_row_binary(*out, "execution_id", OD_ROW_NOT_NULL, od_vgi_bytes_of(&e->id));
    od_row_binary(*out, "attach_opaque_data", OD_ROW_NULLABLE, od_vgi_bytes_of(&e->attach));
    od_vgi_put_schema(e->dialect, *out, "schema_path", "schema_name",
                      e->has_schema ? (const char *)e->schema.data : NULL, OD_ROW_NULLABLE);
    return OD_OK;
}

od_code od_vgi_execution_ask(const od_vgi_execution *e, od_vgi_interrupt interrupt, const char *method, od_row *request,
                             od_buf *answer, od_error *err)
{
    od_row *row = NULL;
    od_code rc;

    OD_TRY(od_row_create(&row, err));
    OD_TRY(od_vgi_put_request(row, request, err));
    OD_TRY(od_vgi_call(e->vgi, interrupt, method, row, answer, err));
out:
    if (rc != OD_OK)
        od_error_prefix(err, "vgi %s", method);
    od_row_free(row);
    return rc;
}

static bool too_late(void *arg)
{
    return od_deadline_passed(*(const od_deadline *)arg);
}

void od_vgi_execution_let_go(const od_vgi_execution *e, const char *method, od_row *request)
{
    od_deadline deadline = od_deadline_in_ms(OD_VGI_LET_GO_MS);
    od_buf answer = {0};

    (void)(od_vgi_execution_ask(e, (od_vgi_interrupt){too_late, &deadline}, method, request, &answer, NULL) == OD_OK);
    od_buf_release(&answer);
}

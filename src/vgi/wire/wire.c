#include "vgi/wire.h"

#include "base/banned.h"

const od_vgi_dialect od_vgi_dialects[OD_VGI_DIALECTS] = {
    {.version = "2.2.0",
     .protocol = "vgi.v2",
     .paths = true,
     .nulls = true,
     .symbols = true,
     .reads_after_failure = true,
     .expressions = true,
     .continues = true},
    {.version = "1.3.0"},
};

od_slice od_vgi_absent(const od_vgi_dialect *dialect)
{
    return dialect->nulls ? (od_slice){NULL, 0} : od_slice_str("");
}

void od_vgi_put_bytes(const od_vgi_dialect *dialect, od_row *row, const char *name, od_slice bytes)
{
    od_row_binary(row, name, dialect->nulls ? OD_ROW_NULLABLE : OD_ROW_NOT_NULL,
                  bytes.data != NULL ? bytes : od_vgi_absent(dialect));
}

void od_vgi_put_schema(const od_vgi_dialect *dialect, od_row *row, const char *path_field, const char *name_field,
                       const char *schema, od_row_null null)
{
    od_slice name = od_slice_str(schema);

    if (dialect->paths)
        od_row_text_list(row, path_field, null, schema != NULL ? &name : NULL, schema != NULL ? 1 : 0);
    else
        od_row_text(row, name_field, null, name);
}

void od_vgi_put_text(od_row *row, const char *name, const char *text)
{
    od_row_text(row, name, OD_ROW_NULLABLE, text != NULL ? od_slice_str(text) : (od_slice){NULL, 0});
}

od_slice od_vgi_msg_bytes(od_msg *msg)
{
    return msg != NULL ? od_slice_of(od_msg_data(msg), od_msg_len(msg)) : (od_slice){NULL, 0};
}

od_code od_vgi_put_request(od_row *row, od_row *record, od_error *err)
{
    od_msg *msg;
    od_code rc = od_row_finish(record, NULL, 0, &msg, err);

    if (rc != OD_OK)
        return rc;
    od_row_binary(row, "request", OD_ROW_NOT_NULL, od_vgi_msg_bytes(msg));
    od_msg_unref(msg);
    return OD_OK;
}

od_code od_vgi_batch_write(const struct ArrowSchema *schema, struct ArrowArray *array, od_msg **out, od_error *err)
{
    od_ipc_writer *writer = NULL;
    od_code rc = OD_OK;

    *out = NULL;
    if (array->release == NULL || schema->n_children == 0)
        return OD_OK;
    OD_TRY(od_ipc_writer_create(schema, &writer, err));
    OD_TRY(od_ipc_writer_add(writer, array, err));
    OD_TRY(od_ipc_writer_flush(writer, out, err));
out:
    od_ipc_writer_free(writer);
    return rc;
}

od_code od_vgi_schema_write(const struct ArrowSchema *schema, od_msg **out, od_error *err)
{
    od_ipc_writer *writer = NULL;
    od_code rc;

    *out = NULL;
    OD_TRY(od_ipc_writer_create(schema, &writer, err));
    OD_TRY(od_ipc_writer_flush_part(writer, OD_IPC_PART_SCHEMA, out, err));
out:
    od_ipc_writer_free(writer);
    return rc;
}

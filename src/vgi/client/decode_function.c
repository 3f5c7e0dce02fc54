/* Functions. */
#include "vgi/client/decode.h"

#include "base/banned.h"

static od_code read_secret_needs(od_vgi_answer *answer, od_cell list, od_vgi_function *function, od_error *err)
{
    int64_t n;
    od_code rc;

    OD_TRY(od_cell_count(list, &n, err));
    OD_TRY(od_vgi_answer_alloc(answer, n, sizeof *function->secrets, (void *)&function->secrets, err));
    for (int64_t i = 0; i < n; i++) {
        od_cell item = od_cell_item(list, i);
        od_vgi_secret_need *need = &function->secrets[i];

        OD_TRY(od_vgi_answer_text(answer, od_cell_child(item, "secret_type"), &need->secret_type, err));
        OD_TRY(od_vgi_answer_text(answer, od_cell_child(item, "scope"), &need->scope, err));
        OD_TRY(od_vgi_answer_text(answer, od_cell_child(item, "secret_name"), &need->name, err));
    }
    function->secret_count = (size_t)n;
out:
    return rc;
}

static od_code read_type(const od_record *record, od_vgi_function *function, od_error *err)
{
    od_slice type;
    od_code rc = od_cell_bytes(od_vgi_cell(record, "function_type"), &type, err);

    if (rc != OD_OK)
        return rc;
    if (od_slice_equal(type, od_slice_str("SCALAR")))
        function->type = OD_VGI_SCALAR_FUNCTION;
    else if (od_slice_equal(type, od_slice_str("AGGREGATE")))
        function->type = OD_VGI_AGGREGATE_FUNCTION;
    else if (od_slice_equal(type, od_slice_str("TABLE_BUFFERING")))
        function->type = OD_VGI_TABLE_BUFFERING_FUNCTION;
    else
        function->type = OD_VGI_TABLE_FUNCTION;
    return OD_OK;
}

static od_code read_flags(const od_record *record, od_vgi_function *f, od_error *err)
{
    od_code rc;

    OD_TRY(od_cell_bool(od_vgi_cell(record, "projection_pushdown"), &f->projection_pushdown, err));
    OD_TRY(od_cell_bool(od_vgi_cell(record, "filter_pushdown"), &f->filter_pushdown, err));
    OD_TRY(od_cell_bool(od_vgi_cell(record, "filters_exactly_applied"), &f->filters_exactly_applied, err));
    OD_TRY(od_cell_bool(od_vgi_cell(record, "has_finalize"), &f->has_finalize, err));
    OD_TRY(od_cell_bool(od_vgi_cell(record, "input_from_args"), &f->input_from_args, err));
    OD_TRY(od_cell_bool(od_vgi_cell(record, "supports_batch_index"), &f->supports_batch_index, err));
    OD_TRY(od_cell_bool(od_vgi_cell(record, "supports_window"), &f->supports_window, err));
    OD_TRY(od_vgi_answer_number(od_vgi_cell(record, "input_rows_per_call"), &f->input_rows_per_call, err));
    OD_TRY(od_vgi_answer_number(od_vgi_cell(record, "max_workers"), &f->max_workers, err));
out:
    return rc;
}

static od_code read_function(od_vgi_answer *answer, const od_record *record, void *item, od_error *err)
{
    od_vgi_function *f = item;
    od_code rc;

    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "name"), &f->name, err));
    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "comment"), &f->comment, err));
    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "description"), &f->description, err));
    OD_TRY(od_vgi_answer_texts(answer, od_vgi_cell(record, "schema_path"), &f->schema_path, err));
    OD_TRY(od_vgi_answer_pairs(answer, od_vgi_cell(record, "tags"), &f->tags, err));
    OD_TRY(read_type(record, f, err));
    OD_TRY(od_vgi_answer_schema(answer, od_vgi_cell(record, "arguments"), &f->arguments, err));
    OD_TRY(od_vgi_answer_schema(answer, od_vgi_cell(record, "output_schema"), &f->output, err));
    OD_TRY(od_vgi_answer_values(answer, od_vgi_cell(record, "parameter_default_values"), &f->defaults, err));
    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "stability"), &f->stability, err));
    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "null_handling"), &f->null_handling, err));
    OD_TRY(od_vgi_answer_text(answer, od_vgi_cell(record, "order_preservation"), &f->order_preservation, err));
    OD_TRY(read_flags(record, f, err));
    OD_TRY(od_vgi_answer_texts(answer, od_vgi_cell(record, "required_settings"), &f->required_settings, err));
    OD_TRY(read_secret_needs(answer, od_vgi_cell(record, "required_secrets"), f, err));
    if (f->name.len == 0)
        rc = od_fail(err, OD_E_CORRUPT, "a function without a name");
out:
    return rc;
}

od_code od_vgi_decode_functions(od_slice bytes, od_vgi_functions *out, od_error *err)
{
    *out = (od_vgi_functions){0};
    return od_vgi_decode_items(bytes, read_function, sizeof *out->items, &out->answer, &out->count, (void *)&out->items,
                               err);
}

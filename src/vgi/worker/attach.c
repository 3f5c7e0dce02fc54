/* The options of ATTACH. */
#include "arrow/schema.h"
#include "vgi/worker/call.h"

#include <strings.h>

#include "base/banned.h"

/* A catalog has no versions, so it takes none. */
static od_code check_versions(const od_record *request, od_error *err)
{
    static const char *const versions[] = {"data_version_spec", "implementation_version"};
    od_slice value;
    od_code rc = OD_OK;

    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        OD_TRY(od_cell_bytes(od_record_cell(request, versions[i], 0), &value, err));
        if (value.len > 0)
            OD_TRY(od_fail(err, OD_E_INVALID, "this catalog has no versions, so no '%s'", versions[i]));
    }
out:
    return rc;
}

/* Moves the column I of HELD to ROW, as NAME. */
static void put_column(vgiw_held *held, int64_t i, const char *name, od_row *row)
{
    od_row_array(row, name, held->schema.children[i], held->array.children[i]);
}

static int64_t find_column(const vgiw_held *held, const char *name)
{
    for (int64_t i = 0; held->array.release != NULL && i < held->schema.n_children; i++)
        if (strcasecmp(held->schema.children[i]->name, name) == 0)
            return i;
    return -1;
}

/* What GIVEN says of OPTION, or else the catalog. */
static od_code put_option(const vgiw_setting *option, vgiw_held *given, od_row *row, od_error *err)
{
    int64_t at = find_column(given, option->name);
    vgiw_held own = {0};
    od_code rc;

    if (at >= 0) {
        if (given->array.children[at]->release == NULL)
            return od_fail(err, OD_E_INVALID, "the option '%s' is given twice", option->name);
        put_column(given, at, option->name, row);
        return OD_OK;
    }
    if (option->required)
        return od_fail(err, OD_E_INVALID, "the option '%s' has to be given", option->name);
    OD_TRY(vgiw_held_read(od_slice_of(option->value.data, option->value.len), &own, err));
    if (own.array.release != NULL)
        put_column(&own, 0, option->name, row);
out:
    vgiw_held_release(&own);
    return rc;
}

od_code vgiw_attach_options(const od_vgiw *worker, const od_record *request, od_msg **out, od_error *err)
{
    const vgiw_setting *options = worker->options.items;
    vgiw_held given = {0};
    od_row *row = NULL;
    od_slice bytes;
    od_code rc;

    *out = NULL;
    OD_TRY(check_versions(request, err));
    OD_TRY(od_cell_bytes(od_record_cell(request, "options", 0), &bytes, err));
    OD_TRY(vgiw_held_read(bytes, &given, err));
    OD_TRY(vgiw_held_check(&given, &worker->options, "option", err));
    if (worker->options.count == 0)
        goto out;
    OD_TRY(od_row_create(&row, err));
    for (size_t i = 0; i < worker->options.count; i++)
        OD_TRY(put_option(&options[i], &given, row, err));
    OD_TRY(od_row_finish(row, NULL, 0, out, err));
out:
    od_row_free(row);
    vgiw_held_release(&given);
    return rc;
}

/* Statistics of columns: a batch with a row for each of them. */
#include <string.h>

#include "vgi/client/decode.h"

#include "base/banned.h"

/* MIN and MAX are unions, whose member is the column's type. Both are of one type, or there is no range. */
static od_code read_range(od_vgi_answer *answer, const od_record *record, int64_t row, od_vgi_column_statistics *out,
                          od_error *err)
{
    const char *min_format = NULL, *max_format = NULL;
    uint8_t *copy = NULL;
    od_code rc = OD_OK;

    out->has_range = od_cell_double(od_cell_union(od_record_cell(record, "min", row)), &out->min, &min_format) &&
                     od_cell_double(od_cell_union(od_record_cell(record, "max", row)), &out->max, &max_format) &&
                     strcmp(min_format, max_format) == 0 && out->min <= out->max;
    if (!out->has_range)
        return OD_OK;
    OD_TRY(od_vgi_answer_alloc(answer, (int64_t)strlen(min_format) + 1, 1, (void *)&copy, err));
    memcpy(copy, min_format, strlen(min_format));
    out->format = od_slice_of(copy, strlen(min_format));
out:
    return rc;
}

static od_code read_column(od_vgi_answer *answer, const od_record *record, int64_t row, od_vgi_column_statistics *out,
                           od_error *err)
{
    od_code rc;

    OD_TRY(od_vgi_answer_text(answer, od_record_cell(record, "column_name", row), &out->column, err));
    OD_TRY(od_vgi_answer_number(od_record_cell(record, "distinct_count", row), &out->distinct_count, err));
    OD_TRY(read_range(answer, record, row, out, err));
out:
    return rc;
}

od_code od_vgi_read_statistics(od_vgi_answer *answer, od_slice bytes, od_vgi_statistics *out, od_error *err)
{
    od_record *record = NULL;
    int64_t n;
    od_code rc;

    *out = (od_vgi_statistics){0};
    if (bytes.len == 0)
        return OD_OK;
    OD_TRY(od_record_of_payload(bytes, &record, err));
    n = od_record_rows(record);
    OD_TRY(od_vgi_answer_alloc(answer, n, sizeof *out->items, (void *)&out->items, err));
    for (int64_t row = 0; row < n; row++)
        OD_TRY(read_column(answer, record, row, &out->items[row], err));
    out->count = (size_t)n;
out:
    if (rc != OD_OK)
        od_error_prefix(err, "column statistics");
    od_record_free(record);
    return rc;
}

od_code od_vgi_decode_statistics(od_slice bytes, od_vgi_statistics *out, od_error *err)
{
    od_vgi_answer *answer = NULL;
    od_code rc;

    *out = (od_vgi_statistics){0};
    OD_TRY(od_vgi_answer_create(&answer, err));
    OD_TRY(od_vgi_read_statistics(answer, bytes, out, err));
    out->answer = answer;
    answer = NULL;
out:
    od_vgi_answer_free(answer);
    if (rc != OD_OK)
        *out = (od_vgi_statistics){0};
    return rc;
}

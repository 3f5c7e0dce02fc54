/* Aggregate functions over frames: the worker has the whole partition. */
#include "vgi/client/aggregate_internal.h"
#include "vgi/client/scan_internal.h"

#include "base/banned.h"

enum { NUMBER = 8, NUMBERS = 4 };

/* As the protocol has them: little-endian, one behind the other. */
static void put_numbers(const od_vgi_partition *partition, uint8_t out[NUMBER * NUMBERS])
{
    const int64_t numbers[NUMBERS] = {partition->begin_min, partition->begin_max, partition->end_min,
                                      partition->end_max};

    for (size_t i = 0; i < (size_t)NUMBER * NUMBERS; i++)
        out[i] = (uint8_t)((uint64_t)numbers[i / NUMBER] >> (8 * (i % NUMBER)));
}

od_code od_vgi_aggregate_window_open(const od_vgi_aggregate *a, od_vgi_interrupt interrupt,
                                     const od_vgi_partition *partition, od_error *err)
{
    uint8_t stats[NUMBER * NUMBERS];
    int64_t rows = partition->rows->length;
    od_row *request = NULL;
    od_msg *batch = NULL;
    od_buf answer = {0};
    od_code rc;

    put_numbers(partition, stats);
    OD_TRY(od_vgi_batch_write(partition->schema, partition->rows, &batch, err));
    OD_TRY(od_vgi_execution_request(&a->execution, &request, err));
    od_row_int64(request, "partition_id", OD_ROW_NOT_NULL, &partition->id);
    od_row_int64(request, "row_count", OD_ROW_NOT_NULL, &rows);
    od_row_binary(request, "partition_batch", OD_ROW_NOT_NULL, od_vgi_msg_bytes(batch));
    od_row_binary(request, "output_schema", OD_ROW_NOT_NULL, od_vgi_bytes_of(&a->schema_bytes));
    od_row_binary(request, "filter_mask", OD_ROW_NOT_NULL,
                  partition->filter.len > 0 ? partition->filter : od_slice_str(""));
    od_row_binary(request, "frame_stats", OD_ROW_NOT_NULL, od_slice_of(stats, sizeof stats));
    od_row_binary(request, "all_valid", OD_ROW_NOT_NULL, partition->all_valid);
    OD_TRY(od_vgi_execution_ask(&a->execution, interrupt, "aggregate_window_init", request, &answer, err));
out:
    if (partition->rows->release != NULL)
        partition->rows->release(partition->rows);
    od_row_free(request);
    od_msg_unref(batch);
    od_buf_release(&answer);
    return rc;
}

od_code od_vgi_aggregate_window(const od_vgi_aggregate *a, od_vgi_interrupt interrupt, int64_t partition, int64_t rid,
                                const int64_t *begins, const int64_t *ends, size_t n, struct ArrowArray *out,
                                od_error *err)
{
    od_row *request = NULL;
    od_code rc;

    *out = (struct ArrowArray){0};
    OD_TRY(od_vgi_execution_request(&a->execution, &request, err));
    od_row_int64(request, "partition_id", OD_ROW_NOT_NULL, &partition);
    od_row_int64(request, "rid", OD_ROW_NOT_NULL, &rid);
    od_row_int64_list(request, "frame_starts", OD_ROW_NOT_NULL, begins, n);
    od_row_int64_list(request, "frame_ends", OD_ROW_NOT_NULL, ends, n);
    OD_TRY(od_vgi_aggregate_results(a, interrupt, "aggregate_window", request, 1, out, err));
out:
    od_row_free(request);
    return rc;
}

void od_vgi_aggregate_window_close(const od_vgi_aggregate *a, int64_t partition)
{
    od_row *request = NULL;

    if (od_vgi_execution_request(&a->execution, &request, NULL) == OD_OK) {
        od_row_int64(request, "partition_id", OD_ROW_NOT_NULL, &partition);
        od_vgi_execution_let_go(&a->execution, "aggregate_window_destructor", request);
    }
    od_row_free(request);
}

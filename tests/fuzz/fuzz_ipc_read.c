/* Foreign bytes as an Arrow IPC stream: whatever is shown must lie where the reader says it does. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "arrow/ipc_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t sink;

/* Touches every byte that the column's lengths promise. */
static void touch(const struct ArrowSchema *field, const od_column *column)
{
    uint64_t sum = 0;
    size_t n = (size_t)column->length;
    if (column->validity != NULL)
        for (size_t i = 0; i < (n + 7) / 8; i++)
            sum += column->validity[i];
    char kind = field->format[0];
    if (kind == 'u' || kind == 'z' || (kind == '+' && (field->format[1] == 'l' || field->format[1] == 'm'))) {
        const int32_t *offsets = (const int32_t *)(const void *)column->data;
        int64_t limit = kind == '+' ? column->children[0].length : column->bytes_len;
        for (size_t i = 0; i < n; i++)
            if (offsets[i] < 0 || offsets[i] > offsets[i + 1] || offsets[i + 1] > limit)
                abort();
        for (int64_t i = 0; kind != '+' && n > 0 && i < offsets[n]; i++)
            sum += column->bytes[i];
    } else if (kind == 'w' && n > 0) {
        size_t width = (size_t)strtoul(field->format + 2, NULL, 10);
        sum += column->data[n * width - 1];
    } else if (strchr("cC", kind) && n > 0) {
        sum += column->data[n - 1];
    } else if (strchr("lLg", kind) && n > 0) {
        sum += column->data[n * 8 - 1];
    }
    for (int64_t i = 0; i < column->child_count; i++)
        touch(field->children[i], &column->children[i]);
    sink += sum;
}

static void read_batches(od_ipc_reader *reader, od_slice payload)
{
    const od_batch *batch;
    od_error err = {0};
    if (od_ipc_reader_start(reader, payload, NULL, &err) != OD_OK)
        return;
    const struct ArrowSchema *schema = od_ipc_reader_schema(reader);
    while (od_ipc_reader_next(reader, &batch, &err) == OD_OK && batch != NULL)
        for (int64_t i = 0; i < batch->column_count; i++)
            touch(schema->children[i], &batch->columns[i]);
}

static void read_arrays(od_ipc_reader *reader, od_msg *owner)
{
    struct ArrowArray array;
    od_error err = {0};
    if (od_ipc_reader_start(reader, od_slice_of(od_msg_data(owner), od_msg_len(owner)), NULL, &err) != OD_OK)
        return;
    while (od_ipc_reader_next_array(reader, owner, &array, &err) == OD_OK && array.release != NULL)
        array.release(&array);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    od_ipc_reader *reader;
    od_msg *owner;
    if (od_ipc_reader_create(&reader, NULL) != OD_OK)
        return 0;
    for (unsigned skew = 0; skew < 2; skew++) {
        if (od_msg_create(size, skew * 3, &owner, NULL) != OD_OK)
            break;
        if (size > 0)
            memcpy(od_msg_data(owner), data, size);
        od_slice payload = od_slice_of(od_msg_data(owner), size);
        read_batches(reader, payload);
        read_batches(reader, payload);
        read_arrays(reader, owner);
        od_msg_unref(owner);
    }
    od_ipc_reader_free(reader);
    return 0;
}

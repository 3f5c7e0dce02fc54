/* Foreign bytes as what a VGI worker answers. The first byte says to which question; see the names of the corpus. */
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "vgi/client/client_internal.h"
#include "vgi/client/decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const od_vgi_wait patient = {.deadline = {INT64_MAX}};

static void decode(uint8_t question, od_slice bytes)
{
    od_error err = {0};
    od_code rc = OD_OK;
    union {
        od_vgi_catalogs catalogs;
        od_vgi_attached attached;
        od_vgi_schemas schemas;
        od_vgi_tables tables;
        od_vgi_views views;
        od_vgi_macros macros;
        od_vgi_functions functions;
        od_vgi_branches branches;
        od_vgi_statistics statistics;
    } out;

    memset(&out, 0, sizeof out);
    switch (question) {
    case 0:
        rc = od_vgi_decode_catalogs(bytes, &out.catalogs, &err);
        break;
    case 1:
        rc = od_vgi_decode_attached(bytes, &out.attached, &err);
        break;
    case 2:
        rc = od_vgi_decode_schemas(bytes, &out.schemas, &err);
        break;
    case 3:
        rc = od_vgi_decode_tables(bytes, &out.tables, &err);
        break;
    case 4:
        rc = od_vgi_decode_views(bytes, &out.views, &err);
        break;
    case 5:
        rc = od_vgi_decode_macros(bytes, &out.macros, &err);
        break;
    case 6:
        rc = od_vgi_decode_functions(bytes, &out.functions, &err);
        break;
    case 7:
        rc = od_vgi_decode_branches(bytes, &out.branches, &err);
        break;
    case 10:
        rc = od_vgi_decode_statistics(bytes, &out.statistics, &err);
        break;
    default:
        rc = od_vgi_decode_one_branch(bytes, &out.branches, &err);
        break;
    }
    od_vgi_answer_free(out.catalogs.answer); /* the first member of each; NULL after a failure */
    if (rc != OD_OK && out.catalogs.answer != NULL)
        OD_BUG("an answer is left after a failure");
}

/* Batches as a scan's; and of each the column `result`, as a call's. */
static void read_stream(uint8_t question, od_vgi *vgi, od_slice bytes)
{
    od_vgi_source source = {.memory = bytes};
    od_vgi_stream stream;
    struct ArrowArray array;
    od_error err = {0};

    if (od_vgi_stream_init(&stream, vgi, &source, &err) != OD_OK)
        return;
    while (od_vgi_stream_next(&stream, &patient, &array, &err) == OD_OK && array.release != NULL) {
        od_record *record;
        od_slice result;

        if (od_record_wrap(od_ipc_reader_schema(stream.reader), &array, &record, &err) != OD_OK)
            break;
        if (od_record_rows(record) > 0 && od_cell_bytes(od_record_cell(record, "result", 0), &result, &err) == OD_OK)
            decode(question, result);
        od_record_free(record);
    }
    od_vgi_stream_release(&stream);
}

static void hear(void *arg, od_slice level, od_slice message)
{
    volatile uint8_t *last = arg;

    if (level.len > 0)
        *last = level.data[level.len - 1];
    if (message.len > 0)
        *last = message.data[message.len - 1];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t last = 0;
    od_vgi_options options = {.location = "true", .log = hear, .log_arg = &last};
    od_vgi *vgi;

    if (size == 0 || od_vgi_open(&options, &vgi, NULL) != OD_OK)
        return 0;
    read_stream(data[0], vgi, od_slice_of(data + 1, size - 1));
    decode(data[0], od_slice_of(data + 1, size - 1)); /* the record itself, without what is around it */
    od_vgi_unref(vgi);
    return 0;
}

/* Segments from any bytes. The first byte says as what: a whole file; a footer whose checksums are made right, so that what it says is
 * looked at; or records whose checksums are right, which are replayed, indexed, and have to be the same files by that index. */
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "storage/segment.h"
#include "storage/store/files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const od_segment segment = {.epoch = 1, .salt = 42};

static int read_bytes(void *file, uint64_t at, void *data, size_t len, size_t *got)
{
    const od_buf *bytes = file;

    *got = at >= bytes->len ? 0 : (len < bytes->len - at ? len : bytes->len - (size_t)at);
    if (*got > 0)
        memcpy(data, bytes->data + at, *got);
    return 0;
}

static int size_of_bytes(void *file, uint64_t *size)
{
    *size = ((const od_buf *)file)->len;
    return 0;
}

static const od_io io = {.read = read_bytes, .size = size_of_bytes};

static void must(bool right)
{
    if (!right)
        abort();
}

static void add(od_buf *out, const void *data, size_t len)
{
    must(od_buf_append(out, data, len, NULL) == OD_OK);
}

static void add_header(od_buf *out)
{
    uint8_t header[OD_SEGMENT_HEADER_SIZE];

    od_segment_encode(&segment, header);
    add(out, header, sizeof header);
}

/* Reads every extent, so that none is outside of what is there. */
static void merge(od_buf *file, od_files *files)
{
    od_footer footer;
    uint64_t records;

    if (od_footer_read(&io, file, &segment, 0, file->len, &footer, &records, NULL) != OD_OK)
        return;
    if (od_files_merge(files, 0, &footer, records, NULL) == OD_OK)
        for (size_t i = 0; i < files->count; i++) {
            od_extent extent;
            uint64_t at = 0;

            for (; od_extent_map_find(&files->list[i]->all, at, &extent); at = extent.offset + extent.length) {
                must(extent.offset + extent.length <= files->list[i]->size);
                must(extent.position < records);
            }
        }
    od_footer_release(&footer);
}

static void try_file(const uint8_t *data, size_t size)
{
    od_buf file = {0};
    od_files files = {0};
    od_segment got;
    od_scan scan;

    add(&file, data, size);
    (void)!od_segment_read(&io, &file, &got, NULL);
    (void)!od_segment_recover(&io, &file, &segment, NULL, NULL, &scan, NULL);
    merge(&file, &files);
    od_files_release(&files);
    od_buf_release(&file);
}

static void put_sum(uint8_t *at, uint64_t sum)
{
    for (int i = 0; i < 8; i++)
        at[i] = (uint8_t)(sum >> (8 * i));
}

static void try_footer(const uint8_t *data, size_t size)
{
    uint8_t trailer[OD_FOOTER_TRAILER_SIZE];
    od_buf file = {0};
    od_files files = {0};
    uint64_t end;

    if (size < sizeof trailer)
        return;
    add_header(&file);
    add(&file, data + sizeof trailer, size - sizeof trailer);
    end = file.len;
    memcpy(trailer, data, sizeof trailer);
    memcpy(trailer, "ODFOOTER", 8);
    put_sum(trailer + 8, OD_SEGMENT_HEADER_SIZE);
    put_sum(trailer + 72, XXH3_64bits_withSeed(file.data + OD_SEGMENT_HEADER_SIZE, (size_t)end - OD_SEGMENT_HEADER_SIZE,
                                               segment.salt + OD_SEGMENT_HEADER_SIZE));
    put_sum(trailer + 120, XXH3_64bits_withSeed(trailer, 120, segment.salt + end));
    add(&file, trailer, sizeof trailer);
    merge(&file, &files);
    od_files_release(&files);
    od_buf_release(&file);
}

static od_code apply(void *arg, uint64_t position, const od_record *record, const void *payload, od_error *err)
{
    return od_files_apply(arg, 0, position, record, payload, err);
}

static void same_files(const od_files *left, const od_files *right)
{
    must(left->count == right->count && od_files_next(left) == od_files_next(right));
    for (size_t i = 0; i < left->count; i++) {
        const od_logical_file *a = left->list[i];
        const od_logical_file *b = right->list[i];
        uint64_t at = 0;
        od_extent of_a;
        od_extent of_b;

        must(a->id == b->id && a->size == b->size && strcmp(a->name, b->name) == 0);
        must(a->all.count == b->all.count && a->own.count == a->all.count);
        for (; od_extent_map_find(&a->all, at, &of_a); at = of_a.offset + of_a.length)
            must(od_extent_map_find(&b->all, at, &of_b) && of_a.offset == of_b.offset && of_a.length == of_b.length &&
                 of_a.position == of_b.position && of_a.skip == of_b.skip);
    }
}

/* Each record: kind, file, two bytes of offset, length, payload. */
static void try_records(const uint8_t *data, size_t size)
{
    od_buf file = {0};
    od_files files = {0};
    od_files again = {0};
    od_footer footer = {0};
    od_scan scan;
    uint64_t sequence = 0;

    add_header(&file);
    while (size >= 5) {
        uint8_t header[OD_RECORD_HEADER_SIZE];
        od_record record = {.sequence = ++sequence,
                            .file = data[1] % 4U,
                            .offset = data[2] | (uint64_t)data[3] << 8,
                            .length = data[4] < size - 5 ? data[4] : (uint32_t)(size - 5),
                            .kind = data[0] % 8};

        od_record_encode(&segment, file.len, &record, data + 5, header);
        add(&file, header, sizeof header);
        add(&file, data + 5, record.length);
        data += 5 + record.length;
        size -= 5 + record.length;
    }
    if (od_segment_recover(&io, &file, &segment, apply, &files, &scan, NULL) == OD_OK) {
        must(od_files_footer(&files, &footer, NULL) == OD_OK);
        must(od_footer_encode(&segment, file.len, &footer, &file, NULL) == OD_OK);
        merge(&file, &again);
        same_files(&files, &again);
        od_footer_release(&footer);
    }
    od_files_release(&files);
    od_files_release(&again);
    od_buf_release(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (data[0] % 3 == 0)
        try_file(data + 1, size - 1);
    else if (data[0] % 3 == 1)
        try_footer(data + 1, size - 1);
    else
        try_records(data + 1, size - 1);
    return 0;
}

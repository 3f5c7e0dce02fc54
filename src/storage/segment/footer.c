#include "storage/segment.h"

#include <string.h>

#include <xxhash.h>

#include "base/alloc.h"
#include "storage/segment/bytes.h"

#include "base/banned.h"

#define FILE_SIZE 32   /* of a file's entry, without its name */
#define EXTENT_SIZE 40 /* of an extent's entry */

static const char FOOTER_MAGIC[8] = {'O', 'D', 'F', 'O', 'O', 'T', 'E', 'R'};

static od_code encode_files(const od_footer *footer, od_buf *out, od_error *err)
{
    for (size_t i = 0; i < footer->file_count; i++) {
        const od_footer_file *file = &footer->files[i];
        uint8_t entry[FILE_SIZE] = {0};
        size_t len = strlen(file->name);
        od_code rc;

        put_u64(entry, file->id);
        put_u64(entry + 8, file->size);
        put_u64(entry + 16, file->floor);
        put_u32(entry + 24, (uint32_t)len);
        rc = od_buf_append(out, entry, sizeof entry, err);
        if (rc == OD_OK)
            rc = od_buf_append(out, file->name, len, err);
        if (rc != OD_OK)
            return rc;
    }
    return OD_OK;
}

static od_code encode_extents(const od_footer *footer, od_buf *out, od_error *err)
{
    for (size_t i = 0; i < footer->extent_count; i++) {
        const od_footer_extent *extent = &footer->extents[i];
        uint8_t entry[EXTENT_SIZE] = {0};
        od_code rc;

        put_u64(entry, extent->file);
        put_u64(entry + 8, extent->offset);
        put_u64(entry + 16, extent->position);
        put_u32(entry + 24, extent->length);
        put_u32(entry + 28, extent->skip);
        put_u32(entry + 32, extent->record);
        rc = od_buf_append(out, entry, sizeof entry, err);
        if (rc != OD_OK)
            return rc;
    }
    return OD_OK;
}

od_code od_footer_encode(const od_segment *segment, uint64_t position, const od_footer *footer, od_buf *out,
                         od_error *err)
{
    uint8_t trailer[OD_FOOTER_TRAILER_SIZE] = {0};
    size_t begin = out->len;
    size_t files;
    size_t body;
    od_code rc = encode_files(footer, out, err);

    if (rc != OD_OK)
        return rc;
    files = out->len - begin;
    rc = encode_extents(footer, out, err);
    if (rc != OD_OK)
        return rc;
    body = out->len - begin;
    memcpy(trailer, FOOTER_MAGIC, sizeof FOOTER_MAGIC);
    put_u64(trailer + 8, position);
    put_u64(trailer + 16, files);
    put_u64(trailer + 24, footer->file_count);
    put_u64(trailer + 32, footer->extent_count);
    put_u64(trailer + 40, footer->sequence);
    put_u64(trailer + 48, footer->next_file);
    memcpy(trailer + 56, footer->hash, OD_SEGMENT_HASH_SIZE);
    put_u64(trailer + 72, XXH3_64bits_withSeed(out->data + begin, body, segment->salt + position));
    put_u64(trailer + 120, XXH3_64bits_withSeed(trailer, 120, segment->salt + position + body));
    return od_buf_append(out, trailer, sizeof trailer, err);
}

static bool decode_files(od_footer *footer, const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < footer->file_count; i++) {
        od_footer_file *file = &footer->files[i];
        uint32_t name;

        if (len < FILE_SIZE)
            return false;
        file->id = get_u64(bytes);
        file->size = get_u64(bytes + 8);
        file->floor = get_u64(bytes + 16);
        name = get_u32(bytes + 24);
        if (get_u32(bytes + 28) != 0 || name > OD_FILE_NAME_MAX || name > len - FILE_SIZE)
            return false;
        memcpy(file->name, bytes + FILE_SIZE, name);
        file->name[name] = '\0';
        bytes += FILE_SIZE + name;
        len -= FILE_SIZE + name;
    }
    return len == 0;
}

static void decode_extents(od_footer *footer, const uint8_t *bytes)
{
    for (size_t i = 0; i < footer->extent_count; i++, bytes += EXTENT_SIZE)
        footer->extents[i] = (od_footer_extent){
            .file = get_u64(bytes),
            .offset = get_u64(bytes + 8),
            .position = get_u64(bytes + 16),
            .length = get_u32(bytes + 24),
            .skip = get_u32(bytes + 28),
            .record = get_u32(bytes + 32),
        };
}

/* Where a footer is read from. */
typedef struct {
    const od_io *io;
    void *file;
    const od_segment *segment;
    uint64_t base;
} source;

static od_code read_exact(const source *from, uint64_t at, void *out, size_t len, od_error *err)
{
    size_t got = 0;
    int why = from->io->read(from->file, at - from->base, out, len, &got);

    if (why != 0)
        return od_io_fail(from->io, err, why, "cannot read a segment at byte %llu", (unsigned long long)at);
    if (got < len)
        return od_segment_corrupt(from->segment, at + got, "it ends there", err);
    return OD_OK;
}

/* The counts of a trailer that matches its checksum, against the room that there is. */
static bool counts_fit(const uint8_t *trailer, uint64_t body)
{
    uint64_t files = get_u64(trailer + 16);
    uint64_t file_count = get_u64(trailer + 24);
    uint64_t extents = get_u64(trailer + 32);

    return files <= body && file_count <= files / FILE_SIZE && (body - files) % EXTENT_SIZE == 0 &&
           extents == (body - files) / EXTENT_SIZE;
}

static od_code read_body(const source *from, const uint8_t *trailer, uint64_t length, od_footer *out, od_error *err)
{
    const od_segment *segment = from->segment;
    uint64_t at = get_u64(trailer + 8);
    size_t body = (size_t)(length - at);
    size_t files = (size_t)get_u64(trailer + 16);
    uint8_t *bytes = od_alloc(body);
    od_code rc;

    out->file_count = (size_t)get_u64(trailer + 24);
    out->extent_count = (size_t)get_u64(trailer + 32);
    out->files = od_calloc(out->file_count, sizeof *out->files);
    out->extents = od_calloc(out->extent_count, sizeof *out->extents);
    if (bytes == NULL || out->files == NULL || out->extents == NULL) {
        rc = od_fail(err, OD_E_NO_MEMORY, "no memory for the index of a segment");
        goto out;
    }
    OD_TRY(read_exact(from, at, bytes, body, err));
    if (get_u64(trailer + 72) != XXH3_64bits_withSeed(bytes, body, segment->salt + at)) {
        rc = od_segment_corrupt(segment, at, "the index does not match its checksum", err);
        goto out;
    }
    if (!decode_files(out, bytes, files)) {
        rc = od_segment_corrupt(segment, at, "the index makes no sense", err);
        goto out;
    }
    decode_extents(out, bytes + files);

out:
    od_free(bytes);
    return rc;
}

static od_code read_footer(const od_io *io, void *file, const od_segment *segment, uint64_t base, uint64_t length,
                           od_footer *out, uint64_t *records, od_error *err)
{
    const source from = {.io = io, .file = file, .segment = segment, .base = base};
    uint8_t trailer[OD_FOOTER_TRAILER_SIZE];
    uint64_t end;
    od_code rc;

    *out = (od_footer){0};
    if (length < OD_SEGMENT_HEADER_SIZE + OD_FOOTER_TRAILER_SIZE || length - OD_FOOTER_TRAILER_SIZE < base)
        return od_segment_corrupt(segment, length, "it is too short for a footer", err);
    end = length - OD_FOOTER_TRAILER_SIZE;
    rc = read_exact(&from, end, trailer, sizeof trailer, err);
    if (rc != OD_OK)
        return rc;
    if (memcmp(trailer, FOOTER_MAGIC, sizeof FOOTER_MAGIC) != 0 ||
        get_u64(trailer + 120) != XXH3_64bits_withSeed(trailer, 120, segment->salt + end))
        return od_segment_corrupt(segment, end, "the footer does not match its checksum", err);
    *records = get_u64(trailer + 8);
    if (*records < OD_SEGMENT_HEADER_SIZE || *records < base || *records > end || !counts_fit(trailer, end - *records))
        return od_segment_corrupt(segment, end, "the footer makes no sense", err);
    out->sequence = get_u64(trailer + 40);
    out->next_file = get_u64(trailer + 48);
    memcpy(out->hash, trailer + 56, OD_SEGMENT_HASH_SIZE);
    rc = read_body(&from, trailer, end, out, err);
    if (rc != OD_OK)
        od_footer_release(out);
    return rc;
}

uint64_t od_footer_live(const od_footer *footer)
{
    uint64_t live = OD_SEGMENT_HEADER_SIZE + OD_FOOTER_TRAILER_SIZE;

    for (size_t i = 0; i < footer->file_count; i++)
        live += FILE_SIZE + strlen(footer->files[i].name);
    for (size_t i = 0; i < footer->extent_count; i++)
        live += OD_RECORD_HEADER_SIZE + EXTENT_SIZE + (uint64_t)footer->extents[i].length;
    return live;
}

od_code od_footer_read(const od_io *io, void *file, const od_segment *segment, uint64_t base, uint64_t length,
                       od_footer *out, uint64_t *records, od_error *err)
{
    od_code rc = read_footer(io, file, segment, base, length, out, records, err);

    if (rc != OD_E_CORRUPT || io->doubt == NULL)
        return rc;
    io->doubt(file);
    return read_footer(io, file, segment, base, length, out, records, err);
}

void od_footer_release(od_footer *footer)
{
    od_free(footer->files);
    od_free(footer->extents);
    *footer = (od_footer){0};
}

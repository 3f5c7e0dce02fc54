#include "storage/segment.h"

#include <errno.h>
#include <string.h>

#include <xxhash.h>

#include "base/alloc.h"
#include "storage/segment/bytes.h"

#include "base/banned.h"

static const char SEGMENT_MAGIC[8] = {'O', 'D', 'S', 'E', 'G', '\r', '\n', '\x1A'};
#define SEGMENT_VERSION 1U

void od_segment_encode(const od_segment *segment, uint8_t out[OD_SEGMENT_HEADER_SIZE])
{
    memset(out, 0, OD_SEGMENT_HEADER_SIZE);
    memcpy(out, SEGMENT_MAGIC, sizeof SEGMENT_MAGIC);
    put_u32(out + 8, SEGMENT_VERSION);
    put_u32(out + 12, OD_SEGMENT_HEADER_SIZE);
    memcpy(out + 16, segment->volume.bytes, 16);
    memcpy(out + 32, segment->layer.bytes, 16);
    memcpy(out + 48, segment->parent.bytes, 16);
    put_u64(out + 64, segment->epoch);
    put_u64(out + 72, segment->salt);
    put_u64(out + 120, XXH3_64bits(out, 120));
}

static od_code read_header(const od_io *io, void *file, od_segment *out, od_error *err)
{
    uint8_t in[OD_SEGMENT_HEADER_SIZE];
    size_t got = 0;
    int why = io->read(file, 0, in, sizeof in, &got);

    if (why != 0)
        return od_io_fail(io, err, why, "cannot read the header of a segment");
    if (got < sizeof in || memcmp(in, SEGMENT_MAGIC, sizeof SEGMENT_MAGIC) != 0)
        return od_fail(err, OD_E_CORRUPT, "not a segment: its first bytes are others");
    if (get_u64(in + 120) != XXH3_64bits(in, 120))
        return od_fail(err, OD_E_CORRUPT, "the header of a segment does not match its checksum");
    if (get_u32(in + 8) != SEGMENT_VERSION || get_u32(in + 12) != OD_SEGMENT_HEADER_SIZE)
        return od_fail(err, OD_E_NOT_IMPLEMENTED, "a segment of format version %u; this program knows version %u",
                       get_u32(in + 8), SEGMENT_VERSION);
    memcpy(out->volume.bytes, in + 16, 16);
    memcpy(out->layer.bytes, in + 32, 16);
    memcpy(out->parent.bytes, in + 48, 16);
    out->epoch = get_u64(in + 64);
    out->salt = get_u64(in + 72);
    return OD_OK;
}

od_code od_segment_read(const od_io *io, void *file, od_segment *out, od_error *err)
{
    od_code rc = read_header(io, file, out, err);

    if (rc != OD_E_CORRUPT || io->doubt == NULL)
        return rc;
    io->doubt(file);
    return read_header(io, file, out, err);
}

void od_record_encode(const od_segment *segment, uint64_t position, od_record *record, const void *payload,
                      uint8_t out[OD_RECORD_HEADER_SIZE])
{
    uint64_t seed = segment->salt + position;

    record->payload_sum = record->length == 0 ? 0 : XXH3_64bits_withSeed(payload, record->length, seed);
    put_u64(out + 8, record->payload_sum);
    put_u64(out + 16, record->sequence);
    put_u64(out + 24, record->file);
    put_u64(out + 32, record->offset);
    put_u64(out + 40, record->durable);
    put_u32(out + 48, record->length);
    put_u32(out + 52, record->kind);
    put_u32(out + 56, OD_RECORD_MAGIC);
    put_u32(out + 60, 0);
    put_u64(out, XXH3_64bits_withSeed(out + 8, OD_RECORD_HEADER_SIZE - 8, seed));
}

bool od_record_decode(const od_segment *segment, uint64_t position, const uint8_t in[OD_RECORD_HEADER_SIZE],
                      od_record *out)
{
    if (get_u32(in + 56) != OD_RECORD_MAGIC ||
        get_u64(in) != XXH3_64bits_withSeed(in + 8, OD_RECORD_HEADER_SIZE - 8, segment->salt + position))
        return false;
    out->payload_sum = get_u64(in + 8);
    out->sequence = get_u64(in + 16);
    out->file = get_u64(in + 24);
    out->offset = get_u64(in + 32);
    out->durable = get_u64(in + 40);
    out->length = get_u32(in + 48);
    out->kind = get_u32(in + 52);
    return out->kind >= OD_RECORD_DATA && out->kind <= OD_RECORD_SYNC && out->length <= OD_RECORD_MAX &&
           get_u32(in + 60) == 0;
}

bool od_record_payload_ok(const od_segment *segment, uint64_t position, const od_record *record, const void *payload)
{
    if (record->length == 0)
        return record->payload_sum == 0;
    return record->payload_sum == XXH3_64bits_withSeed(payload, record->length, segment->salt + position);
}

od_code od_segment_corrupt(const od_segment *segment, uint64_t position, const char *what, od_error *err)
{
    char layer[OD_UUID_TEXT_SIZE];

    od_uuid_format(segment->layer, layer);
    return od_fail(err, OD_E_CORRUPT, "layer '%s' is damaged at byte %llu: %s", layer, (unsigned long long)position,
                   what);
}

static od_code read_part(const od_io *io, void *file, const od_segment *segment, const od_record_part *part, void *out,
                         od_error *err)
{
    size_t want = OD_RECORD_HEADER_SIZE + (size_t)part->payload;
    uint8_t *buffer = od_alloc(want);
    size_t got = 0;
    od_record record;
    od_code rc = OD_OK;
    int why;

    if (buffer == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "no memory to read a record");
    why = io->read(file, part->position, buffer, want, &got);
    if (why != 0)
        rc = od_io_fail(io, err, why, "cannot read a segment at byte %llu", (unsigned long long)part->position);
    else if (got < want || !od_record_decode(segment, part->position, buffer, &record))
        rc = od_segment_corrupt(segment, part->position, "no record stands there", err);
    else if (record.kind != OD_RECORD_DATA || record.file != part->file || record.length != part->payload ||
             record.offset + part->skip != part->offset || (uint64_t)part->skip + part->length > record.length)
        rc = od_segment_corrupt(segment, part->position, "another record stands there", err);
    else if (!od_record_payload_ok(segment, part->position, &record, buffer + OD_RECORD_HEADER_SIZE))
        rc = od_segment_corrupt(segment, part->position, "the bytes do not match their checksum", err);
    else
        memcpy(out, buffer + OD_RECORD_HEADER_SIZE + part->skip, part->length);
    od_free(buffer);
    return rc;
}

od_code od_record_read(const od_io *io, void *file, const od_segment *segment, const od_record_part *part, void *out,
                       od_error *err)
{
    od_code rc = read_part(io, file, segment, part, out, err);

    if (rc != OD_E_CORRUPT || io->doubt == NULL)
        return rc;
    io->doubt(file);
    return read_part(io, file, segment, part, out, err);
}

void od_segment_hash_begin(const od_segment *segment, uint8_t hash[OD_SEGMENT_HASH_SIZE])
{
    uint8_t header[OD_SEGMENT_HEADER_SIZE];
    XXH128_canonical_t bytes;

    od_segment_encode(segment, header);
    XXH128_canonicalFromHash(&bytes, XXH3_128bits(header, sizeof header));
    memcpy(hash, bytes.digest, OD_SEGMENT_HASH_SIZE);
}

void od_segment_hash_add(uint8_t hash[OD_SEGMENT_HASH_SIZE], const uint8_t header[OD_RECORD_HEADER_SIZE])
{
    uint8_t link[OD_SEGMENT_HASH_SIZE + OD_RECORD_HEADER_SIZE];
    XXH128_canonical_t bytes;

    memcpy(link, hash, OD_SEGMENT_HASH_SIZE);
    memcpy(link + OD_SEGMENT_HASH_SIZE, header, OD_RECORD_HEADER_SIZE);
    XXH128_canonicalFromHash(&bytes, XXH3_128bits(link, sizeof link));
    memcpy(hash, bytes.digest, OD_SEGMENT_HASH_SIZE);
}

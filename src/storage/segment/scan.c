#include "storage/segment.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "storage/segment/bytes.h"

#include "base/banned.h"

#define WINDOW_SIZE (1U << 20) /* more than a record */

/* A part of the file in memory. */
typedef struct {
    const od_io *io;
    void *file;
    uint64_t limit;
    uint64_t at;
    size_t have;
    uint8_t *data;
} window;

/* The LEN bytes at POSITION, or fewer at the limit: *got. */
static od_code look(window *w, uint64_t position, size_t len, const uint8_t **out, size_t *got, od_error *err)
{
    if (position < w->at || position + len > w->at + w->have) {
        size_t want = WINDOW_SIZE;
        int why;

        if (position >= w->limit)
            want = 0;
        else if (w->limit - position < want)
            want = (size_t)(w->limit - position);
        w->at = position;
        w->have = 0;
        why = want == 0 ? 0 : w->io->read(w->file, position, w->data, want, &w->have);
        if (why != 0)
            return od_io_fail(w->io, err, why, "cannot read a segment at byte %llu", (unsigned long long)position);
    }
    *out = w->data + (position - w->at);
    *got = w->have - (size_t)(position - w->at);
    if (*got > len)
        *got = len;
    return OD_OK;
}

/* *whole: a record stands at OUT->end; it has been given to FN, and OUT has moved behind it. */
static od_code step(window *w, const od_segment *segment, od_record_fn fn, void *arg, od_scan *out, bool *whole,
                    od_error *err)
{
    uint8_t header[OD_RECORD_HEADER_SIZE];
    const uint8_t *bytes;
    od_record record;
    size_t got;
    od_code rc = look(w, out->end, sizeof header, &bytes, &got, err);

    *whole = false;
    if (rc != OD_OK || got < sizeof header || !od_record_decode(segment, out->end, bytes, &record) ||
        record.sequence != out->sequence + 1)
        return rc;
    memcpy(header, bytes, sizeof header);
    rc = look(w, out->end + sizeof header, record.length, &bytes, &got, err);
    if (rc != OD_OK || got < record.length || !od_record_payload_ok(segment, out->end, &record, bytes))
        return rc;
    if (fn != NULL) {
        rc = fn(arg, out->end, &record, bytes, err);
        if (rc != OD_OK)
            return rc;
    }
    *whole = true;
    out->end += sizeof header + record.length;
    out->sequence = record.sequence;
    if (record.durable > out->durable)
        out->durable = record.durable;
    if (record.kind == OD_RECORD_SYNC)
        out->synced = out->end;
    od_segment_hash_add(out->hash, header);
    return OD_OK;
}

/* Behind the first record that is not whole: headers that are, and what they claim. */
static od_code search(window *w, const od_segment *segment, od_scan *out, od_error *err)
{
    static const uint8_t magic[4] = {'o', 'R', 'c', '1'};
    uint64_t at = out->end;

    for (;;) {
        const uint8_t *bytes;
        const uint8_t *hit;
        od_record record;
        size_t got;
        od_code rc = look(w, at, WINDOW_SIZE, &bytes, &got, err);

        if (rc != OD_OK || got < OD_RECORD_HEADER_SIZE)
            return rc;
        hit = memmem(bytes + OD_RECORD_MAGIC_AT, got - OD_RECORD_MAGIC_AT, magic, sizeof magic);
        if (hit == NULL) {
            at += got - OD_RECORD_HEADER_SIZE + 1;
            continue;
        }
        at += (uint64_t)(hit - bytes) - OD_RECORD_MAGIC_AT;
        rc = look(w, at, OD_RECORD_HEADER_SIZE, &bytes, &got, err);
        if (rc != OD_OK || got < OD_RECORD_HEADER_SIZE)
            return rc;
        if (od_record_decode(segment, at, bytes, &record) && record.durable > out->durable)
            out->durable = record.durable;
        at++;
    }
}

od_code od_segment_scan(const od_io *io, void *file, const od_segment *segment, uint64_t limit, od_record_fn fn,
                        void *arg, od_scan *out, od_error *err)
{
    window w = {.io = io, .file = file, .limit = limit, .data = od_alloc(WINDOW_SIZE)};
    bool whole = true;
    od_code rc = OD_OK;

    *out = (od_scan){.end = OD_SEGMENT_HEADER_SIZE, .synced = OD_SEGMENT_HEADER_SIZE};
    od_segment_hash_begin(segment, out->hash);
    if (w.data == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "no memory to read a segment");
    while (rc == OD_OK && whole)
        rc = step(&w, segment, fn, arg, out, &whole, err);
    if (rc == OD_OK)
        rc = search(&w, segment, out, err);
    od_free(w.data);
    return rc;
}

od_code od_segment_recover(const od_io *io, void *file, const od_segment *segment, od_record_fn fn, void *arg,
                           od_scan *out, od_error *err)
{
    uint64_t size = 0;
    int why = io->size(file, &size);
    od_code rc;

    if (why != 0)
        return od_fail_errno(err, OD_E_IO, why, "cannot tell the size of a segment");
    rc = od_segment_scan(io, file, segment, size, fn, arg, out, err);
    if (rc == OD_OK && out->durable > out->end)
        rc = od_segment_corrupt(segment, out->end, "a record that had been synced is not whole", err);
    return rc;
}

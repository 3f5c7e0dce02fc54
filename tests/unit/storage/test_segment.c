#include "storage/segment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit/base/check.h"

/* A segment in a temporary file, and where its records stand. */
typedef struct {
    char path[64];
    const od_io *io;
    void *file;
    od_segment segment;
    uint64_t end;
    uint64_t sequence;
    uint8_t hash[OD_SEGMENT_HASH_SIZE];
} fixture;

static void begin(fixture *f)
{
    uint8_t header[OD_SEGMENT_HEADER_SIZE];
    int fd;

    *f = (fixture){.path = "/tmp/od_segment_XXXXXX", .io = od_io_posix(), .end = OD_SEGMENT_HEADER_SIZE};
    fd = mkstemp(f->path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(f->io->open(f->io->ctx, f->path, OD_IO_WRITE, &f->file), 0);
    f->segment = (od_segment){.volume = od_uuid_random(), .layer = od_uuid_random(), .epoch = 3, .salt = 0x1234567890U};
    od_segment_encode(&f->segment, header);
    assert_int_equal(f->io->write(f->file, 0, &(od_io_part){header, sizeof header}, 1), 0);
    od_segment_hash_begin(&f->segment, f->hash);
}

static void end(fixture *f)
{
    f->io->close(f->file);
    unlink(f->path);
}

static uint64_t add(fixture *f, od_record_kind kind, uint64_t offset, uint64_t durable, const char *payload)
{
    uint8_t header[OD_RECORD_HEADER_SIZE];
    od_record record = {.sequence = ++f->sequence,
                        .file = 1,
                        .offset = offset,
                        .durable = durable,
                        .length = (uint32_t)strlen(payload),
                        .kind = kind};
    od_io_part parts[] = {{header, sizeof header}, {payload, strlen(payload)}};
    uint64_t at = f->end;

    od_record_encode(&f->segment, at, &record, payload, header);
    od_segment_hash_add(f->hash, header);
    assert_int_equal(f->io->write(f->file, at, parts, 2), 0);
    f->end += sizeof header + record.length;
    return at;
}

static od_code count(void *arg, uint64_t position, const od_record *record, const void *payload, od_error *err)
{
    (void)position;
    (void)record;
    (void)payload;
    (void)err;
    ++*(int *)arg;
    return OD_OK;
}

static void flip(fixture *f, uint64_t at, uint8_t bits)
{
    uint8_t byte;
    size_t got;

    assert_int_equal(f->io->read(f->file, at, &byte, 1, &got), 0);
    assert_int_equal(got, 1);
    byte ^= bits;
    assert_int_equal(f->io->write(f->file, at, &(od_io_part){&byte, 1}, 1), 0);
}

static od_code seal(fixture *f, uint64_t data_at, uint64_t *length)
{
    od_footer_file file = {.id = 1, .size = 5, .floor = 0, .name = "database.duckdb"};
    od_footer_extent extent = {.file = 1, .offset = 0, .position = data_at, .length = 5};
    od_footer footer = {.sequence = f->sequence,
                        .next_file = 2,
                        .files = &file,
                        .file_count = 1,
                        .extents = &extent,
                        .extent_count = 1};
    od_buf out = {0};
    od_code rc;

    memcpy(footer.hash, f->hash, sizeof footer.hash);
    rc = od_footer_encode(&f->segment, f->end, &footer, &out, NULL);
    assert_int_equal(f->io->write(f->file, f->end, &(od_io_part){out.data, out.len}, 1), 0);
    *length = f->end + out.len;
    od_buf_release(&out);
    return rc;
}

/* Everything that reads a sealed segment: OD_OK only if all of it is as it was written. */
static od_code check_sealed(fixture *f, uint64_t length, uint64_t data_at)
{
    od_segment segment;
    od_footer footer = {0};
    od_scan scan;
    uint64_t records = 0;
    char bytes[5];
    od_code rc;

    OD_TRY(od_segment_read(f->io, f->file, &segment, NULL));
    OD_TRY(od_footer_read(f->io, f->file, &segment, 0, length, &footer, &records, NULL));
    OD_TRY(od_segment_scan(f->io, f->file, &segment, records, NULL, NULL, &scan, NULL));
    if (scan.end != records || scan.sequence != footer.sequence ||
        memcmp(scan.hash, footer.hash, sizeof scan.hash) != 0)
        rc = OD_E_CORRUPT;
    else
        rc = od_record_read(
            f->io, f->file, &segment,
            &(od_record_part){.position = data_at, .file = 1, .payload = sizeof bytes, .length = sizeof bytes}, bytes,
            NULL);
out:
    od_footer_release(&footer);
    return rc;
}

static void test_a_flipped_bit_anywhere_is_found(void **state)
{
    fixture f;
    uint64_t length;
    uint64_t at;

    (void)state;
    begin(&f);
    add(&f, OD_RECORD_CREATE, 0, 0, "database.duckdb");
    at = add(&f, OD_RECORD_DATA, 0, 0, "hello");
    add(&f, OD_RECORD_SYNC, 0, 0, "");
    assert_int_equal(seal(&f, at, &length), OD_OK);
    assert_int_equal(check_sealed(&f, length, at), OD_OK);
    for (uint64_t i = 0; i < length; i++)
        for (unsigned bit = 0; bit < 8; bit++) {
            flip(&f, i, (uint8_t)(1U << bit));
            assert_int_not_equal(check_sealed(&f, length, at), OD_OK);
            flip(&f, i, (uint8_t)(1U << bit));
        }
    assert_int_equal(check_sealed(&f, length, at), OD_OK);
    for (uint64_t cut = 1; cut <= length; cut++)
        assert_int_not_equal(check_sealed(&f, length - cut, at), OD_OK);
    end(&f);
}

static void test_footer_gives_back_what_was_put(void **state)
{
    fixture f;
    od_footer footer;
    uint64_t length;
    uint64_t records;
    uint64_t at;

    (void)state;
    begin(&f);
    at = add(&f, OD_RECORD_DATA, 0, 0, "hello");
    assert_int_equal(seal(&f, at, &length), OD_OK);
    assert_int_equal(od_footer_read(f.io, f.file, &f.segment, 0, length, &footer, &records, NULL), OD_OK);
    assert_int_equal(records, f.end);
    assert_int_equal(footer.next_file, 2);
    assert_int_equal(footer.file_count, 1);
    assert_string_equal(footer.files[0].name, "database.duckdb");
    assert_int_equal(footer.files[0].size, 5);
    assert_int_equal(footer.extent_count, 1);
    assert_int_equal(footer.extents[0].position, at);
    assert_int_equal(footer.extents[0].length, 5);
    od_footer_release(&footer);
    end(&f);
}

static void test_a_torn_tail_is_cut_at_a_whole_record(void **state)
{
    fixture f;
    od_scan scan;
    uint64_t whole;
    int seen;

    (void)state;
    begin(&f);
    add(&f, OD_RECORD_DATA, 0, 0, "first");
    add(&f, OD_RECORD_SYNC, 0, 0, "");
    whole = f.end;
    add(&f, OD_RECORD_DATA, 5, whole, "second, which is not synced");
    for (uint64_t size = whole; size < f.end; size++) {
        seen = 0;
        assert_int_equal(f.io->truncate(f.file, size), 0);
        assert_int_equal(od_segment_recover(f.io, f.file, &f.segment, count, &seen, &scan, NULL), OD_OK);
        assert_int_equal(scan.end, whole);
        assert_int_equal(scan.synced, whole);
        assert_int_equal(scan.sequence, 2);
        assert_int_equal(seen, 2);
        f.sequence = 2;
        f.end = whole;
        add(&f, OD_RECORD_DATA, 5, whole, "second, which is not synced");
    }
    end(&f);
}

static void test_damage_before_what_was_synced_is_no_torn_tail(void **state)
{
    fixture f;
    od_scan scan;
    od_error err = {0};
    uint64_t at;
    uint64_t synced;

    (void)state;
    begin(&f);
    at = add(&f, OD_RECORD_DATA, 0, 0, "first");
    add(&f, OD_RECORD_SYNC, 0, 0, "");
    synced = f.end;
    add(&f, OD_RECORD_DATA, 5, synced, "second");
    for (uint64_t i = at; i < synced; i++) {
        flip(&f, i, 0x10);
        assert_int_equal(od_segment_recover(f.io, f.file, &f.segment, NULL, NULL, &scan, &err), OD_E_CORRUPT);
        assert_non_null(strstr(err.message, "is damaged at byte"));
        flip(&f, i, 0x10);
    }
    assert_int_equal(od_segment_recover(f.io, f.file, &f.segment, NULL, NULL, &scan, &err), OD_OK);
    assert_int_equal(scan.end, f.end);
    end(&f);
}

static void test_a_record_counts_only_where_it_was_written(void **state)
{
    uint8_t header[OD_RECORD_HEADER_SIZE];
    od_segment one = {.salt = 1000};
    od_segment other = {.salt = 2000};
    od_record record = {.sequence = 1, .file = 1, .length = 3, .kind = OD_RECORD_DATA};
    od_record got;

    (void)state;
    od_record_encode(&one, 128, &record, "abc", header);
    assert_true(od_record_decode(&one, 128, header, &got));
    assert_true(od_record_payload_ok(&one, 128, &got, "abc"));
    assert_false(od_record_payload_ok(&one, 128, &got, "abd"));
    assert_false(od_record_decode(&one, 129, header, &got));
    assert_false(od_record_decode(&other, 128, header, &got));
}

static void test_parts_of_a_record_are_read(void **state)
{
    fixture f;
    char out[16] = "";
    uint64_t at;
    od_record_part good;
    od_record_part bad[5];

    (void)state;
    begin(&f);
    at = add(&f, OD_RECORD_DATA, 1000, 0, "0123456789");
    good = (od_record_part){.position = at, .file = 1, .offset = 1003, .payload = 10, .skip = 3, .length = 4};
    assert_int_equal(od_record_read(f.io, f.file, &f.segment, &good, out, NULL), OD_OK);
    assert_memory_equal(out, "3456", 4);
    for (size_t i = 0; i < COUNT(bad); i++)
        bad[i] = good;
    bad[0].file = 2;
    bad[1].offset = 1004;
    bad[2].payload = 9;
    bad[3].skip = 8;
    bad[3].offset = 1008;
    bad[4].payload = 11;
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_int_equal(od_record_read(f.io, f.file, &f.segment, &bad[i], out, NULL), OD_E_CORRUPT);
    flip(&f, at + OD_RECORD_HEADER_SIZE, 1); /* not one of those that are asked for */
    assert_int_equal(od_record_read(f.io, f.file, &f.segment, &good, out, NULL), OD_E_CORRUPT);
    end(&f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_flipped_bit_anywhere_is_found),
        cmocka_unit_test(test_footer_gives_back_what_was_put),
        cmocka_unit_test(test_a_torn_tail_is_cut_at_a_whole_record),
        cmocka_unit_test(test_damage_before_what_was_synced_is_no_torn_tail),
        cmocka_unit_test(test_a_record_counts_only_where_it_was_written),
        cmocka_unit_test(test_parts_of_a_record_are_read),
    };

    return check_run("storage.segment", tests, argc, argv);
}

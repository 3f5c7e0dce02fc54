/* What every kind of store does alike, through the public header. */
#include "openduck/storage.h"

#include "unit/storage/place.h"

typedef struct {
    const char *kind;
    place p;
    od_store *store;
    od_volume *volume;
} fixture;

static int begin(void **state, const char *kind)
{
    fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    f->kind = kind;
    place_begin(&f->p);
    if (strcmp(kind, "memory") == 0)
        OK(od_store_open_memory(&f->store, err));
    else
        place_open(&f->p, 0, &f->store);
    OK(od_volume_open(f->store, "db", OD_VOLUME_CREATE, &f->volume, err));
    *state = f;
    return 0;
}

static int begin_memory(void **state)
{
    return begin(state, "memory");
}

static int begin_layered(void **state)
{
    return begin(state, "layered");
}

static int end(void **state)
{
    fixture *f = *state;

    OK(od_volume_close(f->volume, err));
    OK(od_store_close(f->store, err));
    place_end(&f->p);
    free(f);
    return 0;
}

/* Closes and opens the volume, and the store if that outlives it. */
static void reopen(fixture *f)
{
    OK(od_volume_close(f->volume, err));
    if (strcmp(f->kind, "memory") != 0) {
        OK(od_store_close(f->store, err));
        place_open(&f->p, 0, &f->store);
    }
    OK(od_volume_open(f->store, "db", OD_VOLUME_WRITE, &f->volume, err));
}

static void expect(od_volume *volume, uint64_t file, uint64_t offset, const char *bytes, size_t len)
{
    char out[4096];
    size_t got = 0;

    assert_true(len < sizeof out);
    OK(od_volume_read(volume, file, offset, out, len + 1, &got, err));
    assert_int_equal(got, len);
    assert_memory_equal(out, bytes, len);
}

static void test_writes_are_read_and_holes_are_zero(void **state)
{
    fixture *f = *state;
    uint64_t file;
    uint64_t size;

    OK(od_volume_create(f->volume, "database.duckdb", &file, err));
    OK(od_volume_write(f->volume, file, 10, "hello", 5, err));
    expect(f->volume, file, 0, "\0\0\0\0\0\0\0\0\0\0hello", 15);
    OK(od_volume_write(f->volume, file, 12, "LL", 2, err));
    expect(f->volume, file, 8, "\0\0heLLo", 7);
    OK(od_volume_write(f->volume, file, 100, "", 0, err));
    OK(od_volume_size(f->volume, file, &size, err));
    assert_int_equal(size, 15);
    expect(f->volume, file, 15, "", 0);
    expect(f->volume, file, 999, "", 0);
    reopen(f);
    expect(f->volume, file, 8, "\0\0heLLo", 7);
}

static void test_what_was_cut_off_never_comes_back(void **state)
{
    fixture *f = *state;
    uint64_t file;

    OK(od_volume_create(f->volume, "f", &file, err));
    OK(od_volume_write(f->volume, file, 0, "0123456789", 10, err));
    for (int sealed = 0; sealed < 2; sealed++) {
        OK(od_volume_truncate(f->volume, file, 4, err));
        OK(od_volume_truncate(f->volume, file, 8, err));
        expect(f->volume, file, 0, "0123\0\0\0\0", 8);
        OK(od_volume_seal(f->volume, NULL, err));
    }
    reopen(f);
    expect(f->volume, file, 0, "0123\0\0\0\0", 8);
    OK(od_volume_truncate(f->volume, file, 0, err));
    OK(od_volume_truncate(f->volume, file, 3, err));
    OK(od_volume_seal(f->volume, NULL, err));
    reopen(f);
    expect(f->volume, file, 0, "\0\0\0", 3);
}

static void test_names(void **state)
{
    fixture *f = *state;
    uint64_t log;
    uint64_t other;
    uint64_t found;
    uint64_t ignored;

    OK(od_volume_create(f->volume, "db.wal", &log, err));
    OK(od_volume_create(f->volume, "db.wal.checkpoint", &other, err));
    assert_int_equal(od_volume_create(f->volume, "db.wal", &ignored, NULL), OD_STORAGE_EXISTS);
    OK(od_volume_write(f->volume, other, 0, "new", 3, err));
    OK(od_volume_rename(f->volume, other, "db.wal", err));
    assert_int_equal(od_volume_size(f->volume, log, &ignored, NULL), OD_STORAGE_NOT_FOUND);
    OK(od_volume_find(f->volume, "db.wal", &found, err));
    assert_int_equal(found, other);
    assert_int_equal(od_volume_find(f->volume, "db.wal.checkpoint", &found, NULL), OD_STORAGE_NOT_FOUND);
    OK(od_volume_rename(f->volume, other, "db.wal", err));
    reopen(f);
    expect(f->volume, other, 0, "new", 3);
    OK(od_volume_remove(f->volume, other, err));
    assert_int_equal(od_volume_remove(f->volume, other, NULL), OD_STORAGE_NOT_FOUND);
    assert_int_equal(od_volume_write(f->volume, other, 0, "x", 1, NULL), OD_STORAGE_NOT_FOUND);
    reopen(f);
    OK(od_volume_create(f->volume, "db.wal", &found, err));
    assert_true(found > other);
    expect(f->volume, found, 0, "", 0);
}

static void test_large_writes_cross_pieces(void **state)
{
    fixture *f = *state;
    size_t len = 700000;
    uint8_t *data = malloc(len);
    uint8_t *back = malloc(len + 5000);
    size_t got;
    uint64_t file;

    assert_true(data != NULL && back != NULL);
    for (size_t i = 0; i < len; i++)
        data[i] = (uint8_t)(i * 2654435761U >> 13);
    OK(od_volume_create(f->volume, "f", &file, err));
    OK(od_volume_write(f->volume, file, 4000, data, len, err));
    for (uint64_t at = 5000; at < 600000; at += 7777) { /* more extents than are looked up at once */
        OK(od_volume_write(f->volume, file, at, "patched", 7, err));
        memcpy(data + at - 4000, "patched", 7);
    }
    OK(od_volume_read(f->volume, file, 4000, back, len + 5000, &got, err));
    assert_int_equal(got, len);
    assert_memory_equal(back, data, len);
    reopen(f);
    OK(od_volume_read(f->volume, file, 4000, back, len + 5000, &got, err));
    assert_memory_equal(back, data, len);
    free(data);
    free(back);
}

static int count_snapshot(void *arg, const od_storage_snapshot *snapshot)
{
    assert_string_equal(snapshot->database, "db");
    assert_true(snapshot->created_ms > 0);
    ++*(int *)arg;
    return 0;
}

static void test_snapshots_never_change(void **state)
{
    fixture *f = *state;
    char first[OD_STORAGE_ID_SIZE];
    char second[OD_STORAGE_ID_SIZE];
    od_volume *reader;
    uint64_t file;
    uint64_t gone;
    int count = 0;

    OK(od_volume_create(f->volume, "f", &file, err));
    OK(od_volume_create(f->volume, "gone", &gone, err));
    OK(od_volume_write(f->volume, file, 0, "first_state", 11, err));
    OK(od_volume_seal(f->volume, first, err));
    OK(od_volume_write(f->volume, file, 0, "SECOND", 6, err));
    OK(od_volume_remove(f->volume, gone, err));
    OK(od_volume_seal(f->volume, second, err));
    OK(od_volume_truncate(f->volume, file, 2, err));
    for (int i = 0; i < 2; i++) {
        OK(od_volume_open_snapshot(f->store, first, &reader, err));
        expect(reader, file, 0, "first_state", 11);
        OK(od_volume_find(reader, "gone", &gone, err));
        assert_int_equal(od_volume_write(reader, file, 0, "x", 1, NULL), OD_STORAGE_READ_ONLY);
        assert_int_equal(od_volume_sync(reader, NULL), OD_STORAGE_READ_ONLY);
        OK(od_volume_close(reader, err));
        OK(od_volume_open_snapshot(f->store, second, &reader, err));
        expect(reader, file, 0, "SECONDstate", 11);
        OK(od_volume_close(reader, err));
        if (i == 0)
            reopen(f);
    }
    expect(f->volume, file, 0, "SE", 2);
    OK(od_store_snapshots(f->store, "db", count_snapshot, &count, err));
    assert_int_equal(count, 2);
    assert_int_equal(od_store_snapshots(f->store, "none", count_snapshot, &count, NULL), OD_STORAGE_NOT_FOUND);
    OK(od_store_drop_snapshot(f->store, first, err));
    assert_int_equal(od_store_drop_snapshot(f->store, first, NULL), OD_STORAGE_NOT_FOUND);
    assert_int_equal(od_volume_open_snapshot(f->store, first, &reader, NULL), OD_STORAGE_NOT_FOUND);
    OK(od_volume_open_snapshot(f->store, second, &reader, err));
    OK(od_volume_close(reader, err));
}

static void test_clones_go_their_own_way(void **state)
{
    fixture *f = *state;
    char id[OD_STORAGE_ID_SIZE];
    od_volume *clone;
    uint64_t file;

    OK(od_volume_create(f->volume, "f", &file, err));
    OK(od_volume_write(f->volume, file, 0, "common", 6, err));
    OK(od_volume_seal(f->volume, id, err));
    OK(od_store_clone(f->store, id, "copy", err));
    assert_int_equal(od_store_clone(f->store, id, "copy", NULL), OD_STORAGE_EXISTS);
    OK(od_store_drop_snapshot(f->store, id, err));
    OK(od_volume_write(f->volume, file, 0, "MOTHER", 6, err));
    OK(od_volume_open(f->store, "copy", OD_VOLUME_WRITE, &clone, err));
    expect(clone, file, 0, "common", 6);
    OK(od_volume_write(clone, file, 0, "DAUGHTER", 8, err));
    expect(f->volume, file, 0, "MOTHER", 6);
    OK(od_volume_close(clone, err));
    OK(od_store_gc(f->store, 0, NULL, NULL, NULL, err));
    OK(od_volume_open(f->store, "copy", OD_VOLUME_READ, &clone, err));
    expect(clone, file, 0, "DAUGHTER", 8);
    OK(od_volume_close(clone, err));
    expect(f->volume, file, 0, "MOTHER", 6);
    OK(od_store_verify(f->store, NULL, NULL, err));
}

static void test_a_reader_has_one_moment(void **state)
{
    fixture *f = *state;
    od_volume *reader;
    uint64_t file;

    OK(od_volume_create(f->volume, "f", &file, err));
    OK(od_volume_write(f->volume, file, 0, "one", 3, err));
    OK(od_volume_sync(f->volume, err));
    OK(od_volume_open(f->store, "db", OD_VOLUME_READ, &reader, err));
    OK(od_volume_write(f->volume, file, 0, "two", 3, err));
    OK(od_volume_sync(f->volume, err));
    OK(od_volume_seal(f->volume, NULL, err));
    expect(reader, file, 0, "one", 3);
    OK(od_volume_close(reader, err));
    OK(od_volume_open(f->store, "db", OD_VOLUME_READ, &reader, err));
    expect(reader, file, 0, "two", 3);
    OK(od_volume_close(reader, err));
}

static void test_one_writer(void **state)
{
    fixture *f = *state;
    od_volume *second = NULL;
    od_storage_error e = {0};

    assert_int_equal(od_volume_open(f->store, "db", OD_VOLUME_WRITE, &second, &e), OD_STORAGE_LEASED);
    assert_non_null(strstr(e.message, "'db'"));
    assert_null(second);
    assert_int_equal(od_volume_open(f->store, "none", OD_VOLUME_WRITE, &second, NULL), OD_STORAGE_NOT_FOUND);
    assert_int_equal(od_volume_open(f->store, "none", OD_VOLUME_READ, &second, NULL), OD_STORAGE_NOT_FOUND);
    assert_int_equal(od_store_close(f->store, &e), OD_STORAGE_IN_USE);
    OK(od_volume_close(f->volume, err));
    OK(od_volume_open(f->store, "db", OD_VOLUME_WRITE, &f->volume, err)); /* at once */
}

static void test_nonsense_is_refused(void **state)
{
    fixture *f = *state;
    char name[OD_STORAGE_NAME_MAX + 2];
    od_volume *volume;
    uint64_t file;
    uint64_t size;
    size_t got;
    char byte;

    OK(od_volume_create(f->volume, "f", &file, err));
    assert_int_equal(od_volume_read(NULL, file, 0, &byte, 1, &got, NULL), OD_STORAGE_INVALID);
    assert_int_equal(od_volume_read(f->volume, file, 0, NULL, 1, &got, NULL), OD_STORAGE_INVALID);
    assert_int_equal(od_volume_read(f->volume, file, 0, &byte, 1, NULL, NULL), OD_STORAGE_INVALID);
    assert_int_equal(od_volume_write(f->volume, file, 0, NULL, 1, NULL), OD_STORAGE_INVALID);
    assert_int_equal(od_volume_write(f->volume, file, UINT64_MAX, "x", 1, NULL), OD_STORAGE_INVALID);
    assert_int_equal(od_volume_truncate(f->volume, file, UINT64_MAX, NULL), OD_STORAGE_INVALID);
    assert_int_equal(od_volume_create(f->volume, "", &file, NULL), OD_STORAGE_INVALID);
    assert_int_equal(od_volume_create(f->volume, "a\nb", &file, NULL), OD_STORAGE_INVALID);
    assert_int_equal(od_volume_create(f->volume, "\xFF", &file, NULL), OD_STORAGE_INVALID);
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(od_volume_create(f->volume, name, &file, NULL), OD_STORAGE_INVALID);
    name[OD_STORAGE_NAME_MAX] = '\0';
    OK(od_volume_create(f->volume, name, &file, err));
    assert_int_equal(od_volume_size(f->volume, 12345, &size, NULL), OD_STORAGE_NOT_FOUND);
    assert_int_equal(od_volume_open_snapshot(f->store, "no uuid", &volume, NULL), OD_STORAGE_INVALID);
    assert_int_equal(od_volume_open(f->store, "db", (od_volume_mode)9, &volume, NULL), OD_STORAGE_INVALID);
    assert_int_equal(od_volume_open(f->store, NULL, OD_VOLUME_READ, &volume, NULL), OD_STORAGE_INVALID);
    OK(od_volume_read(f->volume, file, 0, NULL, 0, &got, err));
    OK(od_volume_write(f->volume, file, 0, NULL, 0, err));
    OK(od_volume_close(NULL, err));
    OK(od_store_close(NULL, err));
    reopen(f);
    OK(od_volume_find(f->volume, name, &file, err));
}

#define BOTH(test)                                        \
    {"memory: " #test, test, begin_memory, end, NULL},    \
    {                                                     \
        "layered: " #test, test, begin_layered, end, NULL \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_writes_are_read_and_holes_are_zero),
        BOTH(test_what_was_cut_off_never_comes_back),
        BOTH(test_names),
        BOTH(test_large_writes_cross_pieces),
        BOTH(test_snapshots_never_change),
        BOTH(test_clones_go_their_own_way),
        BOTH(test_a_reader_has_one_moment),
        BOTH(test_one_writer),
        BOTH(test_nonsense_is_refused),
    };

    return check_run("storage.conformance", tests, argc, argv);
}

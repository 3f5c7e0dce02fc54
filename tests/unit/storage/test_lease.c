/* One writer: leases, fencing, taking over. */
#include "storage/store.h"

#include <errno.h>
#include <sched.h>

#include "support/lossy_io.h"
#include "unit/storage/place.h"

#define LEASE_MS 1000

typedef struct {
    place p;
    od_store *store[2]; /* as of two processes */
} fixture;

static void open_stores(fixture *f, bool heartbeat)
{
    place_begin(&f->p);
    for (int i = 0; i < 2; i++) {
        od_store_ports ports = place_ports(&f->p, heartbeat ? 30 : LEASE_MS, NULL);

        ports.no_heartbeat = !heartbeat || i == 1;
        OK(od_store_open_with(&ports, &f->store[i], err));
    }
}

static void close_stores(fixture *f)
{
    for (int i = 0; i < 2; i++)
        OK(od_store_close(f->store[i], err));
    place_end(&f->p);
}

static void test_nothing_of_an_old_writer_is_seen_or_acknowledged(void **state)
{
    fixture f;
    od_volume *old;
    od_volume *new;
    od_volume *reader;
    char snapshot[OD_STORAGE_ID_SIZE];
    uint64_t file;
    uint64_t ignored;

    (void)state;
    open_stores(&f, false);
    OK(od_volume_open(f.store[0], "db", OD_VOLUME_CREATE, &old, err));
    OK(od_volume_create(old, "f", &file, err));
    OK(od_volume_write(old, file, 0, "acknowledged", 12, err));
    OK(od_volume_sync(old, err));
    assert_int_equal(od_volume_open(f.store[1], "db", OD_VOLUME_WRITE, &new, NULL), OD_STORAGE_LEASED);
    atomic_fetch_add(&f.p.now, LEASE_MS - 1);
    assert_int_equal(od_volume_open(f.store[1], "db", OD_VOLUME_WRITE, &new, NULL), OD_STORAGE_LEASED);
    atomic_fetch_add(&f.p.now, 1);
    OK(od_volume_open(f.store[1], "db", OD_VOLUME_WRITE, &new, err));

    /* The old one does not know yet. */
    (void)od_volume_write(old, file, 0, "OVERWRITTEN!", 12, NULL);
    (void)od_volume_create(old, "g", &ignored, NULL);
    assert_int_equal(od_volume_sync(old, NULL), OD_STORAGE_STALE_LEASE);
    assert_int_equal(od_volume_seal(old, snapshot, NULL), OD_STORAGE_STALE_LEASE);
    assert_int_equal(od_volume_sync(old, NULL), OD_STORAGE_STALE_LEASE);
    check_text(new, file, "acknowledged");
    assert_int_equal(od_volume_find(new, "g", &ignored, NULL), OD_STORAGE_NOT_FOUND);

    OK(od_volume_write(new, file, 0, "taken", 5, err));
    OK(od_volume_seal(new, snapshot, err));
    assert_int_equal(od_volume_close(old, NULL), OD_STORAGE_STALE_LEASE);
    OK(od_volume_sync(new, err)); /* that close gave back nothing of this one */
    OK(od_volume_open_snapshot(f.store[0], snapshot, &reader, err));
    check_text(reader, file, "takenwledged");
    OK(od_volume_close(reader, err));
    OK(od_volume_close(new, err));
    OK(od_volume_open(f.store[0], "db", OD_VOLUME_WRITE, &new, err));
    check_text(new, file, "takenwledged");
    OK(od_volume_close(new, err));
    OK(od_store_verify(f.store[0], NULL, NULL, err));
    close_stores(&f);
}

typedef struct {
    fixture *f;
    od_volume *new;
} successor;

static void take_over(void *arg)
{
    successor *s = arg;

    atomic_fetch_add(&s->f->p.now, LEASE_MS);
    OK(od_volume_open(s->f->store[1], "db", OD_VOLUME_WRITE, &s->new, err));
}

/* Its record came to the disk although the write failed. Whoever takes over counts it, between any look at the lease and the next write. */
static void test_a_record_that_failed_is_not_written_over(void **state)
{
    fixture f;
    lossy_io io;
    od_store_ports ports;
    od_store *store;
    od_volume *old;
    successor s = {.f = &f};
    uint64_t file;
    uint64_t dice = 1;
    char out[16];
    size_t got;

    (void)state;
    open_stores(&f, false);
    lossy_begin(&io);
    ports = place_ports(&f.p, LEASE_MS, &io.io);
    OK(od_store_open_with(&ports, &store, err));
    OK(od_volume_open(store, "db", OD_VOLUME_CREATE, &old, err));
    OK(od_volume_create(old, "f", &file, err));
    OK(od_volume_write(old, file, 0, "first", 5, err));
    OK(od_volume_sync(old, err));
    io.write_fails_in = 0;
    io.write_error = EIO;
    io.failed_write_is_whole = true;
    assert_int_equal(od_volume_write(old, file, 0, "other", 5, NULL), OD_STORAGE_IO);

    io.before_arg = &s;
    io.before_write = take_over;
    assert_int_equal(od_volume_write(old, file, 0, "third", 5, NULL), OD_STORAGE_STALE_LEASE);
    assert_non_null(s.new);
    OK(od_volume_read(s.new, file, 0, out, sizeof out, &got, err));
    assert_int_equal(got, 5);
    assert_memory_equal(out, "other", 5);
    OK(od_store_verify(f.store[1], NULL, NULL, err));
    assert_int_equal(od_volume_close(old, NULL), OD_STORAGE_STALE_LEASE);
    OK(od_volume_close(s.new, err));
    OK(od_store_verify(f.store[1], NULL, NULL, err));
    OK(od_store_close(store, err));
    lossy_crash(&io, &dice);
    lossy_end(&io);
    close_stores(&f);
}

/* A failed record ends its layer, and nothing else: all goes on. */
static void test_a_writer_goes_on_after_a_record_failed(void **state)
{
    fixture f;
    lossy_io io;
    od_store_ports ports;
    od_store *store;
    od_volume *volume;
    uint64_t file;

    (void)state;
    open_stores(&f, false);
    lossy_begin(&io);
    ports = place_ports(&f.p, LEASE_MS, &io.io);
    OK(od_store_open_with(&ports, &store, err));
    OK(od_volume_open(store, "db", OD_VOLUME_CREATE, &volume, err));
    for (int i = 0; i < 3; i++) { /* the first ends a layer with nothing in it */
        io.write_fails_in = 0;
        io.write_error = ENOSPC;
        if (i == 0)
            assert_int_equal(od_volume_create(volume, "f", &file, NULL), OD_STORAGE_IO);
        else
            assert_int_equal(od_volume_write(volume, file, 0, "failed", 6, NULL), OD_STORAGE_IO);
        if (i == 0)
            OK(od_volume_create(volume, "f", &file, err));
        OK(od_volume_write(volume, file, 0, i == 1 ? "one" : "two", 3, err));
        check_text(volume, file, i == 1 ? "one" : "two");
    }
    OK(od_volume_seal(volume, NULL, err));
    OK(od_volume_close(volume, err));
    OK(od_volume_open(f.store[1], "db", OD_VOLUME_READ, &volume, err));
    check_text(volume, file, "two");
    OK(od_volume_close(volume, err));
    OK(od_store_verify(f.store[1], NULL, NULL, err));
    OK(od_store_close(store, err));
    lossy_end(&io);
    close_stores(&f);
}

static void test_a_lease_that_is_over_does_not_revive(void **state)
{
    fixture f;
    od_volume *volume;
    uint64_t file;

    (void)state;
    open_stores(&f, false);
    OK(od_volume_open(f.store[0], "db", OD_VOLUME_CREATE, &volume, err));
    OK(od_volume_create(volume, "f", &file, err));
    atomic_fetch_add(&f.p.now, LEASE_MS);
    /* Nobody took it, but somebody could have. */
    assert_int_equal(od_volume_sync(volume, NULL), OD_STORAGE_STALE_LEASE);
    assert_int_equal(od_volume_close(volume, NULL), OD_STORAGE_STALE_LEASE);
    OK(od_volume_open(f.store[0], "db", OD_VOLUME_WRITE, &volume, err));
    OK(od_volume_close(volume, err));
    close_stores(&f);
}

static void test_a_living_writer_keeps_its_lease(void **state)
{
    fixture f;
    od_volume *volume;
    od_volume *other;
    uint64_t file;

    (void)state;
    open_stores(&f, true);
    OK(od_volume_open(f.store[0], "db", OD_VOLUME_CREATE, &volume, err));
    OK(od_volume_create(volume, "f", &file, err));
    for (int i = 0; i < 10; i++) { /* ten times almost to its end */
        int asked;

        atomic_fetch_add(&f.p.now, 25);
        /* Whoever renews asks for the time, and has renewed when it asks again. */
        asked = atomic_load(&f.p.asked);
        while (atomic_load(&f.p.asked) < asked + 6)
            sched_yield();
    }
    assert_int_equal(od_volume_open(f.store[1], "db", OD_VOLUME_WRITE, &other, NULL), OD_STORAGE_LEASED);
    OK(od_volume_sync(volume, err));
    OK(od_volume_close(volume, err));
    close_stores(&f);
}

static void test_a_pinned_reader_keeps_its_layers(void **state)
{
    fixture f;
    od_volume *writer;
    od_volume *reader;
    char snapshot[OD_STORAGE_ID_SIZE];
    uint64_t file;
    uint64_t bytes = 1;

    (void)state;
    open_stores(&f, false);
    OK(od_volume_open(f.store[0], "db", OD_VOLUME_CREATE, &writer, err));
    OK(od_volume_create(writer, "f", &file, err));
    OK(od_volume_write(writer, file, 0, "kept", 4, err));
    OK(od_volume_seal(writer, snapshot, err));
    OK(od_store_clone(f.store[0], snapshot, "other", err));
    OK(od_volume_close(writer, err));

    OK(od_volume_open_snapshot(f.store[1], snapshot, &reader, err));
    OK(od_store_drop_snapshot(f.store[0], snapshot, err));
    OK(od_store_gc(f.store[0], 0, NULL, NULL, &bytes, err));
    assert_int_equal(bytes, 0);
    check_text(reader, file, "kept");
    OK(od_volume_close(reader, err));
    OK(od_store_verify(f.store[0], NULL, NULL, err));
    close_stores(&f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_of_an_old_writer_is_seen_or_acknowledged),
        cmocka_unit_test(test_a_record_that_failed_is_not_written_over),
        cmocka_unit_test(test_a_writer_goes_on_after_a_record_failed),
        cmocka_unit_test(test_a_lease_that_is_over_does_not_revive),
        cmocka_unit_test(test_a_living_writer_keeps_its_lease),
        cmocka_unit_test(test_a_pinned_reader_keeps_its_layers),
    };

    return check_run("storage.lease", tests, argc, argv);
}

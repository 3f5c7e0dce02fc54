/* A database of many layers: what it costs to open, to seal, to read, and how many files are open meanwhile. */
#include "storage/store.h"

#include "support/lossy_io.h"
#include "unit/storage/place.h"

#define LEASE_MS 1000
#define LAYERS 220
#define PAGE 4096
#define MAX_OPEN 8

typedef struct {
    place p;
    lossy_io io;
    od_store *store;
    od_volume *volume;
    uint64_t file;
} fixture;

static void open_store(fixture *f)
{
    od_store_ports ports = {.options = place_options(&f->p, LEASE_MS),
                            .io = &f->io.io,
                            .clock = place_clock,
                            .clock_arg = &f->p,
                            .max_open_files = MAX_OPEN,
                            .no_heartbeat = true};

    OK(od_store_open_with(&ports, &f->store, err));
    OK(od_volume_open(f->store, "db", OD_VOLUME_CREATE, &f->volume, err));
}

static void begin(fixture *f)
{
    memset(f, 0, sizeof *f);
    place_begin(&f->p);
    lossy_begin(&f->io);
    open_store(f);
    OK(od_volume_create(f->volume, "f", &f->file, err));
}

static void close_store(fixture *f)
{
    OK(od_volume_close(f->volume, err));
    OK(od_store_close(f->store, err));
    assert_int_equal(f->io.open_now, 0);
}

static void end(fixture *f)
{
    close_store(f);
    lossy_end(&f->io);
    place_end(&f->p);
}

static void write_page(fixture *f, unsigned at, unsigned value)
{
    place_write_page(f->volume, f->file, PAGE, at, value);
}

static void check_page(od_volume *volume, uint64_t file, unsigned at, unsigned value)
{
    place_check_page(volume, file, PAGE, at, value);
}

static void test_many_layers_keep_few_files_open(void **state)
{
    fixture f;
    char snapshot[OD_STORAGE_ID_SIZE];
    od_volume *then;
    long seal_early = 0;

    (void)state;
    begin(&f);
    for (unsigned i = 0; i < LAYERS; i++) {
        long before;

        write_page(&f, i, i);
        before = f.io.changes;
        OK(od_volume_seal(f.volume, i == LAYERS / 2 ? snapshot : NULL, err));
        if (i == 1)
            seal_early = f.io.changes - before;
        if (i == LAYERS - 1)
            assert_int_equal(f.io.changes - before, seal_early);
    }
    close_store(&f);
    f.io.bytes_read = 0;
    open_store(&f);
    assert_true(f.io.bytes_read < LAYERS * 1500UL); /* footers, and no pages */
    OK(od_volume_open_snapshot(f.store, snapshot, &then, err));
    for (unsigned round = 0; round < 2; round++)
        for (unsigned i = 0; i < LAYERS; i++) {
            check_page(f.volume, f.file, i, i);
            if (i <= LAYERS / 2)
                check_page(then, f.file, i, i);
        }
    OK(od_volume_close(then, err));
    assert_true(f.io.open_most <= MAX_OPEN + 4);
    end(&f);
}

/* Whoever takes over leaves an index beside the log that it may not write to. */
static void die_and_take_over(fixture *f)
{
    OK(od_volume_sync(f->volume, err));
    f->io.dead = true;
    (void)od_volume_close(f->volume, NULL);
    OK(od_store_close(f->store, err));
    f->io.dead = false;
    atomic_fetch_add(&f->p.now, LEASE_MS);
    open_store(f);
}

static void test_a_dead_writers_layer_is_not_read_whole_again(void **state)
{
    fixture f;

    (void)state;
    begin(&f);
    for (unsigned i = 0; i < 200; i++)
        write_page(&f, i, i);
    die_and_take_over(&f);
    close_store(&f);
    f.io.bytes_read = 0;
    open_store(&f);
    assert_true(f.io.bytes_read < 100UL * PAGE);
    for (unsigned i = 0; i < 200; i++)
        check_page(f.volume, f.file, i, i);
    OK(od_store_verify(f.store, NULL, NULL, err));
    end(&f);
}

static int damage(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)at;
    if (type == FTW_F && strstr(path, ".idx") != NULL) {
        FILE *file = fopen(path, "r+");
        int byte;

        assert_non_null(file);
        fseek(file, st->st_size / 2, SEEK_SET);
        byte = fgetc(file);
        fseek(file, st->st_size / 2, SEEK_SET);
        fputc(byte ^ 0x20, file);
        fclose(file);
        return 1;
    }
    return 0;
}

static void test_a_damaged_index_costs_nothing_but_time(void **state)
{
    fixture f;
    od_volume *reader;

    (void)state;
    begin(&f);
    for (unsigned i = 0; i < 20; i++)
        write_page(&f, i, i);
    die_and_take_over(&f);
    close_store(&f);
    assert_int_equal(nftw(f.p.directory, damage, 16, FTW_PHYS), 1);
    place_open(&f.p, LEASE_MS, &f.store);
    assert_int_equal(od_store_verify(f.store, NULL, NULL, NULL), OD_STORAGE_CORRUPT);
    OK(od_volume_open(f.store, "db", OD_VOLUME_READ, &reader, err));
    for (unsigned i = 0; i < 20; i++)
        check_page(reader, f.file, i, i);
    OK(od_volume_close(reader, err));
    OK(od_store_close(f.store, err));
    open_store(&f);
    OK(od_store_verify(f.store, NULL, NULL, err)); /* a writer has made it anew */
    end(&f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_layers_keep_few_files_open),
        cmocka_unit_test(test_a_dead_writers_layer_is_not_read_whole_again),
        cmocka_unit_test(test_a_damaged_index_costs_nothing_but_time),
    };

    return check_run("storage.many_layers", tests, argc, argv);
}

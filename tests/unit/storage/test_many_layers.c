/* A database of many layers: what it costs to open, to seal, to read, and how many files are open meanwhile. */
#include "storage/store.h"

#include "unit/storage/single.h"

#define LAYERS 220
#define PAGE 4096
#define MAX_OPEN 8

static void write_page(single *f, unsigned at, unsigned value)
{
    place_write_page(f->volume, f->file, PAGE, at, value);
}

static void check_page(od_volume *volume, uint64_t file, unsigned at, unsigned value)
{
    place_check_page(volume, file, PAGE, at, value);
}

static void test_many_layers_keep_few_files_open(void **state)
{
    single f;
    char snapshot[OD_STORAGE_ID_SIZE];
    od_volume *then;
    long seal_early = 0;

    (void)state;
    single_begin(&f, MAX_OPEN);
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
    single_close(&f);
    f.io.bytes_read = 0;
    single_open(&f);
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
    single_end(&f);
}

/* Whoever takes over leaves an index beside the log that it may not write to. */
static void die_and_take_over(single *f)
{
    OK(od_volume_sync(f->volume, err));
    f->io.dead = true;
    (void)od_volume_close(f->volume, NULL);
    OK(od_store_close(f->store, err));
    f->io.dead = false;
    atomic_fetch_add(&f->p.now, SINGLE_LEASE_MS);
    single_open(f);
}

static void test_a_dead_writers_layer_is_not_read_whole_again(void **state)
{
    single f;

    (void)state;
    single_begin(&f, MAX_OPEN);
    for (unsigned i = 0; i < 200; i++)
        write_page(&f, i, i);
    die_and_take_over(&f);
    single_close(&f);
    f.io.bytes_read = 0;
    single_open(&f);
    assert_true(f.io.bytes_read < 100UL * PAGE);
    for (unsigned i = 0; i < 200; i++)
        check_page(f.volume, f.file, i, i);
    OK(od_store_verify(f.store, NULL, NULL, err));
    single_end(&f);
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
    single f;
    od_volume *reader;

    (void)state;
    single_begin(&f, MAX_OPEN);
    for (unsigned i = 0; i < 20; i++)
        write_page(&f, i, i);
    die_and_take_over(&f);
    single_close(&f);
    assert_int_equal(nftw(f.p.directory, damage, 16, FTW_PHYS), 1);
    place_open(&f.p, SINGLE_LEASE_MS, &f.store);
    assert_int_equal(od_store_verify(f.store, NULL, NULL, NULL), OD_STORAGE_CORRUPT);
    OK(od_volume_open(f.store, "db", OD_VOLUME_READ, &reader, err));
    for (unsigned i = 0; i < 20; i++)
        check_page(reader, f.file, i, i);
    OK(od_volume_close(reader, err));
    OK(od_store_close(f.store, err));
    single_open(&f);
    OK(od_store_verify(f.store, NULL, NULL, err)); /* a writer has made it anew */
    single_end(&f);
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

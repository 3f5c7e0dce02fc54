/* A tour of differential storage, with the installed library alone:
 *
 *     cc -o storage storage.c -lopenduck_storage && mkdir data && ./storage data
 */
#include <openduck/storage.h>

#include <stdio.h>
#include <stdlib.h>

static od_storage_error error;

static void must(od_storage_code code)
{
    if (code != OD_STORAGE_OK) {
        (void)fprintf(stderr, "error %d: %s\n", (int)code, error.message);
        exit(1);
    }
}

static void show(const char *what, od_volume *volume)
{
    char text[64];
    uint64_t file;
    size_t got;

    must(od_volume_find(volume, "greeting", &file, &error));
    must(od_volume_read(volume, file, 0, text, sizeof text, &got, &error));
    printf("%s: %.*s\n", what, (int)got, text);
}

static int show_snapshot(void *arg, const od_storage_snapshot *snapshot)
{
    (void)arg;
    printf("snapshot of %s\n", snapshot->database);
    return 0;
}

int main(int argc, char **argv)
{
    char snapshot[OD_STORAGE_ID_SIZE];
    od_store *store;
    od_volume *volume;
    od_volume *then;
    uint64_t file;
    uint64_t bytes;

    if (argc != 2) {
        (void)fprintf(stderr, "usage: storage DIRECTORY\n");
        return 2;
    }
    must(od_store_open(argv[1], 0, &store, &error));
    must(od_volume_open(store, "tour", OD_VOLUME_CREATE, &volume, &error));
    must(od_volume_create(volume, "greeting", &file, &error));
    must(od_volume_write(volume, file, 0, "hello, ducks", 12, &error));
    must(od_volume_seal(volume, snapshot, &error));
    must(od_volume_write(volume, file, 7, "geese", 5, &error));
    must(od_volume_sync(volume, &error));
    show("now", volume);

    must(od_volume_open_snapshot(store, snapshot, &then, &error));
    show("then", then);
    must(od_volume_close(then, &error));
    must(od_store_snapshots(store, NULL, show_snapshot, NULL, &error));

    must(od_store_clone(store, snapshot, "copy", &error));
    must(od_store_drop_snapshot(store, snapshot, &error));
    must(od_store_gc(store, 0, NULL, NULL, &bytes, &error));
    must(od_volume_open(store, "copy", OD_VOLUME_WRITE, &then, &error));
    show("copy", then);
    must(od_volume_close(then, &error));

    must(od_volume_close(volume, &error));
    must(od_store_verify(store, NULL, NULL, &error));
    must(od_store_close(store, &error));
    return 0;
}

/* Layers that go far away, to a directory here; to S3 with blob_url "s3://BUCKET/PREFIX", s3_key and s3_secret:
 *
 *     cc -o tiering tiering.c -lopenduck_storage && mkdir data far && ./tiering data far
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

static void show(const char *when, od_store *store)
{
    od_storage_tier_status status;

    must(od_store_tier_status(store, &status, &error));
    printf("%s: %d of %d layers far away, %d here\n", when, (int)status.far_layers, (int)status.layers,
           (int)status.near_layers);
}

int main(int argc, char **argv)
{
    od_storage_options options = {0};
    char snapshot[OD_STORAGE_ID_SIZE];
    char text[16];
    od_volume *volume;
    od_store *store;
    uint64_t file;
    size_t got;

    if (argc != 3) {
        (void)fprintf(stderr, "usage: tiering DIRECTORY FAR\n");
        return 2;
    }
    options.directory = argv[1];
    options.blob_url = argv[2];
    options.keep_bytes = 1; /* what is far away need not stay here */
    must(od_store_open_options(&options, &store, &error));
    must(od_volume_open(store, "tour", OD_VOLUME_CREATE, &volume, &error));
    must(od_volume_create(volume, "greeting", &file, &error));
    must(od_volume_write(volume, file, 0, "hello, ducks", 12, &error));
    must(od_volume_seal(volume, snapshot, &error));
    must(od_volume_close(volume, &error));

    show("sealed", store);
    must(od_store_tier(store, NULL, NULL, &error));
    show("sent", store);
    must(od_volume_open_snapshot(store, snapshot, &volume, &error));
    must(od_volume_read(volume, file, 0, text, sizeof text, &got, &error));
    printf("read from there: %.*s\n", (int)got, text);
    must(od_volume_close(volume, &error));
    must(od_store_close(store, &error));
    return 0;
}

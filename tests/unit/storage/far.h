/* A store whose layers go far away: what is written to it, and how it is checked. */
#ifndef OD_TESTS_UNIT_STORAGE_FAR_H
#define OD_TESTS_UNIT_STORAGE_FAR_H

#include "unit/storage/place.h"

#define FAR_LEASE_MS 60000
#define FAR_PART (5U << 20) /* the least of S3 */

typedef struct {
    place p;
    od_store *store;
    od_volume *volume;
    uint64_t file;
    char snapshots[3][OD_STORAGE_ID_SIZE];
} far_store;

/* The byte that stands at AT after seal I. */
static inline uint8_t far_byte_at(int i, uint64_t at)
{
    return (uint8_t)(at * 31 + (at >> 12) + (uint64_t)i * 101);
}

static inline void far_fill(uint8_t *out, int i, uint64_t at, size_t len)
{
    for (size_t n = 0; n < len; n++)
        out[n] = far_byte_at(i, at + n);
}

static inline void far_begin(far_store *f, const char *where)
{
    memset(f, 0, sizeof *f);
    place_begin(&f->p);
    if (f->p.blob[0] == '\0')
        place_blob_begin(&f->p, where);
}

static inline const char *far_kind(void)
{
    return getenv("OPENDUCK_TEST_S3") != NULL ? getenv("OPENDUCK_TEST_BUCKET") : "directory";
}

static inline void far_open(far_store *f, const od_storage_options *options, od_volume_mode mode)
{
    OK(od_store_open_options(options, &f->store, err));
    OK(od_volume_open(f->store, "db", mode, &f->volume, err));
}

static inline void far_close(far_store *f)
{
    OK(od_volume_close(f->volume, err));
    OK(od_store_close(f->store, err));
}

/* SIZE bytes, and three snapshots: after each the first third is another. */
static inline void far_write_three(far_store *f, size_t size)
{
    uint8_t *bytes = malloc(size);

    assert_non_null(bytes);
    OK(od_volume_create(f->volume, "f", &f->file, err));
    for (int i = 0; i < 3; i++) {
        size_t len = i == 0 ? size : size / 3;

        far_fill(bytes, i, 0, len);
        OK(od_volume_write(f->volume, f->file, 0, bytes, len, err));
        OK(od_volume_seal(f->volume, f->snapshots[i], err));
    }
    free(bytes);
}

static inline void far_check_one(od_store *store, const char *snapshot, int i, uint64_t file, size_t size)
{
    uint8_t *got = malloc(size);
    uint8_t *want = malloc(size);
    od_volume *volume;
    size_t n = 0;

    assert_true(got != NULL && want != NULL);
    far_fill(want, 0, 0, size);
    far_fill(want, i, 0, i == 0 ? size : size / 3);
    OK(od_volume_open_snapshot(store, snapshot, &volume, err));
    OK(od_volume_read(volume, file, 0, got, size, &n, err));
    assert_int_equal(n, size);
    assert_memory_equal(got, want, size);
    OK(od_volume_close(volume, err));
    free(got);
    free(want);
}

static inline void far_check_three(const far_store *f, od_store *store, size_t size)
{
    for (int i = 0; i < 3; i++)
        far_check_one(store, f->snapshots[i], i, f->file, size);
}

#endif

/* A temporary directory for a store, a clock that stands still, and what two volumes have in common. */
#ifndef OD_TESTS_UNIT_STORAGE_PLACE_H
#define OD_TESTS_UNIT_STORAGE_PLACE_H

#include <ctype.h>
#include <ftw.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/store.h"
#include "unit/base/check.h"

#define OK(call)                                                     \
    do {                                                             \
        od_storage_error e_ = {0};                                   \
        od_storage_error *err = &e_;                                 \
        if ((call) != OD_STORAGE_OK)                                 \
            fail_msg("%s: %d: %s", #call, (int)e_.code, e_.message); \
    } while (0)

typedef struct {
    char directory[64];
    const char *postgres_url; /* of OPENDUCK_TEST_POSTGRES; NULL: SQLite */
    char schema[40];
    char blob
        [160]; /* where layers go, if OPENDUCK_TEST_BLOB says so: "directory", or the URL of a bucket of OPENDUCK_TEST_S3 */
    _Atomic int64_t now;
    atomic_int asked;
} place;

static inline int64_t place_clock(void *arg)
{
    place *p = arg;

    atomic_fetch_add(&p->asked, 1);
    return atomic_load(&p->now);
}

static inline void place_blob_begin(place *p, const char *where)
{
    if (strcmp(where, "directory") == 0) {
        snprintf(p->blob, sizeof p->blob, "%s/far", p->directory);
        assert_int_equal(mkdir(p->blob, 0700), 0);
    } else {
        snprintf(p->blob, sizeof p->blob, "%s/%s", where, p->schema);
    }
}

static int place_number; /* letters of a directory differ in case, which those of a schema do not */

static inline void place_begin(place *p)
{
    const char *tmp = getenv("TMPDIR");

    memset(p, 0, sizeof *p);
    snprintf(p->directory, sizeof p->directory, "%s/od_store_XXXXXX", tmp != NULL && strlen(tmp) < 40 ? tmp : "/tmp");
    assert_non_null(mkdtemp(p->directory));
    p->postgres_url = getenv("OPENDUCK_TEST_POSTGRES");
    snprintf(p->schema, sizeof p->schema, "t%s", strrchr(p->directory, '_') + 1);
    for (char *c = p->schema; *c != '\0'; c++)
        *c = (char)tolower((unsigned char)*c);
    snprintf(p->schema + strlen(p->schema), sizeof p->schema - strlen(p->schema), "_%d_%d", (int)getpid(),
             place_number++);
    if (getenv("OPENDUCK_TEST_BLOB") != NULL)
        place_blob_begin(p, getenv("OPENDUCK_TEST_BLOB"));
    atomic_store(&p->now, 1000000);
}

static inline od_storage_options place_options(const place *p, uint32_t lease_ms)
{
    return (od_storage_options){.directory = p->directory,
                                .lease_ms = lease_ms,
                                .postgres_url = p->postgres_url,
                                .postgres_schema = p->schema,
                                .blob_url = p->blob[0] != '\0' ? p->blob : NULL,
                                .keep_bytes = 1,
                                .s3_endpoint = getenv("OPENDUCK_TEST_S3"),
                                .s3_key = "openduck",
                                .s3_secret = "openduck-secret",
                                .s3_timeout_ms = 20000};
}

/* Over IO (NULL: the kernel's), by the clock that stands still, and without a thread that renews. */
static inline od_store_ports place_ports(place *p, uint32_t lease_ms, const od_io *io)
{
    return (od_store_ports){
        .options = place_options(p, lease_ms), .io = io, .clock = place_clock, .clock_arg = p, .no_heartbeat = true};
}

static inline void place_open(const place *p, uint32_t lease_ms, od_store **out)
{
    od_storage_options options = place_options(p, lease_ms);

    OK(od_store_open_options(&options, out, err));
}

static inline int place_remove(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

static inline void place_end(place *p)
{
    (void)nftw(p->directory, place_remove, 16, FTW_DEPTH | FTW_PHYS);
}

#define PLACE_FILES 16

typedef struct {
    size_t count;
    uint64_t id[PLACE_FILES];
    uint64_t size[PLACE_FILES];
    char name[PLACE_FILES][64];
} place_listing;

static inline int place_note(void *arg, uint64_t file, const char *name, uint64_t size)
{
    place_listing *list = arg;

    if (list->count == PLACE_FILES)
        return 1;
    list->id[list->count] = file;
    list->size[list->count] = size;
    snprintf(list->name[list->count++], sizeof list->name[0], "%s", name);
    return 0;
}

/* Whether both have the same files with the same bytes. */
static inline bool place_same(od_volume *a, od_volume *b)
{
    place_listing of_a = {0};
    place_listing of_b = {0};

    OK(od_volume_list(a, place_note, &of_a, err));
    OK(od_volume_list(b, place_note, &of_b, err));
    if (of_a.count != of_b.count)
        return false;
    for (size_t i = 0; i < of_a.count; i++) {
        size_t size = (size_t)of_a.size[i];
        uint8_t *left;
        uint8_t *right;
        size_t got_left;
        size_t got_right;
        bool same;

        if (of_a.id[i] != of_b.id[i] || of_a.size[i] != of_b.size[i] || strcmp(of_a.name[i], of_b.name[i]) != 0)
            return false;
        left = malloc(size + 1);
        right = malloc(size + 1);
        assert_true(left != NULL && right != NULL);
        OK(od_volume_read(a, of_a.id[i], 0, left, size + 1, &got_left, err));
        OK(od_volume_read(b, of_b.id[i], 0, right, size + 1, &got_right, err));
        same = got_left == size && got_right == size && memcmp(left, right, size) == 0;
        free(left);
        free(right);
        if (!same)
            return false;
    }
    return true;
}

enum { PLACE_PAGE_MAX = 4096 };

/* The page AT of SIZE bytes, all of them VALUE. */
static inline void place_write_page(od_volume *volume, uint64_t file, size_t size, unsigned at, unsigned value)
{
    uint8_t page[PLACE_PAGE_MAX];

    assert_true(size <= sizeof page);
    memset(page, (int)value, size);
    OK(od_volume_write(volume, file, (uint64_t)at * size, page, size, err));
}

static inline void place_check_page(od_volume *volume, uint64_t file, size_t size, unsigned at, unsigned value)
{
    uint8_t page[PLACE_PAGE_MAX];
    size_t got;

    assert_true(size <= sizeof page);
    OK(od_volume_read(volume, file, (uint64_t)at * size, page, size, &got, err));
    assert_int_equal(got, size);
    assert_int_equal(page[0], (uint8_t)value);
    assert_int_equal(page[size - 1], (uint8_t)value);
}

/* FILE holds TEXT and no more. */
static inline void check_text(od_volume *volume, uint64_t file, const char *text)
{
    char out[64];
    size_t got;

    OK(od_volume_read(volume, file, 0, out, sizeof out, &got, err));
    assert_int_equal(got, strlen(text));
    assert_memory_equal(out, text, got);
}

#endif

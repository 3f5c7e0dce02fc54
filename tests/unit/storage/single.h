/* A store of one database with one file, over files that lose what was not synced. */
#ifndef OD_TESTS_UNIT_STORAGE_SINGLE_H
#define OD_TESTS_UNIT_STORAGE_SINGLE_H

#include "support/lossy_io.h"
#include "unit/storage/place.h"

#define SINGLE_LEASE_MS 1000

typedef struct {
    place p;
    lossy_io io;
    unsigned max_open_files; /* 0: the store's own bound */
    od_store *store;
    od_volume *volume;
    uint64_t file;
} single;

/* A store over the same files, as of another process. */
static inline od_store *single_open_another(single *s)
{
    od_store_ports ports = place_ports(&s->p, SINGLE_LEASE_MS, &s->io.io);
    od_store *store;

    ports.max_open_files = s->max_open_files;
    OK(od_store_open_with(&ports, &store, err));
    return store;
}

static inline void single_open(single *s)
{
    s->store = single_open_another(s);
    OK(od_volume_open(s->store, "db", OD_VOLUME_CREATE, &s->volume, err));
}

static inline void single_begin(single *s, unsigned max_open_files)
{
    memset(s, 0, sizeof *s);
    place_begin(&s->p);
    lossy_begin(&s->io);
    s->max_open_files = max_open_files;
    single_open(s);
    OK(od_volume_create(s->volume, "f", &s->file, err));
}

static inline void single_close(single *s)
{
    OK(od_volume_close(s->volume, err));
    OK(od_store_close(s->store, err));
    assert_int_equal(s->io.open_now, 0);
}

static inline void single_end(single *s)
{
    single_close(s);
    lossy_end(&s->io);
    place_end(&s->p);
}

#endif

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "storage/store/backend.h"

#include "base/banned.h"

/* All under one lock, the store's: this is to be right, not fast. */

typedef struct {
    uint64_t id;
    char name[OD_STORAGE_NAME_MAX + 1];
    uint8_t *data;
    uint64_t size;
} file;

typedef struct {
    file *files;
    size_t count;
    uint64_t last; /* id that was given */
} state;

typedef struct {
    char name[OD_STORAGE_NAME_MAX + 1];
    state now;
    bool written; /* it has a writer */
} database;

typedef struct {
    od_uuid id;
    char database[OD_STORAGE_NAME_MAX + 1];
    int64_t created_ms;
    state then;
} snapshot;

typedef struct {
    pthread_mutex_t lock;
    database **databases;
    size_t database_count;
    snapshot *snapshots;
    size_t snapshot_count;
} memory_store;

typedef struct {
    memory_store *store;
    database *database; /* of a writer */
    state own;          /* of a reader */
} memory_volume;

static od_code no_memory(od_error *err)
{
    return od_fail(err, OD_E_NO_MEMORY, "no memory");
}

static void release(state *s)
{
    for (size_t i = 0; i < s->count; i++)
        od_free(s->files[i].data);
    od_free(s->files);
    *s = (state){0};
}

static od_code copy(const state *from, state *out, od_error *err)
{
    state made = {.files = od_calloc(from->count, sizeof *made.files), .last = from->last};

    if (made.files == NULL)
        return no_memory(err);
    for (; made.count < from->count; made.count++) {
        file *to = &made.files[made.count];

        *to = from->files[made.count];
        to->data = od_alloc((size_t)to->size);
        if (to->data == NULL) {
            release(&made);
            return no_memory(err);
        }
        if (to->size > 0)
            memcpy(to->data, from->files[made.count].data, (size_t)to->size);
    }
    *out = made;
    return OD_OK;
}

static database *database_named(const memory_store *store, const char *name)
{
    for (size_t i = 0; i < store->database_count; i++)
        if (strcmp(store->databases[i]->name, name) == 0)
            return store->databases[i];
    return NULL;
}

static od_code no_database(const char *name, od_error *err)
{
    return od_fail(err, OD_E_NOT_FOUND, "there is no database '%s'", name);
}

static od_code add_database(memory_store *store, const char *name, database **out, od_error *err)
{
    database **grown = od_realloc(store->databases, (store->database_count + 1) * sizeof(database *));
    database *made = od_calloc(1, sizeof *made);

    if (grown != NULL)
        store->databases = grown;
    if (grown == NULL || made == NULL) {
        od_free(made);
        return no_memory(err);
    }
    snprintf(made->name, sizeof made->name, "%s", name);
    store->databases[store->database_count++] = made;
    *out = made;
    return OD_OK;
}

static od_code find_snapshot(const memory_store *store, od_uuid id, snapshot **out, od_error *err)
{
    for (size_t i = 0; i < store->snapshot_count; i++)
        if (memcmp(&store->snapshots[i].id, &id, sizeof id) == 0) {
            *out = &store->snapshots[i];
            return OD_OK;
        }
    return od_fail(err, OD_E_NOT_FOUND, "there is no such snapshot");
}

od_code od_memory_store_create(void **out, od_error *err)
{
    memory_store *store = od_calloc(1, sizeof *store);

    if (store == NULL)
        return no_memory(err);
    pthread_mutex_init(&store->lock, NULL);
    *out = store;
    return OD_OK;
}

static void memory_close_store(void *arg)
{
    memory_store *store = arg;

    for (size_t i = 0; i < store->database_count; i++) {
        release(&store->databases[i]->now);
        od_free(store->databases[i]);
    }
    for (size_t i = 0; i < store->snapshot_count; i++)
        release(&store->snapshots[i].then);
    od_free(store->databases);
    od_free(store->snapshots);
    pthread_mutex_destroy(&store->lock);
    od_free(store);
}

static od_code memory_snapshots(void *arg, const char *name, od_snapshot_fn fn, void *fn_arg, od_error *err)
{
    memory_store *store = arg;
    od_code rc = OD_OK;

    pthread_mutex_lock(&store->lock);
    if (name != NULL && database_named(store, name) == NULL)
        rc = no_database(name, err);
    for (size_t i = 0; rc == OD_OK && i < store->snapshot_count; i++) {
        const snapshot *s = &store->snapshots[i];
        char id[OD_UUID_TEXT_SIZE];
        od_storage_snapshot row = {.id = id, .database = s->database, .layer = "", .created_ms = s->created_ms};

        od_uuid_format(s->id, id);
        if ((name == NULL || strcmp(s->database, name) == 0) && fn(fn_arg, &row) != 0)
            break;
    }
    pthread_mutex_unlock(&store->lock);
    return rc;
}

static od_code memory_drop(void *arg, od_uuid id, od_error *err)
{
    memory_store *store = arg;
    snapshot *found = NULL;
    od_code rc;

    pthread_mutex_lock(&store->lock);
    rc = find_snapshot(store, id, &found, err);
    if (rc == OD_OK) {
        release(&found->then);
        store->snapshot_count--;
        memmove(found, found + 1, (size_t)(store->snapshots + store->snapshot_count - found) * sizeof *found);
    }
    pthread_mutex_unlock(&store->lock);
    return rc;
}

static od_code memory_clone(void *arg, od_uuid id, const char *name, od_error *err)
{
    memory_store *store = arg;
    snapshot *from = NULL;
    database *made = NULL;
    state s = {0};
    od_code rc;

    pthread_mutex_lock(&store->lock);
    OD_TRY(find_snapshot(store, id, &from, err));
    if (database_named(store, name) != NULL) {
        rc = od_fail(err, OD_E_EXISTS, "there is a database '%s' already", name);
        goto out;
    }
    OD_TRY(copy(&from->then, &s, err));
    OD_TRY(add_database(store, name, &made, err));
    made->now = s;
    s = (state){0};

out:
    release(&s);
    pthread_mutex_unlock(&store->lock);
    return rc;
}

static od_code memory_gc(void *store, bool dry_run, od_garbage_fn fn, void *arg, uint64_t *bytes, od_error *err)
{
    (void)store;
    (void)dry_run;
    (void)fn;
    (void)arg;
    (void)bytes;
    (void)err;
    return OD_OK; /* what is dropped is gone at once */
}

static od_code memory_compact(void *arg, const char *name, bool whole, od_merge_fn fn, void *fn_arg, od_error *err)
{
    memory_store *store = arg;
    bool there;

    (void)whole;
    (void)fn;
    (void)fn_arg;
    pthread_mutex_lock(&store->lock);
    there = name == NULL || database_named(store, name) != NULL;
    pthread_mutex_unlock(&store->lock);
    return there ? OD_OK : no_database(name, err); /* there are no layers */
}

static od_storage_status status_of(const memory_store *store, const database *of)
{
    od_storage_status status = {.database = of->name, .has_writer = of->written};

    for (size_t i = 0; i < store->snapshot_count; i++)
        status.snapshots += strcmp(store->snapshots[i].database, of->name) == 0;
    return status;
}

/* The first name behind AFTER; NULL: there is none. */
static const database *next_database(const memory_store *store, const char *after)
{
    const database *next = NULL;

    for (size_t i = 0; i < store->database_count; i++) {
        const database *d = store->databases[i];

        if (strcmp(d->name, after) > 0 && (next == NULL || strcmp(d->name, next->name) < 0))
            next = d;
    }
    return next;
}

static od_code memory_status(void *arg, const char *name, od_status_fn fn, void *fn_arg, od_error *err)
{
    memory_store *store = arg;
    const database *at;
    od_code rc = OD_OK;

    pthread_mutex_lock(&store->lock);
    at = name != NULL ? database_named(store, name) : next_database(store, "");
    if (name != NULL && at == NULL)
        rc = no_database(name, err);
    while (at != NULL) {
        const od_storage_status status = status_of(store, at);

        at = fn(fn_arg, &status) == 0 && name == NULL ? next_database(store, at->name) : NULL;
    }
    pthread_mutex_unlock(&store->lock);
    return rc;
}

static od_code memory_verify(void *store, od_check_fn fn, void *arg, od_error *err)
{
    (void)store;
    (void)fn;
    (void)arg;
    (void)err;
    return OD_OK; /* there are no layers */
}

static od_code open_writer(memory_store *store, const char *name, bool create, memory_volume *volume, od_error *err)
{
    database *found = database_named(store, name);
    od_code rc = OD_OK;

    if (found == NULL)
        rc = create ? add_database(store, name, &found, err) : no_database(name, err);
    if (rc != OD_OK)
        return rc;
    if (found->written)
        return od_fail(err, OD_E_LEASED, "database '%s' has a writer already", name);
    found->written = true;
    volume->database = found;
    return OD_OK;
}

static od_code open_reader(memory_store *store, const char *name, const od_uuid *id, memory_volume *volume,
                           od_error *err)
{
    const database *found;
    snapshot *from = NULL;
    od_code rc;

    if (id != NULL) {
        rc = find_snapshot(store, *id, &from, err);
        return rc == OD_OK ? copy(&from->then, &volume->own, err) : rc;
    }
    found = database_named(store, name);
    return found != NULL ? copy(&found->now, &volume->own, err) : no_database(name, err);
}

static od_code open_any(memory_store *store, const char *name, od_volume_mode mode, const od_uuid *id, void **out,
                        od_error *err)
{
    memory_volume *volume = od_calloc(1, sizeof *volume);
    od_code rc;

    if (volume == NULL)
        return no_memory(err);
    volume->store = store;
    pthread_mutex_lock(&store->lock);
    if (mode == OD_VOLUME_READ)
        rc = open_reader(store, name, id, volume, err);
    else
        rc = open_writer(store, name, mode == OD_VOLUME_CREATE, volume, err);
    pthread_mutex_unlock(&store->lock);
    if (rc == OD_OK)
        *out = volume;
    else
        od_free(volume);
    return rc;
}

static od_code memory_open(void *store, const char *name, od_volume_mode mode, void **out, od_error *err)
{
    return open_any(store, name, mode, NULL, out, err);
}

static od_code memory_open_snapshot(void *store, od_uuid id, void **out, od_error *err)
{
    return open_any(store, NULL, OD_VOLUME_READ, &id, out, err);
}

static od_code memory_close(void *arg, od_error *err)
{
    memory_volume *volume = arg;

    (void)err;
    pthread_mutex_lock(&volume->store->lock);
    if (volume->database != NULL)
        volume->database->written = false;
    pthread_mutex_unlock(&volume->store->lock);
    release(&volume->own);
    od_free(volume);
    return OD_OK;
}

static bool memory_writable(const void *volume)
{
    return ((const memory_volume *)volume)->database != NULL;
}

static state *lock(memory_volume *volume)
{
    pthread_mutex_lock(&volume->store->lock);
    return volume->database != NULL ? &volume->database->now : &volume->own;
}

static od_code unlock(memory_volume *volume, od_code rc)
{
    pthread_mutex_unlock(&volume->store->lock);
    return rc;
}

static file *get(const state *s, uint64_t id)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->files[i].id == id)
            return &s->files[i];
    return NULL;
}

static file *named(const state *s, const char *name)
{
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->files[i].name, name) == 0)
            return &s->files[i];
    return NULL;
}

static void drop_file(state *s, file *f)
{
    od_free(f->data);
    s->count--;
    memmove(f, f + 1, (size_t)(s->files + s->count - f) * sizeof *f);
}

static od_code memory_create(void *volume, const char *name, uint64_t *id, od_error *err)
{
    state *s = lock(volume);
    file *grown;

    if (named(s, name) != NULL)
        return unlock(volume, od_name_taken(name, err));
    grown = od_realloc(s->files, (s->count + 1) * sizeof *grown);
    if (grown == NULL)
        return unlock(volume, no_memory(err));
    s->files = grown;
    grown[s->count] = (file){.id = ++s->last};
    snprintf(grown[s->count].name, sizeof grown[s->count].name, "%s", name);
    *id = grown[s->count++].id;
    return unlock(volume, OD_OK);
}

static od_code memory_find(void *volume, const char *name, uint64_t *id, od_error *err)
{
    const file *f = named(lock(volume), name);

    if (f == NULL)
        return unlock(volume, od_no_name(name, err));
    *id = f->id;
    return unlock(volume, OD_OK);
}

static od_code memory_rename(void *volume, uint64_t id, const char *name, od_error *err)
{
    state *s = lock(volume);
    file *other = named(s, name);

    if (get(s, id) == NULL)
        return unlock(volume, od_no_file(id, err));
    if (other != NULL && other->id != id)
        drop_file(s, other);
    snprintf(get(s, id)->name, sizeof other->name, "%s", name);
    return unlock(volume, OD_OK);
}

static od_code memory_remove(void *volume, uint64_t id, od_error *err)
{
    state *s = lock(volume);
    file *f = get(s, id);

    if (f == NULL)
        return unlock(volume, od_no_file(id, err));
    drop_file(s, f);
    return unlock(volume, OD_OK);
}

static od_code memory_list(void *volume, od_file_fn fn, void *arg, od_error *err)
{
    const state *s = lock(volume);

    (void)err;
    for (size_t i = 0; i < s->count; i++)
        if (fn(arg, s->files[i].id, s->files[i].name, s->files[i].size) != 0)
            break;
    return unlock(volume, OD_OK);
}

static od_code memory_read(void *volume, uint64_t id, uint64_t offset, void *out, size_t length, size_t *got,
                           od_error *err)
{
    const file *f = get(lock(volume), id);

    if (f == NULL)
        return unlock(volume, od_no_file(id, err));
    *got = offset >= f->size ? 0 : (length < f->size - offset ? length : (size_t)(f->size - offset));
    if (*got > 0)
        memcpy(out, f->data + offset, *got);
    return unlock(volume, OD_OK);
}

static od_code resize(file *f, uint64_t size, od_error *err)
{
    uint8_t *grown = od_realloc(f->data, (size_t)size + 1);

    if (grown == NULL)
        return no_memory(err);
    if (size > f->size)
        memset(grown + f->size, 0, (size_t)(size - f->size));
    f->data = grown;
    f->size = size;
    return OD_OK;
}

static od_code memory_write(void *volume, uint64_t id, uint64_t offset, const void *data, size_t length, od_error *err)
{
    file *f = get(lock(volume), id);
    od_code rc = OD_OK;

    if (f == NULL)
        return unlock(volume, od_no_file(id, err));
    if (length > 0 && offset + length > f->size)
        rc = resize(f, offset + length, err);
    if (rc == OD_OK && length > 0)
        memcpy(f->data + offset, data, length);
    return unlock(volume, rc);
}

static od_code memory_size(void *volume, uint64_t id, uint64_t *size, od_error *err)
{
    const file *f = get(lock(volume), id);

    if (f == NULL)
        return unlock(volume, od_no_file(id, err));
    *size = f->size;
    return unlock(volume, OD_OK);
}

static od_code memory_truncate(void *volume, uint64_t id, uint64_t size, od_error *err)
{
    file *f = get(lock(volume), id);

    return unlock(volume, f == NULL ? od_no_file(id, err) : resize(f, size, err));
}

static od_code memory_sync(void *volume, od_error *err)
{
    (void)volume;
    (void)err;
    return OD_OK;
}

static od_code memory_seal(void *arg, od_uuid *id, od_error *err)
{
    memory_volume *volume = arg;
    memory_store *store = volume->store;
    const database *from = volume->database;
    snapshot *grown;
    struct timespec now;
    od_code rc;

    if (from == NULL)
        return od_fail(err, OD_E_PERMISSION, "the volume is open to read only");
    pthread_mutex_lock(&store->lock);
    grown = od_realloc(store->snapshots, (store->snapshot_count + 1) * sizeof *grown);
    if (grown == NULL)
        return unlock(volume, no_memory(err));
    store->snapshots = grown;
    grown += store->snapshot_count;
    clock_gettime(CLOCK_REALTIME, &now);
    *grown = (snapshot){.id = od_uuid_random(), .created_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000};
    memcpy(grown->database, from->name, sizeof grown->database);
    rc = copy(&from->now, &grown->then, err);
    if (rc == OD_OK) {
        store->snapshot_count++;
        *id = grown->id;
    }
    return unlock(volume, rc);
}

static od_code memory_tier(void *arg, od_tiered_fn fn, void *fn_arg, od_error *err)
{
    (void)arg;
    (void)fn;
    (void)fn_arg;
    return od_no_tier(err);
}

static od_code memory_tier_status(void *arg, od_storage_tier_status *out, od_error *err)
{
    (void)arg;
    (void)out;
    return od_no_tier(err);
}

const od_backend od_memory_backend = {
    .close_store = memory_close_store,
    .snapshots = memory_snapshots,
    .drop = memory_drop,
    .clone = memory_clone,
    .gc = memory_gc,
    .compact = memory_compact,
    .status = memory_status,
    .tier = memory_tier,
    .tier_status = memory_tier_status,
    .verify = memory_verify,
    .open = memory_open,
    .open_snapshot = memory_open_snapshot,
    .close = memory_close,
    .writable = memory_writable,
    .create = memory_create,
    .find = memory_find,
    .rename = memory_rename,
    .remove = memory_remove,
    .list = memory_list,
    .read = memory_read,
    .write = memory_write,
    .size = memory_size,
    .truncate = memory_truncate,
    .sync = memory_sync,
    .seal = memory_seal,
};

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "openduck/storage.h"
#include "storage/store/backend.h"

#include "base/banned.h"

struct od_store {
    const od_backend *backend;
    void *impl;
    atomic_uint volumes;
};

struct od_volume {
    od_store *store;
    const od_backend *backend;
    void *impl;
};

static od_storage_code public_code(od_code code)
{
    switch (code) {
    case OD_OK:
        return OD_STORAGE_OK;
    case OD_E_INVALID:
        return OD_STORAGE_INVALID;
    case OD_E_NOT_FOUND:
        return OD_STORAGE_NOT_FOUND;
    case OD_E_EXISTS:
        return OD_STORAGE_EXISTS;
    case OD_E_LEASED:
        return OD_STORAGE_LEASED;
    case OD_E_STALE_LEASE:
        return OD_STORAGE_STALE_LEASE;
    case OD_E_PERMISSION:
        return OD_STORAGE_READ_ONLY;
    case OD_E_CORRUPT:
        return OD_STORAGE_CORRUPT;
    case OD_E_IO:
    case OD_E_UNAVAILABLE:
    case OD_E_CONNECTION_LOST:
    case OD_E_TRANSACTION:
    case OD_E_TIMEOUT:
    case OD_E_PROTOCOL:
        return OD_STORAGE_IO;
    case OD_E_NO_MEMORY:
        return OD_STORAGE_NO_MEMORY;
    case OD_E_BUSY:
        return OD_STORAGE_IN_USE;
    case OD_E_FATAL:
        return OD_STORAGE_BROKEN;
    case OD_E_NOT_IMPLEMENTED:
        return OD_STORAGE_UNSUPPORTED;
    default:
        return OD_STORAGE_INTERNAL;
    }
}

static od_storage_code finish(od_code code, const od_error *from, od_storage_error *err)
{
    od_storage_code result = public_code(code);

    if (result != OD_STORAGE_OK && err != NULL) {
        err->code = result;
        snprintf(err->message, sizeof err->message, "%s", from->message);
    }
    return result;
}

static od_storage_code refuse(od_storage_error *err, const char *why)
{
    od_error e = {0};

    return finish(od_fail(&e, OD_E_INVALID, "%s", why), &e, err);
}

#define NOT_NULL(condition, err)                                        \
    do {                                                                \
        if (!(condition))                                               \
            return refuse(err, "NULL where something has to be given"); \
    } while (0)

od_code od_no_file(uint64_t file, od_error *err)
{
    return od_fail(err, OD_E_NOT_FOUND, "there is no file %llu", (unsigned long long)file);
}

od_code od_no_name(const char *name, od_error *err)
{
    return od_fail(err, OD_E_NOT_FOUND, "there is no file '%s'", name);
}

od_code od_name_taken(const char *name, od_error *err)
{
    return od_fail(err, OD_E_EXISTS, "there is a file '%s' already", name);
}

od_code od_no_tier(od_error *err)
{
    return od_fail(err, OD_E_NOT_IMPLEMENTED, "the store has no place for layers far away");
}

static od_code check_name(const char *name, od_error *err)
{
    size_t len = strnlen(name, OD_STORAGE_NAME_MAX + 1);

    if (len == 0 || len > OD_STORAGE_NAME_MAX)
        return od_fail(err, OD_E_INVALID, "a name has 1 to %d bytes", OD_STORAGE_NAME_MAX);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7F)
            return od_fail(err, OD_E_INVALID, "a name has no control characters");
    if (!od_utf8_valid(od_slice_of(name, len)))
        return od_fail(err, OD_E_INVALID, "a name is UTF-8");
    return OD_OK;
}

static od_code check_snapshot(const char *text, od_uuid *out, od_error *err)
{
    if (!od_uuid_parse(text, out))
        return od_fail(err, OD_E_INVALID, "a snapshot's id is a UUID");
    return OD_OK;
}

static od_code check_range(uint64_t offset, uint64_t length, od_error *err)
{
    if (offset > OD_STORAGE_SIZE_MAX || length > OD_STORAGE_SIZE_MAX - offset)
        return od_fail(err, OD_E_INVALID, "a file has at most 2^62 bytes");
    return OD_OK;
}

static od_code check_writable(const od_volume *volume, od_error *err)
{
    if (!volume->backend->writable(volume->impl))
        return od_fail(err, OD_E_PERMISSION, "the volume is open to read only");
    return OD_OK;
}

static od_storage_code wrap_store(od_code rc, const od_backend *backend, void *impl, od_store **out, od_error *e,
                                  od_storage_error *err)
{
    od_store *store = NULL;

    if (rc == OD_OK) {
        store = od_calloc(1, sizeof *store);
        if (store == NULL) {
            backend->close_store(impl);
            rc = od_fail(e, OD_E_NO_MEMORY, "no memory for a store");
        }
    }
    if (rc == OD_OK) {
        store->backend = backend;
        store->impl = impl;
        *out = store;
    }
    return finish(rc, e, err);
}

od_storage_code od_store_open_with(const od_store_ports *ports, od_store **out, od_storage_error *err)
{
    od_error e = {0};
    void *impl = NULL;
    od_code rc;

    NOT_NULL(ports && ports->options.directory && out, err);
    rc = od_layered_store_open(ports, &impl, &e);
    return wrap_store(rc, &od_layered_backend, impl, out, &e, err);
}

od_storage_code od_store_open_options(const od_storage_options *options, od_store **out, od_storage_error *err)
{
    NOT_NULL(options, err);
    return od_store_open_with(&(od_store_ports){.options = *options}, out, err);
}

od_storage_code od_store_open(const char *directory, uint32_t lease_ms, od_store **out, od_storage_error *err)
{
    return od_store_open_options(&(od_storage_options){.directory = directory, .lease_ms = lease_ms}, out, err);
}

od_storage_code od_store_open_memory(od_store **out, od_storage_error *err)
{
    od_error e = {0};
    void *impl = NULL;
    od_code rc;

    NOT_NULL(out, err);
    rc = od_memory_store_create(&impl, &e);
    return wrap_store(rc, &od_memory_backend, impl, out, &e, err);
}

od_storage_code od_store_close(od_store *store, od_storage_error *err)
{
    od_error e = {0};

    if (store == NULL)
        return OD_STORAGE_OK;
    if (atomic_load(&store->volumes) != 0)
        return finish(od_fail(&e, OD_E_BUSY, "volumes of the store are open"), &e, err);
    store->backend->close_store(store->impl);
    od_free(store);
    return OD_STORAGE_OK;
}

od_storage_code od_store_snapshots(od_store *store, const char *database,
                                   int (*fn)(void *arg, const od_storage_snapshot *snapshot), void *arg,
                                   od_storage_error *err)
{
    od_error e = {0};

    NOT_NULL(store && fn, err);
    return finish(store->backend->snapshots(store->impl, database, fn, arg, &e), &e, err);
}

od_storage_code od_store_drop_snapshot(od_store *store, const char *snapshot, od_storage_error *err)
{
    od_error e = {0};
    od_uuid id;
    od_code rc;

    NOT_NULL(store && snapshot, err);
    rc = check_snapshot(snapshot, &id, &e);
    if (rc == OD_OK)
        rc = store->backend->drop(store->impl, id, &e);
    return finish(rc, &e, err);
}

od_storage_code od_store_clone(od_store *store, const char *snapshot, const char *database, od_storage_error *err)
{
    od_error e = {0};
    od_uuid id;
    od_code rc;

    NOT_NULL(store && snapshot && database, err);
    rc = check_snapshot(snapshot, &id, &e);
    if (rc == OD_OK)
        rc = check_name(database, &e);
    if (rc == OD_OK)
        rc = store->backend->clone(store->impl, id, database, &e);
    return finish(rc, &e, err);
}

od_storage_code od_store_gc(od_store *store, int dry_run, int (*fn)(void *arg, const od_storage_garbage *garbage),
                            void *arg, uint64_t *bytes, od_storage_error *err)
{
    od_error e = {0};
    uint64_t sum = 0;
    od_code rc;

    NOT_NULL(store, err);
    rc = store->backend->gc(store->impl, dry_run != 0, fn, arg, &sum, &e);
    if (rc == OD_OK && bytes != NULL)
        *bytes = sum;
    return finish(rc, &e, err);
}

od_storage_code od_store_compact(od_store *store, const char *database, int whole,
                                 int (*fn)(void *arg, const od_storage_merge *merge), void *arg, od_storage_error *err)
{
    od_error e = {0};

    NOT_NULL(store, err);
    return finish(store->backend->compact(store->impl, database, whole != 0, fn, arg, &e), &e, err);
}

od_storage_code od_store_status(od_store *store, const char *database,
                                int (*fn)(void *arg, const od_storage_status *status), void *arg, od_storage_error *err)
{
    od_error e = {0};

    NOT_NULL(store && fn, err);
    return finish(store->backend->status(store->impl, database, fn, arg, &e), &e, err);
}

od_storage_code od_store_tier(od_store *store, int (*fn)(void *arg, const od_storage_tiered *tiered), void *arg,
                              od_storage_error *err)
{
    od_error e = {0};

    NOT_NULL(store, err);
    return finish(store->backend->tier(store->impl, fn, arg, &e), &e, err);
}

od_storage_code od_store_tier_status(od_store *store, od_storage_tier_status *out, od_storage_error *err)
{
    od_error e = {0};

    NOT_NULL(store && out, err);
    return finish(store->backend->tier_status(store->impl, out, &e), &e, err);
}

od_storage_code od_store_verify(od_store *store, int (*fn)(void *arg, const od_storage_check *check), void *arg,
                                od_storage_error *err)
{
    od_error e = {0};

    NOT_NULL(store, err);
    return finish(store->backend->verify(store->impl, fn, arg, &e), &e, err);
}

/* The volume that is made before IMPL is opened, so that nothing can fail afterwards. */
static od_volume *new_volume(od_store *store, od_error *e)
{
    od_volume *volume = od_calloc(1, sizeof *volume);

    if (volume == NULL) {
        (void)od_fail(e, OD_E_NO_MEMORY, "no memory for a volume");
        return NULL;
    }
    volume->store = store;
    volume->backend = store->backend;
    return volume;
}

static od_storage_code wrap_volume(od_code rc, od_volume *volume, od_volume **out, const od_error *e,
                                   od_storage_error *err)
{
    if (rc == OD_OK) {
        atomic_fetch_add(&volume->store->volumes, 1);
        *out = volume;
    } else {
        od_free(volume);
    }
    return finish(rc, e, err);
}

od_storage_code od_volume_open(od_store *store, const char *database, od_volume_mode mode, od_volume **out,
                               od_storage_error *err)
{
    od_error e = {0};
    od_volume *volume;
    od_code rc;

    NOT_NULL(store && database && out, err);
    if (mode != OD_VOLUME_READ && mode != OD_VOLUME_WRITE && mode != OD_VOLUME_CREATE)
        return refuse(err, "there is no such mode");
    volume = new_volume(store, &e);
    rc = volume == NULL ? OD_E_NO_MEMORY : check_name(database, &e);
    if (rc == OD_OK)
        rc = store->backend->open(store->impl, database, mode, &volume->impl, &e);
    return wrap_volume(rc, volume, out, &e, err);
}

od_storage_code od_volume_open_snapshot(od_store *store, const char *snapshot, od_volume **out, od_storage_error *err)
{
    od_error e = {0};
    od_volume *volume;
    od_uuid id;
    od_code rc;

    NOT_NULL(store && snapshot && out, err);
    volume = new_volume(store, &e);
    rc = volume == NULL ? OD_E_NO_MEMORY : check_snapshot(snapshot, &id, &e);
    if (rc == OD_OK)
        rc = store->backend->open_snapshot(store->impl, id, &volume->impl, &e);
    return wrap_volume(rc, volume, out, &e, err);
}

od_storage_code od_volume_close(od_volume *volume, od_storage_error *err)
{
    od_error e = {0};
    od_code rc;

    if (volume == NULL)
        return OD_STORAGE_OK;
    rc = volume->backend->close(volume->impl, &e);
    atomic_fetch_sub(&volume->store->volumes, 1);
    od_free(volume);
    return finish(rc, &e, err);
}

od_storage_code od_volume_create(od_volume *volume, const char *name, uint64_t *file, od_storage_error *err)
{
    od_error e = {0};
    od_code rc;

    NOT_NULL(volume && name && file, err);
    rc = check_writable(volume, &e);
    if (rc == OD_OK)
        rc = check_name(name, &e);
    if (rc == OD_OK)
        rc = volume->backend->create(volume->impl, name, file, &e);
    return finish(rc, &e, err);
}

od_storage_code od_volume_find(od_volume *volume, const char *name, uint64_t *file, od_storage_error *err)
{
    od_error e = {0};

    NOT_NULL(volume && name && file, err);
    return finish(volume->backend->find(volume->impl, name, file, &e), &e, err);
}

od_storage_code od_volume_rename(od_volume *volume, uint64_t file, const char *name, od_storage_error *err)
{
    od_error e = {0};
    od_code rc;

    NOT_NULL(volume && name, err);
    rc = check_writable(volume, &e);
    if (rc == OD_OK)
        rc = check_name(name, &e);
    if (rc == OD_OK)
        rc = volume->backend->rename(volume->impl, file, name, &e);
    return finish(rc, &e, err);
}

od_storage_code od_volume_remove(od_volume *volume, uint64_t file, od_storage_error *err)
{
    od_error e = {0};
    od_code rc;

    NOT_NULL(volume, err);
    rc = check_writable(volume, &e);
    if (rc == OD_OK)
        rc = volume->backend->remove(volume->impl, file, &e);
    return finish(rc, &e, err);
}

od_storage_code od_volume_list(od_volume *volume, int (*fn)(void *arg, uint64_t file, const char *name, uint64_t size),
                               void *arg, od_storage_error *err)
{
    od_error e = {0};

    NOT_NULL(volume && fn, err);
    return finish(volume->backend->list(volume->impl, fn, arg, &e), &e, err);
}

od_storage_code od_volume_read(od_volume *volume, uint64_t file, uint64_t offset, void *out, size_t length, size_t *got,
                               od_storage_error *err)
{
    od_error e = {0};
    od_code rc;

    NOT_NULL(volume && (out || length == 0) && got, err);
    rc = check_range(offset, length, &e);
    if (rc == OD_OK)
        rc = volume->backend->read(volume->impl, file, offset, out, length, got, &e);
    return finish(rc, &e, err);
}

od_storage_code od_volume_write(od_volume *volume, uint64_t file, uint64_t offset, const void *data, size_t length,
                                od_storage_error *err)
{
    od_error e = {0};
    od_code rc;

    NOT_NULL(volume && (data || length == 0), err);
    rc = check_writable(volume, &e);
    if (rc == OD_OK)
        rc = check_range(offset, length, &e);
    if (rc == OD_OK)
        rc = volume->backend->write(volume->impl, file, offset, data, length, &e);
    return finish(rc, &e, err);
}

od_storage_code od_volume_size(od_volume *volume, uint64_t file, uint64_t *size, od_storage_error *err)
{
    od_error e = {0};

    NOT_NULL(volume && size, err);
    return finish(volume->backend->size(volume->impl, file, size, &e), &e, err);
}

od_storage_code od_volume_truncate(od_volume *volume, uint64_t file, uint64_t size, od_storage_error *err)
{
    od_error e = {0};
    od_code rc;

    NOT_NULL(volume, err);
    rc = check_writable(volume, &e);
    if (rc == OD_OK)
        rc = check_range(size, 0, &e);
    if (rc == OD_OK)
        rc = volume->backend->truncate(volume->impl, file, size, &e);
    return finish(rc, &e, err);
}

od_storage_code od_volume_sync(od_volume *volume, od_storage_error *err)
{
    od_error e = {0};
    od_code rc;

    NOT_NULL(volume, err);
    rc = check_writable(volume, &e);
    if (rc == OD_OK)
        rc = volume->backend->sync(volume->impl, &e);
    return finish(rc, &e, err);
}

od_storage_code od_volume_seal(od_volume *volume, char snapshot[OD_STORAGE_ID_SIZE], od_storage_error *err)
{
    od_error e = {0};
    od_uuid id;
    od_code rc;

    NOT_NULL(volume, err);
    rc = check_writable(volume, &e);
    if (rc == OD_OK)
        rc = volume->backend->seal(volume->impl, &id, &e);
    if (rc == OD_OK && snapshot != NULL)
        od_uuid_format(id, snapshot);
    return finish(rc, &e, err);
}

/* What a kind of store does. Arguments have been checked: pointers are there, names are good, ranges do not overflow. */
#ifndef OD_STORAGE_STORE_BACKEND_H
#define OD_STORAGE_STORE_BACKEND_H

#include "base/uuid.h"
#include "storage/store.h"

typedef int (*od_snapshot_fn)(void *arg, const od_storage_snapshot *snapshot);
typedef int (*od_garbage_fn)(void *arg, const od_storage_garbage *garbage);
typedef int (*od_merge_fn)(void *arg, const od_storage_merge *merge);
typedef int (*od_status_fn)(void *arg, const od_storage_status *status);
typedef int (*od_tiered_fn)(void *arg, const od_storage_tiered *tiered);
typedef int (*od_check_fn)(void *arg, const od_storage_check *check);
typedef int (*od_file_fn)(void *arg, uint64_t file, const char *name, uint64_t size);

typedef struct {
    void (*close_store)(void *store);
    od_code (*snapshots)(void *store, const char *database, od_snapshot_fn fn, void *arg, od_error *err);
    od_code (*drop)(void *store, od_uuid snapshot, od_error *err);
    od_code (*clone)(void *store, od_uuid snapshot, const char *database, od_error *err);
    od_code (*gc)(void *store, bool dry_run, od_garbage_fn fn, void *arg, uint64_t *bytes, od_error *err);
    od_code (*compact)(void *store, const char *database, bool whole, od_merge_fn fn, void *arg, od_error *err);
    od_code (*status)(void *store, const char *database, od_status_fn fn, void *arg, od_error *err);
    od_code (*tier)(void *store, od_tiered_fn fn, void *arg, od_error *err);
    od_code (*tier_status)(void *store, od_storage_tier_status *out, od_error *err);
    od_code (*verify)(void *store, od_check_fn fn, void *arg, od_error *err);
    od_code (*open)(void *store, const char *database, od_volume_mode mode, void **volume, od_error *err);
    od_code (*open_snapshot)(void *store, od_uuid snapshot, void **volume, od_error *err);

    od_code (*close)(void *volume, od_error *err); /* frees in any case */
    bool (*writable)(const void *volume);
    od_code (*create)(void *volume, const char *name, uint64_t *file, od_error *err);
    od_code (*find)(void *volume, const char *name, uint64_t *file, od_error *err);
    od_code (*rename)(void *volume, uint64_t file, const char *name, od_error *err);
    od_code (*remove)(void *volume, uint64_t file, od_error *err);
    od_code (*list)(void *volume, od_file_fn fn, void *arg, od_error *err);
    od_code (*read)(void *volume, uint64_t file, uint64_t offset, void *out, size_t length, size_t *got, od_error *err);
    od_code (*write)(void *volume, uint64_t file, uint64_t offset, const void *data, size_t length, od_error *err);
    od_code (*size)(void *volume, uint64_t file, uint64_t *size, od_error *err);
    od_code (*truncate)(void *volume, uint64_t file, uint64_t size, od_error *err);
    od_code (*sync)(void *volume, od_error *err);
    od_code (*seal)(void *volume, od_uuid *snapshot, od_error *err);
} od_backend;

/* The plainest that keeps the contract: arrays of bytes, copied at a seal. Others are compared with it. */
extern const od_backend od_memory_backend;
OD_MUST_CHECK od_code od_memory_store_create(void **out, od_error *err);

/* Layers in a directory, SQLite beside them. */
extern const od_backend od_layered_backend;
OD_MUST_CHECK od_code od_layered_store_open(const od_store_ports *ports, void **out, od_error *err);

/* Texts that both give. */
od_code od_no_file(uint64_t file, od_error *err);
od_code od_no_name(const char *name, od_error *err);
od_code od_name_taken(const char *name, od_error *err);
od_code od_no_tier(od_error *err);

#endif

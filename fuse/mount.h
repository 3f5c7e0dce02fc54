/* One mounted database: what the operations of the kernel work on.
 *
 *     /NAME               the files of the database
 *     /NAME.tmp           for each of them a link to a folder outside, where DuckDB spills: it is no part of the volume
 *     /snapshots/ID/NAME  those of each of its snapshots, which never change
 */
#ifndef OD_FUSE_MOUNT_H
#define OD_FUSE_MOUNT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "fuse/node.h"
#include "openduck/storage.h"

#define FOLDER_OF_SNAPSHOTS "snapshots"
/* A file that was removed while somebody had it open is called so until it is closed; the next writer removes what a crash left. */
#define REMOVED_PREFIX ".openduck_removed_"

/* A snapshot that was looked at; the first place is the database itself. A place's number is never used again. */
typedef struct place {
    char id[OD_STORAGE_ID_SIZE];
    time_t created;
    od_volume *volume; /* what follows is under the mount's lock. NULL: not open now */
    unsigned users;
    int64_t idle_since_ms;
} place;

typedef struct opened {
    uint64_t file;
    unsigned times;
    bool removed; /* it goes when it is closed */
} opened;

typedef struct mount {
    od_store *store;
    const char *database;
    const char *directory;
    bool read_only;
    bool seal_on_checkpoint;
    char *scratch; /* the folder outside, which goes with the mount */
    uid_t uid;
    gid_t gid;
    _Atomic time_t changed;

    pthread_mutex_t lock; /* what follows */
    pthread_cond_t wake;
    place **places;
    size_t place_count;
    opened *opened;
    size_t opened_count;
    bool stop;
    pthread_t janitor;
} mount;

/* Opens DATABASE of STORE, which it makes if there is none. On failure nothing is left. The strings are borrowed. */
od_storage_code mount_open(mount *m, od_storage_error *err);
/* Syncs, and gives the lease back. */
od_storage_code mount_close(mount *m, od_storage_error *err);

/* ---- Places ---- */

/* The volume of a place, opened if it is not; it stays until place_leave. */
od_storage_code place_enter(mount *m, size_t number, od_volume **out, od_storage_error *err);
void place_leave(mount *m, size_t number);
/* The place of the snapshot ID of this database. */
od_storage_code place_find(mount *m, const char *id, size_t *number, od_storage_error *err);
/* When what is there was last changed. */
time_t place_changed(mount *m, size_t number);
/* The path of the folder that a NODE_SCRATCH stands for. */
void place_scratch(mount *m, node n, char *out, size_t size);

/* ---- Files of the database that are open ---- */

/* False: memory is out. */
bool opened_add(mount *m, uint64_t file);
bool opened_has(mount *m, uint64_t file);
/* True: it was the last, and the file shall go now. */
bool opened_drop(mount *m, uint64_t file);
/* True: it is open, and goes when it is closed. */
bool opened_doom(mount *m, uint64_t file);
bool name_is_hidden(const char *name);

#endif

/* storage/store.h: a store on other ports than the system's, for tests and for doors that bring their own.
 *
 * What can be done with it is in openduck/storage.h. */
#ifndef OD_STORAGE_STORE_H
#define OD_STORAGE_STORE_H

#include "openduck/storage.h"
#include "storage/io.h"
#include "storage/meta.h"

typedef struct {
    od_storage_options options; /* what it points to is copied */
    const od_io *io;            /* NULL: the system's. Borrowed */
    od_meta_clock clock;        /* NULL: the metadata's own */
    void *clock_arg;
    unsigned max_open_files; /* of layers that nobody writes to or reads just now; 0: 64 */
    bool no_heartbeat;       /* leases and pins are not renewed by themselves */
} od_store_ports;

od_storage_code od_store_open_with(const od_store_ports *ports, od_store **out, od_storage_error *err);

#endif

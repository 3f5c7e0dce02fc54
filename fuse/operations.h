/* What the kernel asks of a mount, as libfuse's table of operations; its user data is the mount. */
#ifndef OD_FUSE_OPERATIONS_H
#define OD_FUSE_OPERATIONS_H

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>

#include <sys/ioctl.h>

#include "openduck/storage.h"

/* On the mounted folder: keeps the present state as a snapshot, whose id is put there. */
#define OPENDUCK_SEAL _IOR('d', 1, char[OD_STORAGE_ID_SIZE])

extern const struct fuse_lowlevel_ops fuse_operations;

#endif

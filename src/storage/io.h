/* storage/io.h: files as the storage sees them, so that tests can lose, refuse and stop what the kernel would not.
 *
 * Every function gives 0 or an errno value. A port is used by any number of threads; a file by several at once. */
#ifndef OD_STORAGE_IO_H
#define OD_STORAGE_IO_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef enum {
    OD_IO_READ,   /* an existing file, to be read */
    OD_IO_WRITE,  /* an existing file, to be read and written */
    OD_IO_CREATE, /* a new file, to be read and written; EEXIST if there is one */
} od_io_mode;

typedef struct {
    const void *data;
    size_t len;
} od_io_part;

typedef struct {
    void *ctx; /* borrowed by everything that is opened */
    int (*open)(void *ctx, const char *path, od_io_mode mode, void **file);
    /* Fewer bytes than LEN only at the end of the file; *got says how many. */
    int (*read)(void *file, uint64_t at, void *data, size_t len, size_t *got);
    /* At most two parts, one after the other, wholly or not at all as far as the caller may know: after an error the
     * bytes from AT on are undefined. */
    int (*write)(void *file, uint64_t at, const od_io_part *parts, size_t n);
    /* After 0 all that was written is on stable storage. After an error it is unknown which of it is. */
    int (*sync)(void *file);
    int (*truncate)(void *file, uint64_t size);
    int (*size)(void *file, uint64_t *size);
    void (*close)(void *file); /* NULL allowed */
    int (*remove)(void *ctx, const char *path);
    /* Makes created and removed names of the directory durable. */
    int (*sync_dir)(void *ctx, const char *path);
    /* A named moment between two steps; what is not 0 ends the operation there as a crash would. */
    int (*point)(void *ctx, const char *name);
    /* What was read of FILE does not match its checksum: what is kept of it elsewhere is to be read anew. NULL: nothing is. */
    void (*doubt)(void *file);
    /* What stands behind the errno value WHY, that was given last; "" if nothing is known. NULL: nothing ever is. */
    void (*explain)(void *ctx, int why, char *out, size_t size);
} od_io;

/* od_fail_errno with OD_E_IO, and with what IO knows of WHY. */
od_code od_io_fail(const od_io *io, od_error *err, int why, const char *fmt, ...) OD_PRINTF(4, 5);

/* The kernel's files. Static. Names are opened with O_NOFOLLOW and created with mode 0600. */
const od_io *od_io_posix(void);

#endif

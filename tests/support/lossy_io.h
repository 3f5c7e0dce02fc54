/* Files that lose what was not synced, refuse what they are told to, and stop where they are told to.
 *
 * Over the kernel's files: what is written is there for readers at once, and in sectors of 512 bytes on the "disk" after a sync. A sync that
 * fails forgets what it was about, as kernels do. */
#ifndef OD_TESTS_SUPPORT_LOSSY_IO_H
#define OD_TESTS_SUPPORT_LOSSY_IO_H

#include <pthread.h>
#include <stdbool.h>

#include "storage/io.h"

#define LOSSY_FILES 4096

typedef struct lossy_entry lossy_entry;

typedef struct {
    od_io io; /* to be given away; its ctx is this */
    pthread_mutex_t lock;
    lossy_entry *entries[LOSSY_FILES];
    int count;
    long write_fails_in; /* so many writes from now one fails with WRITE_ERROR; -1: none */
    int write_error;
    bool failed_write_is_whole;      /* it is on the disk all the same */
    void (*before_write)(void *arg); /* called once, before the next write */
    void *before_arg;
    long sync_fails_in;
    long dies_in;        /* so many changes from now everything fails; a write in which it happens is half done */
    const char *dies_at; /* or at this point */
    bool dead;
    int open_now;
    int open_most;
    long changes; /* calls that change something */
    uint64_t bytes_read;
} lossy_io;

void lossy_begin(lossy_io *io);
/* The machine stops and comes back: each sector that was not synced is there or not, as DICE will. No file is open. */
void lossy_crash(lossy_io *io, uint64_t *dice);
void lossy_end(lossy_io *io);

uint64_t lossy_random(uint64_t *dice);

#endif

/* vgi/transport/link_internal.h: what a link is made of. */
#ifndef OD_VGI_TRANSPORT_LINK_INTERNAL_H
#define OD_VGI_TRANSPORT_LINK_INTERNAL_H

#include <sys/types.h>

#include "vgi/transport.h"

/* What is read ahead is a message of a pool, which keeps memory in steps of 256 KiB, its head included. */
enum { OD_VGI_TAIL = 4096, OD_VGI_AHEAD = (512 << 10) - 256, OD_VGI_AHEAD_KEPT = 1 << 20 };

struct od_vgi_link {
    int in, out; /* what is read and written; of a socket the same */
    int log;     /* the process's stderr, -1: none, or at its end */
    int life;    /* the process's guard sees its end, -1: none */
    pid_t pid;   /* leader of its session; -1: a socket, or gone */
    int status;  /* of waitpid, once it is gone */
    bool ended;
    char shown[80];             /* what it is, for messages */
    size_t ahead_at, ahead_len; /* what was read and not asked for yet */
    od_msg *ahead;              /* many small reads are one; NULL: nothing was read */
    bool is_lent;               /* somebody has a part of it */
    od_msg_pool *pool;
    size_t tail_len;
    char tail[OD_VGI_TAIL]; /* the end of stderr */
};

/* Each fills LINK, which has no descriptors yet. */
OD_MUST_CHECK od_code od_vgi_spawn(const char *command, od_vgi_link *link, od_error *err);
OD_MUST_CHECK od_code od_vgi_dial_unix(const char *path, od_vgi_link *link, od_error *err);
OD_MUST_CHECK od_code od_vgi_dial_tcp(const char *host, uint16_t port, const od_vgi_wait *wait, od_vgi_link *link,
                                      od_error *err);

/* Waits until FD is ready for EVENTS; reads the log meanwhile. OD_E_TIMEOUT, OD_E_CANCELLED. */
OD_MUST_CHECK od_code od_vgi_link_wait(od_vgi_link *link, int fd, short events, const od_vgi_wait *wait, od_error *err);
void od_vgi_link_drain(od_vgi_link *link); /* the log, as far as it is there */

#endif

/* http/cover.h: what the bytes of connections go through, where they are not to pass in clear text: TLS, of a room that this one does
 * not see. Of one connection one thread at a time calls it. CONN is what OPEN gave. */
#ifndef OD_HTTP_COVER_H
#define OD_HTTP_COVER_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct {
    void *arg;
    void *(*open)(void *arg, int fd); /* for a connected socket, which stays the caller's; NULL: memory is out */
    /* As recv and send on a socket that never blocks, also while a handshake goes on. EAGAIN: the socket is waited for, to become readable
     * or, while `unsent` is true, writable. What is written may still have to be flushed. */
    ssize_t (*read)(void *conn, void *to, size_t len);
    ssize_t (*write)(void *conn, const void *from, size_t len);
    int (*flush)(void *conn); /* 0, EAGAIN, or why it cannot be */
    bool (*unsent)(void *conn);
    void (*close)(void *conn); /* tells the peer, if that can be done at once */
    /* A client's alone, which writes first, but not before this is through: 0, EAGAIN as of read, or an errno. */
    int (*shake)(void *conn);
    const char *(*why)(void *conn); /* what ended it */
} od_http_cover;

#endif

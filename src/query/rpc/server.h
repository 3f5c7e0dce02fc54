/* query/rpc/server.h: what the files of the server share: loops, their connections, and the calls on these.
 *
 * A loop is a thread with an epoll set. A connection belongs to one loop for its life; so do its calls. Any thread may act on
 * a call: it locks the call's connection, queues, writes to the socket at once, and leaves what is to be told to handlers to
 * the loop (od_loop_post). On the loop's own thread writing waits until the handlers that are due have run, so that what
 * they send goes out in one piece.
 *
 * Locks: a connection's, then a loop's; never two of a kind. No handler runs under either. */
#ifndef OD_QUERY_RPC_SERVER_H
#define OD_QUERY_RPC_SERVER_H

#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>

#include "query/rpc/h2.h"
#include "query/rpc/meter.h"
#include "query/rpc/timers.h"
#include "query/rpc/tls.h"

typedef struct od_loop od_loop;
typedef struct od_conn od_conn;

/* The first member of whatever an epoll event points to. */
typedef enum { OD_SOURCE_WAKE, OD_SOURCE_LISTENER, OD_SOURCE_CONN } od_source;

struct od_loop {
    od_source source; /* OD_SOURCE_WAKE, for wake_fd */
    od_rpc_server *server;
    pthread_t thread;
    bool started;
    int epoll_fd, wake_fd;
    uint8_t *input;
    int64_t next_tick_ns;
    int64_t refused_logged_ns;    /* when a handshake that failed was last logged */
    od_conn *ready, **ready_last; /* connections with something to do; only the loop's thread touches these */
    od_conn *due;                 /* being worked on */

    pthread_mutex_t lock; /* what follows */
    od_conn *posted;
    bool woken, stopping;
    od_conn *conns;
    size_t conn_count;
    od_timers timers; /* of calls and of connections that connect */
};

struct od_conn {
    od_source source; /* OD_SOURCE_CONN */
    atomic_uint refs;
    od_loop *loop;
    bool outgoing; /* a relay's */
    char peer[300];
    od_endpoint endpoint; /* outgoing */
    od_conn *prev, *next; /* loop->conns, under its lock */
    od_conn *next_posted; /* loop->posted, under its lock */
    bool posted;
    od_conn *next_ready; /* the loop's thread only */
    bool is_ready;

    pthread_mutex_t lock; /* what follows, and the od_h2 with its streams */
    int fd;
    od_tls_conn *tls; /* NULL: plain, or no socket yet */
    od_h2 *h2;
    bool resolving, connecting, shaking, dead, buried, lost, watching_out;
    char lost_why[OD_ERROR_MESSAGE_SIZE];
    od_code lost_code;
    struct addrinfo *addresses, *next_address;
    int connect_errno;
    int64_t connect_by_ns;
    od_rpc_call *calls;                 /* all that are not gone */
    od_rpc_call *events, **events_last; /* those with something to tell */
    od_rpc_watch *watches;
    int64_t last_input_ns, ping_ns;
    int64_t stalled_ns; /* since when bytes wait; 0: none do */
};

struct od_rpc_call {
    od_h2_stream stream; /* under the connection's lock; what the peer sent at the start stays as it is */
    atomic_uint refs;
    od_conn *conn;
    const od_rpc_method *method;
    const od_meter *meter; /* server side; NULL before the method is known */
    int64_t start_ns;
    _Atomic od_code marked; /* by od_rpc_call_mark */
    const od_rpc_events *events;
    void *user;
    od_deadline deadline;
    od_timer timer; /* under the loop's lock; set: holds a reference */
    bool server_side;
    /* under the connection's lock */
    od_rpc_call *next_event, *prev_call, *next_call;
    bool listed, opened, half_closed, was_full, tell_writable, closed, gone;
    unsigned waiters;       /* in od_rpc_call_send_wait */
    pthread_cond_t changed; /* room, or the end */
    int64_t progress_ns;    /* when bytes of it last went out */
};

typedef struct {
    od_source source; /* OD_SOURCE_LISTENER */
    int fd;
    bool paused; /* out of descriptors */
} od_listener;

struct od_rpc_server {
    od_rpc_server_options options;
    od_rpc_method *methods;
    od_meter *meters; /* of each method, and one more for unknown ones */
    od_counter *accepted;
    od_listener listener;
    uint16_t port;
    od_loop *loops;
    unsigned loop_count, next_loop;
    atomic_uint conn_count;
    atomic_bool draining;
    pthread_mutex_t lock; /* calls */
    pthread_cond_t idle;
    unsigned calls;
};

/* loop.c */
OD_MUST_CHECK od_code od_loop_init(od_loop *loop, od_rpc_server *server, od_error *err);
OD_MUST_CHECK od_code od_loop_start(od_loop *loop, od_error *err);
void od_loop_stop(od_loop *loop);
void od_loop_release(od_loop *loop);
bool od_loop_is_current(const od_loop *loop);
/* Any thread, the connection's lock held or not: has the loop look at CONN. */
void od_loop_post(od_loop *loop, od_conn *conn);
void od_loop_wake(od_loop *loop);
/* The loop's thread: puts CONN among those to be worked on before the next wait. */
void od_loop_ready(od_loop *loop, od_conn *conn);
/* false: the loop ends. Any thread. Takes over the caller's reference. */
bool od_loop_add_conn(od_loop *loop, od_conn *conn);
void od_loop_remove_conn(od_loop *loop, od_conn *conn);
/* Under the connection's lock: watches its socket, anew or changed; and no more, before it is closed. */
void od_loop_unwatch(od_loop *loop, od_conn *conn);
bool od_loop_watch(od_loop *loop, od_conn *conn, bool output, bool first);
/* Sets or clears the timer of a call. */
void od_loop_set_timer(od_loop *loop, od_rpc_call *call, od_deadline deadline);
void od_loop_clear_timer(od_loop *loop, od_rpc_call *call);

/* conn.c */
od_conn *od_conn_create(od_loop *loop, bool outgoing, bool tls);
od_conn *od_conn_ref(od_conn *conn);
void od_conn_unref(od_conn *conn);
/* An accepted socket, which it closes on failure. */
void od_conn_accept(od_loop *loop, int fd);
/* The loop's thread. */
void od_conn_input(od_conn *conn, bool readable, bool writable);
void od_conn_work(od_conn *conn); /* tells events, writes, and ends it where it is done */
void od_conn_tick(od_conn *conn, int64_t now_ns);
int64_t od_conn_next_tick(od_conn *conn, int64_t now_ns);
/* Ends it and all its calls, whose events are still to be told. */
void od_conn_kill(od_conn *conn, od_code code, const char *text);
/* Under the lock: it will be killed by the loop. */
void od_conn_lose(od_conn *conn, od_code code, const char *why);
/* Under the lock: have what changed written, and told by the loop. */
void od_conn_touch(od_conn *conn);
void od_conn_list_event(od_conn *conn, od_rpc_call *call);
/* The loop's thread, under the lock: goes on with the TLS handshake. */
void od_conn_shake(od_conn *conn);

/* server_call.c */
extern const od_h2_hooks OD_SERVER_HOOKS, OD_SERVER_TLS_HOOKS;
typedef enum { OD_TELL_OPEN, OD_TELL_MESSAGE, OD_TELL_HALF_CLOSE, OD_TELL_WRITABLE, OD_TELL_GONE } od_tell_kind;
typedef struct {
    od_tell_kind kind;
    od_msg *msg;
} od_tell;
/* Under the lock. One reference, the loop's; it is among the connection's calls until it is gone. */
od_rpc_call *od_rpc_call_create(od_conn *conn, bool server_side);
/* Under the lock: the next event of CALL; false when nothing is due. */
bool od_rpc_call_pick(od_rpc_call *call, od_tell *tell);
/* The loop's thread, without locks: runs the handler. */
void od_rpc_call_run(od_rpc_call *call, const od_tell *tell);
void od_rpc_call_timeout(od_rpc_call *call);
/* Under the lock: ends a call whose stream is closed already, but which waits for messages to be asked for. */
void od_rpc_call_cut(od_rpc_call *call);

/* watch.c */
/* The loop's thread, without locks: tells those who watch CONN, which is dead. */
void od_conn_tell_watches(od_conn *conn);

/* relay.c */
/* The loop's thread, under the lock: the socket that connects is writable. */
void od_conn_connect_step(od_conn *conn);

/* server.c */
void od_server_accept(od_rpc_server *server);
void od_server_count_call(od_rpc_server *server, int change);
void od_server_tick(od_rpc_server *server); /* the first loop's thread */

#endif

/* vgi/client/client_internal.h: a client and its sessions. */
#ifndef OD_VGI_CLIENT_INTERNAL_H
#define OD_VGI_CLIENT_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "arrow/ipc_read.h"
#include "arrow/record.h"
#include "arrow/row.h"
#include "base/secret.h"
#include "http/fetch.h"
#include "vgi/client.h"
#include "vgi/wire.h"

/* No message of a worker's has a larger body. */
#define OD_VGI_MAX_BODY ((size_t)512 << 20)

typedef struct od_vgi_session {
    od_vgi_link *link;
    bool fresh; /* nothing has been answered yet */
    int64_t idle_since_ns;
    struct od_vgi_session *next;
} od_vgi_session;

struct od_vgi {
    atomic_size_t refs;
    od_vgi_location location;
    od_vgi_options options;                  /* without what is borrowed */
    _Atomic(const od_vgi_dialect *) dialect; /* NULL: not known yet */
    od_fetcher *fetcher;                     /* of a URL; NULL: there are sessions */
    od_secret token;
    atomic_bool no_branches; /* the worker does not have the method */
    pthread_mutex_t lock;    /* of what follows */
    od_vgi_session *idle;    /* the one used last first */
    size_t idle_count;
    od_vgi_session *ending; /* processes that have not gone yet */
};

/* ---- sessions (pool.c) ---- */

/* One that nobody uses, or a new one. */
OD_MUST_CHECK od_code od_vgi_session_take(od_vgi *vgi, const od_vgi_wait *wait, od_vgi_session **out, od_error *err);
/* CLEAN: all that was asked is answered to its end. NULL allowed. */
void od_vgi_session_give(od_vgi *vgi, od_vgi_session *session, bool clean);
void od_vgi_sessions_free(od_vgi *vgi);
/* How long an answer of SESSION may take. */
od_vgi_wait od_vgi_session_wait(const od_vgi *vgi, const od_vgi_session *session, od_vgi_interrupt interrupt);

/* ---- answers as Arrow streams (stream.c) ---- */

/* Where an answer's bytes come from: a session, or memory. */
typedef struct {
    od_vgi_link *link; /* NULL: MEMORY */
    od_slice memory;   /* what is left */
} od_vgi_source;

typedef struct {
    od_vgi *vgi;
    od_vgi_source *source;
    od_ipc_reader *reader;
    od_buf head;        /* of the message that is read */
    size_t message_len; /* of the last one whose body was read */
    bool begun;         /* the schema was read */
    bool ended;         /* the end mark was read */
    bool failed;        /* the worker told an error */
    od_buf cursor;      /* over HTTP: goes with the next request; empty: there is none to make */
    od_buf call;        /* goes with each of them, once it was told */
    od_error fault;     /* which */
} od_vgi_stream;

/* Of bytes in memory OD_E_CORRUPT if there are more than were due. */
OD_MUST_CHECK od_code od_vgi_source_end(const od_vgi_source *source, od_error *err);
OD_MUST_CHECK od_code od_vgi_stream_init(od_vgi_stream *stream, od_vgi *vgi, od_vgi_source *source, od_error *err);
void od_vgi_stream_release(od_vgi_stream *stream);
/* The next batch of data; out->release NULL: the end mark was read. Log batches go to the client's log on the way; what the worker
 * failed with is kept in `fault`, and the stream goes on to its end. */
OD_MUST_CHECK od_code od_vgi_stream_next(od_vgi_stream *stream, const od_vgi_wait *wait, struct ArrowArray *out,
                                         od_error *err);
/* Reads to the end mark; OD_OK, or what the worker failed with. */
OD_MUST_CHECK od_code od_vgi_stream_finish(od_vgi_stream *stream, const od_vgi_wait *wait, od_error *err);

/* ---- requests over HTTP (post.c) ---- */

/* Sends BODY to the method PATH ("bind", "init/exchange"); OUT, to be released, is an answer in Arrow.
 *   OD_E_UNAUTHENTICATED, OD_E_PERMISSION  401, 403     OD_E_PROTOCOL  an answer of another kind */
OD_MUST_CHECK od_code od_vgi_post(od_vgi *vgi, const od_vgi_dialect *dialect, const char *path, od_slice body,
                                  od_vgi_interrupt interrupt, od_fetched *out, od_error *err);

/* ---- calls (call.c) ---- */

/* The dialect that the worker speaks; asks it at first. */
OD_MUST_CHECK od_code od_vgi_dialect_of(od_vgi *vgi, od_vgi_interrupt interrupt, const od_vgi_dialect **out,
                                        od_error *err);
/* VALUES as a stream of a batch, moved out of; *OUT NULL: there are none. */
OD_MUST_CHECK od_code od_vgi_values_write(od_vgi_values *values, od_msg **out, od_error *err);
/* The request stream of METHOD; ROW is empty afterwards. */
OD_MUST_CHECK od_code od_vgi_request_make(const od_vgi_dialect *dialect, const char *method, od_row *row, od_msg **out,
                                          od_error *err);
/* Asks METHOD, which answers with one record: its bytes, appended to OUT (nothing, where there is no result). ROW is empty
 * afterwards. OD_E_NOT_IMPLEMENTED: the worker does not have the method. */
OD_MUST_CHECK od_code od_vgi_call(od_vgi *vgi, od_vgi_interrupt interrupt, const char *method, od_row *row, od_buf *out,
                                  od_error *err);

/* The same in DIALECT, whatever the worker speaks. */
OD_MUST_CHECK od_code od_vgi_call_as(od_vgi *vgi, const od_vgi_dialect *dialect, od_vgi_interrupt interrupt,
                                     const char *method, od_row *row, od_buf *out, od_error *err);

#endif

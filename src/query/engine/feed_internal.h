/* query/engine, inside: rows on their way from a connection to DuckDB's threads, between what runs the statement (feed.c), the queue
 * (feed_queue.c) and the threads that read (feed_reader.c). */
#ifndef OD_QUERY_ENGINE_FEED_INTERNAL_H
#define OD_QUERY_ENGINE_FEED_INTERNAL_H

#include "arrow/ipc_read.h"
#include "query/engine/engine_internal.h"

#define OD_FEED_BYTES ((size_t)64 << 20) /* that wait in a queue */
/* A run is what one thread reads in one go: as many rows as a row group of DuckDB has, so that each becomes one without being copied
 * once more; or less if they are wide, so that several threads find work in a full queue. */
#define OD_FEED_RUN_ROWS 122880
#define OD_FEED_RUN_BYTES ((size_t)24 << 20)
#define OD_FEED_WAIT_MS 2

/* ---- the queue: any thread ---- */

/* Some rows of a payload. */
typedef struct od_feed_piece {
    struct od_feed_piece *next;
    od_msg *owner;
    od_slice payload;
    uint64_t first, count;
    size_t bytes; /* that go out of the queue with it */
} od_feed_piece;

void od_feed_piece_free(od_feed_piece *piece); /* NULL allowed */

typedef struct od_feed_stretch {
    struct od_feed_stretch *next;
    uint64_t number;
    od_feed_piece *first, **last;
    bool whole; /* no more pieces come */
} od_feed_stretch;

typedef struct {
    void (*room)(void *arg); /* there is room again */
    void *room_arg;
    int64_t idle_ns;        /* 0: no limit */
    od_ipc_reader *counter; /* the pusher's */

    pthread_mutex_t lock; /* what follows */
    pthread_cond_t arrived;
    od_feed_stretch *runs, **last_run; /* that no reader has taken */
    od_feed_stretch *filling;          /* the last one, whoever has it */
    uint64_t next_number, filling_rows;
    size_t filling_bytes, bytes;
    bool full;   /* the pusher waits for room */
    bool ended;  /* nothing more comes */
    bool closed; /* what comes is dropped */
    int64_t heard_ns;
    od_code failure;
    od_error error;
} od_feed_queue;

OD_MUST_CHECK od_code od_feed_queue_init(od_feed_queue *queue, od_error *err);
void od_feed_queue_release(od_feed_queue *queue);
OD_MUST_CHECK od_code od_feed_queue_push(od_feed_queue *queue, od_msg *owner, od_slice payload, bool *room,
                                         od_error *err);
void od_feed_queue_end(od_feed_queue *queue);
/* The first failure counts. */
void od_feed_queue_fail(od_feed_queue *queue, const od_error *why);
/* Drops what is there, and what comes. */
void od_feed_queue_close(od_feed_queue *queue);
/* The next piece of *run, or of the next run nobody has taken, which *run becomes. *piece is the reader's; *run belongs to it until it
 * is NULL again or od_feed_queue_leave. */
od_stream_step od_feed_queue_take(od_feed_queue *queue, od_feed_stretch **run, od_feed_piece **piece);
void od_feed_queue_leave(od_feed_queue *queue, od_feed_stretch *run);
/* Waits until something has arrived, for a moment. */
void od_feed_queue_wait(od_feed_queue *queue);
/* Waits until the stream has ended; its failure, if it has one. */
OD_MUST_CHECK od_code od_feed_queue_wait_end(od_feed_queue *queue, od_error *err);
od_code od_feed_queue_failure(od_feed_queue *queue, od_error *err);

/* ---- readers ---- */

/* What the readers of a feed share. */
typedef struct {
    od_feed_queue *queue;
    od_format format;
    size_t column_count;
    duckdb_logical_type *types;
    const struct od_native_reader *native; /* NATIVE */
    duckdb_connection connection;
    const od_engine_host *host;
} od_feed_shape;

/* The functions of an od_stream_source whose arg is an od_feed_shape; ARG is what _open gave. */
void *od_feed_reader_open(void *shape);
void od_feed_reader_close(void *arg);
od_stream_step od_feed_reader_next(void *arg, void *chunk, void **other, uint64_t *run);
void od_feed_reader_wait(void *shape);

#endif

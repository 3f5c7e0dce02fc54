/* Payloads in order, cut into runs of rows that several threads read side by side. */
#include <string.h>
#include <time.h>

#include "arrow/ipc_read.h"
#include "base/alloc.h"
#include "base/deadline.h"
#include "base/thread.h"
#include "query/engine/feed_internal.h"
#include "base/banned.h"

void od_feed_piece_free(od_feed_piece *piece)
{
    if (piece == NULL)
        return;
    od_msg_unref(piece->owner);
    od_free(piece);
}

static void free_run(od_feed_stretch *run)
{
    while (run->first != NULL) {
        od_feed_piece *piece = run->first;
        run->first = piece->next;
        od_feed_piece_free(piece);
    }
    od_free(run);
}

od_code od_feed_queue_init(od_feed_queue *queue, od_error *err)
{
    queue->last_run = &queue->runs;
    queue->heard_ns = od_clock_ns();
    (void)pthread_mutex_init(&queue->lock, NULL);
    od_cond_init(&queue->arrived);
    return od_ipc_reader_create(&queue->counter, err);
}

/* Under the lock: drops all that no reader has. */
static void drop_all(od_feed_queue *queue)
{
    while (queue->runs != NULL) {
        od_feed_stretch *run = queue->runs;
        queue->runs = run->next;
        if (run == queue->filling)
            queue->filling = NULL;
        free_run(run);
    }
    queue->last_run = &queue->runs;
    queue->bytes = 0;
}

void od_feed_queue_release(od_feed_queue *queue)
{
    drop_all(queue);
    od_ipc_reader_free(queue->counter);
    (void)pthread_cond_destroy(&queue->arrived);
    (void)pthread_mutex_destroy(&queue->lock);
}

/* ---- what arrives ---- */

/* Under the lock: the run that the next row belongs to. */
static od_feed_stretch *current_run(od_feed_queue *queue)
{
    od_feed_stretch *run = queue->filling;
    if (run != NULL && queue->filling_rows < OD_FEED_RUN_ROWS && queue->filling_bytes < OD_FEED_RUN_BYTES)
        return run;
    od_feed_stretch *fresh = od_calloc(1, sizeof *fresh);
    if (fresh == NULL)
        return NULL;
    if (run != NULL)
        run->whole = true;
    fresh->number = queue->next_number++;
    fresh->last = &fresh->first;
    *queue->last_run = fresh;
    queue->last_run = &fresh->next;
    queue->filling = fresh;
    queue->filling_rows = 0;
    queue->filling_bytes = 0;
    return fresh;
}

/* Under the lock: rows of PAYLOAD from AT on, as many as its run takes; how many. 0: out of memory. */
static uint64_t add_piece(od_feed_queue *queue, od_msg *owner, od_slice payload, uint64_t at, uint64_t rows)
{
    od_feed_stretch *run = current_run(queue);
    od_feed_piece *piece = run != NULL ? od_calloc(1, sizeof *piece) : NULL;
    if (piece == NULL)
        return 0;
    uint64_t room = OD_FEED_RUN_ROWS - queue->filling_rows;
    uint64_t count = rows - at < room ? rows - at : room;
    *piece = (od_feed_piece){.owner = od_msg_ref(owner), .payload = payload, .first = at, .count = count};
    piece->bytes = at + count == rows ? payload.len : 0;
    *run->last = piece;
    run->last = &piece->next;
    queue->filling_rows += count;
    queue->filling_bytes += (size_t)((double)payload.len * (double)count / (double)rows);
    queue->bytes += piece->bytes;
    return count;
}

static od_code add_payload(od_feed_queue *queue, od_msg *owner, od_slice payload, uint64_t rows, od_error *err)
{
    for (uint64_t at = 0; at < rows;) {
        uint64_t count = add_piece(queue, owner, payload, at, rows);
        if (count == 0)
            return od_fail(err, OD_E_NO_MEMORY, "out of memory");
        at += count;
    }
    return OD_OK;
}

od_code od_feed_queue_push(od_feed_queue *queue, od_msg *owner, od_slice payload, bool *room, od_error *err)
{
    int64_t rows = 0;
    *room = true;
    od_code rc = od_ipc_reader_start(queue->counter, payload, NULL, err);
    if (rc == OD_OK)
        rc = od_ipc_reader_count(queue->counter, &rows, err);
    if (rc != OD_OK)
        return rc;
    (void)pthread_mutex_lock(&queue->lock);
    queue->heard_ns = od_clock_ns();
    if (!queue->closed)
        rc = add_payload(queue, owner, payload, (uint64_t)rows, err);
    queue->full = queue->bytes >= OD_FEED_BYTES;
    *room = !queue->full;
    (void)pthread_cond_broadcast(&queue->arrived);
    (void)pthread_mutex_unlock(&queue->lock);
    return rc;
}

void od_feed_queue_end(od_feed_queue *queue)
{
    (void)pthread_mutex_lock(&queue->lock);
    queue->ended = true;
    if (queue->filling != NULL)
        queue->filling->whole = true;
    queue->filling = NULL;
    (void)pthread_cond_broadcast(&queue->arrived);
    (void)pthread_mutex_unlock(&queue->lock);
}

/* Under the lock. */
static void fail(od_feed_queue *queue, const od_error *why)
{
    if (queue->failure == OD_OK) {
        queue->failure = why->code;
        queue->error = *why;
    }
    (void)pthread_cond_broadcast(&queue->arrived);
}

void od_feed_queue_fail(od_feed_queue *queue, const od_error *why)
{
    (void)pthread_mutex_lock(&queue->lock);
    fail(queue, why);
    (void)pthread_mutex_unlock(&queue->lock);
}

/* Under the lock: whether the pusher is to be told of room, which is done without it. */
static bool has_room(od_feed_queue *queue)
{
    bool tell = queue->full && queue->bytes <= OD_FEED_BYTES / 2;
    if (tell)
        queue->full = false;
    return tell;
}

void od_feed_queue_close(od_feed_queue *queue)
{
    (void)pthread_mutex_lock(&queue->lock);
    queue->closed = true;
    drop_all(queue);
    bool tell = has_room(queue);
    (void)pthread_mutex_unlock(&queue->lock);
    if (tell)
        queue->room(queue->room_arg);
}

/* ---- what is read ---- */

/* Under the lock: nobody has sent anything for too long. */
static bool is_idle(od_feed_queue *queue)
{
    od_error why;
    if (queue->idle_ns == 0 || queue->full || od_clock_ns() - queue->heard_ns <= queue->idle_ns)
        return false;
    (void)od_fail(&why, OD_E_TIMEOUT, "timed out: no rows came for %lld ms", (long long)(queue->idle_ns / 1000000));
    fail(queue, &why);
    return true;
}

/* Under the lock: what comes next for a reader of *run. */
static od_stream_step take(od_feed_queue *queue, od_feed_stretch **run, od_feed_piece **piece)
{
    if (queue->failure != OD_OK)
        return OD_STREAM_FAILED;
    if (*run != NULL && (*run)->first == NULL && (*run)->whole) {
        free_run(*run);
        *run = NULL;
    }
    if (*run == NULL && queue->runs != NULL) {
        *run = queue->runs;
        queue->runs = (*run)->next;
        if (queue->runs == NULL)
            queue->last_run = &queue->runs;
    }
    if (*run == NULL && queue->ended)
        return OD_STREAM_END;
    if (*run == NULL || (*run)->first == NULL)
        return is_idle(queue) ? OD_STREAM_FAILED : OD_STREAM_WAIT;
    *piece = (*run)->first;
    (*run)->first = (*piece)->next;
    if ((*run)->first == NULL)
        (*run)->last = &(*run)->first;
    queue->bytes -= (*piece)->bytes < queue->bytes ? (*piece)->bytes : queue->bytes;
    return OD_STREAM_ROWS;
}

od_stream_step od_feed_queue_take(od_feed_queue *queue, od_feed_stretch **run, od_feed_piece **piece)
{
    *piece = NULL;
    (void)pthread_mutex_lock(&queue->lock);
    od_stream_step step = take(queue, run, piece);
    bool tell = has_room(queue);
    (void)pthread_mutex_unlock(&queue->lock);
    if (tell)
        queue->room(queue->room_arg);
    return step;
}

void od_feed_queue_leave(od_feed_queue *queue, od_feed_stretch *run)
{
    if (run == NULL)
        return;
    (void)pthread_mutex_lock(&queue->lock);
    if (run == queue->filling)
        queue->filling = NULL;
    for (const od_feed_piece *piece = run->first; piece != NULL; piece = piece->next)
        queue->bytes -= piece->bytes < queue->bytes ? piece->bytes : queue->bytes;
    free_run(run);
    (void)pthread_mutex_unlock(&queue->lock);
}

/* Under the lock. */
static void wait_a_while(od_feed_queue *queue, int64_t ms)
{
    int64_t until = od_clock_ns() + ms * 1000000;
    struct timespec at = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
    (void)pthread_cond_timedwait(&queue->arrived, &queue->lock, &at);
}

void od_feed_queue_wait(od_feed_queue *queue)
{
    (void)pthread_mutex_lock(&queue->lock);
    /* Pieces of a run that somebody has taken are nothing for the others: those would not wait at all until it is read. */
    if (queue->failure == OD_OK && !queue->ended && queue->runs == NULL)
        wait_a_while(queue, OD_FEED_WAIT_MS);
    (void)pthread_mutex_unlock(&queue->lock);
}

od_code od_feed_queue_wait_end(od_feed_queue *queue, od_error *err)
{
    (void)pthread_mutex_lock(&queue->lock);
    while (queue->failure == OD_OK && !queue->ended && !is_idle(queue))
        wait_a_while(queue, 200);
    (void)pthread_mutex_unlock(&queue->lock);
    return od_feed_queue_failure(queue, err);
}

od_code od_feed_queue_failure(od_feed_queue *queue, od_error *err)
{
    (void)pthread_mutex_lock(&queue->lock);
    od_code rc = queue->failure;
    if (rc != OD_OK && err != NULL)
        *err = queue->error;
    (void)pthread_mutex_unlock(&queue->lock);
    return rc;
}

/* A thread's way through the pieces of a feed: payload by payload, chunk by chunk. */
#include "arrow/ipc_read.h"
#include "base/alloc.h"
#include "query/engine/arrow_read.h"
#include "query/engine/feed_internal.h"
#include "query/engine/native_read.h"
#include "base/banned.h"

typedef struct {
    const od_feed_shape *shape;
    od_ipc_reader *ipc;
    od_feed_stretch *run;
    od_feed_piece *piece; /* being read; NULL: none */
    uint64_t left;        /* of its rows */
    uint64_t skip;        /* rows before them that are in the payload */

    const od_batch *batch; /* NATIVE: of the payload, from `at` on */
    struct ArrowArray array;
    int64_t at, rows; /* of batch or array */
    duckdb_arrow_converted_schema arrow;
    od_arrow_part part;
    duckdb_data_chunk chunk;
} reader;

void *od_feed_reader_open(void *shape)
{
    reader *r = od_calloc(1, sizeof *r);
    if (r == NULL || od_ipc_reader_create(&r->ipc, NULL) != OD_OK) {
        od_free(r);
        return NULL;
    }
    r->shape = shape;
    return r;
}

static void release_chunk(reader *r)
{
    if (r->chunk != NULL)
        duckdb_destroy_data_chunk(&r->chunk);
    od_arrow_part_release(&r->part);
}

static void release_array(reader *r)
{
    if (r->array.release != NULL)
        r->array.release(&r->array);
    r->array.release = NULL;
}

static void leave_piece(reader *r)
{
    release_chunk(r);
    release_array(r);
    od_feed_piece_free(r->piece);
    r->piece = NULL;
    r->batch = NULL;
    r->at = r->rows = 0;
}

void od_feed_reader_close(void *arg)
{
    reader *r = arg;
    if (r == NULL)
        return;
    leave_piece(r);
    od_feed_queue_leave(r->shape->queue, r->run);
    if (r->arrow != NULL)
        duckdb_destroy_arrow_converted_schema(&r->arrow);
    od_ipc_reader_free(r->ipc);
    od_free(r);
}

/* ---- payloads ---- */

static od_code take_schema(reader *r, od_error *err)
{
    const od_feed_shape *shape = r->shape;
    const struct ArrowSchema *schema = od_ipc_reader_schema(r->ipc);
    if (shape->format == OD_FORMAT_NATIVE)
        return od_native_reader_check(shape->native, schema, err);
    if (schema->n_children != (int64_t)shape->column_count)
        return od_fail(err, OD_E_INVALID, "%lld columns are sent, the statement reads %zu",
                       (long long)schema->n_children, shape->column_count);
    if (r->arrow != NULL)
        duckdb_destroy_arrow_converted_schema(&r->arrow);
    return od_arrow_types(shape->connection, schema, &r->arrow, err);
}

static od_code enter_piece(reader *r, od_error *err)
{
    bool same;
    od_code rc = od_ipc_reader_start(r->ipc, r->piece->payload, &same, err);
    r->left = r->piece->count;
    r->skip = r->piece->first;
    return rc == OD_OK && !same ? take_schema(r, err) : rc;
}

/* The next batch of the payload, from its first row that counts. */
static od_code next_batch(reader *r, od_error *err)
{
    od_code rc;
    do {
        release_array(r);
        if (r->shape->format == OD_FORMAT_NATIVE) {
            rc = od_ipc_reader_next(r->ipc, &r->batch, err);
            r->rows = rc == OD_OK && r->batch != NULL ? r->batch->rows : -1;
        } else {
            rc = od_ipc_reader_next_array(r->ipc, r->piece->owner, &r->array, err);
            r->rows = rc == OD_OK && r->array.release != NULL ? r->array.length : -1;
        }
        if (rc == OD_OK && r->rows < 0)
            rc = od_fail(err, OD_E_CORRUPT, "the rows are damaged: a payload has fewer than its head says");
        if (rc != OD_OK)
            return rc;
        r->at = r->skip < (uint64_t)r->rows ? (int64_t)r->skip : r->rows;
        r->skip -= (uint64_t)r->at;
    } while (r->at == r->rows);
    return OD_OK;
}

/* ---- chunks ---- */

static od_code make_other(reader *r, int64_t count, void **other, od_error *err)
{
    od_code rc = od_arrow_part_make(&r->array, r->at, count, &r->part, err);
    if (rc == OD_OK)
        rc = od_arrow_part_chunk(&r->part, r->shape->host, r->shape->connection, r->arrow, &r->chunk, err);
    *other = r->chunk;
    return rc;
}

static od_code make_chunk(reader *r, duckdb_data_chunk chunk, void **other, od_error *err)
{
    od_code rc = OD_OK;
    release_chunk(r);
    if (r->at == r->rows)
        rc = next_batch(r, err);
    if (rc != OD_OK)
        return rc;
    int64_t count = r->rows - r->at < OD_ENGINE_ROWS ? r->rows - r->at : OD_ENGINE_ROWS;
    if ((uint64_t)count > r->left)
        count = (int64_t)r->left;
    rc = r->shape->format == OD_FORMAT_NATIVE ? od_native_reader_fill(r->shape->native, od_ipc_reader_schema(r->ipc),
                                                                      r->batch, (idx_t)r->at, (idx_t)count, chunk, err)
                                              : make_other(r, count, other, err);
    r->at += count;
    r->left -= (uint64_t)count;
    return rc;
}

od_stream_step od_feed_reader_next(void *arg, void *chunk, void **other, uint64_t *run)
{
    reader *r = arg;
    od_error err;
    od_code rc = OD_OK;
    if (r->piece != NULL && r->left == 0)
        leave_piece(r);
    if (r->piece == NULL) {
        od_stream_step step = od_feed_queue_take(r->shape->queue, &r->run, &r->piece);
        if (step != OD_STREAM_ROWS)
            return step;
        rc = enter_piece(r, &err);
    }
    if (rc == OD_OK)
        rc = make_chunk(r, chunk, other, &err);
    if (rc != OD_OK) {
        od_feed_queue_fail(r->shape->queue, &err);
        return OD_STREAM_FAILED;
    }
    *run = r->run->number;
    return OD_STREAM_ROWS;
}

void od_feed_reader_wait(void *shape)
{
    od_feed_queue_wait(((const od_feed_shape *)shape)->queue);
}

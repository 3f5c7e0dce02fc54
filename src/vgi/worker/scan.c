/* A scan over descriptors: a header, then a batch for each tick. */
#include <string.h>

#include "arrow/ipc_write.h"
#include "arrow/schema.h"
#include "vgi/worker/call.h"

#include "base/banned.h"

typedef struct {
    vgiw_peer *peer;
    vgiw_rows *rows;
    od_ipc_writer *writer;
    unsigned begin; /* OD_IPC_PART_SCHEMA until it is written */
    bool over;
    bool ended; /* no more rows go in, as is right */
} output;

static od_code flush(output *o, unsigned parts, od_error *err)
{
    od_msg *msg;
    od_code rc = od_ipc_writer_flush_part(o->writer, o->begin | parts, &msg, err);

    if (rc != OD_OK)
        return rc;
    o->begin = 0;
    rc = vgiw_peer_write(o->peer, od_vgi_msg_bytes(msg), err);
    od_msg_unref(msg);
    return rc;
}

/* WHY, as a batch without rows of the output's schema. */
static od_code complain(output *o, const od_error *why, od_error *err)
{
    vgiw_complaint complaint = {.count = 0};
    struct ArrowArray empty = {0};
    od_code rc;

    OD_TRY(vgiw_complaint_make(why, NULL, &complaint, err));
    OD_TRY(od_schema_empty_array(vgiw_rows_schema(o->rows), &empty, err));
    OD_TRY(od_ipc_writer_add_with(o->writer, &empty, complaint.pairs, complaint.count, err));
    OD_TRY(flush(o, OD_IPC_PART_END, err));
out:
    vgiw_complaint_release(&complaint);
    return rc;
}

/* One batch, for IN if rows go in, or the end. */
static od_code give(output *o, struct ArrowArray *in, od_error *err)
{
    struct ArrowArray array = {0};
    od_error why = {.code = OD_OK};
    bool again = false;
    od_code rc = vgiw_rows_take(o->rows) ? vgiw_rows_put(o->rows, in, &array, &again, &why)
                                         : vgiw_rows_next(o->rows, &array, &why);

    if (rc == OD_OK && array.release != NULL) {
        rc = od_ipc_writer_add_with(o->writer, &array, &vgiw_more_pair, again ? 1 : 0, &why);
        if (rc == OD_OK)
            return flush(o, 0, err);
    }
    o->over = true;
    return rc == OD_OK ? flush(o, OD_IPC_PART_END, err) : complain(o, &why, err);
}

/* Answers one batch of the input. */
static od_code answer(output *o, struct ArrowArray *in, bool cancel, od_error *err)
{
    if (o->over)
        return OD_OK;
    if (!cancel)
        return give(o, in, err);
    o->over = true;
    return flush(o, OD_IPC_PART_END, err);
}

/* Reads the input to its end; answers until the output has ended. */
static od_code pump(output *o, od_error *err)
{
    bool takes = vgiw_rows_take(o->rows), more = true, cancel;
    struct ArrowArray in = {0};
    od_error why = {.code = OD_OK};
    od_code rc;

    OD_TRY(vgiw_peer_begin_input(o->peer, err));
    if (takes && vgiw_rows_check(o->rows, vgiw_peer_input_schema(o->peer), &why) != OD_OK) {
        o->over = true;
        OD_TRY(complain(o, &why, err));
    }
    while (more) {
        OD_TRY(vgiw_peer_input(o->peer, takes ? &in : NULL, &more, &cancel, err));
        if (more)
            OD_TRY(answer(o, &in, cancel, err));
        if (in.release != NULL)
            in.release(&in);
    }
    if (!o->over)
        OD_TRY(flush(o, OD_IPC_PART_END, err));
    o->ended = why.code == OD_OK;
out:
    if (in.release != NULL)
        in.release(&in);
    return rc;
}

/* A client of the newer generation sends its input whatever became of the scan. */
static od_code refuse(vgiw_peer *peer, const od_vgi_dialect *dialect, const od_error *why, od_error *err)
{
    od_msg *msg = NULL;
    bool more = true, cancel;
    od_code rc;

    OD_TRY(vgiw_refusal(why, NULL, &msg, err));
    OD_TRY(vgiw_peer_write(peer, od_vgi_msg_bytes(msg), err));
    if (!dialect->reads_after_failure)
        goto out;
    OD_TRY(vgiw_peer_begin_input(peer, err));
    while (more)
        OD_TRY(vgiw_peer_input(peer, NULL, &more, &cancel, err));
out:
    od_msg_unref(msg);
    return rc;
}

od_code vgiw_scan(const od_vgiw *worker, vgiw_peer *peer, const od_vgi_dialect *dialect, const od_record *request,
                  od_error *err)
{
    const vgiw_call call = {.worker = worker, .dialect = dialect, .request = request};
    output o = {.peer = peer, .begin = OD_IPC_PART_SCHEMA};
    od_error why = {.code = OD_OK};
    od_msg *header = NULL;
    od_code rc = vgiw_rows_open(&call, request, &o.rows, &why);

    if (rc == OD_OK)
        rc = od_ipc_writer_create(vgiw_rows_schema(o.rows), &o.writer, &why);
    if (rc == OD_OK)
        rc = vgiw_header(dialect, o.rows, &header, &why);
    if (rc != OD_OK) {
        rc = refuse(peer, dialect, &why, err);
        goto out;
    }
    OD_TRY(vgiw_peer_write(peer, od_vgi_msg_bytes(header), err));
    OD_TRY(pump(&o, err));
out:
    od_ipc_writer_free(o.writer);
    if (o.ended)
        vgiw_rows_end(worker, o.rows);
    else
        vgiw_rows_close(o.rows);
    od_msg_unref(header);
    return rc;
}

#include "vgi/worker/http_scan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "arrow/schema.h"
#include "base/alloc.h"

#include "base/banned.h"

/* A cursor: the scan's id, and how many answers were given. It can be read as base64, too, as its name promises. */
enum { ID_LEN = 32, CURSOR_LEN = 48 };

typedef struct {
    vgiw_kept kept; /* its key is the id; done: at its end */
    char id[ID_LEN + 1];
    vgiw_rows *rows; /* NULL: at its end */
    od_ipc_writer *writer;
    uint64_t given;
    od_buf last; /* the last answer, for a client that did not get it */
} scan;

static void scan_free(vgiw_kept *kept)
{
    scan *s = (scan *)kept;

    if (s == NULL)
        return;
    od_ipc_writer_free(s->writer);
    vgiw_rows_close(s->rows);
    od_buf_release(&s->last);
    od_free(s);
}

od_code vgiw_scans_create(vgiw_shelf **out, od_error *err)
{
    return vgiw_shelf_create(scan_free, out, err);
}

/* ---- answers ---- */

static void at_end(scan *s)
{
    vgiw_rows_close(s->rows);
    s->rows = NULL;
    s->kept.done = true;
}

/* A batch without rows, with PAIRS. */
static od_code add_note(const scan *s, const struct ArrowSchema *schema, const od_ipc_pair *pairs, size_t count,
                        od_error *err)
{
    struct ArrowArray empty = {0};
    od_code rc = od_schema_empty_array(schema, &empty, err);

    return rc == OD_OK ? od_ipc_writer_add_with(s->writer, &empty, pairs, count, err) : rc;
}

static od_code add_cursor(const scan *s, const struct ArrowSchema *schema, od_error *err)
{
    char cursor[CURSOR_LEN + 1];
    const od_ipc_pair pairs[] = {{od_slice_str("vgi_rpc.stream_state#b64"), od_slice_of(cursor, CURSOR_LEN)},
                                 {od_slice_str("vgi_rpc.call_state#b64"), od_slice_of(s->id, ID_LEN)}};

    snprintf(cursor, sizeof cursor, "%s%016" PRIx64, s->id, s->given);
    return add_note(s, schema, pairs, s->given == 1 ? 2 : 1, err);
}

/* The next batch: of what goes in, IN (NULL: nothing does, as yet), if rows do. */
static od_code add_rows(scan *s, struct ArrowArray *in, bool *more, od_error *why)
{
    const od_ipc_pair pair = vgiw_more_pair;
    struct ArrowArray array = {0};
    bool again = false;
    od_code rc = OD_OK;

    *more = true;
    if (!vgiw_rows_take(s->rows))
        rc = vgiw_rows_next(s->rows, &array, why);
    else if (in != NULL)
        rc = vgiw_rows_put(s->rows, in, &array, &again, why);
    else
        return OD_OK;
    *more = rc == OD_OK && array.release != NULL;
    return *more ? od_ipc_writer_add_with(s->writer, &array, &pair, again ? 1 : 0, why) : rc;
}

/* What there is, and where it goes on; or the end; or what went wrong, WHY. */
static od_code add_batch(scan *s, struct ArrowArray *in, od_error *why, od_error *err)
{
    const struct ArrowSchema *schema = vgiw_rows_schema(s->rows);
    vgiw_complaint complaint = {.count = 0};
    bool more;
    od_code rc = add_rows(s, in, &more, why);

    s->given++;
    if (rc == OD_OK)
        return more ? add_cursor(s, schema, err) : OD_OK;
    OD_TRY(vgiw_complaint_make(why, NULL, &complaint, err));
    OD_TRY(add_note(s, schema, complaint.pairs, complaint.count, err));
out:
    vgiw_complaint_release(&complaint);
    return rc;
}

static od_code make_answer(scan *s, struct ArrowArray *in, od_error *err)
{
    od_error why = {.code = OD_OK};
    od_msg *msg = NULL;
    uint64_t before = s->given;
    od_code rc;

    s->last.len = 0;
    OD_TRY(add_batch(s, in, &why, err));
    OD_TRY(od_ipc_writer_flush(s->writer, &msg, err));
    OD_TRY(od_buf_append(&s->last, od_msg_data(msg), od_msg_len(msg), err));
    if (why.code != OD_OK || !vgiw_rows_more(s->rows))
        at_end(s);
out:
    od_msg_unref(msg);
    if (rc != OD_OK)
        s->given = before;
    return rc;
}

/* ---- requests ---- */

static void write_id(od_uuid execution, char out[ID_LEN + 1])
{
    for (size_t i = 0; i < sizeof execution.bytes; i++)
        snprintf(out + 2 * i, 3, "%02x", execution.bytes[i]);
}

/* The rows whose end REQUEST asks for went in by requests of their own: no more do. */
static void end_input(vgiw_shelf *scans, const vgiw_call *call)
{
    char id[ID_LEN + 1];
    od_uuid execution;
    scan *s;

    if (!vgiw_asks_end(call->request, &execution))
        return;
    write_id(execution, id);
    s = (scan *)vgiw_shelf_find(scans, od_slice_of(id, ID_LEN));
    if (s == NULL)
        return;
    vgiw_shelf_take(scans, &s->kept);
    if (s->rows != NULL)
        vgiw_rows_end(call->worker, s->rows);
    s->rows = NULL;
    scan_free(&s->kept);
}

static od_code start(const vgiw_call *call, scan *s, od_error *err)
{
    od_code rc;

    OD_TRY(vgiw_rows_open(call, call->request, &s->rows, err));
    write_id(vgiw_rows_execution(s->rows), s->id);
    memcpy(s->kept.key, s->id, ID_LEN);
    s->kept.key_len = ID_LEN;
    OD_TRY(od_ipc_writer_create(vgiw_rows_schema(s->rows), &s->writer, err));
out:
    return rc;
}

od_code vgiw_scans_begin(vgiw_shelf *scans, const vgiw_call *call, od_buf *answer, od_error *err)
{
    scan *s = od_calloc(1, sizeof *s);
    od_msg *header = NULL;
    od_code rc;

    if (s == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    end_input(scans, call);
    OD_TRY(start(call, s, err));
    OD_TRY(vgiw_header(call->dialect, s->rows, &header, err));
    OD_TRY(make_answer(s, NULL, err));
    OD_TRY(od_buf_append(answer, od_msg_data(header), od_msg_len(header), err));
    OD_TRY(od_buf_append(answer, s->last.data, s->last.len, err));
    if (s->rows != NULL) {
        OD_TRY(vgiw_shelf_enter(scans, &s->kept, err));
        vgiw_shelf_give_back(scans, &s->kept);
        s = NULL;
    }
out:
    if (rc != OD_OK)
        answer->len = 0;
    if (s != NULL)
        scan_free(&s->kept);
    od_msg_unref(header);
    return rc;
}

static bool read_count(od_slice digits, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < digits.len; i++) {
        int digit = od_hex_value(digits.data[i]);

        if (digit < 0)
            return false;
        *out = *out << 4 | (uint64_t)digit;
    }
    return true;
}

/* The answer after S was asked for; where rows go in, what REQUEST has. */
static od_code go_on(scan *s, od_record *request, od_error *err)
{
    struct ArrowSchema schema = {0};
    struct ArrowArray array = {0};
    od_code rc;

    if (!vgiw_rows_take(s->rows))
        return make_answer(s, NULL, err);
    od_record_take(request, &schema, &array);
    rc = vgiw_rows_check(s->rows, &schema, err);
    if (rc == OD_OK)
        rc = make_answer(s, &array, err);
    if (array.release != NULL)
        array.release(&array);
    od_schema_release(&schema);
    return rc;
}

od_code vgiw_scans_next(vgiw_shelf *scans, od_slice state, od_record *request, od_buf *answer, od_error *err)
{
    uint64_t count;
    scan *s = NULL;
    od_code rc = OD_OK;

    if (state.len == CURSOR_LEN && read_count(od_slice_of(state.data + ID_LEN, CURSOR_LEN - ID_LEN), &count))
        s = (scan *)vgiw_shelf_find(scans, od_slice_of(state.data, ID_LEN));
    if (s == NULL || count > s->given || count + 1 < s->given || (count == s->given && s->rows == NULL)) {
        if (s != NULL)
            vgiw_shelf_give_back(scans, &s->kept);
        return od_fail(err, OD_E_NOT_FOUND, "there is no such scan, or not any more");
    }
    if (count == s->given)
        rc = go_on(s, request, err);
    if (rc == OD_OK)
        rc = od_buf_append(answer, s->last.data, s->last.len, err);
    if (rc == OD_OK) {
        vgiw_shelf_give_back(scans, &s->kept);
    } else {
        vgiw_shelf_take(scans, &s->kept);
        scan_free(&s->kept);
    }
    return rc;
}

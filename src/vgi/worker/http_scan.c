#include "vgi/worker/http_scan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "arrow/schema.h"
#include "base/alloc.h"
#include "base/thread.h"
#include "base/uuid.h"

#include "base/banned.h"

/* A scan that nobody asks for goes after IDLE_MS; where there are MAX of them, after SHORT_MS, or at its end. */
enum { MAX = 256, IDLE_MS = 600000, SHORT_MS = 30000 };

/* A cursor: the scan's id, and how many batches were given. It can be read as base64, too, as its name promises. */
enum { ID_LEN = 32, CURSOR_LEN = 48 };

typedef struct scan {
    struct scan *next;
    char id[ID_LEN + 1];
    bool used; /* a thread is at it: what follows is its own */
    int64_t since_ns;
    vgiw_rows *rows; /* NULL: at its end */
    od_ipc_writer *writer;
    uint64_t given;
    od_buf last; /* the last answer, for a client that did not get it */
} scan;

struct vgiw_scans {
    pthread_mutex_t lock; /* of the list, and of `used` and `since_ns` of what is in it */
    pthread_cond_t unused;
    scan *list;
    size_t count;
};

static void scan_free(scan *s)
{
    if (s == NULL)
        return;
    od_ipc_writer_free(s->writer);
    vgiw_rows_close(s->rows);
    od_buf_release(&s->last);
    od_free(s);
}

od_code vgiw_scans_create(vgiw_scans **out, od_error *err)
{
    vgiw_scans *scans = od_calloc(1, sizeof *scans);

    *out = scans;
    if (scans == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    pthread_mutex_init(&scans->lock, NULL);
    od_cond_init(&scans->unused);
    return OD_OK;
}

void vgiw_scans_free(vgiw_scans *scans)
{
    if (scans == NULL)
        return;
    while (scans->list != NULL) {
        scan *next = scans->list->next;

        scan_free(scans->list);
        scans->list = next;
    }
    pthread_cond_destroy(&scans->unused);
    pthread_mutex_destroy(&scans->lock);
    od_free(scans);
}

/* ---- the list ---- */

/* Takes those that nobody asked for since OLDEST, and ENDED ones, out of the list, as a list of their own. */
static scan *cut(vgiw_scans *scans, int64_t oldest, bool ended)
{
    scan *out = NULL;

    for (scan **at = &scans->list; *at != NULL;) {
        scan *s = *at;

        if (s->used || (s->since_ns > oldest && !(ended && s->rows == NULL))) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        scans->count--;
        s->next = out;
        out = s;
    }
    return out;
}

static void free_all(scan *list)
{
    while (list != NULL) {
        scan *next = list->next;

        scan_free(list);
        list = next;
    }
}

/* Puts S, which is used, into the list. */
static od_code enter(vgiw_scans *scans, scan *s, od_error *err)
{
    int64_t now = od_clock_ns();
    scan *old, *crowd = NULL;
    bool room;

    pthread_mutex_lock(&scans->lock);
    old = cut(scans, now - IDLE_MS * INT64_C(1000000), false);
    if (scans->count >= MAX)
        crowd = cut(scans, now - SHORT_MS * INT64_C(1000000), true);
    room = scans->count < MAX;
    if (room) {
        s->next = scans->list;
        scans->list = s;
        scans->count++;
    }
    pthread_mutex_unlock(&scans->lock);
    free_all(old);
    free_all(crowd);
    return room ? OD_OK : od_fail(err, OD_E_BUSY, "%d scans are under way", MAX);
}

/* Waits for who is at it. NULL: there is none. */
static scan *find(vgiw_scans *scans, od_slice id)
{
    scan *s;

    pthread_mutex_lock(&scans->lock);
    for (;;) {
        for (s = scans->list; s != NULL; s = s->next)
            if (od_slice_equal(id, od_slice_of(s->id, ID_LEN)))
                break;
        if (s == NULL || !s->used)
            break;
        (void)od_cond_wait(&scans->unused, &scans->lock, OD_DEADLINE_NEVER);
    }
    if (s != NULL)
        s->used = true;
    pthread_mutex_unlock(&scans->lock);
    return s;
}

static void give_back(vgiw_scans *scans, scan *s)
{
    pthread_mutex_lock(&scans->lock);
    s->used = false;
    s->since_ns = od_clock_ns();
    pthread_cond_broadcast(&scans->unused);
    pthread_mutex_unlock(&scans->lock);
}

static void leave(vgiw_scans *scans, scan *s)
{
    scan **at = &scans->list;

    pthread_mutex_lock(&scans->lock);
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    scans->count--;
    pthread_cond_broadcast(&scans->unused);
    pthread_mutex_unlock(&scans->lock);
    scan_free(s);
}

/* ---- answers ---- */

static void at_end(scan *s)
{
    vgiw_rows_close(s->rows);
    s->rows = NULL;
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

/* A batch, and where it goes on; or the end; or what went wrong, WHY. */
static od_code add_batch(scan *s, od_error *why, od_error *err)
{
    const struct ArrowSchema *schema = vgiw_rows_schema(s->rows);
    vgiw_complaint complaint = {.count = 0};
    struct ArrowArray array;
    od_code rc = vgiw_rows_next(s->rows, &array, why);
    bool more = rc == OD_OK && array.release != NULL;

    s->given++;
    if (more)
        rc = od_ipc_writer_add(s->writer, &array, why);
    if (rc == OD_OK)
        return more ? add_cursor(s, schema, err) : OD_OK;
    OD_TRY(vgiw_complaint_make(why, NULL, &complaint, err));
    OD_TRY(add_note(s, schema, complaint.pairs, complaint.count, err));
out:
    vgiw_complaint_release(&complaint);
    return rc;
}

static od_code make_answer(scan *s, od_error *err)
{
    od_error why = {.code = OD_OK};
    bool more;
    od_msg *msg = NULL;
    uint64_t before = s->given;
    od_code rc;

    s->last.len = 0;
    OD_TRY(add_batch(s, &why, err));
    OD_TRY(od_ipc_writer_flush(s->writer, &msg, err));
    OD_TRY(od_buf_append(&s->last, od_msg_data(msg), od_msg_len(msg), err));
    more = why.code == OD_OK && vgiw_rows_more(s->rows);
    if (!more)
        at_end(s);
out:
    od_msg_unref(msg);
    if (rc != OD_OK)
        s->given = before;
    return rc;
}

/* ---- requests ---- */

static od_code start(const vgiw_call *call, scan *s, od_error *err)
{
    const od_uuid id = od_uuid_random();
    od_code rc;

    s->used = true;
    for (size_t i = 0; i < sizeof id.bytes; i++)
        snprintf(s->id + 2 * i, 3, "%02x", id.bytes[i]);
    OD_TRY(vgiw_rows_open(call, call->request, &s->rows, err));
    OD_TRY(od_ipc_writer_create(vgiw_rows_schema(s->rows), &s->writer, err));
out:
    return rc;
}

od_code vgiw_scans_begin(vgiw_scans *scans, const vgiw_call *call, od_buf *answer, od_error *err)
{
    scan *s = od_calloc(1, sizeof *s);
    od_msg *header = NULL;
    od_code rc;

    if (s == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    OD_TRY(start(call, s, err));
    OD_TRY(vgiw_header(call->dialect, &header, err));
    OD_TRY(make_answer(s, err));
    OD_TRY(od_buf_append(answer, od_msg_data(header), od_msg_len(header), err));
    OD_TRY(od_buf_append(answer, s->last.data, s->last.len, err));
    if (s->rows != NULL) {
        OD_TRY(enter(scans, s, err));
        give_back(scans, s);
        s = NULL;
    }
out:
    if (rc != OD_OK)
        answer->len = 0;
    scan_free(s);
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

od_code vgiw_scans_next(vgiw_scans *scans, od_slice state, od_buf *answer, od_error *err)
{
    uint64_t count;
    scan *s = NULL;
    od_code rc = OD_OK;

    if (state.len == CURSOR_LEN && read_count(od_slice_of(state.data + ID_LEN, CURSOR_LEN - ID_LEN), &count))
        s = find(scans, od_slice_of(state.data, ID_LEN));
    if (s == NULL || count > s->given || count + 1 < s->given || (count == s->given && s->rows == NULL)) {
        if (s != NULL)
            give_back(scans, s);
        return od_fail(err, OD_E_NOT_FOUND, "there is no such scan, or not any more");
    }
    if (count == s->given)
        rc = make_answer(s, err);
    if (rc == OD_OK)
        rc = od_buf_append(answer, s->last.data, s->last.len, err);
    if (rc != OD_OK)
        leave(scans, s);
    else
        give_back(scans, s);
    return rc;
}

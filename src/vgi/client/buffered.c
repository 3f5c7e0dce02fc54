/* Functions that keep all rows before they give any. */
#include <string.h>

#include "arrow/schema.h"
#include "base/alloc.h"
#include "vgi/client/decode.h"
#include "vgi/client/scan_internal.h"

#include "base/banned.h"

static const char sink_phase[] = "TABLE_BUFFERING", source_phase[] = "TABLE_BUFFERING_FINALIZE";

/* How long the worker may take to let go. */
enum { LET_GO_MS = 2000 };

struct od_vgi_buffered {
    od_vgi *vgi;
    od_vgi_bound *bound;
    od_vgi_interrupt interrupt;
    od_buf function, schema, attach, transaction;
    bool has_schema;
    od_vgi_scan *sink; /* started, and read to its end: it has no rows */
    od_buf states;     /* of the calls, one behind the other: */
    od_buf state_ends; /* size_t each */
    int64_t batches;
    od_vgi_answer *answer; /* owns the parts */
    od_vgi_texts parts;
};

bool od_vgi_scan_is_buffered(const od_vgi_scan *scan)
{
    return scan->phase == sink_phase || scan->phase == source_phase;
}

/* ---- the start ---- */

static od_code start(od_vgi_buffered *b, od_error *err)
{
    struct ArrowArray array = {0};
    od_code rc;

    OD_TRY(od_vgi_scan_create(b->vgi, b->bound, b->interrupt, NULL, &b->sink, err));
    OD_TRY(od_schema_copy(&b->bound->schema, &b->sink->schema, err));
    b->sink->phase = sink_phase;
    OD_TRY(od_vgi_scan_start(b->sink, NULL, err));
    b->sink->over = false;
    do {
        OD_TRY(od_vgi_scan_next(b->sink, &array, err));
        if (array.release != NULL && array.length > 0) {
            array.release(&array);
            OD_TRY(od_fail(err, OD_E_PROTOCOL, "rows come before any went in"));
        }
        if (array.release != NULL)
            array.release(&array);
    } while (!b->sink->over);
    od_vgi_session_give(b->vgi, b->sink->session, !b->sink->broken);
    b->sink->session = NULL;
out:
    return rc;
}

od_code od_vgi_buffered_open(od_vgi *vgi, const od_vgi_context *context, const od_vgi_bound *bound,
                             const char *function, const char *schema, od_vgi_buffered **out, od_error *err)
{
    od_vgi_buffered *b = od_calloc(1, sizeof *b);
    od_code rc;

    *out = NULL;
    if (b == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    b->vgi = od_vgi_ref(vgi);
    b->bound = od_vgi_bound_ref((od_vgi_bound *)(uintptr_t)bound);
    b->interrupt = context->interrupt;
    b->has_schema = schema != NULL;
    OD_TRY(od_buf_append(&b->function, function, strlen(function), err));
    if (schema != NULL)
        OD_TRY(od_buf_append(&b->schema, schema, strlen(schema), err));
    OD_TRY(od_buf_append(&b->attach, context->attach.data, context->attach.len, err));
    OD_TRY(od_buf_append(&b->transaction, context->transaction.data, context->transaction.len, err));
    if (od_buf_cstr(&b->function) == NULL || od_buf_cstr(&b->schema) == NULL)
        OD_TRY(od_fail(err, OD_E_NO_MEMORY, "out of memory"));
    OD_TRY(start(b, err));
    *out = b;
    b = NULL;
out:
    if (rc != OD_OK)
        od_error_prefix(err, "vgi init");
    od_vgi_buffered_close(b);
    return rc;
}

/* ---- calls ---- */

/* A request with what all three have. */
static od_code begin(od_vgi_buffered *b, od_row **out, od_error *err)
{
    const od_vgi_dialect *dialect = b->sink->dialect;
    od_code rc = od_row_create(out, err);

    if (rc != OD_OK)
        return rc;
    od_row_text(*out, "function_name", OD_ROW_NOT_NULL, od_vgi_bytes_of(&b->function));
    od_row_binary(*out, "execution_id", OD_ROW_NOT_NULL, od_vgi_bytes_of(&b->sink->execution));
    od_row_binary(*out, "attach_opaque_data", OD_ROW_NULLABLE, od_vgi_bytes_of(&b->attach));
    od_row_binary(*out, "transaction_id", OD_ROW_NULLABLE, od_vgi_bytes_of(&b->transaction));
    od_vgi_put_schema(dialect, *out, "schema_path", "schema_name", b->has_schema ? (const char *)b->schema.data : NULL,
                      OD_ROW_NULLABLE);
    return OD_OK;
}

static od_code ask(od_vgi_buffered *b, od_vgi_interrupt interrupt, const char *method, od_row *inner, od_buf *answer,
                   od_error *err)
{
    od_row *row = NULL;
    od_code rc;

    OD_TRY(od_row_create(&row, err));
    OD_TRY(od_vgi_put_request(row, inner, err));
    OD_TRY(od_vgi_call(b->vgi, interrupt, method, row, answer, err));
out:
    if (rc != OD_OK)
        od_error_prefix(err, "vgi %s", method);
    od_row_free(row);
    return rc;
}

od_code od_vgi_buffered_put(od_vgi_buffered *b, const struct ArrowSchema *input, struct ArrowArray *rows, od_error *err)
{
    od_row *inner = NULL;
    od_msg *batch = NULL;
    od_record *record = NULL;
    od_buf answer = {0};
    od_slice state;
    od_code rc;

    OD_TRY(od_vgi_batch_write(input, rows, &batch, err));
    OD_TRY(begin(b, &inner, err));
    od_row_binary(inner, "input_batch", OD_ROW_NOT_NULL, od_vgi_msg_bytes(batch));
    od_row_int64(inner, "batch_index", OD_ROW_NULLABLE, &b->batches);
    OD_TRY(ask(b, b->interrupt, "table_buffering_process", inner, &answer, err));
    OD_TRY(od_vgi_record_one(od_vgi_bytes_of(&answer), &record, err));
    OD_TRY(od_cell_bytes(od_vgi_cell(record, "state_id"), &state, err));
    OD_TRY(od_buf_append(&b->states, state.data, state.len, err));
    OD_TRY(od_buf_append(&b->state_ends, &b->states.len, sizeof b->states.len, err));
    b->batches++;
out:
    if (rows->release != NULL)
        rows->release(rows);
    od_record_free(record);
    od_row_free(inner);
    od_msg_unref(batch);
    od_buf_release(&answer);
    return rc;
}

/* The states as a list of slices; to be freed. */
static od_code list_states(const od_vgi_buffered *b, od_slice **out, od_error *err)
{
    size_t n = (size_t)b->batches, from = 0;
    od_slice *items = od_calloc(n + 1, sizeof *items);

    *out = items;
    if (items == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < n; i++) {
        size_t end;

        memcpy(&end, b->state_ends.data + i * sizeof end, sizeof end);
        items[i] = od_slice_of(b->states.len > 0 ? b->states.data + from : (const uint8_t *)"", end - from);
        from = end;
    }
    return OD_OK;
}

od_code od_vgi_buffered_combine(od_vgi_buffered *b, size_t *parts, od_error *err)
{
    od_row *inner = NULL;
    od_slice *states = NULL;
    od_record *record = NULL;
    od_buf answer = {0};
    od_code rc;

    *parts = 0;
    if (b->answer != NULL)
        return od_fail(err, OD_E_PRECONDITION, "the rows have been combined");
    OD_TRY(list_states(b, &states, err));
    OD_TRY(begin(b, &inner, err));
    od_row_binary_list(inner, "state_ids", OD_ROW_NOT_NULL, states, (size_t)b->batches);
    OD_TRY(ask(b, b->interrupt, "table_buffering_combine", inner, &answer, err));
    OD_TRY(od_vgi_record_one(od_vgi_bytes_of(&answer), &record, err));
    OD_TRY(od_vgi_answer_create(&b->answer, err));
    OD_TRY(od_vgi_answer_texts(b->answer, od_vgi_cell(record, "finalize_state_ids"), &b->parts, err));
    *parts = b->parts.count;
out:
    od_record_free(record);
    od_row_free(inner);
    od_free(states);
    od_buf_release(&answer);
    return rc;
}

/* ---- what comes ---- */

od_code od_vgi_buffered_scan(od_vgi_buffered *b, size_t part, od_vgi_scan **out, od_error *err)
{
    od_vgi_scan *scan = NULL;
    od_code rc;

    *out = NULL;
    if (part >= b->parts.count)
        return od_fail(err, OD_E_INVALID, "part %zu of %zu", part, b->parts.count);
    OD_TRY(od_vgi_scan_create(b->vgi, b->bound, b->interrupt, NULL, &scan, err));
    OD_TRY(od_schema_copy(&b->bound->schema, &scan->schema, err));
    scan->phase = source_phase;
    OD_TRY(od_buf_append(&scan->kept, b->parts.items[part].data, b->parts.items[part].len, err));
    OD_TRY(od_vgi_scan_start(scan, b->sink, err));
    scan->over = false;
    *out = scan;
    scan = NULL;
out:
    if (rc != OD_OK)
        od_error_prefix(err, "vgi init");
    od_vgi_scan_close(scan);
    return rc;
}

static bool too_late(void *arg)
{
    return od_deadline_passed(*(const od_deadline *)arg);
}

static void let_go(od_vgi_buffered *b)
{
    od_deadline deadline = od_deadline_in_ms(LET_GO_MS);
    od_row *inner = NULL;
    od_buf answer = {0};

    if (begin(b, &inner, NULL) == OD_OK)
        (void)ask(b, (od_vgi_interrupt){too_late, &deadline}, "table_buffering_destructor", inner, &answer, NULL);
    od_row_free(inner);
    od_buf_release(&answer);
}

void od_vgi_buffered_close(od_vgi_buffered *b)
{
    if (b == NULL)
        return;
    if (b->sink != NULL && b->sink->execution.len > 0)
        let_go(b);
    od_vgi_scan_close(b->sink);
    od_vgi_answer_free(b->answer);
    od_buf_release(&b->function);
    od_buf_release(&b->schema);
    od_buf_release(&b->attach);
    od_buf_release(&b->transaction);
    od_buf_release(&b->states);
    od_buf_release(&b->state_ends);
    od_vgi_bound_free(b->bound);
    od_vgi_unref(b->vgi);
    od_free(b);
}

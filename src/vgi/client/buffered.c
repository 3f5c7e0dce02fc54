/* Functions that keep all rows before they give any. */
#include <string.h>

#include "arrow/schema.h"
#include "base/alloc.h"
#include "vgi/client/decode.h"
#include "vgi/client/execution.h"
#include "vgi/client/scan_internal.h"

#include "base/banned.h"

static const char sink_phase[] = "TABLE_BUFFERING", source_phase[] = "TABLE_BUFFERING_FINALIZE";

struct od_vgi_buffered {
    od_vgi *vgi;
    od_vgi_bound *bound;
    od_vgi_interrupt interrupt;
    od_vgi_execution execution;
    od_buf transaction;
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
    OD_TRY(od_buf_append(&b->execution.id, b->sink->execution.data, b->sink->execution.len, err));
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
    OD_TRY(od_vgi_execution_init(&b->execution, vgi, context, function, schema, err));
    OD_TRY(od_buf_append(&b->transaction, context->transaction.data, context->transaction.len, err));
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
    od_code rc = od_vgi_execution_request(&b->execution, out, err);

    if (rc == OD_OK)
        od_row_binary(*out, "transaction_id", OD_ROW_NULLABLE, od_vgi_bytes_of(&b->transaction));
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
    OD_TRY(od_vgi_execution_ask(&b->execution, b->interrupt, "table_buffering_process", inner, &answer, err));
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
    OD_TRY(od_vgi_execution_ask(&b->execution, b->interrupt, "table_buffering_combine", inner, &answer, err));
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

void od_vgi_buffered_close(od_vgi_buffered *b)
{
    od_row *inner = NULL;

    if (b == NULL)
        return;
    if (b->execution.id.len > 0 && begin(b, &inner, NULL) == OD_OK)
        od_vgi_execution_let_go(&b->execution, "table_buffering_destructor", inner);
    od_row_free(inner);
    od_vgi_scan_close(b->sink);
    od_vgi_answer_free(b->answer);
    od_vgi_execution_release(&b->execution);
    od_buf_release(&b->transaction);
    od_buf_release(&b->states);
    od_buf_release(&b->state_ends);
    od_vgi_bound_free(b->bound);
    od_vgi_unref(b->vgi);
    od_free(b);
}

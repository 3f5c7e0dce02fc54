/* What the catalogs of both places know of tables: one question to each. */
#include <string.h>

#include "arrow/ipc_read.h"
#include "base/alloc.h"
#include "base/ident.h"
#include "query/gateway/hybrid/run_internal.h"
#include "base/banned.h"

/* A relation that a name may mean there: `a.t` names a schema or a database. A view's size is not known. */
static const char QUESTION[] =
    "SELECT w.i::BIGINT, max(t.size)::BIGINT FROM wanted w JOIN ("
    "SELECT database_name d, schema_name s, table_name n, estimated_size * column_count size FROM duckdb_tables() "
    "UNION ALL SELECT database_name, schema_name, view_name, 0 FROM duckdb_views()) t ON lower(t.n) = lower(w.n) AND "
    "CASE WHEN w.d <> '' THEN lower(t.d) = lower(w.d) AND lower(t.s) = lower(w.s) "
    "WHEN w.s <> '' THEN (lower(t.s) = lower(w.s) AND t.d IN (current_database(), 'system', 'temp')) OR "
    "(lower(t.d) = lower(w.s) AND t.s = 'main') "
    "ELSE t.d IN (current_database(), 'system', 'temp') END GROUP BY ALL";

static od_code write_question(plan_node *const *scans, size_t count, od_buf *sql, od_error *err)
{
    od_code rc;

    OD_TRY(od_buf_printf(sql, err, "WITH wanted(i, d, s, n) AS (VALUES "));
    for (size_t i = 0; i < count; i++) {
        OD_TRY(od_buf_printf(sql, err, "%s(%zu, ", i ? ", " : "", i));
        OD_TRY(od_quote_literal(sql, od_slice_str(scans[i]->catalog), err));
        OD_TRY(od_buf_printf(sql, err, ", "));
        OD_TRY(od_quote_literal(sql, od_slice_str(scans[i]->schema), err));
        OD_TRY(od_buf_printf(sql, err, ", "));
        OD_TRY(od_quote_literal(sql, od_slice_str(scans[i]->name), err));
        OD_TRY(od_buf_printf(sql, err, ")"));
    }
    OD_TRY(od_buf_printf(sql, err, ") %s", QUESTION));
out:
    return rc;
}

static int64_t value_at(const od_column *column, int64_t row)
{
    int64_t value;

    memcpy(&value, column->data + (size_t)row * sizeof value, sizeof value);
    return value;
}

static od_code take_answer(od_ipc_reader *reader, od_slice payload, placement side, plan_node *const *scans,
                           size_t count, od_error *err)
{
    const od_batch *batch;
    od_code rc;

    OD_TRY(od_ipc_reader_start(reader, payload, NULL, err));
    OD_TRY(od_ipc_reader_next(reader, &batch, err));
    for (; batch && rc == OD_OK; rc = od_ipc_reader_next(reader, &batch, err)) {
        for (int64_t row = 0; row < batch->rows && batch->column_count == 2; row++) {
            uint64_t i = (uint64_t)value_at(&batch->columns[0], row);
            int64_t size = value_at(&batch->columns[1], row);

            if (i >= count)
                continue;
            *(side == PLACE_LOCAL ? &scans[i]->facts.local : &scans[i]->facts.remote) = true;
            *(side == PLACE_LOCAL ? &scans[i]->facts.local_size : &scans[i]->facts.remote_size) =
                size > 0 ? (uint64_t)size : 0;
        }
    }
out:
    return rc;
}

static od_code look(hybrid_run *run, placement side, plan_node *const *scans, size_t count, od_error *err)
{
    od_ipc_reader *reader = NULL;
    od_buf sql = {0};
    source from = {0};
    site at = {0};
    od_msg *owner = NULL;
    od_slice payload;
    od_code rc;

    OD_TRY(od_ipc_reader_create(&reader, err));
    OD_TRY(write_question(scans, count, &sql, err));
    OD_TRY(site_open(run, side, NULL, false, &at, err));
    OD_TRY(
        source_open(&at, &(site_query){.sql = od_slice_of(sql.data, sql.len), .format = OD_FORMAT_NATIVE}, &from, err));
    OD_TRY(source_next(&from, &owner, &payload, err));
    while (owner) {
        rc = take_answer(reader, payload, side, scans, count, err);
        od_msg_unref(owner);
        owner = NULL;
        if (rc == OD_OK)
            rc = source_next(&from, &owner, &payload, err);
        if (rc != OD_OK)
            break;
    }

out:
    source_close(&from);
    site_close(&at);
    od_buf_release(&sql);
    od_ipc_reader_free(reader);
    return rc;
}

od_code facts_local(void *run, plan_node *const *scans, size_t count, od_error *err)
{
    return look(run, PLACE_LOCAL, scans, count, err);
}

od_code facts_remote(void *run, plan_node *const *scans, size_t count, od_error *err)
{
    return look(run, PLACE_REMOTE, scans, count, err);
}

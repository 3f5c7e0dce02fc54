/* What the engine's tests share: running SQL on an engine, and a database of the test's own to compare with. */
#ifndef OD_TEST_ENGINE_HELPER_H
#define OD_TEST_ENGINE_HELPER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <duckdb.h>

#include "arrow/ipc_read.h"
#include "base/alloc.h"
#include "query/engine.h"

#define assert_ok(expr)                             \
    do {                                            \
        err.message[0] = '\0';                      \
        od_code code_ = (expr);                     \
        if (code_ != OD_OK)                         \
            fail_msg("%s: %s", #expr, err.message); \
    } while (0)

static od_error err;

static inline od_engine *open_engine(const od_engine_options *options)
{
    od_engine *engine;
    assert_ok(od_engine_open(options, &engine, &err));
    return engine;
}

static inline od_engine *memory_engine(void)
{
    return open_engine(&(od_engine_options){.threads = 2});
}

static inline od_code try_start(od_engine *engine, const char *sql, od_execution **out)
{
    od_execution_request request = {.sql = od_slice_str(sql), .format = OD_FORMAT_NATIVE};
    return od_execution_start(engine, &request, out, &err);
}

/* Runs SQL to its end; the first error's code. */
static inline od_code run_as(od_engine *engine, const char *sql, od_format format)
{
    od_execution *execution;
    od_execution_request request = {.sql = od_slice_str(sql), .format = format};
    od_code rc = od_execution_start(engine, &request, &execution, &err);
    while (rc == OD_OK) {
        od_msg *msg;
        rc = od_execution_next(execution, &msg, &err);
        if (rc != OD_OK || msg == NULL)
            break;
        od_msg_unref(msg);
    }
    od_execution_end(execution);
    return rc;
}

static inline od_code run(od_engine *engine, const char *sql)
{
    return run_as(engine, sql, OD_FORMAT_NATIVE);
}

/* The one BIGINT (or other 8-byte integer) that SQL gives, in NATIVE. */
static inline int64_t ask(od_engine *engine, const char *sql)
{
    od_execution *execution;
    od_msg *msg;
    od_ipc_reader *reader;
    const od_batch *batch;
    int64_t value;
    assert_ok(try_start(engine, sql, &execution));
    assert_ok(od_execution_next(execution, &msg, &err));
    assert_ok(od_ipc_reader_create(&reader, &err));
    assert_ok(od_ipc_reader_start(reader, od_slice_of(od_msg_data(msg), od_msg_len(msg)), NULL, &err));
    assert_string_equal(od_ipc_reader_schema(reader)->children[0]->format, "l");
    assert_ok(od_ipc_reader_next(reader, &batch, &err));
    assert_non_null(batch);
    assert_int_equal(batch->rows, 1);
    memcpy(&value, batch->columns[0].data, sizeof value);
    od_ipc_reader_free(reader);
    od_msg_unref(msg);
    od_execution_end(execution);
    return value;
}

#define assert_fails(engine, sql, code)                                                       \
    do {                                                                                      \
        od_code got_ = run(engine, sql);                                                      \
        if (got_ != (code))                                                                   \
            fail_msg("%s: %s instead of %s: %s", sql, od_code_name(got_), od_code_name(code), \
                     got_ ? err.message : "");                                                \
    } while (0)

#endif

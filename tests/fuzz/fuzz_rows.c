/* Rows and parameters from any bytes, into DuckDB: the first byte says as which. What is taken is read by DuckDB to its last byte. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "query/engine.h"
#include "server/host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static od_engine *engine;

/* Of every layout of NATIVE; tests/fuzz/corpus/rows has rows of them. */
static const char *const columns[][2] = {
    {"b", "BOOLEAN"},
    {"d", "DECIMAL(9,3)"},
    {"h", "HUGEINT"},
    {"v", "VARCHAR"},
    {"li", "BIGINT[]"},
    {"st", "STRUCT(a BIGINT, b VARCHAR[])"},
    {"mp", "MAP(BIGINT, VARCHAR)"},
    {"ar", "BIGINT[3]"},
    {"un", "UNION(n BIGINT, s VARCHAR)"},
    {"en", "ENUM('one', 'two')"},
    {"bi", "BIT"},
    {"bn", "BIGNUM"},
    {"ge", "GEOMETRY"},
    {"va", "VARIANT"},
};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

static void run(const char *sql, od_slice parameters)
{
    od_execution_request request = {.sql = od_slice_str(sql), .format = OD_FORMAT_NATIVE, .parameters = parameters};
    od_execution *execution;
    od_code rc = od_execution_start(engine, &request, &execution, NULL);
    while (rc == OD_OK) {
        od_msg *msg;
        rc = od_execution_next(execution, &msg, NULL);
        if (rc != OD_OK || msg == NULL)
            break;
        od_msg_unref(msg);
    }
    od_execution_end(execution);
}

static void has_room(void *arg)
{
    (void)arg;
}

static void feed(od_slice payload, od_format format)
{
    od_staging_column list[COLUMNS];
    od_feed_request request = {.table = od_slice_str("stage"),
                               .columns = list,
                               .column_count = COLUMNS,
                               .format = format,
                               .statement = od_slice_str("INSERT INTO t FROM stage"),
                               .room = has_room};
    uint64_t rows, version;
    od_feed *feed;
    od_msg *msg;
    bool room;
    od_error err;
    for (size_t i = 0; i < COLUMNS; i++)
        list[i] = (od_staging_column){od_slice_str(columns[i][0]), od_slice_str(columns[i][1])};
    if (od_msg_create(payload.len, 0, &msg, NULL) != OD_OK)
        return;
    memcpy(od_msg_data(msg), payload.data, payload.len);
    if (od_feed_open(engine, &request, &feed, &err) != OD_OK)
        abort();
    if (od_feed_push(feed, msg, od_slice_of(od_msg_data(msg), payload.len), &room, &err) != OD_OK)
        od_feed_fail(feed, &err);
    od_feed_end(feed);
    if (od_feed_run(feed, &rows, &version, NULL) == OD_OK) {
        run("SELECT md5(t::VARCHAR) FROM t", (od_slice){0});
        run("TRUNCATE t", (od_slice){0});
    }
    od_feed_free(feed);
    od_msg_unref(msg);
}

static void open_engine(void)
{
    char sql[1000] = "CREATE TABLE t (";
    if (od_engine_open(&(od_engine_options){.threads = 1, .host = od_server_host()}, &engine, NULL) != OD_OK)
        abort();
    for (size_t i = 0; i < COLUMNS; i++)
        (void)snprintf(sql + strlen(sql), sizeof sql - strlen(sql), "%s%s %s", i == 0 ? "" : ", ", columns[i][0],
                       columns[i][1]);
    (void)snprintf(sql + strlen(sql), sizeof sql - strlen(sql), ")");
    run(sql, (od_slice){0});
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (engine == NULL)
        open_engine();
    if (size < 1)
        return 0;
    od_slice rest = od_slice_of(data + 1, size - 1);
    if (data[0] % 3 == 0)
        run("SELECT md5($1::VARCHAR)", rest);
    else
        feed(rest, data[0] % 3 == 1 ? OD_FORMAT_NATIVE : OD_FORMAT_PLAIN);
    return 0;
}

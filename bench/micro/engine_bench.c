/* CPU of producing payloads: DuckDB's fetch alone, and the engine's three formats; and the time of a tiny query.
 * usage: engine_bench DATABASE.db [SQL]   (default: SELECT * FROM lineitem) */
#include <duckdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "query/engine.h"

static double seconds(clockid_t clock)
{
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what, const char *why)
{
    (void)fprintf(stderr, "%s: %s\n", what, why ? why : "failed");
    exit(1);
}

static void fetch_only(const char *path, const char *sql, const char *threads)
{
    duckdb_database db;
    duckdb_connection con;
    duckdb_config config;
    duckdb_prepared_statement prepared;
    duckdb_result result;
    char *why = NULL;
    (void)duckdb_create_config(&config);
    (void)duckdb_set_config(config, "threads", threads);
    (void)duckdb_set_config(config, "access_mode", "READ_ONLY");
    if (duckdb_open_ext(path, &db, config, &why) || duckdb_connect(db, &con))
        die("open", why);
    for (int i = 0; i < 2; i++) {
        double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), wall = seconds(CLOCK_MONOTONIC);
        size_t rows = 0;
        if (duckdb_prepare(con, sql, &prepared))
            die("prepare", duckdb_prepare_error(prepared));
        if (duckdb_execute_prepared_streaming(prepared, &result))
            die("execute", duckdb_result_error(&result));
        duckdb_data_chunk chunk;
        while ((chunk = duckdb_fetch_chunk(result)) != NULL) {
            rows += duckdb_data_chunk_get_size(chunk);
            duckdb_destroy_data_chunk(&chunk);
        }
        duckdb_destroy_result(&result);
        duckdb_destroy_prepare(&prepared);
        printf("threads %s fetch only %9zu rows            %6.3f cpu-s %6.3f s\n", threads, rows,
               seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu, seconds(CLOCK_MONOTONIC) - wall);
    }
    duckdb_disconnect(&con);
    duckdb_close(&db);
    duckdb_destroy_config(&config);
}

static size_t run(od_engine *engine, const char *sql, od_format format, size_t *payloads)
{
    od_error err;
    od_execution *execution;
    od_execution_request request = {.sql = od_slice_str(sql), .format = format};
    if (od_execution_start(engine, &request, &execution, &err) != OD_OK)
        die("start", err.message);
    size_t bytes = 0;
    for (;;) {
        od_msg *msg;
        if (od_execution_next(execution, &msg, &err) != OD_OK)
            die("next", err.message);
        if (msg == NULL)
            break;
        bytes += od_msg_len(msg);
        (*payloads)++;
        od_msg_unref(msg);
    }
    od_execution_end(execution);
    return bytes;
}

static void tiny(od_engine *engine, const char *sql)
{
    size_t payloads = 0;
    double best = 1;
    double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), wall = seconds(CLOCK_MONOTONIC);
    for (int i = 0; i < 5000; i++) {
        double at = seconds(CLOCK_MONOTONIC);
        (void)run(engine, sql, OD_FORMAT_NATIVE, &payloads);
        double took = seconds(CLOCK_MONOTONIC) - at;
        best = took < best ? took : best;
    }
    printf("%-40s %6.1f us mean, %6.1f us best, %6.1f us cpu\n", sql, (seconds(CLOCK_MONOTONIC) - wall) / 5000 * 1e6,
           best * 1e6, (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) / 5000 * 1e6);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        die("usage", "engine_bench DATABASE.db [SQL]");
    const char *sql = argc > 2 ? argv[2] : "SELECT * FROM lineitem";
    static const char *const names[] = {"plain", "lossless", "native"};
    for (unsigned threads = 1; threads <= 2; threads++) {
        char number[8];
        od_error err;
        od_engine *engine;
        (void)snprintf(number, sizeof number, "%u", threads);
        fetch_only(argv[1], sql, number);
        od_engine_database database = {"bench", argv[1]};
        od_engine_options options = {
            .databases = &database, .database_count = 1, .read_only = true, .threads = threads};
        if (od_engine_open(&options, &engine, &err) != OD_OK)
            die("open", err.message);
        static const od_format formats[] = {OD_FORMAT_NATIVE, OD_FORMAT_NATIVE, OD_FORMAT_PLAIN};
        for (size_t i = 0; i < 3; i++) {
            size_t payloads = 0;
            double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), wall = seconds(CLOCK_MONOTONIC);
            double mine = seconds(CLOCK_THREAD_CPUTIME_ID);
            size_t bytes = run(engine, sql, formats[i], &payloads);
            printf("threads %u %-9s %8.1f MB in %5zu payloads %6.3f cpu-s (%.3f in this thread) %6.3f s\n", threads,
                   names[formats[i]], (double)bytes / 1e6, payloads, seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu,
                   seconds(CLOCK_THREAD_CPUTIME_ID) - mine, seconds(CLOCK_MONOTONIC) - wall);
        }
        tiny(engine, "SELECT 1 AS i");
        tiny(engine, "SELECT i FROM range(1) t(i)");
        tiny(engine, "SELECT i FROM one");
        od_engine_close(engine);
    }
    return 0;
}

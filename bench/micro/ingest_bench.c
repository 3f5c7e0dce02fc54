/* A table of a database here into one at a server, against the same INSERT here: wall and CPU time.
 * usage: ingest_bench DATABASE.db TABLE ENDPOINT REMOTE_DATABASE [staged]
 * At the server TABLE is made anew; `staged`: by way of a staging table in a transaction. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "arrow/ipc_read.h"
#include "query/client.h"
#include "query/engine.h"

static od_error err;

static void must(od_code rc, const char *what)
{
    if (rc == OD_OK)
        return;
    (void)fprintf(stderr, "%s: %s\n", what, err.message);
    exit(1);
}

static double seconds(clockid_t clock)
{
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void remote_run(od_remote *remote, const od_remote_txn *txn, const char *sql)
{
    od_remote_query query = {.sql = od_slice_str(sql), .format = OD_FORMAT_NATIVE, .txn = txn};
    od_result *result;
    od_msg *owner;
    od_slice payload;
    must(od_remote_execute(remote, &query, &result, &err), sql);
    do {
        must(od_result_next(result, &owner, &payload, &err), sql);
        od_msg_unref(owner);
    } while (owner != NULL);
    od_result_free(result);
}

/* The columns of SQL, from its description, which is kept in *reader. */
static od_wire_column *describe(od_engine *engine, const char *sql, od_ipc_reader **reader, size_t *count)
{
    od_execution_request request = {.sql = od_slice_str(sql), .format = OD_FORMAT_NATIVE, .describe_only = true};
    od_execution *execution;
    od_msg *msg;
    must(od_execution_start(engine, &request, &execution, &err), sql);
    must(od_execution_next(execution, &msg, &err), sql);
    must(od_ipc_reader_create(reader, &err), sql);
    must(od_ipc_reader_start(*reader, od_slice_of(od_msg_data(msg), od_msg_len(msg)), NULL, &err), sql);
    const struct ArrowSchema *schema = od_ipc_reader_schema(*reader);
    od_wire_column *columns = calloc((size_t)schema->n_children + 1, sizeof *columns);
    if (columns == NULL)
        exit(1);
    *count = (size_t)schema->n_children;
    for (size_t i = 0; i < *count; i++)
        columns[i] = (od_wire_column){od_slice_str(schema->children[i]->name),
                                      od_schema_metadata(schema->children[i], "openduck:sql_type")};
    od_msg_unref(msg);
    od_execution_end(execution);
    return columns;
}

static uint64_t send_all(od_engine *engine, const char *sql, od_ingest *ingest)
{
    od_execution_request request = {.sql = od_slice_str(sql), .format = OD_FORMAT_NATIVE};
    od_execution *execution;
    uint64_t rows;
    must(od_execution_start(engine, &request, &execution, &err), sql);
    for (;;) {
        od_msg *msg;
        must(od_execution_next(execution, &msg, &err), sql);
        if (msg == NULL)
            break;
        must(od_ingest_send(ingest, msg, &err), "send");
        od_msg_unref(msg);
    }
    od_execution_end(execution);
    must(od_ingest_finish(ingest, &rows, &err), "finish");
    return rows;
}

static void create_sql(char *out, size_t size, const char *table, const od_wire_column *columns, size_t count)
{
    size_t used = (size_t)snprintf(out, size, "CREATE OR REPLACE TABLE \"%s\"", table);
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(out + used, size - used, "%s\"%.*s\" %.*s", i == 0 ? "(" : ", ",
                                 (int)columns[i].name.len, (const char *)columns[i].name.data,
                                 (int)columns[i].sql_type.len, (const char *)columns[i].sql_type.data);
    (void)snprintf(out + used, size - used, ")");
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        (void)fprintf(stderr, "usage: ingest_bench DATABASE.db TABLE ENDPOINT REMOTE_DATABASE [staged]\n");
        return 2;
    }
    bool staged = argc > 5;
    od_engine_database database = {"src", argv[1]};
    od_engine_options engine_options = {.databases = &database, .database_count = 1, .read_only = true, .threads = 2};
    od_remote_options options = {.database = argv[4]};
    od_engine *engine;
    od_remote *remote;
    od_remote_txn *txn = NULL;
    od_ipc_reader *description;
    od_ingest *ingest;
    size_t count;
    char sql[200], create[8000], insert[400];
    must(od_engine_open(&engine_options, &engine, &err), argv[1]);
    must(od_endpoint_parse(od_slice_str(argv[3]), &options.endpoint, &err), argv[3]);
    must(od_remote_create(&options, &remote, &err), "remote");
    (void)snprintf(sql, sizeof sql, "FROM \"%s\"", argv[2]);
    (void)snprintf(insert, sizeof insert, "INSERT INTO \"%s\" FROM rows_here", argv[2]);
    od_wire_column *columns = describe(engine, sql, &description, &count);
    create_sql(create, sizeof create, argv[2], columns, count);
    remote_run(remote, NULL, create);
    double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), wall = seconds(CLOCK_MONOTONIC);
    od_ingest_options ingest_options = {.staging_table = od_slice_str("rows_here"),
                                        .columns = columns,
                                        .column_count = count,
                                        .format = OD_FORMAT_NATIVE,
                                        .statement = od_slice_str(staged ? NULL : insert)};
    if (staged)
        must(od_remote_txn_begin(remote, (od_interrupt){0}, &txn, &err), "begin");
    must(od_ingest_open(remote, txn, &ingest_options, &ingest, &err), "ingest");
    uint64_t rows = send_all(engine, sql, ingest);
    if (staged) {
        remote_run(remote, txn, insert);
        must(od_remote_txn_commit(txn, (od_interrupt){0}, &err), "commit");
    }
    printf("%s: %llu rows, %.3f s, %.3f cpu-s here\n", staged ? "staged" : "statement", (unsigned long long)rows,
           seconds(CLOCK_MONOTONIC) - wall, seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu);
    od_ingest_free(ingest);
    od_remote_txn_free(txn);
    od_ipc_reader_free(description);
    free(columns);
    od_remote_unref(remote);
    od_engine_close(engine);
    return 0;
}

/* The client library: adds up the first column (BIGINT) of a result that streams in, whatever its size.
 *
 * usage: client ENDPOINT DATABASE SQL       the token comes from OPENDUCK_TOKEN
 *   build/release/programs/client http://127.0.0.1:7878 flights 'SELECT distance::BIGINT FROM flights' */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arrow/ipc_read.h"
#include "query/client.h"

typedef struct {
    int64_t rows;
    uint64_t sum; /* wraps around */
} totals;

/* A payload is a whole Arrow IPC stream: schema, record batches, end mark. */
static od_code add_payload(od_ipc_reader *reader, od_slice payload, totals *t, od_error *err)
{
    const od_batch *batch = NULL;
    const struct ArrowSchema *schema;
    od_code rc = od_ipc_reader_start(reader, payload, NULL, err);

    if (rc != OD_OK)
        return rc;
    schema = od_ipc_reader_schema(reader);
    if (schema->n_children < 1 || strcmp(schema->children[0]->format, "l") != 0)
        return od_fail(err, OD_E_INVALID, "the first column is not a BIGINT");
    while (rc == OD_OK && (rc = od_ipc_reader_next(reader, &batch, err)) == OD_OK && batch) {
        const od_column *column = &batch->columns[0];

        for (int64_t i = 0; i < batch->rows; i++) {
            uint64_t value;

            if (column->validity && !(column->validity[i / 8] >> (i % 8) & 1))
                continue;
            memcpy(&value, column->data + i * 8, sizeof value);
            t->sum += value;
        }
        t->rows += batch->rows;
    }
    return rc;
}

static od_code run(const char *endpoint, char *database, const char *sql, totals *t, od_error *err)
{
    const char *token = getenv("OPENDUCK_TOKEN");
    const od_remote_query query = {.sql = od_slice_str(sql)}; /* Arrow's plain types */
    od_remote_options options = {.database = database};
    od_remote *remote = NULL;
    od_result *result = NULL;
    od_ipc_reader *reader = NULL;
    od_code rc;

    OD_TRY(od_endpoint_parse(od_slice_str(endpoint), &options.endpoint, err));
    OD_TRY(od_secret_set(&options.token, od_slice_str(token), err));
    OD_TRY(od_remote_create(&options, &remote, err));
    OD_TRY(od_ipc_reader_create(&reader, err));
    OD_TRY(od_remote_execute(remote, &query, &result, err));
    for (;;) {
        od_msg *message = NULL;
        od_slice payload;

        OD_TRY(od_result_next(result, &message, &payload, err));
        if (!message)
            break;
        rc = add_payload(reader, payload, t, err);
        od_msg_unref(message);
        if (rc != OD_OK)
            goto out;
    }

out:
    od_ipc_reader_free(reader);
    od_result_free(result); /* an unfinished execution is cancelled */
    od_remote_unref(remote);
    od_secret_release(&options.token);
    return rc;
}

int main(int argc, char **argv)
{
    totals t = {0};
    od_error err = {0};

    if (argc != 4) {
        fprintf(stderr, "usage: client ENDPOINT DATABASE SQL\n");
        return 2;
    }
    if (run(argv[1], argv[2], argv[3], &t, &err) != OD_OK) {
        fprintf(stderr, "client: %s\n", err.message);
        return 1;
    }
    printf("%" PRId64 " rows, sum %" PRId64 "\n", t.rows, (int64_t)t.sum);
    return 0;
}

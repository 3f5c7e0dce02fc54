/* An od_result as an ArrowArrayStream. */
#ifndef OD_CLI_RESULT_STREAM_H
#define OD_CLI_RESULT_STREAM_H

#include "arrow/ipc_read.h"
#include "query/client.h"

/* STREAM may be copied, as DuckDB does; one thread at a time uses it. An error of the result is kept in FAILED and ERROR; to
 * whom reads the stream it looks like an end, so that what came before is not thrown away. */
typedef struct {
    struct ArrowArrayStream stream;
    od_result *result; /* borrowed */
    od_ipc_reader *reader;
    struct ArrowSchema schema; /* of the first payload */
    od_msg *payload;
    bool failed;
    od_error error; /* if failed */
    uint64_t rows;  /* given so far */
} result_stream;

/* Reads the first payload. *empty: there was none, and no schema. */
OD_MUST_CHECK od_code result_stream_open(result_stream *s, od_result *result, bool *empty, od_error *err);
const struct ArrowSchema *result_stream_schema(const result_stream *s);
void result_stream_close(result_stream *s);

#endif

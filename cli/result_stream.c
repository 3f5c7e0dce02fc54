#include "cli/result_stream.h"

#include <errno.h>
#include <string.h>

#include "arrow/schema.h"
#include "base/banned.h"

static od_code next_payload(result_stream *s, bool first, bool *end, od_error *err)
{
    od_slice payload;
    bool same;
    od_code rc;

    od_msg_unref(s->payload);
    s->payload = NULL;
    *end = false;
    rc = od_result_next(s->result, &s->payload, &payload, err);
    if (rc != OD_OK)
        return rc;
    if (!s->payload) {
        *end = true;
        return OD_OK;
    }
    rc = od_ipc_reader_start(s->reader, payload, &same, err);
    if (rc == OD_OK && !first && !same)
        rc = od_fail(err, OD_E_PROTOCOL, "the columns of a result changed on its way");
    return rc;
}

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
    result_stream *s = stream->private_data;

    if (od_schema_copy(&s->schema, out, &s->error) == OD_OK)
        return 0;
    s->failed = true;
    return ENOMEM;
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
    result_stream *s = stream->private_data;
    bool end = false;
    od_code rc = OD_OK;

    memset(out, 0, sizeof *out);
    while (!end && !s->failed && rc == OD_OK && s->payload) {
        rc = od_ipc_reader_next_array(s->reader, s->payload, out, &s->error);
        if (rc == OD_OK && out->release) {
            s->rows += (uint64_t)out->length;
            return 0;
        }
        if (rc == OD_OK)
            rc = next_payload(s, false, &end, &s->error);
    }
    s->failed = s->failed || rc != OD_OK;
    return 0;
}

static const char *get_last_error(struct ArrowArrayStream *stream)
{
    return ((result_stream *)stream->private_data)->error.message;
}

/* The struct is the command's; there is nothing to release. */
static void release(struct ArrowArrayStream *stream)
{
    stream->release = NULL;
}

od_code result_stream_open(result_stream *s, od_result *result, bool *empty, od_error *err)
{
    od_code rc;

    *s = (result_stream){.result = result};
    s->stream.get_schema = get_schema;
    s->stream.get_next = get_next;
    s->stream.get_last_error = get_last_error;
    s->stream.release = release;
    s->stream.private_data = s;
    rc = od_ipc_reader_create(&s->reader, err);
    if (rc == OD_OK)
        rc = next_payload(s, true, empty, err);
    /* A copy: the reader's own goes as soon as a payload with other columns comes. */
    if (rc == OD_OK && !*empty)
        rc = od_schema_copy(od_ipc_reader_schema(s->reader), &s->schema, err);
    if (rc != OD_OK)
        result_stream_close(s);
    return rc;
}

const struct ArrowSchema *result_stream_schema(const result_stream *s)
{
    return &s->schema;
}

void result_stream_close(result_stream *s)
{
    od_ipc_reader_free(s->reader);
    od_schema_release(&s->schema);
    od_msg_unref(s->payload);
    s->reader = NULL;
    s->payload = NULL;
}

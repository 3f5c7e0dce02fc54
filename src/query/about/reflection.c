/* grpc.reflection.v1 and v1alpha ServerReflection, whose messages are the same.
 * https://github.com/grpc/grpc/blob/master/doc/server-reflection.md */
#include <string.h>

#include "base/pb.h"
#include "query/about/about_internal.h"
#include "base/banned.h"

/* What is asked, by the field's number in ServerReflectionRequest. */
enum { FILE_BY_NAME = 3, FILE_OF_SYMBOL = 4, FILE_OF_EXTENSION = 5, EXTENSIONS_OF_TYPE = 6, LIST_SERVICES = 7 };
enum { ANSWER_REQUEST = 2, ANSWER_FILE = 4, ANSWER_SERVICES = 6, ANSWER_ERROR = 7 };
enum { FILE_BYTES = 1, SERVICES_SERVICE = 1, SERVICE_NAME = 1, ERROR_CODE = 1, ERROR_MESSAGE = 2 };

typedef struct {
    uint32_t kind; /* 0: nothing */
    od_slice text;
} question;

static od_code put(od_buf *out, uint32_t field, od_slice bytes, od_error *err)
{
    od_code rc = od_buf_reserve(out, PB_FIELD_MAX + bytes.len, err);

    if (rc == OD_OK)
        out->len = (size_t)(pb_put_bytes_always(out->data + out->len, field, bytes) - out->data);
    return rc;
}

static od_code read_question(od_slice message, question *out, od_error *err)
{
    pb_reader reader = pb_reader_of(message);
    pb_field field;
    od_code rc;

    *out = (question){0};
    while (pb_next(&reader, &field, &rc, err)) {
        if (field.field >= FILE_BY_NAME && field.field <= LIST_SERVICES && field.type == PB_BYTES)
            *out = (question){field.field, field.bytes};
    }
    return rc;
}

static const about_file *find_file(const question *q)
{
    if (q->kind == FILE_BY_NAME) {
        for (size_t i = 0; i < about_file_count; i++) {
            if (od_slice_equal(q->text, od_slice_str(about_files[i].name)))
                return &about_files[i];
        }
    } else if (q->kind == FILE_OF_SYMBOL) {
        for (size_t i = 0; i < about_symbol_count; i++) {
            if (od_slice_equal(q->text, od_slice_str(about_symbols[i].name)))
                return &about_files[about_symbols[i].file];
        }
    }
    return NULL;
}

static od_code put_services(od_buf *out, od_error *err)
{
    od_buf list = {0}, one = {0};
    od_code rc = OD_OK;

    for (size_t i = 0; i < about_service_count; i++) {
        one.len = 0;
        OD_TRY(put(&one, SERVICE_NAME, od_slice_str(about_services[i]), err));
        OD_TRY(put(&list, SERVICES_SERVICE, od_slice_of(one.data, one.len), err));
    }
    OD_TRY(put(out, ANSWER_SERVICES, od_slice_of(list.data, list.len), err));

out:
    od_buf_release(&list);
    od_buf_release(&one);
    return rc;
}

static od_code put_file(const about_file *file, od_buf *out, od_error *err)
{
    od_buf list = {0};
    od_code rc;

    OD_TRY(put(&list, FILE_BYTES, od_slice_of(file->bytes, file->len), err));
    OD_TRY(put(out, ANSWER_FILE, od_slice_of(list.data, list.len), err));

out:
    od_buf_release(&list);
    return rc;
}

static od_code put_error(int status, const char *text, od_buf *out, od_error *err)
{
    od_buf body = {0};
    uint8_t code[PB_FIELD_MAX];
    od_code rc;

    OD_TRY(od_buf_append(&body, code, (size_t)(pb_put_number(code, ERROR_CODE, (uint64_t)status) - code), err));
    OD_TRY(put(&body, ERROR_MESSAGE, od_slice_str(text), err));
    OD_TRY(put(out, ANSWER_ERROR, od_slice_of(body.data, body.len), err));

out:
    od_buf_release(&body);
    return rc;
}

static od_code answer(od_slice message, od_buf *out, od_error *err)
{
    const about_file *file;
    question q;
    od_code rc;

    OD_TRY(read_question(message, &q, err));
    OD_TRY(put(out, ANSWER_REQUEST, message, err));
    file = find_file(&q);
    if (q.kind == LIST_SERVICES)
        rc = put_services(out, err);
    else if (file)
        rc = put_file(file, out, err);
    else if (q.kind == 0)
        rc = put_error(OD_GRPC_INVALID_ARGUMENT, "nothing is asked", out, err);
    else
        rc = put_error(OD_GRPC_NOT_FOUND, "not found", out, err);

out:
    return rc;
}

static void on_message(void *user, od_rpc_call *call, od_msg *msg)
{
    about_call *c = user;
    od_slice message = od_slice_of(od_msg_data(msg), od_msg_len(msg));
    od_buf out = {0};
    od_error err;
    od_code rc = message.len <= ABOUT_MAX_REQUEST ? answer(message, &out, &err)
                                                  : od_fail(&err, OD_E_INVALID, "the request is too long");

    if (rc != OD_OK)
        od_rpc_call_finish(call, rc == OD_E_NO_MEMORY ? OD_GRPC_RESOURCE_EXHAUSTED : OD_GRPC_INVALID_ARGUMENT,
                           err.message);
    else
        about_send(call, od_slice_of(out.data, out.len), false, OD_GRPC_OK, NULL);
    od_buf_release(&out);
    od_msg_unref(msg);
    c->waits = !od_rpc_call_room(call);
    if (!c->waits)
        od_rpc_call_next(call);
}

static void on_writable(void *user, od_rpc_call *call)
{
    about_call *c = user;

    if (c->waits) {
        c->waits = false;
        od_rpc_call_next(call);
    }
}

static void on_half_close(void *user, od_rpc_call *call)
{
    (void)user;
    od_rpc_call_finish(call, OD_GRPC_OK, NULL);
}

void reflection_open(void *service, od_rpc_call *call)
{
    static const od_rpc_events events = {
        .on_message = on_message, .on_writable = on_writable, .on_half_close = on_half_close, .on_gone = about_gone};

    about_open(service, call, &events);
    if (od_rpc_call_user(call) && !about_list(od_rpc_call_user(call)))
        od_rpc_call_finish(call, OD_GRPC_UNAVAILABLE, "the server is shutting down");
}

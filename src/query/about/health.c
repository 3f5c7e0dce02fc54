/* grpc.health.v1.Health. https://github.com/grpc/grpc/blob/master/doc/health-checking.md */
#include <string.h>

#include "base/pb.h"
#include "query/about/about_internal.h"
#include "base/banned.h"

enum { REQUEST_SERVICE = 1, RESPONSE_STATUS = 1 };
enum { SERVING = 1, NOT_SERVING = 2, SERVICE_UNKNOWN = 3 };

static bool known(od_slice service)
{
    for (size_t i = 0; i < about_service_count; i++) {
        if (od_slice_equal(service, od_slice_str(about_services[i])))
            return true;
    }
    return service.len == 0; /* the server as a whole */
}

static od_code read_request(od_msg *msg, od_slice *service, od_error *err)
{
    pb_reader reader = pb_reader_of(od_slice_of(od_msg_data(msg), od_msg_len(msg)));
    pb_field field;
    od_code rc;

    *service = od_slice_of("", 0);
    while (pb_next(&reader, &field, &rc, err)) {
        if (field.field == REQUEST_SERVICE && field.type == PB_BYTES)
            *service = field.bytes;
    }
    return rc;
}

static od_slice response(int status, uint8_t bytes[PB_FIELD_MAX])
{
    return od_slice_of(bytes, (size_t)(pb_put_number(bytes, RESPONSE_STATUS, (uint64_t)status) - bytes));
}

static bool draining(od_about *about)
{
    bool is;

    pthread_mutex_lock(&about->lock);
    is = about->draining;
    pthread_mutex_unlock(&about->lock);
    return is;
}

void health_end(od_rpc_call *call)
{
    uint8_t bytes[PB_FIELD_MAX];

    about_send(call, response(NOT_SERVING, bytes), true, OD_GRPC_UNAVAILABLE, "the server is shutting down");
}

/* True: SERVICE is what the first message asks for; else the call is ended, or goes on as it is. */
static bool take_request(about_call *c, od_msg *msg, od_slice *service)
{
    od_error err;

    if (c->asked)
        return false;
    c->asked = true;
    if (read_request(msg, service, &err) == OD_OK)
        return true;
    od_rpc_call_finish(c->call, OD_GRPC_INVALID_ARGUMENT, err.message);
    return false;
}

static void on_check(void *user, od_rpc_call *call, od_msg *msg)
{
    about_call *c = user;
    uint8_t bytes[PB_FIELD_MAX];
    od_slice service;

    if (take_request(c, msg, &service)) {
        if (known(service))
            about_send(call, response(draining(c->about) ? NOT_SERVING : SERVING, bytes), true, OD_GRPC_OK, NULL);
        else
            od_rpc_call_finish(call, OD_GRPC_NOT_FOUND, "unknown service");
    }
    od_msg_unref(msg);
}

/* A status, and the next one when it changes, which it does once. */
static void on_watch(void *user, od_rpc_call *call, od_msg *msg)
{
    about_call *c = user;
    uint8_t bytes[PB_FIELD_MAX];
    od_slice service;

    if (take_request(c, msg, &service)) {
        /* Told before it is listed: a drain that comes between would be told first. */
        if (!draining(c->about))
            about_send(call, response(known(service) ? SERVING : SERVICE_UNKNOWN, bytes), false, OD_GRPC_OK, NULL);
        if (!about_list(c))
            health_end(call);
    }
    od_msg_unref(msg);
}

static void on_half_close(void *user, od_rpc_call *call)
{
    const about_call *c = user;

    if (!c->asked)
        od_rpc_call_finish(call, OD_GRPC_INVALID_ARGUMENT, "the request is missing");
}

void health_check_open(void *service, od_rpc_call *call)
{
    static const od_rpc_events events = {.on_message = on_check, .on_half_close = on_half_close, .on_gone = about_gone};

    about_open(service, call, &events);
}

void health_watch_open(void *service, od_rpc_call *call)
{
    static const od_rpc_events events = {.on_message = on_watch, .on_half_close = on_half_close, .on_gone = about_gone};

    about_open(service, call, &events);
}

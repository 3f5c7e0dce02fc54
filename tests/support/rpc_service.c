#include "support/rpc_service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "support/certificates.h"
#include "base/banned.h"

/* One call: of which method, and what is left to send. */
typedef struct {
    rpc_service *service;
    od_rpc_call *call;
    od_rpc_call *upstream; /* Relay */
    od_msg *chunk;
    unsigned long left, count;
    size_t bytes;
    pthread_t thread;
    bool threaded;
} call_state;

_Noreturn static void die(const char *what, const od_error *err)
{
    fprintf(stderr, "%s: %s\n", what, err->message);
    abort();
}

od_msg *rpc_message(size_t len, uint8_t byte)
{
    od_msg *msg;
    od_error err = {0};

    if (od_msg_create(len, 0, &msg, &err) != OD_OK)
        die("message", &err);
    memset(od_msg_data(msg), byte, len);
    return msg;
}

od_rpc_out rpc_out(od_msg *body)
{
    return (od_rpc_out){.body = body, .len = od_msg_len(body)};
}

od_rpc_out rpc_out_text(const char *text)
{
    od_rpc_out out = {.head_len = strlen(text)};
    memcpy(out.head, text, out.head_len);
    return out;
}

void rpc_service_init(rpc_service *service)
{
    pthread_condattr_t attr;

    memset(service, 0, sizeof *service);
    pthread_mutex_init(&service->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&service->changed, &attr);
    pthread_condattr_destroy(&attr);
}

static bool wait_count(rpc_service *service, const unsigned *count, unsigned want)
{
    struct timespec until;
    bool reached;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += 5;
    pthread_mutex_lock(&service->lock);
    while (*count < want && pthread_cond_timedwait(&service->changed, &service->lock, &until) == 0)
        ;
    reached = *count >= want;
    pthread_mutex_unlock(&service->lock);
    return reached;
}

bool rpc_service_wait_gone(rpc_service *service, unsigned gone)
{
    return wait_count(service, &service->gone, gone);
}

bool rpc_service_wait_up_gone(rpc_service *service, unsigned gone)
{
    return wait_count(service, &service->up_gone, gone);
}

bool rpc_service_wait_messages(rpc_service *service, unsigned messages)
{
    return wait_count(service, &service->messages, messages);
}

bool rpc_service_wait_opened(rpc_service *service, unsigned opened)
{
    return wait_count(service, &service->opened, opened);
}

/* ---- one call ---- */

static call_state *state_open(void *arg, od_rpc_call *call, const od_rpc_events *events)
{
    rpc_service *service = arg;
    call_state *state = calloc(1, sizeof *state);

    state->service = service;
    state->call = call;
    od_rpc_call_bind(call, events, state);
    pthread_mutex_lock(&service->lock);
    service->opened++;
    pthread_cond_broadcast(&service->changed);
    pthread_mutex_unlock(&service->lock);
    return state;
}

static void state_free(call_state *state)
{
    od_msg_unref(state->chunk);
    free(state);
}

static void count_gone(rpc_service *service, od_rpc_call *call, const od_error *why)
{
    pthread_mutex_lock(&service->lock);
    service->gone++;
    if (!why) {
        service->clean++;
    } else {
        service->last_code = why->code;
        snprintf(service->last_text, sizeof service->last_text, "%s", why->message);
    }
    pthread_cond_broadcast(&service->changed);
    pthread_mutex_unlock(&service->lock);
    if (service->verbose) {
        printf("gone %s %s\n", od_rpc_call_path(call), why ? od_code_name(why->code) : "OK");
        fflush(stdout);
    }
}

static void on_gone(void *user, od_rpc_call *call, const od_error *why)
{
    call_state *state = user;

    count_gone(state->service, call, why);
    if (state->threaded) {
        pthread_join(state->thread, NULL);
        od_rpc_call_unref(call);
    }
    state_free(state);
}

static void send_or_finish(od_rpc_call *call, const od_rpc_out *out)
{
    od_error err = {0};
    od_code rc = od_rpc_call_send(call, out, &err);

    if (rc != OD_OK)
        od_rpc_call_finish(call, od_code_grpc_status(rc), err.message);
}

/* ---- Echo ---- */

static void count_message(rpc_service *service)
{
    pthread_mutex_lock(&service->lock);
    service->messages++;
    pthread_cond_broadcast(&service->changed);
    pthread_mutex_unlock(&service->lock);
}

static void echo_message(void *user, od_rpc_call *call, od_msg *msg)
{
    call_state *state = user;
    od_rpc_out out = rpc_out(msg);

    count_message(state->service);
    send_or_finish(call, &out);
    od_msg_unref(msg);
    if (od_rpc_call_room(call))
        od_rpc_call_next(call);
}

static void echo_writable(void *user, od_rpc_call *call)
{
    (void)user;
    od_rpc_call_next(call);
}

static void finish_ok(void *user, od_rpc_call *call)
{
    (void)user;
    od_rpc_call_finish(call, OD_GRPC_OK, NULL);
}

static const od_rpc_events ECHO = {echo_message, finish_ok, echo_writable, on_gone};

static void open_echo(void *service, od_rpc_call *call)
{
    state_open(service, call, &ECHO);
    od_rpc_call_next(call);
}

/* ---- Stream, Threaded ---- */

static bool parse_two(od_msg *msg, unsigned long *a, unsigned long *b)
{
    char text[64] = "";
    size_t len = od_msg_len(msg);

    memcpy(text, od_msg_data(msg), len < sizeof text ? len : sizeof text - 1);
    return sscanf(text, "%lu %lu", a, b) == 2;
}

static void pump(call_state *state)
{
    od_rpc_out out = rpc_out(state->chunk);
    rpc_service *service = state->service;

    while (state->left > 0 && od_rpc_call_room(state->call)) {
        state->left--;
        pthread_mutex_lock(&service->lock);
        service->handed += out.len;
        pthread_mutex_unlock(&service->lock);
        send_or_finish(state->call, &out);
    }
    if (state->left == 0)
        od_rpc_call_finish(state->call, OD_GRPC_OK, NULL);
}

static void stream_message(void *user, od_rpc_call *call, od_msg *msg)
{
    call_state *state = user;
    unsigned long size;

    if (parse_two(msg, &state->left, &size)) {
        state->chunk = rpc_message(size, 'x');
        pump(state);
    } else {
        od_rpc_call_finish(call, OD_GRPC_INVALID_ARGUMENT, "COUNT SIZE");
    }
    od_msg_unref(msg);
}

static void stream_writable(void *user, od_rpc_call *call)
{
    call_state *state = user;

    (void)call;
    pump(state);
}

static const od_rpc_events STREAM = {stream_message, NULL, stream_writable, on_gone};

static void open_stream(void *service, od_rpc_call *call)
{
    state_open(service, call, &STREAM);
    od_rpc_call_next(call);
}

static void *thread_main(void *arg)
{
    call_state *state = arg;
    od_rpc_out out = rpc_out(state->chunk);
    od_error err = {0};
    od_code rc = OD_OK;

    if (state->left == 1) {
        rc = od_rpc_call_reply(state->call, &out, OD_GRPC_OK, NULL, &err);
        if (rc == OD_OK)
            return NULL;
    }
    for (; state->left > 0 && rc == OD_OK; state->left--)
        rc = od_rpc_call_send_wait(state->call, &out, OD_DEADLINE_NEVER, &err);
    od_rpc_call_finish(state->call, od_code_grpc_status(rc), rc == OD_OK ? NULL : err.message);
    return NULL;
}

static void threaded_message(void *user, od_rpc_call *call, od_msg *msg)
{
    call_state *state = user;
    unsigned long size = 0;

    if (parse_two(msg, &state->left, &size)) {
        state->chunk = rpc_message(size, 'x');
        state->threaded = true;
        od_rpc_call_ref(call);
        pthread_create(&state->thread, NULL, thread_main, state);
    }
    od_msg_unref(msg);
}

static const od_rpc_events THREADED = {threaded_message, NULL, NULL, on_gone};

static void open_threaded(void *service, od_rpc_call *call)
{
    state_open(service, call, &THREADED);
    od_rpc_call_next(call);
}

/* ---- Collect, Slow, Hang, Fail ---- */

static void collect_message(void *user, od_rpc_call *call, od_msg *msg)
{
    call_state *state = user;

    count_message(state->service);
    state->count++;
    state->bytes += od_msg_len(msg);
    od_msg_unref(msg);
    od_rpc_call_next(call);
}

static void collect_end(void *user, od_rpc_call *call)
{
    call_state *state = user;
    od_rpc_out out = {0};
    od_error err = {0};

    out.head_len = (size_t)snprintf((char *)out.head, sizeof out.head, "%lu %zu", state->count, state->bytes);
    if (od_rpc_call_reply(call, &out, OD_GRPC_OK, NULL, &err) != OD_OK)
        od_rpc_call_finish(call, OD_GRPC_INTERNAL, err.message);
}

static const od_rpc_events COLLECT = {collect_message, collect_end, NULL, on_gone};

static void open_collect(void *service, od_rpc_call *call)
{
    state_open(service, call, &COLLECT);
    od_rpc_call_next(call);
}

static const od_rpc_events SLOW = {NULL, NULL, NULL, on_gone};

static void open_slow(void *service, od_rpc_call *call)
{
    state_open(service, call, &SLOW);
}

static void open_hang(void *service, od_rpc_call *call)
{
    state_open(service, call, &SLOW);
    od_rpc_call_next(call);
}

static void fail_message(void *user, od_rpc_call *call, od_msg *msg)
{
    char text[4096] = "", *rest;
    size_t len = od_msg_len(msg);
    long status;

    (void)user;
    memcpy(text, od_msg_data(msg), len < sizeof text ? len : sizeof text - 1);
    status = strtol(text, &rest, 10);
    od_rpc_call_finish(call, (int)status, *rest == ' ' ? rest + 1 : rest);
    od_msg_unref(msg);
}

static const od_rpc_events FAIL = {fail_message, NULL, NULL, on_gone};

static void open_fail(void *service, od_rpc_call *call)
{
    state_open(service, call, &FAIL);
    od_rpc_call_next(call);
}

static void abort_message(void *user, od_rpc_call *call, od_msg *msg)
{
    (void)user;
    od_msg_unref(msg);
    od_rpc_call_cancel(call);
}

static const od_rpc_events ABORT = {abort_message, NULL, NULL, on_gone};

static void open_abort(void *service, od_rpc_call *call)
{
    state_open(service, call, &ABORT);
    od_rpc_call_next(call);
}

/* ---- Relay: messages pass as they are, each way one at a time unless there is room ---- */

static void up_message(void *user, od_rpc_call *up, od_msg *msg)
{
    call_state *state = user;
    od_rpc_out out = rpc_out(msg);

    if (state->call) {
        send_or_finish(state->call, &out);
        if (od_rpc_call_room(state->call))
            od_rpc_call_next(up);
    }
    od_msg_unref(msg);
}

static void relay_end(call_state *state)
{
    if (state->call || state->upstream)
        return;
    state_free(state);
}

static void up_gone(void *user, od_rpc_call *up, const od_error *why)
{
    call_state *state = user;
    const char *text;
    int status = od_rpc_call_status(up, &text);

    (void)why;
    pthread_mutex_lock(&state->service->lock);
    state->service->up_gone++;
    pthread_cond_broadcast(&state->service->changed);
    pthread_mutex_unlock(&state->service->lock);
    state->upstream = NULL;
    if (state->call)
        od_rpc_call_finish(state->call, status, text);
    od_rpc_call_unref(up);
    relay_end(state);
}

static const od_rpc_events UP = {up_message, NULL, NULL, up_gone};

static void down_message(void *user, od_rpc_call *call, od_msg *msg)
{
    call_state *state = user;
    od_rpc_out out = rpc_out(msg);
    od_error err = {0};

    if (state->upstream && od_rpc_call_send_last(state->upstream, &out, &err) != OD_OK)
        od_rpc_call_finish(call, OD_GRPC_INTERNAL, err.message);
    od_msg_unref(msg);
}

static void down_writable(void *user, od_rpc_call *call)
{
    call_state *state = user;

    (void)call;
    if (state->upstream)
        od_rpc_call_next(state->upstream);
}

static void down_gone(void *user, od_rpc_call *call, const od_error *why)
{
    call_state *state = user;

    count_gone(state->service, call, why);
    state->call = NULL;
    if (state->upstream)
        od_rpc_call_cancel(state->upstream);
    relay_end(state);
}

static const od_rpc_events DOWN = {down_message, NULL, down_writable, down_gone};

static void open_relay(void *service, od_rpc_call *call)
{
    call_state *state = state_open(service, call, &DOWN);
    char path[128];
    od_error err = {0};

    snprintf(path, sizeof path, "/test.Rpc/%s", strrchr(od_rpc_call_path(call), '/') + 1);
    if (od_rpc_call_open(call, &state->service->upstream, path, od_rpc_call_deadline(call), &UP, state,
                         &state->upstream, &err) != OD_OK) {
        od_rpc_call_finish(call, OD_GRPC_UNAVAILABLE, err.message);
        return;
    }
    od_rpc_call_next(state->upstream);
    od_rpc_call_next(call);
}

const od_rpc_method RPC_SERVICE_METHODS[] = {
    {.path = "/test.Rpc/Echo", .on_open = open_echo},
    {.path = "/test.Rpc/Stream", .on_open = open_stream},
    {.path = "/test.Rpc/Threaded", .on_open = open_threaded},
    {.path = "/test.Rpc/Collect", .on_open = open_collect},
    {.path = "/test.Rpc/Slow", .on_open = open_slow},
    {.path = "/test.Rpc/Hang", .on_open = open_hang},
    {.path = "/test.Rpc/Fail", .on_open = open_fail},
    {.path = "/test.Rpc/Relay/Echo", .on_open = open_relay},
    {.path = "/test.Rpc/Relay/Stream", .on_open = open_relay},
    {.path = "/test.Rpc/Relay/Hang", .on_open = open_relay},
    {.path = "/test.Rpc/Relay/Fail", .on_open = open_relay},
    {.path = "/test.Rpc/Relay/Threaded", .on_open = open_relay},
    {.path = "/test.Rpc/Relay/Nope", .on_open = open_relay},
    {.path = "/test.Rpc/Relay/Abort", .on_open = open_relay},
    {.path = "/test.Rpc/Abort", .on_open = open_abort},
};
const size_t RPC_SERVICE_METHOD_COUNT = sizeof RPC_SERVICE_METHODS / sizeof *RPC_SERVICE_METHODS;

static bool with_tls;

void rpc_service_use_tls(bool on)
{
    with_tls = on;
    if (on)
        setenv("SSL_CERT_FILE", certificate_path("ca.pem"), 1);
}

void rpc_service_url(const char *host, uint16_t port, char out[64])
{
    snprintf(out, 64, "http%s://%s:%u", with_tls ? "s" : "", host, port);
}

static void add_tls(od_rpc_server_options *options)
{
    const od_tls_files files = {.cert = certificate_path("server.pem"), .key = certificate_path("server.key")};
    od_error err = {0};

    if (od_tls_create_server(&files, &options->tls, &err) != OD_OK ||
        od_tls_create_client(NULL, &options->peer_tls, &err) != OD_OK)
        die("tls", &err);
}

od_rpc_server *rpc_service_start(rpc_service *service, const od_rpc_server_options *options)
{
    od_rpc_server_options all = options ? *options : (od_rpc_server_options){0};
    bool add = with_tls && !all.tls && !all.peer_tls;
    od_rpc_server *server;
    od_error err = {0};

    if (add)
        add_tls(&all);
    if (!all.listen)
        all.listen = "127.0.0.1:0";
    all.methods = RPC_SERVICE_METHODS;
    all.method_count = RPC_SERVICE_METHOD_COUNT;
    all.service = service;
    if (od_rpc_server_start(&all, &server, &err) != OD_OK)
        die("server", &err);
    if (add) {
        od_tls_unref(all.tls);
        od_tls_unref(all.peer_tls);
    }
    return server;
}

od_channel *rpc_channel_to(uint16_t port)
{
    od_channel_options options = {0};
    od_channel *channel = NULL;
    char text[64];
    od_error err = {0};

    rpc_service_url("127.0.0.1", port, text);
    if (od_endpoint_parse(od_slice_str(text), &options.endpoint, &err) != OD_OK ||
        od_channel_create(&options, &channel, &err) != OD_OK)
        die("channel", &err);
    return channel;
}

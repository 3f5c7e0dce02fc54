/* A server that does what the plan tells it: the worker of tests that want it to misbehave.
 *
 * A plan is a list of steps with blanks between them: bN a batch of N bytes, eNAME an error chunk, f finished, o status OK,
 * sN status N, flood batches of 1 MiB without end, x a message that is no protobuf, n an empty chunk. A plan that ends
 * without o or s leaves the call open. */
#ifndef TESTS_SCRIPT_SERVER_H
#define TESTS_SCRIPT_SERVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "query/wire.h"

typedef struct {
    od_rpc_server *rpc;
    char address[32];
    atomic_int opened, gone, reset; /* calls of ExecuteFragment; RESET of those gone: not to a clean end */
    atomic_int cancels;             /* CancelExecution requests */
    atomic_bool acknowledge;
    atomic_ullong produced;
    pthread_mutex_t lock;
    char last_id[OD_EXECUTION_ID_SIZE];
    char last_token[64];
    char last_statement[64];
    od_rpc_call *last; /* of CancelExecution's use: ends with an error */
} script_server;

typedef struct {
    script_server *server;
    bool flooding;
} script_call;

static inline od_code script_code(const char *name, size_t len)
{
    for (int code = 1; code < OD_CODE_COUNT; code++) {
        if (strlen(od_code_name((od_code)code)) == len && strncmp(od_code_name((od_code)code), name, len) == 0)
            return (od_code)code;
    }
    return OD_E_INTERNAL;
}

static inline od_code script_batch(od_rpc_call *call, size_t len)
{
    od_msg *msg;
    od_rpc_out out;
    od_code rc;

    if (od_msg_create(len, 0, &msg, NULL) != OD_OK)
        return OD_E_NO_MEMORY;
    memset(od_msg_data(msg), 'x', len);
    rc = od_chunk_batch(msg, 0, len, &(od_chunk_told){.catalog_version = 42}, &out, NULL);
    if (rc == OD_OK)
        rc = od_rpc_call_send(call, &out, NULL);
    od_msg_unref(msg);
    return rc;
}

static inline void script_flood(script_call *s, od_rpc_call *call)
{
    while (od_rpc_call_room(call) && script_batch(call, 1 << 20) == OD_OK)
        atomic_fetch_add(&s->server->produced, 1 << 20);
}

static inline void script_error(od_rpc_call *call, od_code code, const char *id)
{
    od_error what;
    od_msg *msg;
    od_rpc_out out;

    od_fail(&what, code, "scripted %s", od_code_name(code));
    if (od_chunk_error(&what, id, 0, &msg, NULL) != OD_OK)
        return;
    od_rpc_out_whole(msg, &out);
    (void)!od_rpc_call_send(call, &out, NULL);
    od_msg_unref(msg);
}

static inline void script_step(script_call *s, od_rpc_call *call, const char *step, size_t len)
{
    od_rpc_out out = {0};

    if (len == 5 && strncmp(step, "flood", 5) == 0) {
        s->flooding = true;
        script_flood(s, call);
    } else if (step[0] == 'b') {
        (void)!script_batch(call, (size_t)strtoul(step + 1, NULL, 10));
    } else if (step[0] == 'e') {
        script_error(call, script_code(step + 1, len - 1), s->server->last_id);
    } else if (step[0] == 'f') {
        od_chunk_finished(0, 0, &out);
        (void)!od_rpc_call_send(call, &out, NULL);
    } else if (step[0] == 'x') {
        out.head[0] = 0x0f;
        out.head_len = 1;
        (void)!od_rpc_call_send(call, &out, NULL);
    } else if (step[0] == 'n') {
        (void)!od_rpc_call_send(call, &out, NULL);
    } else if (step[0] == 'o') {
        od_rpc_call_finish(call, OD_GRPC_OK, NULL);
    } else if (step[0] == 's') {
        od_rpc_call_finish(call, (int)strtol(step + 1, NULL, 10), "scripted status");
    }
}

static inline void script_copy(od_slice from, char *to, size_t size)
{
    size_t len = from.len < size - 1 ? from.len : size - 1;

    if (len > 0)
        memcpy(to, from.data, len);
    to[len] = '\0';
}

static inline void script_message(void *user, od_rpc_call *call, od_msg *msg)
{
    script_call *s = user;
    od_execute_request request;
    char plan[200];
    const char *at = plan;

    if (od_execute_request_decode(od_slice_of(od_msg_data(msg), od_msg_len(msg)), &request, NULL) == OD_OK) {
        pthread_mutex_lock(&s->server->lock);
        script_copy(request.execution_id, s->server->last_id, sizeof s->server->last_id);
        script_copy(request.access_token, s->server->last_token, sizeof s->server->last_token);
        script_copy(request.statement_id, s->server->last_statement, sizeof s->server->last_statement);
        od_rpc_call_unref(s->server->last);
        s->server->last = od_rpc_call_ref(call);
        pthread_mutex_unlock(&s->server->lock);
        script_copy(request.plan, plan, sizeof plan);
        atomic_fetch_add(&s->server->opened, 1);
        while (*at) {
            size_t len = strcspn(at, " ");

            script_step(s, call, at, len);
            at += len;
            at += strspn(at, " ");
        }
    }
    od_msg_unref(msg);
}

static inline void script_writable(void *user, od_rpc_call *call)
{
    script_call *s = user;

    if (s->flooding)
        script_flood(s, call);
}

static inline void script_gone(void *user, od_rpc_call *call, const od_error *why)
{
    script_call *s = user;

    (void)call;
    if (why)
        atomic_fetch_add(&s->server->reset, 1);
    atomic_fetch_add(&s->server->gone, 1);
    free(s);
}

static inline void script_cancel_message(void *user, od_rpc_call *call, od_msg *msg)
{
    script_server *server = user;
    bool acknowledge = atomic_load(&server->acknowledge);
    od_rpc_out out = {0};
    od_msg *reply = NULL;

    od_msg_unref(msg);
    atomic_fetch_add(&server->cancels, 1);
    pthread_mutex_lock(&server->lock);
    if (acknowledge && server->last) {
        script_error(server->last, OD_E_CANCELLED, server->last_id);
        od_chunk_finished(0, 0, &out);
        (void)!od_rpc_call_send(server->last, &out, NULL);
        od_rpc_call_finish(server->last, OD_GRPC_OK, NULL);
    }
    pthread_mutex_unlock(&server->lock);
    if (od_cancel_reply_encode(acknowledge, &reply, NULL) == OD_OK) {
        od_rpc_out_whole(reply, &out);
        (void)!od_rpc_call_reply(call, &out, OD_GRPC_OK, NULL, NULL);
    }
    od_msg_unref(reply);
}

static const od_rpc_events script_events = {
    .on_message = script_message, .on_writable = script_writable, .on_gone = script_gone};
static const od_rpc_events script_cancel_events = {.on_message = script_cancel_message};

static inline void script_open(void *service, od_rpc_call *call)
{
    script_call *s = calloc(1, sizeof *s);

    s->server = service;
    od_rpc_call_bind(call, &script_events, s);
    od_rpc_call_next(call);
}

static inline void script_cancel_open(void *service, od_rpc_call *call)
{
    od_rpc_call_bind(call, &script_cancel_events, service);
    od_rpc_call_next(call);
}

/* LISTEN NULL: a free port. */
static inline bool script_start(script_server *server, const char *listen)
{
    static const od_rpc_method methods[] = {{.path = OD_PATH_EXECUTE, .on_open = script_open},
                                            {.path = OD_PATH_CANCEL, .on_open = script_cancel_open}};
    const od_rpc_server_options options = {.listen = listen ? listen : "127.0.0.1:0",
                                           .threads = 1,
                                           .methods = methods,
                                           .method_count = 2,
                                           .service = server};

    memset(server, 0, sizeof *server);
    pthread_mutex_init(&server->lock, NULL);
    if (od_rpc_server_start(&options, &server->rpc, NULL) != OD_OK)
        return false;
    snprintf(server->address, sizeof server->address, "127.0.0.1:%u", (unsigned)od_rpc_server_port(server->rpc));
    return true;
}

static inline void script_stop(script_server *server)
{
    pthread_mutex_lock(&server->lock);
    od_rpc_call_unref(server->last);
    server->last = NULL;
    pthread_mutex_unlock(&server->lock);
    od_rpc_server_free(server->rpc);
    server->rpc = NULL;
    pthread_mutex_destroy(&server->lock);
}

/* Polls until CONDITION, for ten seconds. */
#define ASSERT_EVENTUALLY(condition)                                  \
    do {                                                              \
        for (int tries_ = 0; !(condition) && tries_ < 2000; tries_++) \
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);  \
        assert_true(condition);                                       \
    } while (0)

#endif

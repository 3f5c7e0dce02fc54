/* What the tests of calls share: a server with the test service, and a channel to it. */
#ifndef OD_TESTS_RPC_FIXTURE_H
#define OD_TESTS_RPC_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/rpc_service.h"

typedef struct {
    rpc_service service;
    od_rpc_server *server;
    od_channel *channel;
    od_error err;
} fixture;

static const od_interrupt NO_INTERRUPT = {0};

static inline int setup_with(void **state, const od_rpc_server_options *options)
{
    fixture *f = calloc(1, sizeof *f);

    rpc_service_init(&f->service);
    f->server = rpc_service_start(&f->service, options);
    f->channel = rpc_channel_to(od_rpc_server_port(f->server));
    *state = f;
    return 0;
}

static inline int setup(void **state)
{
    return setup_with(state, NULL);
}

static inline int teardown(void **state)
{
    fixture *f = *state;

    od_channel_unref(f->channel);
    od_rpc_server_free(f->server);
    free(f);
    return 0;
}

static inline void ok(fixture *f, od_code rc)
{
    if (rc != OD_OK)
        fail_msg("%s: %s", od_code_name(rc), f->err.message);
}

static inline void fails(fixture *f, od_code rc, od_code want, const char *text)
{
    if (rc != want)
        fail_msg("got %s, not %s: %s", rc ? od_code_name(rc) : "OK", od_code_name(want), f->err.message);
    if (text && !strstr(f->err.message, text))
        fail_msg("'%s' lacks '%s'", f->err.message, text);
}

static inline od_call *open_on(fixture *f, od_channel *channel, const char *path, od_deadline deadline)
{
    od_call *call;

    ok(f, od_call_open(channel, path, deadline, 0, NO_INTERRUPT, &call, &f->err));
    return call;
}

static inline od_call *open_call(fixture *f, const char *path, od_deadline deadline)
{
    return open_on(f, f->channel, path, deadline);
}

static inline void send_text(fixture *f, od_call *call, const char *text, bool last)
{
    od_rpc_out out = rpc_out_text(text);
    ok(f, od_call_send(call, &out, last, od_deadline_in_ms(10000), &f->err));
}

static inline od_code recv_any(fixture *f, od_call *call, od_msg **msg)
{
    return od_call_recv(call, msg, od_deadline_in_ms(10000), &f->err);
}

/* Receives one message that must be there, and checks that it is TEXT. */
static inline void expect_text(fixture *f, od_call *call, const char *text)
{
    od_msg *msg;

    ok(f, recv_any(f, call, &msg));
    assert_non_null(msg);
    assert_int_equal(od_msg_len(msg), strlen(text));
    assert_memory_equal(od_msg_data(msg), text, strlen(text));
    od_msg_unref(msg);
}

static inline void expect_end(fixture *f, od_call *call)
{
    od_msg *msg;

    ok(f, recv_any(f, call, &msg));
    assert_null(msg);
}

static inline void expect_failure(fixture *f, od_call *call, od_code code, const char *text)
{
    od_msg *msg;

    fails(f, recv_any(f, call, &msg), code, text);
    assert_null(msg);
}

/* A whole unary call, to show that things work. */
static inline void echo_on(fixture *f, od_channel *channel, const char *path)
{
    od_call *call = open_on(f, channel, path, od_deadline_in_ms(10000));

    send_text(f, call, "still here", true);
    expect_text(f, call, "still here");
    expect_end(f, call);
    od_call_free(call);
}

/* Receives COUNT messages of SIZE bytes 'x', and the end. */
static inline void expect_stream(fixture *f, od_call *call, unsigned count, size_t size)
{
    od_msg *msg;

    for (unsigned i = 0; i < count; i++) {
        ok(f, recv_any(f, call, &msg));
        if (!msg)
            fail_msg("the stream ended after %u of %u messages", i, count);
        assert_int_equal(od_msg_len(msg), size);
        for (size_t at = 0; at<size; at += size> 4096 ? 997 : 1)
            assert_int_equal(od_msg_data(msg)[at], 'x');
        od_msg_unref(msg);
    }
    expect_end(f, call);
}

/* A call counts until its on_gone has returned, so a moment longer than the test's own count. */
static inline void expect_no_calls(fixture *f)
{
    assert_true(od_rpc_server_drain(f->server, od_deadline_in_ms(5000)));
    assert_int_equal(od_rpc_server_calls(f->server), 0);
}

static inline double ms_since(int64_t ns)
{
    return (double)(od_clock_ns() - ns) / 1e6;
}

#endif

/* Client and server in one process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "support/rpc_service.h"
#include "base/banned.h"

typedef struct {
    rpc_service service;
    od_rpc_server *server;
    od_channel *channel;
    od_error err;
} fixture;

static const od_interrupt NONE = {0};

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);

    rpc_service_init(&f->service);
    f->server = rpc_service_start(&f->service, NULL);
    f->channel = rpc_channel_to(od_rpc_server_port(f->server));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;

    od_channel_unref(f->channel);
    od_rpc_server_free(f->server);
    free(f);
    return 0;
}

static void ok(fixture *f, od_code rc)
{
    if (rc != OD_OK)
        fail_msg("%s: %s", od_code_name(rc), f->err.message);
}

static od_call *open_call(fixture *f, const char *path, od_deadline deadline)
{
    od_call *call;

    ok(f, od_call_open(f->channel, path, deadline, 0, NONE, &call, &f->err));
    return call;
}

static void send_text(fixture *f, od_call *call, const char *text, bool last)
{
    od_rpc_out out = rpc_out_text(text);
    ok(f, od_call_send(call, &out, last, od_deadline_in_ms(10000), &f->err));
}

static void test_unary_call_is_answered(void **state)
{
    fixture *f = *state;

    for (unsigned i = 0; i < 100; i++) {
        od_call *call = open_call(f, "/test.Rpc/Echo", od_deadline_in_ms(5000));
        od_msg *msg;
        send_text(f, call, "hello", true);
        ok(f, od_call_recv(call, &msg, od_deadline_in_ms(5000), &f->err));
        assert_non_null(msg);
        assert_int_equal(od_msg_len(msg), 5);
        assert_memory_equal(od_msg_data(msg), "hello", 5);
        od_msg_unref(msg);
        ok(f, od_call_recv(call, &msg, od_deadline_in_ms(5000), &f->err));
        assert_null(msg);
        od_call_free(call);
    }
    assert_true(rpc_service_wait_gone(&f->service, 100));
    assert_int_equal(f->service.clean, 100);
    assert_int_equal(od_rpc_server_calls(f->server), 0);
}

static void drain_stream(fixture *f, const char *path, const char *request, unsigned count, size_t size)
{
    od_call *call = open_call(f, path, OD_DEADLINE_NEVER);
    unsigned got = 0;
    od_msg *msg;

    send_text(f, call, request, true);
    for (;;) {
        ok(f, od_call_recv(call, &msg, od_deadline_in_ms(10000), &f->err));
        if (!msg)
            break;
        assert_int_equal(od_msg_len(msg), size);
        if (size > 0) {
            assert_int_equal(od_msg_data(msg)[0], 'x');
            assert_int_equal(od_msg_data(msg)[size - 1], 'x');
        }
        od_msg_unref(msg);
        got++;
    }
    assert_int_equal(got, count);
    assert_true(od_call_bytes_received(call) >= (uint64_t)count * (size + 5));
    od_call_free(call);
}

static void test_stream_of_ten_thousand_messages_arrives_whole(void **state)
{
    drain_stream(*state, "/test.Rpc/Stream", "10000 100", 10000, 100);
    drain_stream(*state, "/test.Rpc/Threaded", "10000 100", 10000, 100);
}

static void test_stream_of_large_messages_arrives_whole(void **state)
{
    drain_stream(*state, "/test.Rpc/Stream", "200 1048576", 200, 1048576);
    drain_stream(*state, "/test.Rpc/Threaded", "200 1000003", 200, 1000003);
}

static void test_messages_of_zero_length_arrive(void **state)
{
    drain_stream(*state, "/test.Rpc/Stream", "5000 0", 5000, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_unary_call_is_answered, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stream_of_ten_thousand_messages_arrives_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stream_of_large_messages_arrives_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(test_messages_of_zero_length_arrive, setup, teardown),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

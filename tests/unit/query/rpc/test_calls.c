/* Client and server in one process: what calls carry, and how they end. */
#include "rpc_fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/banned.h"

static void test_unary_call_is_answered(void **state)
{
    fixture *f = *state;

    for (unsigned i = 0; i < 100; i++)
        echo_on(f, f->channel, "/test.Rpc/Echo");
    assert_true(rpc_service_wait_gone(&f->service, 100));
    assert_int_equal(f->service.clean, 100);
    expect_no_calls(f);
}

static void drain_stream(fixture *f, const char *path, const char *request, unsigned count, size_t size)
{
    od_call *call = open_call(f, path, OD_DEADLINE_NEVER);

    send_text(f, call, request, true);
    expect_stream(f, call, count, size);
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
    drain_stream(*state, "/test.Rpc/Stream", "50 1048576", 50, 1048576);
    drain_stream(*state, "/test.Rpc/Threaded", "50 1000003", 50, 1000003);
}

static void test_messages_of_zero_length_arrive(void **state)
{
    drain_stream(*state, "/test.Rpc/Stream", "5000 0", 5000, 0);
}

static void test_request_stream_is_collected(void **state)
{
    fixture *f = *state;
    od_call *call = open_call(f, "/test.Rpc/Collect", OD_DEADLINE_NEVER);
    od_msg *body = rpc_message(300000, 'y');
    od_rpc_out out = rpc_out(body);

    for (int i = 0; i < 100; i++)
        ok(f, od_call_send(call, &out, i == 99, od_deadline_in_ms(10000), &f->err));
    expect_text(f, call, "100 30000000");
    expect_end(f, call);
    od_call_free(call);
    od_msg_unref(body);
}

static void test_head_body_and_tail_make_one_message(void **state)
{
    fixture *f = *state;
    od_call *call = open_call(f, "/test.Rpc/Echo", OD_DEADLINE_NEVER);
    od_msg *body = rpc_message(100000, 'b'), *msg;
    od_rpc_out out = {
        .head = "head", .head_len = 4, .body = body, .offset = 10, .len = 90000, .tail = "tail", .tail_len = 4};

    ok(f, od_call_send(call, &out, true, od_deadline_in_ms(10000), &f->err));
    ok(f, recv_any(f, call, &msg));
    assert_int_equal(od_msg_len(msg), 90008);
    assert_memory_equal(od_msg_data(msg), "headb", 5);
    assert_memory_equal(od_msg_data(msg) + 90003, "btail", 5);
    od_msg_unref(msg);
    od_msg_unref(body);
    od_call_free(call);
}

static void test_received_message_is_aligned_as_asked(void **state)
{
    fixture *f = *state;
    od_call *call;
    od_msg *msg;

    ok(f, od_call_open(f->channel, "/test.Rpc/Stream", OD_DEADLINE_NEVER, 19, NO_INTERRUPT, &call, &f->err));
    send_text(f, call, "3 1000000", true);
    for (int i = 0; i < 3; i++) {
        ok(f, recv_any(f, call, &msg));
        assert_int_equal((uintptr_t)od_msg_data(msg) % 64, 19);
        od_msg_unref(msg);
    }
    od_call_free(call);
}

static void test_large_message_passes_and_larger_is_refused_by_each_side(void **state)
{
    fixture *f = *state;
    const size_t MIB = 1 << 20;
    od_call *call = open_call(f, "/test.Rpc/Echo", OD_DEADLINE_NEVER);
    od_msg *body = rpc_message(63 * MIB, 'z'), *msg;
    od_rpc_out out = rpc_out(body);

    ok(f, od_call_send(call, &out, false, od_deadline_in_ms(20000), &f->err));
    ok(f, recv_any(f, call, &msg));
    assert_int_equal(od_msg_len(msg), 63 * MIB);
    assert_memory_equal(od_msg_data(msg), od_msg_data(body), 63 * MIB);
    od_msg_unref(msg);
    od_msg_unref(body);

    /* The client's own sending, and the call goes on. */
    body = rpc_message(64 * MIB + 1, 'z');
    out = rpc_out(body);
    fails(f, od_call_send(call, &out, false, od_deadline_in_ms(20000), &f->err), OD_E_TOO_LARGE, "67108864");
    send_text(f, call, "small", true);
    expect_text(f, call, "small");
    od_call_free(call);
    od_msg_unref(body);

    /* The server's own sending. */
    call = open_call(f, "/test.Rpc/Stream", OD_DEADLINE_NEVER);
    send_text(f, call, "1 67108865", true);
    expect_failure(f, call, od_code_from_grpc_status(OD_GRPC_RESOURCE_EXHAUSTED), "67108864");
    od_call_free(call);
}

static void test_receiver_refuses_what_is_above_its_own_limit(void **state)
{
    fixture *f = *state;
    rpc_service service;
    od_rpc_server *small;
    od_channel_options options = {.max_message = 1000};
    od_channel *channel, *to_small;
    od_call *call;
    od_msg *body = rpc_message(2000, 'x');
    od_rpc_out out = rpc_out(body);

    /* Client: only the call ends, the connection serves the next. */
    options.endpoint = *od_channel_endpoint(f->channel);
    ok(f, od_channel_create(&options, &channel, &f->err));
    call = open_on(f, channel, "/test.Rpc/Stream", OD_DEADLINE_NEVER);
    send_text(f, call, "3 1001", true);
    expect_failure(f, call, OD_E_TOO_LARGE, "a message of 1001 bytes is above the limit of 1000 bytes");
    od_call_free(call);
    echo_on(f, channel, "/test.Rpc/Echo");
    od_channel_unref(channel);

    /* Server. */
    rpc_service_init(&service);
    small = rpc_service_start(&service, &(od_rpc_server_options){.max_message = 1000});
    to_small = rpc_channel_to(od_rpc_server_port(small));
    call = open_on(f, to_small, "/test.Rpc/Collect", OD_DEADLINE_NEVER);
    ok(f, od_call_send(call, &out, false, od_deadline_in_ms(5000), &f->err));
    expect_failure(f, call, OD_E_TOO_LARGE, "limit of 1000 bytes");
    assert_false(f->err.retriable);
    od_call_free(call);
    assert_true(rpc_service_wait_gone(&service, 1));
    assert_int_equal(service.last_code, OD_E_TOO_LARGE);
    echo_on(f, to_small, "/test.Rpc/Echo");
    od_channel_unref(to_small);
    od_rpc_server_free(small);
    od_msg_unref(body);
}

static void test_deadline_ends_both_sides(void **state)
{
    fixture *f = *state;
    int64_t at = od_clock_ns();
    od_call *call = open_call(f, "/test.Rpc/Hang", od_deadline_in_ms(200));

    send_text(f, call, "x", true);
    expect_failure(f, call, OD_E_TIMEOUT, NULL);
    assert_true(ms_since(at) > 195 && ms_since(at) < 700);
    assert_true(rpc_service_wait_gone(&f->service, 1));
    assert_true(ms_since(at) < 900);
    od_call_free(call);
    fails(f, od_call_open(f->channel, "/test.Rpc/Hang", od_deadline_in_ms(0), 0, NO_INTERRUPT, &call, &f->err),
          OD_E_TIMEOUT, NULL);
}

static void test_wait_may_be_repeated(void **state)
{
    fixture *f = *state;
    od_call *call = open_call(f, "/test.Rpc/Echo", OD_DEADLINE_NEVER);
    od_msg *msg;

    send_text(f, call, "one", false);
    expect_text(f, call, "one");
    assert_false(od_call_ready(call));
    fails(f, od_call_recv(call, &msg, od_deadline_in_ms(50), &f->err), OD_E_TIMEOUT, "timed out: no answer from");
    send_text(f, call, "two", true);
    for (int i = 0; i < 500 && !od_call_ready(call); i++)
        usleep(10000);
    assert_true(od_call_ready(call));
    expect_text(f, call, "two");
    expect_end(f, call);
    od_call_free(call);
}

static void *cancel_soon(void *call)
{
    usleep(100000);
    od_call_cancel(call);
    return NULL;
}

static void test_cancel_ends_a_blocked_receive_and_tells_the_server(void **state)
{
    fixture *f = *state;
    od_call *call = open_call(f, "/test.Rpc/Hang", OD_DEADLINE_NEVER);
    pthread_t thread;
    int64_t at;

    send_text(f, call, "x", true);
    pthread_create(&thread, NULL, cancel_soon, call);
    expect_failure(f, call, OD_E_CANCELLED, NULL);
    pthread_join(thread, NULL);
    at = od_clock_ns();
    od_call_free(call);
    assert_true(rpc_service_wait_gone(&f->service, 1));
    assert_true(ms_since(at) < 500);
    assert_int_equal(f->service.last_code, OD_E_CANCELLED);
    echo_on(f, f->channel, "/test.Rpc/Echo"); /* over the same connection */
}

static void test_dropped_stream_stops_the_server(void **state)
{
    fixture *f = *state;

    for (int i = 0; i < 20; i++) {
        od_call *call = open_call(f, i % 2 ? "/test.Rpc/Stream" : "/test.Rpc/Threaded", OD_DEADLINE_NEVER);
        od_msg *msg;
        send_text(f, call, "1000000 1000000", true);
        ok(f, recv_any(f, call, &msg));
        od_msg_unref(msg);
        od_call_free(call);
        echo_on(f, f->channel, "/test.Rpc/Echo");
    }
    assert_true(rpc_service_wait_gone(&f->service, 40));
    assert_int_equal(f->service.clean, 20);
    assert_int_equal(f->service.last_code, OD_E_CANCELLED);
}

static void test_server_may_reset(void **state)
{
    fixture *f = *state;
    od_call *call = open_call(f, "/test.Rpc/Abort", OD_DEADLINE_NEVER);

    send_text(f, call, "x", true);
    expect_failure(f, call, OD_E_CANCELLED, "reset");
    od_call_free(call);
}

static bool third_time(void *arg)
{
    return ++*(int *)arg == 3;
}

static void test_interrupt_ends_a_wait(void **state)
{
    fixture *f = *state;
    int asked = 0;
    int64_t at = od_clock_ns();
    od_call *call;
    od_msg *msg;

    ok(f, od_call_open(f->channel, "/test.Rpc/Hang", OD_DEADLINE_NEVER, 0, (od_interrupt){third_time, &asked}, &call,
                       &f->err));
    send_text(f, call, "x", true);
    fails(f, recv_any(f, call, &msg), OD_E_CANCELLED, NULL);
    assert_true(ms_since(at) < 1000);
    od_call_free(call);
}

static void test_status_and_text_arrive(void **state)
{
    fixture *f = *state;
    od_call *call = open_call(f, "/test.Rpc/Fail", OD_DEADLINE_NEVER);

    send_text(f, call, "5 nicht gefunden: \xc3\xa4\xe2\x82\xac 100%\n", true);
    expect_failure(f, call, od_code_from_grpc_status(5), "nicht gefunden: \xc3\xa4\xe2\x82\xac 100%\n");
    expect_failure(f, call, od_code_from_grpc_status(5), "nicht gefunden"); /* and again */
    od_call_free(call);
    call = open_call(f, "/test.Rpc/Fail", OD_DEADLINE_NEVER);
    send_text(f, call, "16", true);
    expect_failure(f, call, OD_E_UNAUTHENTICATED, NULL);
    assert_true(f->err.message[0] != '\0');
    od_call_free(call);
}

static void test_unknown_method_is_unimplemented(void **state)
{
    fixture *f = *state;
    od_call *call = open_call(f, "/test.Rpc/Nope", OD_DEADLINE_NEVER);

    send_text(f, call, "x", true);
    expect_failure(f, call, OD_E_NOT_IMPLEMENTED, "unknown method '/test.Rpc/Nope'");
    od_call_free(call);
    echo_on(f, f->channel, "/test.Rpc/Echo");
}

static void test_early_answer_stops_the_request(void **state)
{
    fixture *f = *state;
    od_call *call = open_call(f, "/test.Rpc/Fail", OD_DEADLINE_NEVER);
    od_msg *body = rpc_message(1 << 20, 'x');
    od_rpc_out out = rpc_out(body);
    od_code rc = OD_OK;

    send_text(f, call, "8 enough", false);
    for (int i = 0; i < 100 && rc == OD_OK; i++)
        rc = od_call_send(call, &out, false, od_deadline_in_ms(5000), &f->err);
    expect_failure(f, call, od_code_from_grpc_status(8), "enough");
    od_call_free(call);
    od_msg_unref(body);
    echo_on(f, f->channel, "/test.Rpc/Echo");
}

static void test_slow_reader_holds_the_server_back(void **state)
{
    fixture *f = *state;
    od_call *call = open_call(f, "/test.Rpc/Stream", OD_DEADLINE_NEVER);
    od_msg *msg;
    size_t handed;

    send_text(f, call, "60 1000000", true);
    ok(f, recv_any(f, call, &msg));
    od_msg_unref(msg);
    usleep(300000);
    pthread_mutex_lock(&f->service.lock);
    handed = f->service.handed;
    pthread_mutex_unlock(&f->service.lock);
    /* A stream's window, the queue of a call, and one message of each. */
    assert_true(handed <= 9u << 20);
    expect_stream(f, call, 59, 1000000);
    od_call_free(call);
}

static void test_slow_server_holds_the_client_back(void **state)
{
    fixture *f = *state;
    od_call *call = open_call(f, "/test.Rpc/Slow", OD_DEADLINE_NEVER);
    od_msg *body = rpc_message(1 << 20, 'x');
    od_rpc_out out = rpc_out(body);
    od_code rc = OD_OK;
    int sent = 0;

    while (rc == OD_OK && sent < 20) {
        rc = od_call_send(call, &out, false, od_deadline_in_ms(200), &f->err);
        sent++;
    }
    fails(f, rc, OD_E_TIMEOUT, NULL);
    assert_true(sent <= 2); /* the server's window is 1 MiB */
    od_call_free(call);
    od_msg_unref(body);
    assert_true(rpc_service_wait_gone(&f->service, 1));
}

typedef struct {
    fixture *f;
    atomic_int *done;
} worker;

static void *call_much(void *arg)
{
    worker *w = arg;

    for (int i = 0; i < 100; i++) {
        fixture mine = {.channel = w->f->channel};
        drain_stream(&mine, i % 2 ? "/test.Rpc/Threaded" : "/test.Rpc/Stream", "20 5000", 20, 5000);
        echo_on(&mine, mine.channel, "/test.Rpc/Echo");
    }
    atomic_fetch_add(w->done, 1);
    return NULL;
}

static void test_many_threads_share_a_channel(void **state)
{
    enum { THREADS = 8 };
    fixture *f = *state;
    pthread_t threads[THREADS];
    atomic_int done = 0;
    worker w = {f, &done};

    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, call_much, &w);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(done, THREADS);
    assert_true(rpc_service_wait_gone(&f->service, THREADS * 200));
    assert_int_equal(f->service.clean, THREADS * 200);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(test_unary_call_is_answered),
        CASE(test_stream_of_ten_thousand_messages_arrives_whole),
        CASE(test_stream_of_large_messages_arrives_whole),
        CASE(test_messages_of_zero_length_arrive),
        CASE(test_request_stream_is_collected),
        CASE(test_head_body_and_tail_make_one_message),
        CASE(test_received_message_is_aligned_as_asked),
        CASE(test_large_message_passes_and_larger_is_refused_by_each_side),
        CASE(test_receiver_refuses_what_is_above_its_own_limit),
        CASE(test_deadline_ends_both_sides),
        CASE(test_wait_may_be_repeated),
        CASE(test_cancel_ends_a_blocked_receive_and_tells_the_server),
        CASE(test_dropped_stream_stops_the_server),
        CASE(test_server_may_reset),
        CASE(test_interrupt_ends_a_wait),
        CASE(test_status_and_text_arrive),
        CASE(test_unknown_method_is_unimplemented),
        CASE(test_early_answer_stops_the_request),
        CASE(test_slow_reader_holds_the_server_back),
        CASE(test_slow_server_holds_the_client_back),
        CASE(test_many_threads_share_a_channel),
    };

    int failed;

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    failed = cmocka_run_group_tests_name("plain", tests, NULL, NULL);
    rpc_service_use_tls(true);
    return failed + cmocka_run_group_tests_name("TLS", tests, NULL, NULL);
}

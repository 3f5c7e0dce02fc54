/* Calls through a server in the middle. */
#include "rpc_fixture.h"

#include <pthread.h>
#include <unistd.h>

#include "base/banned.h"

/* The fixture's server is the middle; behind it: */
typedef struct {
    rpc_service service;
    od_rpc_server *server;
} backend;

static backend *back;

static int setup_relay(void **state)
{
    fixture *f;
    char text[64];

    back = calloc(1, sizeof *back);
    rpc_service_init(&back->service);
    back->server = rpc_service_start(&back->service, NULL);
    setup(state);
    f = *state;
    rpc_service_url("127.0.0.1", od_rpc_server_port(back->server), text);
    return od_endpoint_parse(od_slice_str(text), &f->service.upstream, NULL) == OD_OK ? 0 : -1;
}

static int teardown_relay(void **state)
{
    teardown(state);
    od_rpc_server_free(back->server);
    free(back);
    return 0;
}

static void test_unary_calls_pass_over_a_kept_connection(void **state)
{
    fixture *f = *state;

    for (int i = 0; i < 200; i++)
        echo_on(f, f->channel, "/test.Rpc/Relay/Echo");
    assert_true(rpc_service_wait_gone(&f->service, 200));
    assert_int_equal(f->service.clean, 200);
    assert_true(rpc_service_wait_gone(&back->service, 200));
    assert_int_equal(back->service.clean, 200);
}

static void test_streams_pass_whole(void **state)
{
    fixture *f = *state;
    od_call *call = open_call(f, "/test.Rpc/Relay/Stream", OD_DEADLINE_NEVER);

    send_text(f, call, "60 1000000", true);
    expect_stream(f, call, 60, 1000000);
    od_call_free(call);
    call = open_call(f, "/test.Rpc/Relay/Threaded", OD_DEADLINE_NEVER);
    send_text(f, call, "10000 10", true);
    expect_stream(f, call, 10000, 10);
    od_call_free(call);
}

static void test_status_passes(void **state)
{
    fixture *f = *state;
    od_call *call = open_call(f, "/test.Rpc/Relay/Fail", OD_DEADLINE_NEVER);

    send_text(f, call, "9 nein: \xc3\xb6", true);
    expect_failure(f, call, od_code_from_grpc_status(9), "nein: \xc3\xb6");
    od_call_free(call);
    call = open_call(f, "/test.Rpc/Relay/Nope", OD_DEADLINE_NEVER);
    send_text(f, call, "x", true);
    expect_failure(f, call, OD_E_NOT_IMPLEMENTED, "unknown method '/test.Rpc/Nope'");
    od_call_free(call);
    call = open_call(f, "/test.Rpc/Relay/Abort", OD_DEADLINE_NEVER);
    send_text(f, call, "x", true);
    expect_failure(f, call, OD_E_CANCELLED, NULL);
    od_call_free(call);
}

static void test_cancel_passes(void **state)
{
    fixture *f = *state;
    od_call *call = open_call(f, "/test.Rpc/Relay/Hang", OD_DEADLINE_NEVER);
    int64_t at;

    send_text(f, call, "x", true);
    assert_true(rpc_service_wait_opened(&back->service, 1));
    at = od_clock_ns();
    od_call_free(call);
    assert_true(rpc_service_wait_gone(&back->service, 1));
    assert_true(ms_since(at) < 500);
    assert_int_equal(back->service.last_code, OD_E_CANCELLED);
}

static void test_deadline_passes(void **state)
{
    fixture *f = *state;
    od_call *call = open_call(f, "/test.Rpc/Relay/Hang", od_deadline_in_ms(200));
    int64_t at = od_clock_ns();

    send_text(f, call, "x", true);
    expect_failure(f, call, OD_E_TIMEOUT, NULL);
    assert_true(rpc_service_wait_gone(&back->service, 1));
    assert_true(rpc_service_wait_gone(&f->service, 1));
    assert_true(ms_since(at) > 150 && ms_since(at) < 900);
    od_call_free(call);
}

static void test_slow_reader_holds_both_servers_back(void **state)
{
    fixture *f = *state;
    od_call *call = open_call(f, "/test.Rpc/Relay/Stream", OD_DEADLINE_NEVER);
    od_msg *msg;
    size_t handed;

    send_text(f, call, "60 1000000", true);
    ok(f, recv_any(f, call, &msg));
    od_msg_unref(msg);
    usleep(300000);
    pthread_mutex_lock(&back->service.lock);
    handed = back->service.handed;
    pthread_mutex_unlock(&back->service.lock);
    /* The client's window, two queues, the relay's window, and one message of each. */
    assert_true(handed <= 14u << 20);
    expect_stream(f, call, 59, 1000000);
    od_call_free(call);
}

/* The backend has finished, but the middle still holds what its slow client has not taken. */
static void test_cancel_frees_an_upstream_call_that_has_ended(void **state)
{
    fixture *f = *state;
    od_call *call = open_call(f, "/test.Rpc/Relay/Stream", OD_DEADLINE_NEVER);
    od_msg *msg;

    send_text(f, call, "14 500000", true);
    ok(f, recv_any(f, call, &msg));
    od_msg_unref(msg);
    assert_true(rpc_service_wait_gone(&back->service, 1));
    assert_int_equal(back->service.clean, 1);
    usleep(100000);
    assert_int_equal(f->service.up_gone, 0);
    od_call_free(call);
    assert_true(rpc_service_wait_gone(&f->service, 1));
    assert_true(rpc_service_wait_up_gone(&f->service, 1));
}

static void test_one_slow_stream_does_not_hold_others_back(void **state)
{
    fixture *f = *state;
    od_call *slow[6];

    /* More than the connection's window would be in flight, if it were given back by the reader. */
    for (int i = 0; i < 6; i++) {
        slow[i] = open_call(f, "/test.Rpc/Relay/Stream", OD_DEADLINE_NEVER);
        send_text(f, slow[i], "30 1000000", true);
    }
    usleep(100000);
    for (int i = 0; i < 20; i++)
        echo_on(f, f->channel, "/test.Rpc/Relay/Echo");
    for (int i = 0; i < 6; i++) {
        expect_stream(f, slow[i], 30, 1000000);
        od_call_free(slow[i]);
    }
}

/* Cancelled streams on the shared connection leave frames half written; the others must not notice. */
static void *read_streams(void *arg)
{
    fixture mine = {.channel = ((fixture *)arg)->channel};

    for (int i = 0; i < 6; i++) {
        od_call *call = open_call(&mine, "/test.Rpc/Relay/Stream", OD_DEADLINE_NEVER);
        send_text(&mine, call, "30 300000", true);
        expect_stream(&mine, call, 30, 300000);
        od_call_free(call);
    }
    return NULL;
}

static void *drop_streams(void *arg)
{
    fixture mine = {.channel = ((fixture *)arg)->channel};

    for (int i = 0; i < 40; i++) {
        od_call *call =
            open_call(&mine, i % 2 ? "/test.Rpc/Relay/Threaded" : "/test.Rpc/Relay/Stream", OD_DEADLINE_NEVER);
        od_msg *msg;
        send_text(&mine, call, "1000 777777", true);
        for (int k = 0; k <= i % 3; k++) {
            ok(&mine, recv_any(&mine, call, &msg));
            od_msg_unref(msg);
        }
        od_call_free(call);
    }
    return NULL;
}

static void test_dropped_streams_leave_the_shared_connection_in_step(void **state)
{
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, i % 2 ? read_streams : drop_streams, *state);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    expect_no_calls(*state);
}

static void test_backend_that_is_not_there_is_unavailable(void **state)
{
    fixture *f = *state;
    od_call *call;
    char want[80];

    snprintf(want, sizeof want, "cannot connect to '%s': ", f->service.upstream.authority);
    od_rpc_server_free(back->server);
    back->server = NULL;
    for (int i = 0; i < 3; i++) {
        call = open_call(f, "/test.Rpc/Relay/Echo", od_deadline_in_ms(5000));
        send_text(f, call, "x", true);
        expect_failure(f, call, OD_E_UNAVAILABLE, want);
        od_call_free(call);
    }
}

static void test_backend_that_dies_ends_its_calls_and_is_found_again(void **state)
{
    fixture *f = *state;
    char listen_on[32];

    snprintf(listen_on, sizeof listen_on, "127.0.0.1:%u", od_rpc_server_port(back->server));
    for (int i = 0; i < 3; i++) {
        od_call *call = open_call(f, "/test.Rpc/Relay/Hang", od_deadline_in_ms(5000));
        send_text(f, call, "x", true);
        assert_true(rpc_service_wait_opened(&back->service, (unsigned)(2 * i + 1)));
        od_rpc_server_free(back->server);
        expect_failure(f, call, OD_E_UNAVAILABLE, "lost the connection to");
        od_call_free(call);
        back->server = rpc_service_start(&back->service, &(od_rpc_server_options){.listen = listen_on});
        echo_on(f, f->channel, "/test.Rpc/Relay/Echo");
    }
}

static void test_names_are_resolved_in_the_background(void **state)
{
    fixture *f = *state;
    char text[64];

    rpc_service_url("localhost", od_rpc_server_port(back->server), text);
    ok(f, od_endpoint_parse(od_slice_str(text), &f->service.upstream, &f->err));
    for (int i = 0; i < 3; i++)
        echo_on(f, f->channel, "/test.Rpc/Relay/Echo");
}

static void *call_much(void *arg)
{
    fixture mine = {.channel = ((fixture *)arg)->channel};

    for (int i = 0; i < 100; i++)
        echo_on(&mine, mine.channel, "/test.Rpc/Relay/Echo");
    return NULL;
}

static void test_many_calls_share_the_way(void **state)
{
    pthread_t threads[8];

    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, call_much, *state);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    assert_true(rpc_service_wait_gone(&back->service, 800));
    assert_int_equal(back->service.clean, 800);
}

static void test_middle_that_ends_tells_both_sides(void **state)
{
    fixture *f = *state;
    od_call *calls[10];

    for (int i = 0; i < 10; i++) {
        calls[i] = open_call(f, i % 2 ? "/test.Rpc/Relay/Stream" : "/test.Rpc/Relay/Hang", OD_DEADLINE_NEVER);
        send_text(f, calls[i], "1000 1000000", true);
    }
    assert_true(rpc_service_wait_opened(&back->service, 10));
    od_rpc_server_free(f->server);
    f->server = NULL;
    assert_int_equal(f->service.gone, 10);
    assert_true(rpc_service_wait_gone(&back->service, 10));
    for (int i = 0; i < 10; i++)
        od_call_free(calls[i]);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup_relay, teardown_relay)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(test_unary_calls_pass_over_a_kept_connection),
        CASE(test_streams_pass_whole),
        CASE(test_status_passes),
        CASE(test_cancel_passes),
        CASE(test_deadline_passes),
        CASE(test_slow_reader_holds_both_servers_back),
        CASE(test_cancel_frees_an_upstream_call_that_has_ended),
        CASE(test_one_slow_stream_does_not_hold_others_back),
        CASE(test_dropped_streams_leave_the_shared_connection_in_step),
        CASE(test_backend_that_is_not_there_is_unavailable),
        CASE(test_backend_that_dies_ends_its_calls_and_is_found_again),
        CASE(test_names_are_resolved_in_the_background),
        CASE(test_many_calls_share_the_way),
        CASE(test_middle_that_ends_tells_both_sides),
    };

    /* Without those that take long and are about windows alone. */
    const struct CMUnitTest over_tls[] = {
        CASE(test_unary_calls_pass_over_a_kept_connection),
        CASE(test_streams_pass_whole),
        CASE(test_status_passes),
        CASE(test_cancel_passes),
        CASE(test_deadline_passes),
        CASE(test_dropped_streams_leave_the_shared_connection_in_step),
        CASE(test_backend_that_is_not_there_is_unavailable),
        CASE(test_backend_that_dies_ends_its_calls_and_is_found_again),
        CASE(test_names_are_resolved_in_the_background),
        CASE(test_many_calls_share_the_way),
        CASE(test_middle_that_ends_tells_both_sides),
    };
    int failed;

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    failed = cmocka_run_group_tests_name("plain", tests, NULL, NULL);
    rpc_service_use_tls(true);
    return failed + cmocka_run_group_tests_name("TLS", over_tls, NULL, NULL);
}

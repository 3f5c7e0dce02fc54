/* Connections that break, peers that misbehave, processes that fork. */
#include "rpc_fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/rpc_frames.h"
#include "base/banned.h"

/* ---- raw sockets ---- */

static struct sockaddr_in loopback(uint16_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return a;
}

static int raw_connect(uint16_t port)
{
    struct sockaddr_in a = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

static int raw_listen(uint16_t *port)
{
    struct sockaddr_in a = loopback(0);
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    *port = ntohs(a.sin_port);
    return fd;
}

/* Closes so that the peer gets RST instead of FIN. */
static void close_hard(int fd)
{
    struct linger off = {1, 0};

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &off, sizeof off);
    close(fd);
}

static void raw_send(int fd, const void *data, size_t len)
{
    assert_int_equal(send(fd, data, len, MSG_NOSIGNAL), (ssize_t)len);
}

/* ---- the server's side ---- */

static void test_vanished_client_is_told_at_once(void **state)
{
    fixture *f = *state;

    for (unsigned i = 0; i < 4; i++) {
        od_buf bytes = {0};
        int fd = raw_connect(od_rpc_server_port(f->server));
        int64_t at;
        frames_preface(&bytes);
        frame_request(&bytes, 1, i < 2 ? "/test.Rpc/Hang" : "/test.Rpc/Slow");
        frame_message(&bytes, 0, 1, "x");
        raw_send(fd, bytes.data, bytes.len);
        assert_true(rpc_service_wait_opened(&f->service, i + 1));
        at = od_clock_ns();
        if (i % 2)
            close_hard(fd);
        else
            close(fd);
        assert_true(rpc_service_wait_gone(&f->service, i + 1));
        assert_true(ms_since(at) < 500);
        assert_int_equal(f->service.last_code, OD_E_CONNECTION_LOST);
        assert_non_null(strstr(f->service.last_text, "127.0.0.1:"));
        od_buf_release(&bytes);
    }
    expect_no_calls(f);
}

static void test_connection_cut_at_any_byte_does_no_harm(void **state)
{
    fixture *f = *state;
    od_buf bytes = {0};
    unsigned opened;

    frames_preface(&bytes);
    frame_request(&bytes, 1, "/test.Rpc/Echo");
    frame_message(&bytes, 0, 1, "hello");
    frame_message(&bytes, FLAG_END_STREAM, 1, "");
    frame_request(&bytes, 3, "/test.Rpc/Stream");
    frame_message(&bytes, FLAG_END_STREAM, 3, "1000 10000");
    for (size_t cut = 1; cut <= bytes.len; cut++) {
        int fd = raw_connect(od_rpc_server_port(f->server));
        raw_send(fd, bytes.data, cut);
        if (cut % 2)
            close_hard(fd);
        else
            close(fd);
    }
    echo_on(f, f->channel, "/test.Rpc/Echo");
    for (int i = 0; i < 500 && od_rpc_server_calls(f->server) > 0; i++)
        usleep(10000);
    assert_int_equal(od_rpc_server_calls(f->server), 0);
    pthread_mutex_lock(&f->service.lock);
    opened = f->service.opened;
    pthread_mutex_unlock(&f->service.lock);
    assert_true(rpc_service_wait_gone(&f->service, opened));
    od_buf_release(&bytes);
}

static void test_connection_that_is_not_http2_is_closed(void **state)
{
    fixture *f = *state;
    int fd = raw_connect(od_rpc_server_port(f->server));
    char text[4096];
    ssize_t n;

    raw_send(fd, "GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: y\r\n\r\n", 43);
    while ((n = recv(fd, text, sizeof text, 0)) > 0)
        ;
    assert_true(n <= 0); /* and not for ever */
    close(fd);
    echo_on(f, f->channel, "/test.Rpc/Echo");
}

static int setup_few(void **state)
{
    return setup_with(state, &(od_rpc_server_options){.max_connections = 2, .stall_timeout_ms = 1000});
}

static void test_connections_above_the_limit_are_closed(void **state)
{
    fixture *f = *state;
    int a, b, c;
    char text[100];

    echo_on(f, f->channel, "/test.Rpc/Echo"); /* the first */
    a = raw_connect(od_rpc_server_port(f->server));
    assert_true(recv(a, text, sizeof text, 0) > 0); /* its SETTINGS */
    b = raw_connect(od_rpc_server_port(f->server));
    assert_true(recv(b, text, sizeof text, 0) <= 0);
    close(a);
    usleep(100000);
    c = raw_connect(od_rpc_server_port(f->server));
    assert_true(recv(c, text, sizeof text, 0) > 0);
    close(b);
    close(c);
}

static void test_stalled_reader_is_reset(void **state)
{
    fixture *f = *state;
    od_call *call = open_call(f, "/test.Rpc/Stream", OD_DEADLINE_NEVER);
    int64_t at = od_clock_ns();

    send_text(f, call, "1000 1000000", true);
    assert_true(rpc_service_wait_gone(&f->service, 1));
    assert_true(ms_since(at) > 900 && ms_since(at) < 4500);
    assert_int_equal(f->service.last_code, OD_E_TIMEOUT);
    od_call_free(call);
}

/* ---- the client's side ---- */

static void test_refused_connection_names_the_endpoint(void **state)
{
    fixture *f = *state;
    uint16_t port;
    int fd = raw_listen(&port);
    od_channel *channel;
    od_call *call;
    char want[64];

    close(fd);
    channel = rpc_channel_to(port);
    snprintf(want, sizeof want, "cannot connect to '127.0.0.1:%u': ", port);
    fails(f, od_call_open(channel, "/a/b", OD_DEADLINE_NEVER, 0, NO_INTERRUPT, &call, &f->err), OD_E_UNAVAILABLE, want);
    assert_null(call);
    od_channel_unref(channel);
}

typedef struct {
    int listener;
    const od_buf *answer; /* sent after the first bytes have come, before the connection is closed */
    int accepts;
} impostor;

static void *impostor_main(void *arg)
{
    impostor *i = arg;
    char text[4096];

    for (int k = 0; k < i->accepts; k++) {
        int fd = accept(i->listener, NULL, NULL);
        ssize_t n = recv(fd, text, sizeof text, 0);
        if (n > 0 && i->answer->len > 0)
            n = send(fd, i->answer->data, i->answer->len, MSG_NOSIGNAL);
        close(fd);
    }
    return NULL;
}

static void test_server_that_vanishes_is_a_lost_connection(void **state)
{
    fixture *f = *state;
    od_buf whole = {0};
    uint16_t port;
    impostor i = {.listener = raw_listen(&port), .accepts = 1};
    od_channel *channel = rpc_channel_to(port);

    frame_add(&whole, FRAME_SETTINGS, 0, 0, NULL, 0);
    frame_headers(&whole, 0, 1, ":status", "200", "content-type", "application/grpc", NULL);
    frame_message(&whole, 0, 1, "first of two");
    for (size_t cut = 0; cut <= whole.len; cut++) {
        od_buf part = {whole.data, cut, cut};
        pthread_t thread;
        od_call *call;
        od_msg *msg = NULL;
        od_code rc;
        i.answer = &part;
        pthread_create(&thread, NULL, impostor_main, &i);
        call = open_on(f, channel, "/a/b", od_deadline_in_ms(5000));
        send_text(f, call, "x", true);
        rc = recv_any(f, call, &msg);
        if (msg) {
            od_msg_unref(msg);
            rc = recv_any(f, call, &msg);
        }
        assert_null(msg);
        fails(f, rc, OD_E_CONNECTION_LOST, "lost the connection to '127.0.0.1:");
        od_call_free(call);
        pthread_join(thread, NULL);
    }
    close(i.listener);
    od_buf_release(&whole);
    od_channel_unref(channel);
}

/* Serves calls by hand, to see how often a request is sent. Commands come one by one. */
typedef struct {
    int listener, fd;
    int requests;
} puppet;

static void puppet_accept(puppet *p)
{
    p->fd = accept(p->listener, NULL, NULL);
    assert_true(p->fd >= 0);
}

/* Reads until a request for /p is whole. */
static void puppet_read(puppet *p)
{
    char bytes[4096];
    size_t len = 0;
    ssize_t n = 1;

    while (n > 0 && !slice_contains(od_slice_of(bytes, len), "puppet")) {
        n = recv(p->fd, bytes + len, sizeof bytes - len, 0);
        len += n > 0 ? (size_t)n : 0;
    }
    assert_true(n > 0);
    p->requests++;
}

static void puppet_answer(puppet *p, uint32_t stream)
{
    od_buf bytes = {0};

    if (stream == 1)
        frame_add(&bytes, FRAME_SETTINGS, 0, 0, NULL, 0);
    frame_headers(&bytes, 0, stream, ":status", "200", "content-type", "application/grpc", NULL);
    frame_message(&bytes, 0, stream, "strings");
    frame_headers(&bytes, FLAG_END_STREAM, stream, "grpc-status", "0", NULL);
    raw_send(p->fd, bytes.data, bytes.len);
    od_buf_release(&bytes);
}

static void *puppet_one_call(void *arg)
{
    puppet_accept(arg);
    puppet_read(arg);
    puppet_answer(arg, 1);
    return NULL;
}

static void call_puppet(fixture *f, puppet *p, od_channel *channel)
{
    pthread_t thread;
    od_call *call;

    pthread_create(&thread, NULL, puppet_one_call, p);
    call = open_on(f, channel, "/p/p", OD_DEADLINE_NEVER);
    send_text(f, call, "puppet", true);
    expect_text(f, call, "strings");
    expect_end(f, call);
    od_call_free(call);
    pthread_join(thread, NULL);
}

static void test_request_that_never_arrived_is_sent_again(void **state)
{
    fixture *f = *state;
    uint16_t port;
    puppet p = {.listener = raw_listen(&port)};
    od_channel *channel = rpc_channel_to(port);
    pthread_t thread;
    od_call *call;

    call_puppet(f, &p, channel);
    call = open_on(f, channel, "/p/p", OD_DEADLINE_NEVER); /* takes the idle connection, which still lives */
    close_hard(p.fd);
    pthread_create(&thread, NULL, puppet_one_call, &p);
    send_text(f, call, "puppet", true);
    expect_text(f, call, "strings");
    expect_end(f, call);
    od_call_free(call);
    pthread_join(thread, NULL);
    assert_int_equal(p.requests, 2);
    close(p.fd);
    close(p.listener);
    od_channel_unref(channel);
}

static void *puppet_take_and_die(void *arg)
{
    puppet *p = arg;

    puppet_read(p);
    close_hard(p->fd);
    return NULL;
}

static void test_request_that_may_have_been_done_is_not_sent_again(void **state)
{
    fixture *f = *state;
    uint16_t port;
    puppet p = {.listener = raw_listen(&port)};
    od_channel *channel = rpc_channel_to(port);
    pthread_t thread;
    od_call *call;

    call_puppet(f, &p, channel);
    call = open_on(f, channel, "/p/p", OD_DEADLINE_NEVER);
    pthread_create(&thread, NULL, puppet_take_and_die, &p);
    send_text(f, call, "puppet", true);
    expect_failure(f, call, OD_E_CONNECTION_LOST, "lost the connection");
    od_call_free(call);
    pthread_join(thread, NULL);
    assert_int_equal(p.requests, 2);
    close(p.listener);
    od_channel_unref(channel);
}

/* A listener whose queue is full: connecting to it goes on and on. */
static int listen_deaf(uint16_t *port, int fillers[3])
{
    int fd = raw_listen(port);
    struct sockaddr_in a = loopback(*port);

    assert_int_equal(listen(fd, 0), 0);
    for (int i = 0; i < 3; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        (void)connect(fillers[i], (struct sockaddr *)&a, sizeof a);
    }
    usleep(50000);
    return fd;
}

static bool at_once(void *arg)
{
    (void)arg;
    return true;
}

static void test_connecting_ends_in_time(void **state)
{
    fixture *f = *state;
    od_channel_options options = {.connect_timeout_ms = 300};
    uint16_t port;
    int fillers[3], fd = listen_deaf(&port, fillers);
    od_channel *channel;
    od_call *call;
    char text[32];
    int64_t at = od_clock_ns();

    snprintf(text, sizeof text, "127.0.0.1:%u", port);
    ok(f, od_endpoint_parse(od_slice_str(text), &options.endpoint, &f->err));
    ok(f, od_channel_create(&options, &channel, &f->err));
    fails(f, od_call_open(channel, "/a/b", OD_DEADLINE_NEVER, 0, NO_INTERRUPT, &call, &f->err), OD_E_UNAVAILABLE,
          "timed out");
    assert_true(ms_since(at) > 250 && ms_since(at) < 2000);
    fails(f, od_call_open(channel, "/a/b", od_deadline_in_ms(100), 0, NO_INTERRUPT, &call, &f->err), OD_E_TIMEOUT,
          "while connecting");
    fails(f, od_call_open(channel, "/a/b", OD_DEADLINE_NEVER, 0, (od_interrupt){at_once, NULL}, &call, &f->err),
          OD_E_CANCELLED, NULL);

    /* A relay: the deadline of the call, then the limit of connecting; the server goes on meanwhile. */
    f->service.upstream = options.endpoint;
    call = open_call(f, "/test.Rpc/Relay/Echo", od_deadline_in_ms(100));
    send_text(f, call, "x", true);
    expect_failure(f, call, OD_E_TIMEOUT, NULL);
    od_call_free(call);
    call = open_call(f, "/test.Rpc/Relay/Echo", OD_DEADLINE_NEVER);
    send_text(f, call, "x", true);
    echo_on(f, f->channel, "/test.Rpc/Echo");
    expect_failure(f, call, OD_E_UNAVAILABLE, "timed out");
    od_call_free(call);
    od_channel_unref(channel);
    for (int i = 0; i < 3; i++)
        close(fillers[i]);
    close(fd);
}

static void test_idle_connection_is_asked_and_dropped(void **state)
{
    fixture *f = *state;
    int fd = raw_connect(od_rpc_server_port(f->server));
    od_buf bytes = {0}, got = {0};
    struct timeval limit = {10, 0};
    uint8_t part[4096];
    int64_t at = od_clock_ns();
    ssize_t n;

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    frames_preface(&bytes);
    raw_send(fd, bytes.data, bytes.len);
    while ((n = recv(fd, part, sizeof part, 0)) > 0)
        frames_raw(&got, part, (size_t)n);
    assert_int_equal(n, 0);
    assert_true(frames_find(od_slice_of(got.data, got.len), FRAME_PING, 0, 0, NULL));
    assert_true(ms_since(at) > 350);
    od_buf_release(&bytes);
    od_buf_release(&got);
    close(fd);
}

static int setup_asking(void **state)
{
    return setup_with(state, &(od_rpc_server_options){.ping_after_ms = 200});
}

static int setup_relaying(void **state)
{
    return setup_with(state, &(od_rpc_server_options){.connect_timeout_ms = 500});
}

static void test_restarted_server_is_found_again(void **state)
{
    fixture *f = *state;
    uint16_t port = od_rpc_server_port(f->server);
    char listen_on[32];

    snprintf(listen_on, sizeof listen_on, "127.0.0.1:%u", port);
    for (int i = 0; i < 5; i++) {
        echo_on(f, f->channel, "/test.Rpc/Echo");
        od_rpc_server_free(f->server);
        f->server = rpc_service_start(&f->service, &(od_rpc_server_options){.listen = listen_on});
    }
    echo_on(f, f->channel, "/test.Rpc/Echo");
}

static void test_freed_server_ends_its_calls(void **state)
{
    fixture *f = *state;
    od_call *call = open_call(f, "/test.Rpc/Hang", OD_DEADLINE_NEVER);

    send_text(f, call, "x", true);
    assert_true(rpc_service_wait_opened(&f->service, 1));
    od_rpc_server_free(f->server);
    f->server = NULL;
    assert_int_equal(f->service.gone, 1);
    assert_int_equal(f->service.last_code, OD_E_CONNECTION_LOST);
    expect_failure(f, call, OD_E_CONNECTION_LOST, NULL);
    od_call_free(call);
}

static void test_drain_lets_calls_finish_and_takes_no_new_ones(void **state)
{
    fixture *f = *state;
    od_call *call = open_call(f, "/test.Rpc/Echo", OD_DEADLINE_NEVER), *late;
    od_channel *other = rpc_channel_to(od_rpc_server_port(f->server));

    echo_on(f, f->channel, "/test.Rpc/Echo"); /* leaves an idle connection */
    send_text(f, call, "before", false);
    expect_text(f, call, "before");
    assert_false(od_rpc_server_drain(f->server, od_deadline_in_ms(100)));
    fails(f, od_call_open(other, "/test.Rpc/Echo", OD_DEADLINE_NEVER, 0, NO_INTERRUPT, &late, &f->err),
          OD_E_UNAVAILABLE, NULL);
    fails(f, od_call_open(f->channel, "/test.Rpc/Echo", OD_DEADLINE_NEVER, 0, NO_INTERRUPT, &late, &f->err),
          OD_E_UNAVAILABLE, NULL);
    send_text(f, call, "after", true);
    expect_text(f, call, "after");
    expect_end(f, call);
    assert_true(od_rpc_server_drain(f->server, od_deadline_in_ms(5000)));
    od_call_free(call);
    od_channel_unref(other);
}

/* ---- fork ---- */

static int in_child(fixture *f, od_call *parents)
{
    od_call *call;
    od_rpc_out out = rpc_out_text("child");
    od_msg *msg = NULL;
    od_code rc;

    /* The parent's call is of no use here, and letting go of it must not disturb the parent. */
    if (od_call_recv(parents, &msg, od_deadline_in_ms(1000), &f->err) != OD_E_PRECONDITION)
        return 2;
    od_call_free(parents);
    for (int i = 0; i < 3; i++) {
        rc = od_call_open(f->channel, "/test.Rpc/Echo", od_deadline_in_ms(5000), 0, NO_INTERRUPT, &call, &f->err);
        if (rc == OD_OK)
            rc = od_call_send(call, &out, true, OD_DEADLINE_NEVER, &f->err);
        if (rc == OD_OK)
            rc = od_call_recv(call, &msg, OD_DEADLINE_NEVER, &f->err);
        if (rc != OD_OK || !msg || memcmp(od_msg_data(msg), "child", 5) != 0)
            return 3;
        od_msg_unref(msg);
        od_call_free(call);
    }
    od_channel_unref(f->channel);
    return 0;
}

static void test_fork_leaves_the_parents_connections_alone(void **state)
{
    fixture *f = *state;
    od_call *running = open_call(f, "/test.Rpc/Stream", OD_DEADLINE_NEVER);
    od_call *spare = open_call(f, "/test.Rpc/Echo", OD_DEADLINE_NEVER);
    od_msg *msg;
    int status;
    pid_t pid;

    send_text(f, spare, "x", true);
    expect_text(f, spare, "x");
    expect_end(f, spare);
    od_call_free(spare); /* now idle in the pool */
    send_text(f, running, "200 100000", true);
    ok(f, recv_any(f, running, &msg));
    od_msg_unref(msg);
    for (int i = 0; i < 3; i++) {
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            _exit(in_child(f, running));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
        echo_on(f, f->channel, "/test.Rpc/Echo");
    }
    expect_stream(f, running, 199, 100000);
    od_call_free(running);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(test_vanished_client_is_told_at_once),
        CASE(test_connection_cut_at_any_byte_does_no_harm),
        CASE(test_connection_that_is_not_http2_is_closed),
        cmocka_unit_test_setup_teardown(test_connections_above_the_limit_are_closed, setup_few, teardown),
        cmocka_unit_test_setup_teardown(test_stalled_reader_is_reset, setup_few, teardown),
        CASE(test_refused_connection_names_the_endpoint),
        CASE(test_server_that_vanishes_is_a_lost_connection),
        CASE(test_request_that_never_arrived_is_sent_again),
        CASE(test_request_that_may_have_been_done_is_not_sent_again),
        cmocka_unit_test_setup_teardown(test_connecting_ends_in_time, setup_relaying, teardown),
        cmocka_unit_test_setup_teardown(test_idle_connection_is_asked_and_dropped, setup_asking, teardown),
        CASE(test_restarted_server_is_found_again),
        CASE(test_freed_server_ends_its_calls),
        CASE(test_drain_lets_calls_finish_and_takes_no_new_ones),
        CASE(test_fork_leaves_the_parents_connections_alone),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

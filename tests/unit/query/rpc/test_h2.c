/* The connection core, in memory: a client and a server, or one of them and a peer that misbehaves. */
#include "rpc_fixture.h"

#include <errno.h>

#include "base/alloc.h"
#include "query/rpc/h2.h"
#include "support/rpc_frames.h"
#include "base/banned.h"

enum { MAX_STREAMS = 64 };

/* One end, and what it has written. */
typedef struct {
    od_h2 *h2;
    od_buf out;
    size_t quota; /* bytes that the "socket" takes before it says EAGAIN */
    od_h2_stream *streams[MAX_STREAMS];
    int stream_count, closed_count, request_count, refused_count;
} end;

static od_h2_stream *new_stream(end *e)
{
    od_h2_stream *s = calloc(1, sizeof *s);

    od_h2_stream_init(s, 0, 1 << 20);
    assert_true(e->stream_count < MAX_STREAMS);
    e->streams[e->stream_count++] = s;
    return s;
}

static od_h2_stream *on_open(void *owner)
{
    end *e = owner;
    return e->stream_count < MAX_STREAMS ? new_stream(e) : NULL;
}

static void on_request(void *owner, od_h2_stream *s)
{
    ((end *)owner)->request_count++;
    od_h2_want(s);
}

static void on_any(void *owner, od_h2_stream *s)
{
    (void)owner, (void)s;
}

static void on_closed(void *owner, od_h2_stream *s)
{
    assert_null(s->h2);
    ((end *)owner)->closed_count++;
}

static ssize_t on_write(void *owner, const struct iovec *iov, int count)
{
    end *e = owner;
    size_t n = 0;

    for (int i = 0; i < count && e->quota > 0; i++) {
        size_t take = iov[i].iov_len < e->quota ? iov[i].iov_len : e->quota;
        frames_raw(&e->out, iov[i].iov_base, take);
        e->quota -= take;
        n += take;
        if (take < iov[i].iov_len)
            break;
    }
    if (n == 0)
        errno = EAGAIN;
    return n ? (ssize_t)n : -1;
}

static const od_h2_hooks HOOKS = {.open = on_open,
                                  .request = on_request,
                                  .received = on_any,
                                  .drained = on_any,
                                  .closed = on_closed,
                                  .write = on_write};

static void make_end(end *e, bool server)
{
    const od_h2_options options = {
        .server = server, .stream_window = 1 << 20, .max_streams = 100, .max_message = 1 << 20};

    *e = (end){.quota = SIZE_MAX};
    assert_int_equal(od_h2_create(&options, &HOOKS, e, &e->h2, NULL), OD_OK);
}

static void free_end(end *e)
{
    if (e->h2)
        od_h2_abandon(e->h2, OD_E_CONNECTION_LOST, "test over");
    for (int i = 0; i < e->stream_count; i++) {
        od_h2_stream_release(e->streams[i]);
        free(e->streams[i]);
    }
    od_h2_free(e->h2);
    od_buf_release(&e->out);
}

/* Hands over what FROM has written, in pieces of STEP bytes. */
static bool deliver(end *from, end *to, size_t step)
{
    od_buf bytes = from->out;
    bool ok = true, any = bytes.len > 0;

    from->out = (od_buf){0};
    for (size_t at = 0; at < bytes.len && ok; at += step)
        ok = od_h2_feed(to->h2, bytes.data + at, bytes.len - at < step ? bytes.len - at : step);
    od_buf_release(&bytes);
    assert_true(ok);
    return any;
}

static void exchange(end *a, end *b, size_t step)
{
    bool more = true;

    while (more) {
        assert_true(od_h2_flush(a->h2));
        assert_true(od_h2_flush(b->h2));
        more = deliver(a, b, step);
        more = deliver(b, a, step) || more;
    }
}

static void send_body(od_h2_stream *s, size_t len, uint8_t byte, bool last)
{
    od_msg *body = rpc_message(len, byte);
    od_rpc_out out = rpc_out(body);

    assert_int_equal(od_h2_send(s, &out, last, NULL), OD_OK);
    od_msg_unref(body);
}

static void take_body(od_h2_stream *s, size_t len, uint8_t byte)
{
    od_msg *msg = od_h2_take(s);

    assert_non_null(msg);
    assert_int_equal(od_msg_len(msg), len);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(od_msg_data(msg)[i], byte);
    od_msg_unref(msg);
}

static void test_messages_split_over_any_bytes_arrive_whole(void **state)
{
    (void)state;
    for (size_t step = 1; step < 70; step += step < 20 ? 1 : 7) {
        end client, server;
        od_h2_stream *call;
        make_end(&client, false);
        make_end(&server, true);
        call = new_stream(&client);
        od_h2_want(call);
        assert_int_equal(od_h2_request(client.h2, call, "/a/b", "test", 5000000, NULL), OD_OK);
        send_body(call, 0, 0, false);
        send_body(call, 1, 'q', false);
        send_body(call, 5000, 'q', true);
        exchange(&client, &server, step);
        assert_int_equal(server.request_count, 1);
        assert_string_equal(server.streams[0]->path, "/a/b");
        assert_int_equal(server.streams[0]->timeout_ns, 5000000);
        take_body(server.streams[0], 0, 0);
        od_h2_want(server.streams[0]);
        take_body(server.streams[0], 1, 'q');
        od_h2_want(server.streams[0]);
        take_body(server.streams[0], 5000, 'q');
        assert_true(server.streams[0]->peer_ended);
        send_body(server.streams[0], 3000, 'r', false);
        od_h2_finish(server.streams[0], OD_GRPC_OK, NULL);
        exchange(&client, &server, step);
        take_body(call, 3000, 'r');
        assert_int_equal(client.closed_count, 1);
        assert_int_equal(server.closed_count, 1);
        assert_int_equal(call->end.code, OD_OK);
        assert_int_equal(server.streams[0]->end.code, OD_OK);
        free_end(&client);
        free_end(&server);
    }
}

static void test_trailers_only_answer_has_status_and_text(void **state)
{
    end client, server;
    od_h2_stream *call;

    (void)state;
    make_end(&client, false);
    make_end(&server, true);
    call = new_stream(&client);
    assert_int_equal(od_h2_request(client.h2, call, "/a/b", "test", -1, NULL), OD_OK);
    exchange(&client, &server, 1000);
    od_h2_finish(server.streams[0], 9, "50% \xc3\xbc");
    exchange(&client, &server, 1000);
    assert_int_equal(call->end.status, 9);
    assert_string_equal(call->end.text, "50% \xc3\xbc");
    free_end(&client);
    free_end(&server);
}

/* A reset while a DATA frame is half written: the frame must be completed, or everything after it is garbage. */
static void test_reset_within_a_written_frame_leaves_the_connection_in_step(void **state)
{
    (void)state;
    for (size_t quota = 1; quota < 60000; quota += quota < 200 ? 1 : 1777) {
        end client, server;
        od_h2_stream *first, *second;
        make_end(&client, false);
        make_end(&server, true);
        first = new_stream(&client);
        second = new_stream(&client);
        od_h2_want(second);
        assert_int_equal(od_h2_request(client.h2, first, "/a/1", "test", -1, NULL), OD_OK);
        assert_int_equal(od_h2_request(client.h2, second, "/a/2", "test", -1, NULL), OD_OK);
        exchange(&client, &server, 100000);
        send_body(server.streams[0], 50000, 'a', false);
        server.quota = quota;
        assert_true(od_h2_flush(server.h2));
        if (quota < 50014)
            assert_true(od_h2_blocked(server.h2));
        od_h2_reset(server.streams[0], NGHTTP2_CANCEL, OD_E_CANCELLED, "test");
        send_body(server.streams[1], 4000, 'b', false);
        od_h2_finish(server.streams[1], 0, NULL);
        server.quota = SIZE_MAX;
        od_h2_writable(server.h2);
        exchange(&client, &server, 100000);
        take_body(second, 4000, 'b');
        assert_true(second->end.set && second->end.code == OD_OK);
        assert_int_equal(first->end.code, OD_E_CANCELLED);
        free_end(&client);
        free_end(&server);
    }
}

static void test_peer_reset_within_a_written_frame_leaves_the_connection_in_step(void **state)
{
    (void)state;
    for (size_t quota = 1; quota < 60000; quota += quota < 200 ? 1 : 1777) {
        end client, server;
        od_h2_stream *first, *second;
        make_end(&client, false);
        make_end(&server, true);
        first = new_stream(&client);
        second = new_stream(&client);
        od_h2_want(second);
        assert_int_equal(od_h2_request(client.h2, first, "/a/1", "test", -1, NULL), OD_OK);
        assert_int_equal(od_h2_request(client.h2, second, "/a/2", "test", -1, NULL), OD_OK);
        exchange(&client, &server, 100000);
        send_body(server.streams[0], 50000, 'a', false);
        server.quota = quota;
        assert_true(od_h2_flush(server.h2));
        od_h2_reset(first, NGHTTP2_CANCEL, OD_E_CANCELLED, "test");
        assert_true(od_h2_flush(client.h2));
        deliver(&client, &server, 100000);
        assert_int_equal(server.streams[0]->end.code, OD_E_CANCELLED);
        send_body(server.streams[1], 4000, 'b', false);
        od_h2_finish(server.streams[1], 0, NULL);
        server.quota = SIZE_MAX;
        od_h2_writable(server.h2);
        exchange(&client, &server, 100000);
        take_body(second, 4000, 'b');
        assert_true(second->end.set && second->end.code == OD_OK);
        free_end(&client);
        free_end(&server);
    }
}

static void test_unwanted_messages_are_bounded_by_the_window(void **state)
{
    end client, server;
    od_h2_stream *call;
    size_t sent;

    (void)state;
    make_end(&client, false);
    make_end(&server, true);
    call = new_stream(&client);
    assert_int_equal(od_h2_request(client.h2, call, "/a/b", "test", -1, NULL), OD_OK);
    exchange(&client, &server, 100000);
    for (int i = 0; i < 40; i++)
        send_body(server.streams[0], 100000, 'x', false);
    exchange(&client, &server, 100000);
    sent = 40 * 100005 - server.streams[0]->queued;
    assert_true(sent <= 1 << 20);
    od_h2_finish(server.streams[0], 0, NULL);
    for (int i = 0; i < 40; i++) {
        od_h2_want(call);
        exchange(&client, &server, 100000);
        take_body(call, 100000, 'x');
    }
    assert_int_equal(call->end.code, OD_OK);
    free_end(&client);
    free_end(&server);
}

static void test_thousands_of_tiny_messages_wait_without_memory_of_their_own(void **state)
{
    enum { COUNT = 100000 };
    end client, server;
    od_h2_stream *call;

    (void)state;
    make_end(&client, false);
    make_end(&server, true);
    call = new_stream(&client);
    assert_int_equal(od_h2_request(client.h2, call, "/a/b", "test", -1, NULL), OD_OK);
    exchange(&client, &server, 100000);
    for (int i = 0; i < COUNT; i++)
        send_body(server.streams[0], (size_t)i % 3, 't', false);
    od_h2_finish(server.streams[0], 0, NULL);
    exchange(&client, &server, 100000);
    assert_true(call->in.count <= 256);
    assert_int_equal(call->end.code, OD_OK); /* all is here already */
    for (int i = 0; i < COUNT; i++) {
        od_h2_want(call);
        take_body(call, (size_t)i % 3, 't');
    }
    assert_false(od_h2_has_message(call));
    free_end(&client);
    free_end(&server);
}

/* ---- a server, and a peer by hand ---- */

static void serve(end *server, od_buf *bytes)
{
    make_end(server, true);
    assert_true(od_h2_feed(server->h2, bytes->data, bytes->len));
    assert_true(od_h2_flush(server->h2));
    od_buf_release(bytes);
}

static od_slice written(const end *e)
{
    return od_slice_of(e->out.data, e->out.len);
}

static void test_what_is_not_grpc_is_answered_in_http(void **state)
{
    od_buf bytes = {0};
    end server;
    od_slice head;

    (void)state;
    frames_preface(&bytes);
    frame_headers(&bytes, FLAG_END_STREAM, 1, ":method", "POST", ":scheme", "http", ":path", "/a/b", ":authority", "t",
                  "content-type", "text/html", NULL);
    frame_headers(&bytes, FLAG_END_STREAM, 3, ":method", "GET", ":scheme", "http", ":path", "/", ":authority", "t",
                  NULL);
    frame_headers(&bytes, FLAG_END_STREAM, 5, ":method", "POST", ":scheme", "http", ":path", "/a/b", ":authority", "t",
                  "content-type", "application/grpcweb", NULL);
    serve(&server, &bytes);
    assert_int_equal(server.request_count, 0);
    assert_int_equal(server.closed_count, 3);
    assert_true(frames_find(written(&server), FRAME_HEADERS, FLAG_END_STREAM, 1, &head));
    assert_true(frames_find(written(&server), FRAME_HEADERS, FLAG_END_STREAM, 3, &head));
    free_end(&server);
}

static void expect_refused(end *server, int status)
{
    assert_int_equal(server->streams[0]->end_status, status);
    assert_true(frames_find(written(server), FRAME_HEADERS, FLAG_END_STREAM, 1, NULL));
}

static void test_compressed_message_is_unimplemented(void **state)
{
    (void)state;
    for (uint8_t last = 0; last <= FLAG_END_STREAM; last++) {
        od_buf bytes = {0};
        end server;
        frames_preface(&bytes);
        frame_request(&bytes, 1, "/a/b");
        frame_add(&bytes, FRAME_DATA, last, 1, "\1\0\0\0\1x", 6);
        serve(&server, &bytes);
        expect_refused(&server, OD_GRPC_UNIMPLEMENTED);
        /* A client that goes on sending is told to stop. */
        assert_true(frames_find(written(&server), FRAME_RST, 0, 1, NULL) == !last);
        assert_int_equal(server.closed_count, 1);
        free_end(&server);
    }
}

static void test_too_large_a_message_ends_only_its_call(void **state)
{
    od_buf bytes = {0};
    end server;

    (void)state;
    frames_preface(&bytes);
    frame_request(&bytes, 1, "/a/b");
    frame_request(&bytes, 3, "/a/b");
    frame_add(&bytes, FRAME_DATA, 0, 1, "\0\xff\xff\xff\xffx", 6);
    frame_message(&bytes, FLAG_END_STREAM, 3, "hello");
    serve(&server, &bytes);
    expect_refused(&server, OD_GRPC_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(server.streams[0]->end_text, "4294967295 bytes is above the limit of 1048576"));
    assert_true(od_h2_has_message(server.streams[1]));
    free_end(&server);
}

static void test_malformed_heads_are_refused(void **state)
{
    char long_path[400], huge[20000];
    od_buf bytes = {0};
    end server;

    (void)state;
    memset(long_path, 'p', sizeof long_path - 1);
    long_path[0] = '/';
    long_path[sizeof long_path - 1] = '\0';
    memset(huge, 'h', sizeof huge - 1);
    huge[sizeof huge - 1] = '\0';
    frames_preface(&bytes);
    frame_headers(&bytes, 0, 1, ":method", "POST", ":scheme", "http", ":path", "/a/b", ":authority", "t",
                  "content-type", "application/grpc", "grpc-timeout", "5x", NULL);
    frame_request(&bytes, 3, long_path);
    serve(&server, &bytes);
    expect_refused(&server, OD_GRPC_INTERNAL);
    assert_int_equal(server.streams[1]->end_status, OD_GRPC_UNIMPLEMENTED);
    assert_int_equal(server.request_count, 0);
    free_end(&server);

    frames_preface(&bytes);
    serve(&server, &bytes);
    frame_add(&bytes, FRAME_SETTINGS, FLAG_ACK, 0, NULL, 0); /* from here on large frames are allowed */
    frame_headers(&bytes, 0, 1, ":method", "POST", ":scheme", "http", ":path", "/a/b", ":authority", "t",
                  "content-type", "application/grpc+proto", "x-huge", huge, NULL);
    assert_true(od_h2_feed(server.h2, bytes.data, bytes.len));
    assert_true(od_h2_flush(server.h2));
    od_buf_release(&bytes);
    expect_refused(&server, OD_GRPC_RESOURCE_EXHAUSTED);
    free_end(&server);
}

static void test_request_cut_within_a_message_is_refused(void **state)
{
    od_buf bytes = {0};
    end server;

    (void)state;
    frames_preface(&bytes);
    frame_request(&bytes, 1, "/a/b");
    frame_add(&bytes, FRAME_DATA, FLAG_END_STREAM, 1, "\0\0\0\0\5he", 7);
    serve(&server, &bytes);
    expect_refused(&server, OD_GRPC_INTERNAL);
    assert_int_equal(server.streams[0]->end.code, OD_E_PROTOCOL);
    free_end(&server);
}

static void test_padded_data_is_read(void **state)
{
    od_buf bytes = {0};
    od_buf data = {0};
    uint8_t padding = 200;
    char zeros[200] = {0}, body[100000];
    end server;
    od_msg *msg;

    (void)state;
    memset(body, 'p', sizeof body);
    frames_raw(&data, &padding, 1);
    frames_raw(&data, "\0\0\1\x86\xa0", 5);
    frames_raw(&data, body, sizeof body);
    frames_raw(&data, zeros, padding);
    frames_preface(&bytes);
    frame_request(&bytes, 1, "/a/b");
    make_end(&server, true);
    assert_true(od_h2_feed(server.h2, bytes.data, bytes.len));
    assert_true(od_h2_flush(server.h2));
    bytes.len = 0;
    frame_add(&bytes, FRAME_SETTINGS, FLAG_ACK, 0, NULL, 0); /* from here on large frames are allowed */
    frame_add(&bytes, FRAME_DATA, 8 | FLAG_END_STREAM, 1, data.data, data.len);
    for (size_t at = 0; at < bytes.len; at += 40000)
        assert_true(od_h2_feed(server.h2, bytes.data + at, bytes.len - at < 40000 ? bytes.len - at : 40000));
    msg = od_h2_take(server.streams[0]);
    assert_non_null(msg);
    assert_memory_equal(od_msg_data(msg), body, sizeof body);
    od_msg_unref(msg);
    od_buf_release(&data);
    od_buf_release(&bytes);
    free_end(&server);
}

static void test_flood_of_resets_ends_the_connection(void **state)
{
    od_buf bytes = {0};
    end server;
    uint32_t id = 1;

    (void)state;
    make_end(&server, true);
    frames_preface(&bytes);
    /* The streams are taken back at once, as an attacker would. */
    for (; id < 2 * 40000; id += 2) {
        frame_request(&bytes, id, "/a/b");
        frame_reset(&bytes, id, 8);
        if (!od_h2_feed(server.h2, bytes.data, bytes.len) || !od_h2_flush(server.h2))
            break;
        bytes.len = 0;
        for (int i = 0; i < server.stream_count; i++) {
            od_h2_stream_release(server.streams[i]);
            free(server.streams[i]);
        }
        server.stream_count = 0;
    }
    assert_true(frames_find(written(&server), FRAME_GOAWAY, 0, 0, NULL));
    assert_true(server.request_count < 39000);
    assert_true(od_h2_finished(server.h2));
    od_buf_release(&bytes);
    free_end(&server);
}

/* What a reset meets on its way back is no fault of the peer, however often it happens. */
static void test_frames_of_dropped_streams_do_not_end_the_connection(void **state)
{
    od_buf bytes = {0};
    od_h2_stream *call;
    end client;

    (void)state;
    make_end(&client, false);
    frame_add(&bytes, FRAME_SETTINGS, 0, 0, NULL, 0);
    assert_true(od_h2_feed(client.h2, bytes.data, bytes.len));
    for (int i = 0; i < 100; i++) {
        uint32_t id = 2 * (uint32_t)i + 1;

        bytes.len = 0;
        call = new_stream(&client);
        assert_int_equal(od_h2_request(client.h2, call, "/a/b", "test", -1, NULL), OD_OK);
        assert_true(od_h2_flush(client.h2));
        od_h2_reset(call, NGHTTP2_CANCEL, OD_E_CANCELLED, "test");
        assert_true(od_h2_flush(client.h2));
        frame_headers(&bytes, 0, id, ":status", "200", "content-type", "application/grpc", NULL);
        for (int k = 0; k < 64; k++)
            frame_message(&bytes, 0, id, "more of it");
        assert_true(od_h2_feed(client.h2, bytes.data, bytes.len));
        assert_true(od_h2_flush(client.h2));
        assert_false(od_h2_finished(client.h2));
        od_h2_stream_release(call);
        free(call);
        client.stream_count = 0;
    }
    assert_false(frames_find(written(&client), FRAME_GOAWAY, 0, 0, NULL));
    od_buf_release(&bytes);
    free_end(&client);
}

static void test_rubbish_breaks_the_connection_with_a_reason(void **state)
{
    end server;

    (void)state;
    make_end(&server, true);
    assert_false(od_h2_feed(server.h2, (const uint8_t *)"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27));
    assert_string_equal(od_h2_why(server.h2), "the peer does not speak HTTP/2");
    free_end(&server);
}

/* ---- a client, and a peer by hand ---- */

static od_h2_stream *ask(end *client, od_buf *answer)
{
    od_h2_stream *call;

    make_end(client, false);
    call = new_stream(client);
    od_h2_want(call);
    assert_int_equal(od_h2_request(client->h2, call, "/a/b", "test", -1, NULL), OD_OK);
    assert_true(od_h2_flush(client->h2));
    assert_true(od_h2_feed(client->h2, answer->data, answer->len));
    assert_true(od_h2_flush(client->h2));
    od_buf_release(answer);
    return call;
}

static void expect_answer(od_buf *answer, od_code code, const char *text)
{
    end client;
    od_h2_stream *call = ask(&client, answer);

    assert_true(call->end.set);
    if (call->end.code != code)
        fail_msg("got %s: %s", od_code_name(call->end.code), call->end.text);
    assert_non_null(strstr(call->end.text ? call->end.text : "", text));
    free_end(&client);
}

static void test_answers_of_other_servers_are_mapped(void **state)
{
    od_buf a = {0};

    (void)state;
    frame_add(&a, FRAME_SETTINGS, 0, 0, NULL, 0);
    frame_headers(&a, FLAG_END_STREAM, 1, ":status", "503", "content-type", "text/html", NULL);
    expect_answer(&a, OD_E_UNAVAILABLE, "HTTP status 503");
    frame_add(&a, FRAME_SETTINGS, 0, 0, NULL, 0);
    frame_headers(&a, FLAG_END_STREAM, 1, ":status", "404", NULL);
    expect_answer(&a, OD_E_NOT_IMPLEMENTED, "HTTP status 404");
    frame_add(&a, FRAME_SETTINGS, 0, 0, NULL, 0);
    frame_headers(&a, FLAG_END_STREAM, 1, ":status", "200", "content-type", "application/grpc", NULL);
    expect_answer(&a, OD_E_PROTOCOL, "without a status");
    frame_add(&a, FRAME_SETTINGS, 0, 0, NULL, 0);
    frame_reset(&a, 1, NGHTTP2_REFUSED_STREAM);
    expect_answer(&a, OD_E_UNAVAILABLE, "REFUSED_STREAM");
    frame_add(&a, FRAME_SETTINGS, 0, 0, NULL, 0);
    frame_reset(&a, 1, NGHTTP2_CANCEL);
    expect_answer(&a, OD_E_CANCELLED, "CANCEL");
    frame_add(&a, FRAME_SETTINGS, 0, 0, NULL, 0);
    frame_headers(&a, 0, 1, ":status", "200", "content-type", "application/grpc", NULL);
    frame_add(&a, FRAME_DATA, 0, 1, "\0\0\0\0\5he", 7);
    frame_headers(&a, FLAG_END_STREAM, 1, "grpc-status", "0", NULL);
    expect_answer(&a, OD_E_PROTOCOL, "within a message");
    frame_add(&a, FRAME_SETTINGS, 0, 0, NULL, 0);
    frame_headers(&a, 0, 1, ":status", "200", "content-type", "application/grpc", NULL);
    frame_add(&a, FRAME_DATA, 0, 1, "\1\0\0\0\1x", 6);
    expect_answer(&a, OD_E_PROTOCOL, "compressed");
    frame_add(&a, FRAME_SETTINGS, 0, 0, NULL, 0);
    frame_headers(&a, FLAG_END_STREAM, 1, ":status", "200", "content-type", "application/grpc", "grpc-status", "99",
                  NULL);
    expect_answer(&a, OD_E_UNKNOWN, "");
}

static void test_goaway_refuses_later_calls_only(void **state)
{
    const uint8_t payload[8] = {0, 0, 0, 1, 0, 0, 0, 0};
    od_buf a = {0};
    end client;
    od_h2_stream *call, *late;

    (void)state;
    frame_add(&a, FRAME_SETTINGS, 0, 0, NULL, 0);
    call = ask(&client, &a);
    late = new_stream(&client);
    assert_int_equal(od_h2_request(client.h2, late, "/a/c", "test", -1, NULL), OD_OK);
    assert_true(od_h2_flush(client.h2));
    frame_add(&a, FRAME_GOAWAY, 0, 0, payload, sizeof payload);
    assert_true(od_h2_feed(client.h2, a.data, a.len));
    assert_true(od_h2_draining(client.h2));
    assert_false(od_h2_accepts(client.h2));
    assert_true(late->end.set && late->refused);
    assert_int_equal(late->end.code, OD_E_UNAVAILABLE);
    assert_false(call->end.set);
    a.len = 0;
    frame_headers(&a, 0, 1, ":status", "200", "content-type", "application/grpc", NULL);
    frame_message(&a, 0, 1, "late");
    frame_headers(&a, FLAG_END_STREAM, 1, "grpc-status", "0", NULL);
    assert_true(od_h2_feed(client.h2, a.data, a.len));
    assert_true(od_h2_flush(client.h2)); /* tells the peer that the rest of the request will not come */
    assert_true(call->end.set);
    assert_int_equal(call->end.code, OD_OK);
    assert_true(od_h2_has_message(call));
    od_buf_release(&a);
    free_end(&client);
}

/* Everything goes on without memory somewhere, or ends with an error: never a crash or a leak. */
static void test_every_failing_allocation_is_survived(void **state)
{
    bool survived = false;

    (void)state;
    for (long n = 0; !survived && n < 2000; n++) {
        const od_h2_options options = {.stream_window = 1 << 20, .max_message = 1 << 20};
        od_h2_options for_server = options;
        end client = {.quota = SIZE_MAX}, server = {.quota = SIZE_MAX};
        od_msg *body = rpc_message(10000, 'm'), *msg;
        od_rpc_out out = rpc_out(body);
        od_h2_stream *call;
        for_server.server = true;
        for_server.max_streams = 10;
        od_alloc_fail_after(n);
        if (od_h2_create(&options, &HOOKS, &client, &client.h2, NULL) == OD_OK &&
            od_h2_create(&for_server, &HOOKS, &server, &server.h2, NULL) == OD_OK) {
            call = new_stream(&client);
            od_h2_want(call);
            if (od_h2_request(client.h2, call, "/a/b", "test", -1, NULL) == OD_OK &&
                od_h2_send(call, &out, true, NULL) == OD_OK && od_h2_flush(client.h2) &&
                od_h2_feed(server.h2, client.out.data, client.out.len) && server.stream_count > 0) {
                msg = od_h2_take(server.streams[0]);
                od_msg_unref(msg);
                if (od_h2_send(server.streams[0], &out, false, NULL) == OD_OK)
                    od_h2_finish(server.streams[0], 0, "fine");
                if (od_h2_flush(server.h2) && od_h2_feed(client.h2, server.out.data, server.out.len)) {
                    survived = msg && call->end.set && call->end.code == OD_OK && od_h2_has_message(call);
                }
            }
        }
        od_alloc_fail_after(-1);
        free_end(&client);
        free_end(&server);
        od_msg_unref(body);
    }
    assert_true(survived);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_split_over_any_bytes_arrive_whole),
        cmocka_unit_test(test_trailers_only_answer_has_status_and_text),
        cmocka_unit_test(test_reset_within_a_written_frame_leaves_the_connection_in_step),
        cmocka_unit_test(test_peer_reset_within_a_written_frame_leaves_the_connection_in_step),
        cmocka_unit_test(test_unwanted_messages_are_bounded_by_the_window),
        cmocka_unit_test(test_thousands_of_tiny_messages_wait_without_memory_of_their_own),
        cmocka_unit_test(test_what_is_not_grpc_is_answered_in_http),
        cmocka_unit_test(test_compressed_message_is_unimplemented),
        cmocka_unit_test(test_too_large_a_message_ends_only_its_call),
        cmocka_unit_test(test_malformed_heads_are_refused),
        cmocka_unit_test(test_request_cut_within_a_message_is_refused),
        cmocka_unit_test(test_padded_data_is_read),
        cmocka_unit_test(test_flood_of_resets_ends_the_connection),
        cmocka_unit_test(test_frames_of_dropped_streams_do_not_end_the_connection),
        cmocka_unit_test(test_rubbish_breaks_the_connection_with_a_reason),
        cmocka_unit_test(test_answers_of_other_servers_are_mapped),
        cmocka_unit_test(test_goaway_refuses_later_calls_only),
        cmocka_unit_test(test_every_failing_allocation_is_survived),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

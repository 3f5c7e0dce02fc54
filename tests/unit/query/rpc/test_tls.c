/* TLS handshakes: who is trusted, and peers that stall, cut, dribble or speak something else. What calls carry over TLS is in
 * test_calls.c and test_relay.c, which run over both. */
#include "rpc_fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/certificates.h"
#include "support/rpc_frames.h"
#include "base/banned.h"

enum { HANDSHAKE_MS = 400, MANY = 1 << 20 };

static od_tls_files files_of(const char *cert, const char *key, const char *ca)
{
    return (od_tls_files){
        .cert = cert ? certificate_path(cert) : NULL,
        .key = key ? certificate_path(key) : NULL,
        .ca = ca ? certificate_path(ca) : NULL,
    };
}

/* A server with CERT; the fixture's channel trusts ca.pem. */
static od_rpc_server *start_with(fixture *f, const char *cert, const char *key, const char *client_ca)
{
    const od_tls_files files = files_of(cert, key, client_ca);
    od_rpc_server_options options = {.connect_timeout_ms = HANDSHAKE_MS};
    od_rpc_server *server;

    ok(f, od_tls_create_server(&files, &options.tls, &f->err));
    server = rpc_service_start(&f->service, &options);
    od_tls_unref(options.tls);
    return server;
}

static od_channel *channel_with(fixture *f, const char *host, uint16_t port, const od_tls_files *files)
{
    od_channel_options options = {.connect_timeout_ms = 2000};
    od_channel *channel;
    char text[80];

    snprintf(text, sizeof text, "https://%s:%u", host, port);
    ok(f, od_endpoint_parse(od_slice_str(text), &options.endpoint, &f->err));
    ok(f, od_tls_create_client(files, &options.tls, &f->err));
    ok(f, od_channel_create(&options, &channel, &f->err));
    od_tls_unref(options.tls);
    return channel;
}

static int setup_tls(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    const od_tls_files files = files_of(NULL, NULL, "ca.pem");

    rpc_service_init(&f->service);
    f->server = start_with(f, "server.pem", "server.key", NULL);
    f->channel = channel_with(f, "127.0.0.1", od_rpc_server_port(f->server), &files);
    *state = f;
    return 0;
}

/* Opens a call that must fail with TEXT in its message. */
static void expect_no_connection(fixture *f, od_channel *channel, const char *text)
{
    od_call *call;

    fails(f, od_call_open(channel, "/test.Rpc/Echo", od_deadline_in_ms(10000), 0, NO_INTERRUPT, &call, &f->err),
          OD_E_UNAVAILABLE, text);
    assert_null(call);
}

/* ---- certificates ---- */

static void test_server_is_trusted_or_not(void **state)
{
    static const struct {
        const char *cert, *key, *ca, *host, *why; /* why: NULL if it is trusted */
    } ROWS[] = {
        {"server.pem", "server.key", "ca.pem", "127.0.0.1", NULL},
        {"server.pem", "server.key", "ca.pem", "localhost", NULL},
        {"server.pem", "server.key", "server.pem", "localhost", NULL},
        {"server.pem", "server.key", "foreign-ca.pem", "127.0.0.1", "unable to get local issuer certificate"},
        {"server.pem", "server.key", NULL, "127.0.0.1", "unable to get local issuer certificate"},
        {"foreign.pem", "foreign.key", "ca.pem", "127.0.0.1", "unable to get local issuer certificate"},
        {"expired.pem", "server.key", "ca.pem", "127.0.0.1", "certificate has expired"},
        {"future.pem", "server.key", "ca.pem", "127.0.0.1", "certificate is not yet valid"},
        {"elsewhere.pem", "server.key", "ca.pem", "127.0.0.1", "IP address mismatch"},
        {"elsewhere.pem", "server.key", "ca.pem", "localhost", "hostname mismatch"},
        {"nameless.pem", "server.key", "ca.pem", "localhost", "hostname mismatch"},
    };
    fixture *f = *state;

    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        const od_tls_files files = files_of(NULL, NULL, ROWS[i].ca);
        od_rpc_server *server = start_with(f, ROWS[i].cert, ROWS[i].key, NULL);
        od_channel *channel = channel_with(f, ROWS[i].host, od_rpc_server_port(server), &files);

        if (ROWS[i].why) {
            expect_no_connection(f, channel, ROWS[i].why);
            assert_non_null(strstr(f->err.message, "the server's certificate is refused: "));
        } else {
            echo_on(f, channel, "/test.Rpc/Echo");
        }
        od_channel_unref(channel);
        od_rpc_server_free(server);
    }
}

static void test_client_certificate_is_demanded(void **state)
{
    static const struct {
        const char *cert, *key, *why;
    } ROWS[] = {
        {"client.pem", "client.key", NULL},
        {NULL, NULL, "the server asks for a client certificate"},
        {"foreign.pem", "foreign.key", "the peer refuses the TLS connection: unknown CA"},
        {"expired.pem", "server.key", "the peer refuses the TLS connection: certificate expired"},
    };
    fixture *f = *state;
    od_rpc_server *server = start_with(f, "server.pem", "server.key", "ca.pem");

    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        const od_tls_files files = files_of(ROWS[i].cert, ROWS[i].key, "ca.pem");
        od_channel *channel = channel_with(f, "127.0.0.1", od_rpc_server_port(server), &files);
        od_rpc_out out = rpc_out_text("x");
        od_call *call = NULL;
        od_msg *msg = NULL;
        od_code rc;

        if (!ROWS[i].why) {
            echo_on(f, channel, "/test.Rpc/Echo");
            od_channel_unref(channel);
            continue;
        }
        /* With TLS 1.3 a client is through with its handshake before the server has looked at its certificate. */
        rc = od_call_open(channel, "/test.Rpc/Echo", od_deadline_in_ms(10000), 0, NO_INTERRUPT, &call, &f->err);
        if (rc == OD_OK)
            rc = od_call_send(call, &out, true, od_deadline_in_ms(10000), &f->err);
        if (rc == OD_OK)
            rc = recv_any(f, call, &msg);
        assert_true(rc == OD_E_UNAVAILABLE || rc == OD_E_CONNECTION_LOST);
        fails(f, rc, rc, ROWS[i].why);
        od_call_free(call);
        od_channel_unref(channel);
    }
    assert_int_equal(f->service.opened, 1);
    od_rpc_server_free(server);
}

static void test_files_that_cannot_be_used_are_named(void **state)
{
    static const struct {
        const char *cert, *key, *ca, *why;
        bool server;
    } ROWS[] = {
        {"server.pem", NULL, NULL, "needs its key", true},
        {NULL, "server.key", NULL, "needs its certificate", false},
        {NULL, NULL, "ca.pem", "needs a certificate", true},
        {"nosuch.pem", "server.key", NULL, "cannot read the certificate '", true},
        {"server.pem", "nosuch.key", NULL, "cannot read the key '", true},
        {"server.key", "server.key", NULL, "cannot use the certificate '", true},
        {"server.pem", "server.pem", NULL, "cannot use the key '", true},
        {"server.pem", "client.key", NULL, "key values mismatch", true},
        {"server.pem", "locked.key", NULL, "it is encrypted", true},
        {"server.pem", "server.key", "server.key", "cannot use the CA of clients '", true},
        {NULL, NULL, "server.key", "cannot use the CA '", false},
    };
    fixture *f = *state;

    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        const od_tls_files files = files_of(ROWS[i].cert, ROWS[i].key, ROWS[i].ca);
        od_tls *tls = (od_tls *)f;
        od_code rc =
            ROWS[i].server ? od_tls_create_server(&files, &tls, &f->err) : od_tls_create_client(&files, &tls, &f->err);

        fails(f, rc, OD_E_INVALID, ROWS[i].why);
        assert_null(tls);
    }
}

/* ---- a client by hand: OpenSSL in memory, the socket beside it ---- */

typedef struct {
    SSL_CTX *ctx;
    SSL *ssl;
    int fd;
    size_t piece; /* so many bytes of records are sent, or received, at once */
} hand;

static struct sockaddr_in loopback(uint16_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return a;
}

static int raw_connect(uint16_t port)
{
    const struct timeval limit = {.tv_sec = 10};
    struct sockaddr_in a = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

static hand hand_open(uint16_t port, const char *alpn, int version, size_t piece)
{
    hand h = {.ctx = SSL_CTX_new(TLS_client_method()), .fd = raw_connect(port), .piece = piece};

    SSL_CTX_set_min_proto_version(h.ctx, 0);
    SSL_CTX_set_max_proto_version(h.ctx, version);
    SSL_CTX_set_security_level(h.ctx, 0);
    h.ssl = SSL_new(h.ctx);
    if (alpn)
        SSL_set_alpn_protos(h.ssl, (const unsigned char *)alpn, (unsigned)strlen(alpn));
    SSL_set_bio(h.ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(h.ssl);
    return h;
}

static void hand_close(hand *h)
{
    SSL_free(h->ssl);
    SSL_CTX_free(h->ctx);
    if (h->fd >= 0)
        close(h->fd);
    ERR_clear_error();
}

static void hand_send(hand *h)
{
    char bytes[4096];
    int n;

    while ((n = BIO_read(SSL_get_wbio(h->ssl), bytes, (int)(h->piece < sizeof bytes ? h->piece : sizeof bytes))) > 0)
        if (send(h->fd, bytes, (size_t)n, MSG_NOSIGNAL) != n)
            return; /* it has been closed: reading tells */
}

/* false when the peer has closed. */
static bool hand_receive(hand *h)
{
    char bytes[4096];
    ssize_t n = recv(h->fd, bytes, h->piece < sizeof bytes ? h->piece : sizeof bytes, 0);

    if (n > 0)
        BIO_write(SSL_get_rbio(h->ssl), bytes, (int)n);
    return n > 0;
}

/* true: the handshake is done. */
static bool hand_shake(hand *h)
{
    for (;;) {
        int rc = SSL_do_handshake(h->ssl), error = SSL_get_error(h->ssl, rc);

        hand_send(h);
        if (rc == 1)
            return true;
        if (error != SSL_ERROR_WANT_READ || !hand_receive(h))
            return false;
    }
}

static void hand_write(hand *h, const void *bytes, size_t len)
{
    assert_int_equal(SSL_write(h->ssl, bytes, (int)len), (int)len);
    hand_send(h);
}

/* Plain bytes; 0 at the end, however it came. */
static size_t hand_read(hand *h, void *to, size_t len)
{
    for (;;) {
        size_t n;

        if (SSL_read_ex(h->ssl, to, len, &n) == 1)
            return n;
        if (SSL_get_error(h->ssl, 0) != SSL_ERROR_WANT_READ || !hand_receive(h))
            return 0;
    }
}

/* Reads until a frame of TYPE with FLAGS has come. */
static bool hand_finds(hand *h, uint8_t type, uint8_t flags)
{
    od_buf got = {0};
    char bytes[4096];
    bool found = false;
    size_t n;

    while (!found && (n = hand_read(h, bytes, sizeof bytes)) > 0) {
        frames_raw(&got, bytes, n);
        found = frames_find(od_slice_of(got.data, got.len), type, flags, 0, NULL);
    }
    free(got.data);
    return found;
}

static void hand_request(hand *h, const char *path, const char *message)
{
    od_buf bytes = {0};

    frames_preface(&bytes);
    frame_request(&bytes, 1, path);
    frame_message(&bytes, FLAG_END_STREAM, 1, message);
    hand_write(h, bytes.data, bytes.len);
    free(bytes.data);
}

static void test_handshake_byte_by_byte_is_done(void **state)
{
    fixture *f = *state;
    static const int VERSIONS[] = {TLS1_2_VERSION, TLS1_3_VERSION};

    for (size_t i = 0; i < 2; i++) {
        hand h = hand_open(od_rpc_server_port(f->server), "\2h2", VERSIONS[i], 1);

        assert_true(hand_shake(&h));
        assert_int_equal(SSL_version(h.ssl), VERSIONS[i]);
        hand_request(&h, "/test.Rpc/Echo", "hello");
        assert_true(hand_finds(&h, FRAME_HEADERS, FLAG_END_STREAM | FLAG_END_HEADERS)); /* trailers */
        hand_close(&h);
    }
}

static void test_client_that_has_other_protocols_is_refused(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *alpn;
        int version;
    } ROWS[] = {{NULL, TLS1_3_VERSION}, {"\x08http/1.1", TLS1_3_VERSION}, {"\2h2", TLS1_1_VERSION}};

    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        hand h = hand_open(od_rpc_server_port(f->server), ROWS[i].alpn, ROWS[i].version, MANY);

        /* Without any word of ALPN, the client's handshake may be done before the server's end of it. */
        if (hand_shake(&h))
            assert_false(hand_finds(&h, FRAME_SETTINGS, 0));
        hand_close(&h);
    }
    echo_on(f, f->channel, "/test.Rpc/Echo");
}

/* The first bytes that a client would send. */
static size_t client_hello(uint16_t port, char *out, size_t size)
{
    hand h = hand_open(port, "\2h2", TLS1_3_VERSION, MANY);
    int n;

    (void)SSL_do_handshake(h.ssl);
    n = BIO_read(SSL_get_wbio(h.ssl), out, (int)size);
    assert_true(n > 100);
    hand_close(&h);
    return (size_t)n;
}

static void test_connections_cut_in_the_handshake_are_given_back(void **state)
{
    fixture *f = *state;
    const od_tls_files server_files = files_of("server.pem", "server.key", NULL),
                       files = files_of(NULL, NULL, "ca.pem");
    od_rpc_server_options options = {.max_connections = 4, .connect_timeout_ms = 60000};
    od_rpc_server *server;
    od_channel *channel;
    char hello[2000];
    size_t len;

    ok(f, od_tls_create_server(&server_files, &options.tls, &f->err));
    server = rpc_service_start(&f->service, &options);
    len = client_hello(od_rpc_server_port(server), hello, sizeof hello);
    for (size_t cut = 1; cut < len; cut += 41) {
        int fd = raw_connect(od_rpc_server_port(server));
        const struct linger hard = {1, 0};

        (void)send(fd, hello, cut, MSG_NOSIGNAL);
        if (cut % 2)
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        close(fd);
    }
    /* A place that was not given back would be missing now. */
    channel = channel_with(f, "127.0.0.1", od_rpc_server_port(server), &files);
    for (int i = 0; i < 500; i++) {
        od_call *call;

        if (od_call_open(channel, "/test.Rpc/Echo", OD_DEADLINE_NEVER, 0, NO_INTERRUPT, &call, NULL) == OD_OK) {
            od_call_free(call);
            break;
        }
        usleep(10000);
    }
    echo_on(f, channel, "/test.Rpc/Echo");
    od_channel_unref(channel);
    od_rpc_server_free(server);
    od_tls_unref(options.tls);
}

static void test_garbage_is_answered_by_an_alert(void **state)
{
    static const char *const TEXTS[] = {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "P",
                                        "\x80\x80\1\3\1"};
    static const uint8_t ALERT[] = {0x15, 3, 3, 0, 2, 2, 70};
    fixture *f = *state;

    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        int fd = raw_connect(od_rpc_server_port(f->server));
        char got[100];

        assert_true(send(fd, TEXTS[i], strlen(TEXTS[i]), MSG_NOSIGNAL) > 0);
        assert_int_equal(recv(fd, got, sizeof got, MSG_WAITALL), sizeof ALERT);
        assert_memory_equal(got, ALERT, sizeof ALERT);
        close(fd);
    }
    echo_on(f, f->channel, "/test.Rpc/Echo");
}

static void test_garbage_in_the_place_of_records_ends_the_connection(void **state)
{
    fixture *f = *state;
    char noise[3000];
    hand h;

    /* In the handshake ... */
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (char)(i * 7 + i / 13);
    memcpy(noise, "\x16\3\1\x05\0", 5);
    h = hand_open(od_rpc_server_port(f->server), "\2h2", TLS1_3_VERSION, MANY);
    assert_true(send(h.fd, noise, sizeof noise, MSG_NOSIGNAL) > 0);
    assert_false(hand_shake(&h));
    hand_close(&h);
    /* ... and after it, in the middle of a call. */
    h = hand_open(od_rpc_server_port(f->server), "\2h2", TLS1_3_VERSION, MANY);
    assert_true(hand_shake(&h));
    hand_request(&h, "/test.Rpc/Hang", "x");
    assert_true(rpc_service_wait_opened(&f->service, 1));
    memcpy(noise, "\x17\3\3\x05\0", 5);
    assert_true(send(h.fd, noise, sizeof noise, MSG_NOSIGNAL) > 0);
    assert_true(rpc_service_wait_gone(&f->service, 1));
    assert_int_equal(f->service.last_code, OD_E_CONNECTION_LOST);
    hand_close(&h);
    echo_on(f, f->channel, "/test.Rpc/Echo");
}

static void test_silent_client_is_dropped_in_time_and_holds_nobody_up(void **state)
{
    fixture *f = *state;
    int64_t at = od_clock_ns();
    char hello[2000];
    size_t len = client_hello(od_rpc_server_port(f->server), hello, sizeof hello);
    int silent = raw_connect(od_rpc_server_port(f->server)), half = raw_connect(od_rpc_server_port(f->server));

    assert_int_equal(send(half, hello, len / 2, MSG_NOSIGNAL), (ssize_t)(len / 2));
    for (int i = 0; i < 20; i++)
        echo_on(f, f->channel, "/test.Rpc/Echo");
    assert_int_equal(recv(silent, hello, 1, 0), 0);
    assert_int_equal(recv(half, hello, 1, 0), 0);
    assert_true(ms_since(at) >= HANDSHAKE_MS); /* and recv's own limit is 10 s */
    close(silent);
    close(half);
}

/* A half-close ends the connection, as it does without TLS: whoever still wants an answer does not close. */
static void test_half_close_ends_the_connection(void **state)
{
    fixture *f = *state;

    for (unsigned i = 0; i < 3; i++) {
        hand h = hand_open(od_rpc_server_port(f->server), "\2h2", TLS1_3_VERSION, MANY);
        char byte;

        assert_true(hand_shake(&h));
        hand_request(&h, "/test.Rpc/Hang", "x");
        assert_true(rpc_service_wait_opened(&f->service, i + 1));
        if (i > 0) {
            SSL_shutdown(h.ssl);
            hand_send(&h);
        }
        if (i < 2)
            shutdown(h.fd, SHUT_WR);
        assert_true(rpc_service_wait_gone(&f->service, i + 1));
        assert_int_equal(f->service.last_code, OD_E_CONNECTION_LOST);
        assert_non_null(strstr(f->service.last_text, "closed by the peer"));
        while (hand_read(&h, &byte, 1) > 0)
            ;
        /* The server says so too. */
        assert_true(SSL_get_shutdown(h.ssl) & SSL_RECEIVED_SHUTDOWN);
        hand_close(&h);
    }
}

static void test_slow_reader_gets_all_in_small_pieces(void **state)
{
    fixture *f = *state;
    hand h = hand_open(od_rpc_server_port(f->server), "\2h2", TLS1_3_VERSION, 700);
    int small = 65536;
    od_buf window = {0};
    uint8_t grant[4] = {0, 0x7f, 0xff, 0xff};
    size_t got = 0, n;
    char bytes[4096];

    setsockopt(h.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    assert_true(hand_shake(&h));
    hand_request(&h, "/test.Rpc/Stream", "3 1000000");
    frame_add(&window, FRAME_WINDOW, 0, 0, grant, sizeof grant);
    frame_add(&window, FRAME_WINDOW, 0, 1, grant, sizeof grant);
    hand_write(&h, window.data, window.len);
    while (got < 3000000 && (n = hand_read(&h, bytes, sizeof bytes)) > 0)
        got += n;
    assert_true(got >= 3000000);
    free(window.data);
    hand_close(&h);
}

static void test_restarted_server_is_found_again(void **state)
{
    fixture *f = *state;
    const od_tls_files files = files_of("server.pem", "server.key", NULL);
    char listen_on[32];

    snprintf(listen_on, sizeof listen_on, "127.0.0.1:%u", od_rpc_server_port(f->server));
    for (int i = 0; i < 5; i++) {
        od_rpc_server_options options = {.listen = listen_on};

        echo_on(f, f->channel, "/test.Rpc/Echo");
        od_rpc_server_free(f->server);
        ok(f, od_tls_create_server(&files, &options.tls, &f->err));
        f->server = rpc_service_start(&f->service, &options);
        od_tls_unref(options.tls);
        echo_on(f, f->channel, "/test.Rpc/Echo");
    }
}

/* ---- servers by hand ---- */

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

static bool always(void *arg)
{
    (void)arg;
    return true;
}

static void test_silent_server_ends_connecting_in_time(void **state)
{
    fixture *f = *state;
    od_channel_options options = {.connect_timeout_ms = 300};
    od_channel *channel;
    uint16_t port;
    int listener = raw_listen(&port);
    int64_t at = od_clock_ns();
    char text[64];
    od_call *call;

    snprintf(text, sizeof text, "https://127.0.0.1:%u", port);
    ok(f, od_endpoint_parse(od_slice_str(text), &options.endpoint, &f->err));
    ok(f, od_channel_create(&options, &channel, &f->err));
    expect_no_connection(f, channel, "the TLS handshake timed out");
    assert_true(ms_since(at) >= 300);
    /* And an interrupt ends it before. */
    fails(f,
          od_call_open(channel, "/test.Rpc/Echo", OD_DEADLINE_NEVER, 0, (od_interrupt){always, NULL}, &call, &f->err),
          OD_E_CANCELLED, NULL);
    od_channel_unref(channel);
    close(listener);
}

static void test_relay_to_a_silent_server_ends_in_time(void **state)
{
    fixture *f = *state;
    const od_tls_files files = files_of(NULL, NULL, "ca.pem");
    od_rpc_server_options options = {.connect_timeout_ms = 300};
    od_rpc_server *middle;
    od_channel *channel;
    uint16_t port;
    int listener = raw_listen(&port);
    char text[64];
    od_call *call;

    snprintf(text, sizeof text, "https://127.0.0.1:%u", port);
    ok(f, od_endpoint_parse(od_slice_str(text), &f->service.upstream, &f->err));
    ok(f, od_tls_create_client(&files, &options.peer_tls, &f->err));
    middle = rpc_service_start(&f->service, &options);
    channel = rpc_channel_to(od_rpc_server_port(middle));
    call = open_on(f, channel, "/test.Rpc/Relay/Echo", od_deadline_in_ms(20000));
    send_text(f, call, "x", true);
    expect_failure(f, call, OD_E_UNAVAILABLE, "the TLS handshake timed out");
    od_call_free(call);
    od_channel_unref(channel);
    od_rpc_server_free(middle);
    od_tls_unref(options.peer_tls);
    close(listener);
}

static void test_relay_to_https_needs_tls(void **state)
{
    fixture *f = *state;
    od_rpc_server *middle = rpc_service_start(&f->service, NULL);
    od_channel *channel = rpc_channel_to(od_rpc_server_port(middle));
    char text[64];
    od_call *call;

    snprintf(text, sizeof text, "https://127.0.0.1:%u", od_rpc_server_port(f->server));
    ok(f, od_endpoint_parse(od_slice_str(text), &f->service.upstream, &f->err));
    call = open_on(f, channel, "/test.Rpc/Relay/Echo", od_deadline_in_ms(20000));
    send_text(f, call, "x", true);
    expect_failure(f, call, OD_E_UNAVAILABLE, "no TLS is set up");
    od_call_free(call);
    od_channel_unref(channel);
    od_rpc_server_free(middle);
}

/* A server with TLS and no word of ALPN, for one connection. */
static void *serve_without_alpn(void *arg)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    int fd = accept(*(int *)arg, NULL, NULL);
    sigset_t pipe;
    SSL *ssl;

    /* OpenSSL's own writing to a socket raises it; in our code nothing may. */
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, NULL);
    SSL_CTX_use_certificate_chain_file(ctx, certificate_path("server.pem"));
    SSL_CTX_use_PrivateKey_file(ctx, certificate_path("server.key"), SSL_FILETYPE_PEM);
    ssl = SSL_new(ctx);
    SSL_set_fd(ssl, fd);
    (void)SSL_accept(ssl);
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    close(fd);
    return NULL;
}

static void test_server_without_http2_is_refused(void **state)
{
    fixture *f = *state;
    const od_tls_files files = files_of("client.pem", "client.key", "ca.pem");
    od_channel *channel;
    pthread_t thread;
    uint16_t port;
    int listener = raw_listen(&port);

    channel = channel_with(f, "127.0.0.1", port, &files);
    pthread_create(&thread, NULL, serve_without_alpn, &listener);
    expect_no_connection(f, channel, "the peer does not speak HTTP/2 over TLS");
    pthread_join(thread, NULL);
    od_channel_unref(channel);
    close(listener);
}

static void test_plain_and_tls_do_not_meet(void **state)
{
    fixture *f = *state;
    od_channel *plain = rpc_channel_to(od_rpc_server_port(f->server)), *channel;
    const od_tls_files files = files_of(NULL, NULL, "ca.pem");
    od_rpc_server *server;
    od_call *call;

    call = open_on(f, plain, "/test.Rpc/Echo", od_deadline_in_ms(10000));
    send_text(f, call, "x", true);
    expect_failure(f, call, OD_E_CONNECTION_LOST, "the server speaks TLS: the endpoint has to be https://");
    od_call_free(call);
    od_channel_unref(plain);

    server = rpc_service_start(&f->service, NULL);
    channel = channel_with(f, "127.0.0.1", od_rpc_server_port(server), &files);
    expect_no_connection(f, channel, "the server does not speak TLS: is it http:// ?");
    od_channel_unref(channel);
    od_rpc_server_free(server);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup_tls, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(test_server_is_trusted_or_not),
        CASE(test_client_certificate_is_demanded),
        CASE(test_files_that_cannot_be_used_are_named),
        CASE(test_handshake_byte_by_byte_is_done),
        CASE(test_client_that_has_other_protocols_is_refused),
        CASE(test_connections_cut_in_the_handshake_are_given_back),
        CASE(test_garbage_is_answered_by_an_alert),
        CASE(test_garbage_in_the_place_of_records_ends_the_connection),
        CASE(test_silent_client_is_dropped_in_time_and_holds_nobody_up),
        CASE(test_half_close_ends_the_connection),
        CASE(test_slow_reader_gets_all_in_small_pieces),
        CASE(test_restarted_server_is_found_again),
        CASE(test_silent_server_ends_connecting_in_time),
        CASE(test_relay_to_a_silent_server_ends_in_time),
        CASE(test_relay_to_https_needs_tls),
        CASE(test_server_without_http2_is_refused),
        CASE(test_plain_and_tls_do_not_meet),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* One connection: records between OpenSSL and the socket go through two buffers of our own, so that a system call moves several
 * records, none raises SIGPIPE, and OpenSSL never has half of a write to remember: it is given bytes only when a record has room. */
#include "query/rpc/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "query/rpc/socket.h"
#include "query/rpc/tls_internal.h"
#include "base/banned.h"

enum {
    PLAIN_SIZE = SSL3_RT_MAX_PLAIN_LENGTH,
    RECORD_SIZE = SSL3_RT_MAX_PACKET_SIZE,
    IN_SIZE = 64 << 10,
    OUT_SIZE = 4 * RECORD_SIZE,
    HANDSHAKE_RECORD = 0x16,
    ALERT_RECORD = 0x15,
    ALERT_REASON = 1000, /* OpenSSL's reasons from here on are alerts of the peer */
    CERTIFICATE_REQUIRED = 116,
};

struct od_tls_conn {
    SSL *ssl;
    int fd;
    bool server, shaken;
    const unsigned char *alpn; /* what is spoken */
    bool fresh;                /* the socket may be read */
    bool heard;                /* the peer's first byte has come */
    bool foreign;              /* and it was not of TLS */
    bool eof;
    int ended; /* how reading ended: 0 or an errno, once over is set */
    bool over;
    int errnum;  /* of the socket */
    uint8_t *in; /* IN_SIZE; there while it holds something */
    size_t in_at, in_len;
    uint8_t *out; /* OUT_SIZE; there while it holds something */
    size_t out_at, out_len;
    char why[OD_ERROR_MESSAGE_SIZE / 2];
};

/* ---- the socket's side ---- */

/* Reads what the socket has into the buffer, which is empty. 0, EAGAIN, or an errno; EPIPE at the end. */
static int fill(od_tls_conn *conn)
{
    ssize_t n;

    if (conn->eof)
        return EPIPE;
    if (!conn->fresh)
        return EAGAIN;
    if (!conn->in && !(conn->in = od_alloc(IN_SIZE)))
        return ENOMEM;
    do
        n = recv(conn->fd, conn->in, IN_SIZE, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EWOULDBLOCK ? EAGAIN : errno;
    conn->fresh = !conn->shaken;
    conn->eof = n == 0;
    conn->in_at = 0;
    conn->in_len = (size_t)n;
    /* Whoever begins with something else than TLS is told apart by the first byte. */
    if (n > 0 && !conn->heard)
        conn->foreign = conn->in[0] != HANDSHAKE_RECORD && conn->in[0] != ALERT_RECORD;
    conn->heard = conn->heard || n > 0;
    if (conn->foreign)
        return EPROTO;
    return n == 0 ? EPIPE : 0;
}

static int bio_read(BIO *bio, char *to, int len)
{
    od_tls_conn *conn = BIO_get_data(bio);
    size_t n;

    BIO_clear_retry_flags(bio);
    if (conn->in_at == conn->in_len) {
        int errnum = fill(conn);

        if (errnum == EAGAIN)
            BIO_set_retry_read(bio);
        else if (errnum != 0 && errnum != EPIPE)
            conn->errnum = errnum;
        if (errnum != 0)
            return errnum == EPIPE ? 0 : -1;
    }
    n = conn->in_len - conn->in_at;
    n = n < (size_t)len ? n : (size_t)len;
    memcpy(to, conn->in + conn->in_at, n);
    conn->in_at += n;
    return (int)n;
}

int od_tls_conn_push(od_tls_conn *conn)
{
    while (conn->out_at < conn->out_len) {
        const struct iovec rest = {conn->out + conn->out_at, conn->out_len - conn->out_at};
        ssize_t n = od_socket_write(conn->fd, &rest, 1);

        if (n < 0)
            return errno == EWOULDBLOCK ? EAGAIN : errno;
        conn->out_at += (size_t)n;
    }
    od_free(conn->out);
    conn->out = NULL;
    conn->out_at = conn->out_len = 0;
    return 0;
}

bool od_tls_conn_unsent(const od_tls_conn *conn)
{
    return conn->out_len > 0;
}

static int bio_write(BIO *bio, const char *from, int len)
{
    od_tls_conn *conn = BIO_get_data(bio);
    size_t n;

    BIO_clear_retry_flags(bio);
    if (conn->out_len == OUT_SIZE) {
        int errnum = od_tls_conn_push(conn);

        if (errnum == EAGAIN)
            BIO_set_retry_write(bio);
        else if (errnum != 0)
            conn->errnum = errnum;
        if (errnum != 0)
            return -1;
    }
    if (!conn->out && !(conn->out = od_alloc(OUT_SIZE))) {
        conn->errnum = ENOMEM;
        return -1;
    }
    n = OUT_SIZE - conn->out_len;
    n = n < (size_t)len ? n : (size_t)len;
    memcpy(conn->out + conn->out_len, from, n);
    conn->out_len += n;
    return (int)n;
}

static long bio_control(BIO *bio, int command, long number, void *arg)
{
    (void)bio, (void)number, (void)arg;
    return command == BIO_CTRL_FLUSH; /* what is written goes out by od_tls_conn_push */
}

static BIO_METHOD *socket_method;

static void make_method(void)
{
    od_tls_init();
    socket_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "openduck socket");
    if (!socket_method)
        return;
    BIO_meth_set_read(socket_method, bio_read);
    BIO_meth_set_write(socket_method, bio_write);
    BIO_meth_set_ctrl(socket_method, bio_control);
}

/* ---- begin and end ---- */

/* The server has to be HOST, by its certificate's alternative names; the subject's common name has not counted for long. */
static bool expect_host(SSL *ssl, const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];
    char text[sizeof((od_endpoint *)0)->host];
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);

    snprintf(text, sizeof text, "%s", host);
    if (strchr(text, ':'))
        text[strcspn(text, "%")] = '\0'; /* the zone of an address is this host's affair */
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    if (inet_pton(AF_INET, text, address) == 1)
        return X509_VERIFY_PARAM_set1_ip(param, address, sizeof(struct in_addr)) == 1;
    if (inet_pton(AF_INET6, text, address) == 1)
        return X509_VERIFY_PARAM_set1_ip(param, address, sizeof(struct in6_addr)) == 1;
    if (text[0] && text[strlen(text) - 1] == '.')
        text[strlen(text) - 1] = '\0';
    return text[0] && X509_VERIFY_PARAM_set1_host(param, text, 0) == 1 && SSL_set_tlsext_host_name(ssl, text) == 1;
}

static bool set_up(od_tls_conn *conn, od_tls *tls, const char *host)
{
    SSL_CTX *ctx = od_tls_context(tls);
    BIO *bio = socket_method ? BIO_new(socket_method) : NULL;

    conn->ssl = bio ? SSL_new(ctx) : NULL;
    SSL_CTX_free(ctx);
    if (!conn->ssl) {
        BIO_free(bio);
        return false;
    }
    SSL_set_app_data(conn->ssl, (void *)(uintptr_t)conn->alpn);
    BIO_set_data(bio, conn);
    BIO_set_init(bio, 1);
    SSL_set_bio(conn->ssl, bio, bio);
    if (!conn->server && !expect_host(conn->ssl, host))
        return false;
    if (!conn->server && SSL_set_alpn_protos(conn->ssl, conn->alpn, conn->alpn[0] + 1U) != 0)
        return false;
    if (conn->server)
        SSL_set_accept_state(conn->ssl);
    else
        SSL_set_connect_state(conn->ssl);
    return true;
}

static od_code create(od_tls *tls, int fd, const char *host, const unsigned char *alpn, od_tls_conn **out,
                      od_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    od_tls_conn *conn = od_calloc(1, sizeof *conn);

    *out = NULL;
    pthread_once(&once, make_method);
    if (conn) {
        conn->fd = fd;
        conn->server = od_tls_is_server(tls);
        conn->alpn = alpn;
    }
    if (!conn || !set_up(conn, tls, host)) {
        ERR_clear_error();
        od_tls_conn_free(conn);
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for TLS");
    }
    *out = conn;
    return OD_OK;
}

od_code od_tls_conn_create(od_tls *tls, int fd, const char *host, od_tls_conn **out, od_error *err)
{
    return create(tls, fd, host, od_tls_alpn_h2, out, err);
}

od_code od_tls_conn_create_http1(od_tls *tls, int fd, const char *host, od_tls_conn **out, od_error *err)
{
    return create(tls, fd, host, od_tls_alpn_http1, out, err);
}

void od_tls_conn_free(od_tls_conn *conn)
{
    if (!conn)
        return;
    SSL_free(conn->ssl);
    od_free(conn->in);
    od_free(conn->out);
    od_free(conn);
}

void od_tls_conn_bye(od_tls_conn *conn)
{
    if (!conn || !conn->shaken || conn->ended != 0 || conn->errnum != 0)
        return;
    ERR_clear_error();
    (void)SSL_shutdown(conn->ssl);
    ERR_clear_error();
    (void)od_tls_conn_push(conn);
}

/* ---- what went wrong ---- */

static void say(od_tls_conn *conn, const char *what, const char *why)
{
    if (!conn->why[0])
        snprintf(conn->why, sizeof conn->why, "%s%s", what, why);
}

static void say_protocol(od_tls_conn *conn)
{
    say(conn, "the peer does not speak ", conn->alpn == od_tls_alpn_h2 ? "HTTP/2 over TLS" : "HTTP/1.1 over TLS");
}

/* An alert is the peer's word on us. */
static void say_alert(od_tls_conn *conn, int alert)
{
    if (alert == CERTIFICATE_REQUIRED)
        say(conn, "the server asks for a client certificate", "");
    else if (alert == SSL_AD_NO_APPLICATION_PROTOCOL)
        say_protocol(conn);
    else
        say(conn, "the peer refuses the TLS connection: ", SSL_alert_desc_string_long(alert));
}

static void say_queue(od_tls_conn *conn)
{
    unsigned long code = ERR_peek_error();
    long verified = SSL_get_verify_result(conn->ssl);
    int reason = ERR_GET_REASON(code);
    char text[200];

    if (conn->foreign)
        say(conn, conn->server ? "the client does not speak TLS" : "the server does not speak TLS: is it http:// ?",
            "");
    else if (conn->errnum != 0)
        say(conn, strerrordesc_np(conn->errnum), "");
    else if (ERR_GET_LIB(code) == ERR_LIB_SSL && reason > ALERT_REASON)
        say_alert(conn, reason - ALERT_REASON);
    else if (ERR_GET_LIB(code) == ERR_LIB_SSL && reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
        say(conn, "the client has shown no certificate", "");
    else if (verified != X509_V_OK)
        say(conn, conn->server ? "the client's certificate is refused: " : "the server's certificate is refused: ",
            X509_verify_cert_error_string(verified));
    else if (conn->eof)
        say(conn, conn->shaken ? "closed by the peer" : "the peer closed the connection during the TLS handshake", "");
    else
        say(conn, "TLS: ", od_tls_reason(text, sizeof text));
}

const char *od_tls_conn_why(const od_tls_conn *conn)
{
    return conn->why[0] ? conn->why : "closed by the peer";
}

/* ---- the handshake ---- */

/* Whoever begins without TLS gets an alert, by which a client of ours knows what it has met (is_tls in h2.c). An answer in HTTP/2 would
 * be kinder to read, and has grpcio connect again at once and for ever. */
static void answer_foreigner(const od_tls_conn *conn)
{
    static const uint8_t ALERT[] = {ALERT_RECORD, 3, 3, 0, 2, SSL3_AL_FATAL, SSL_AD_PROTOCOL_VERSION};
    const struct iovec answer = {(void *)ALERT, sizeof ALERT};

    (void)od_socket_write(conn->fd, &answer, 1);
}

static bool agreed(od_tls_conn *conn)
{
    const unsigned char *protocol;
    unsigned len;

    SSL_get0_alpn_selected(conn->ssl, &protocol, &len);
    if (len == conn->alpn[0] && memcmp(protocol, conn->alpn + 1, len) == 0)
        return true;
    if (len == 0 && conn->alpn == od_tls_alpn_http1)
        return true;
    say_protocol(conn);
    return false;
}

static od_tls_step fail_handshake(od_tls_conn *conn)
{
    say_queue(conn);
    ERR_clear_error();
    if (conn->server && conn->foreign)
        answer_foreigner(conn);
    else
        (void)od_tls_conn_push(conn); /* the alert */
    return OD_TLS_FAILED;
}

od_tls_step od_tls_conn_handshake(od_tls_conn *conn)
{
    int rc, error, errnum;

    conn->fresh = true;
    ERR_clear_error();
    rc = SSL_do_handshake(conn->ssl);
    error = SSL_get_error(conn->ssl, rc);
    if (rc != 1 && error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE)
        return fail_handshake(conn);
    errnum = od_tls_conn_push(conn);
    if (errnum != 0 && errnum != EAGAIN) {
        say(conn, strerrordesc_np(errnum), "");
        return OD_TLS_FAILED;
    }
    if (rc != 1)
        return OD_TLS_AGAIN;
    conn->shaken = true;
    conn->fresh = false;
    return agreed(conn) ? OD_TLS_DONE : OD_TLS_FAILED;
}

/* ---- bytes ---- */

static ssize_t ended(od_tls_conn *conn)
{
    errno = conn->ended;
    return conn->ended == 0 ? 0 : -1;
}

/* What it means that SSL_read gave nothing, after DONE bytes. */
static ssize_t stop_reading(od_tls_conn *conn, size_t done)
{
    int error = SSL_get_error(conn->ssl, 0);

    if (conn->in && conn->in_at == conn->in_len) {
        od_free(conn->in);
        conn->in = NULL;
        conn->in_at = conn->in_len = 0;
    }
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
        bool closed = error == SSL_ERROR_ZERO_RETURN || conn->eof;

        conn->over = true;
        conn->ended = closed ? 0 : conn->errnum != 0 ? conn->errnum : EPROTO;
        if (!closed || ERR_GET_REASON(ERR_peek_error()) > ALERT_REASON)
            say_queue(conn);
        ERR_clear_error();
        return done > 0 ? (ssize_t)done : ended(conn);
    }
    if (done > 0)
        return (ssize_t)done;
    errno = EAGAIN;
    return -1;
}

ssize_t od_tls_conn_read(od_tls_conn *conn, const struct iovec *iov, int count, bool fresh)
{
    size_t done = 0;

    if (conn->over)
        return ended(conn);
    conn->fresh = fresh;
    ERR_clear_error();
    for (int i = 0; i < count; i++) {
        uint8_t *to = iov[i].iov_base;

        for (size_t at = 0, n; at < iov[i].iov_len; at += n, done += n)
            if (SSL_read_ex(conn->ssl, to + at, iov[i].iov_len - at, &n) != 1)
                return stop_reading(conn, done);
    }
    return (ssize_t)done;
}

bool od_tls_conn_closed(od_tls_conn *conn)
{
    conn->fresh = true;
    return conn->eof || (conn->in_at == conn->in_len && fill(conn) == EPIPE);
}

typedef struct {
    const struct iovec *iov;
    int count, at;
    size_t off;
} source;

/* The next bytes for one record: where they lie, or in STAGE where they lie in pieces. */
static const uint8_t *next_plain(source *s, uint8_t *stage, size_t *len)
{
    size_t n = 0;

    while (s->at < s->count && n < PLAIN_SIZE) {
        const uint8_t *from = (const uint8_t *)s->iov[s->at].iov_base + s->off;
        size_t left = s->iov[s->at].iov_len - s->off, part = left < PLAIN_SIZE - n ? left : PLAIN_SIZE - n;

        s->off += part;
        if (part == left)
            s->at++, s->off = 0;
        if (n == 0 && (part == PLAIN_SIZE || s->at == s->count)) {
            *len = part;
            return from;
        }
        memcpy(stage + n, from, part);
        n += part;
    }
    *len = n;
    return stage;
}

/* Nothing of a record may be left to OpenSSL: it has room for all of it, or waits. */
static int make_room(od_tls_conn *conn)
{
    return OUT_SIZE - conn->out_len >= RECORD_SIZE ? 0 : od_tls_conn_push(conn);
}

ssize_t od_tls_conn_write(od_tls_conn *conn, const struct iovec *iov, int count)
{
    source s = {iov, count, 0, 0};
    uint8_t stage[PLAIN_SIZE];
    size_t done = 0;

    ERR_clear_error();
    while (s.at < s.count) {
        int errnum = make_room(conn);
        const uint8_t *plain;
        size_t len, n;

        if (errnum != 0) {
            errno = errnum;
            return done > 0 && errnum == EAGAIN ? (ssize_t)done : -1;
        }
        plain = next_plain(&s, stage, &len);
        if (len == 0)
            break;
        if (SSL_write_ex(conn->ssl, plain, len, &n) != 1 || n != len) {
            say_queue(conn);
            ERR_clear_error();
            errno = EPROTO;
            return -1;
        }
        done += len;
    }
    return (ssize_t)done;
}

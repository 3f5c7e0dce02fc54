/* What connections have in common: certificates, keys, whom to trust. */
#include "query/rpc/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "query/rpc/tls_internal.h"
#include "base/banned.h"

/* Of TLS 1.2: those that HTTP/2 allows (RFC 9113, 9.2.2). TLS 1.3 has good ones only. */
static const char CIPHERS[] = "ECDHE+AESGCM:ECDHE+CHACHA20";
const unsigned char od_tls_alpn_h2[3] = {2, 'h', '2'};
const unsigned char od_tls_alpn_http1[9] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

struct od_tls {
    atomic_uint refs;
    bool server;
    char *cert, *key, *ca;
    pthread_mutex_t lock; /* ctx; held for a few instructions */
    SSL_CTX *ctx;
};

void od_tls_init(void)
{
    /* Left to itself OpenSSL reads the host's openssl.cnf, which may load modules of another version than what is linked here, and
     * cleans up at exit, while threads of a host that loaded us still run. */
    (void)OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL);
}

const char *od_tls_reason(char *out, size_t size)
{
    unsigned long code = ERR_peek_error();
    const char *text = ERR_SYSTEM_ERROR(code) ? strerrordesc_np(ERR_GET_REASON(code)) : ERR_reason_error_string(code);

    snprintf(out, size, "%s", text ? text : "unknown error");
    return out;
}

static od_code refuse_file(const char *what, const char *path, od_error *err)
{
    char reason[200];

    return od_fail(err, OD_E_INVALID, "cannot use the %s '%s': %s", what, path, od_tls_reason(reason, sizeof reason));
}

/* Tells a path that is wrong in the system's words. A text in the place of a path might be the key itself. */
static od_code check_path(const char *what, const char *path, od_error *err)
{
    if (strstr(path, "-----BEGIN"))
        return od_fail(err, OD_E_INVALID, "the %s has to be the path of a PEM file, not its text", what);
    if (access(path, R_OK) != 0)
        return od_fail_errno(err, OD_E_INVALID, errno, "cannot read the %s '%s'", what, path);
    return OD_OK;
}

/* ---- who we are ---- */

/* Nobody is there to be asked for a passphrase, and OpenSSL would ask the terminal. */
static int no_passphrase(char *buf, int size, int writing, void *asked)
{
    (void)buf, (void)size, (void)writing;
    *(bool *)asked = true;
    return -1;
}

static od_code load_identity(SSL_CTX *ctx, const od_tls *tls, od_error *err)
{
    bool asked = false, ok;
    od_code rc;

    OD_TRY(check_path("certificate", tls->cert, err));
    OD_TRY(check_path("key", tls->key, err));
    if (SSL_CTX_use_certificate_chain_file(ctx, tls->cert) != 1)
        return refuse_file("certificate", tls->cert, err);
    SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
    SSL_CTX_set_default_passwd_cb_userdata(ctx, &asked);
    ok = SSL_CTX_use_PrivateKey_file(ctx, tls->key, SSL_FILETYPE_PEM) == 1;
    SSL_CTX_set_default_passwd_cb_userdata(ctx, NULL);
    SSL_CTX_set_default_passwd_cb(ctx, NULL);
    if (asked)
        return od_fail(err, OD_E_INVALID, "cannot use the key '%s': it is encrypted", tls->key);
    if (!ok || SSL_CTX_check_private_key(ctx) != 1)
        return refuse_file("key", tls->key, err);

out:
    return rc;
}

/* ---- whom we trust ---- */

/* The system's certificates are where the system has them, not where the OpenSSL that is linked here was built. */
static void trust_system(SSL_CTX *ctx)
{
    static const char *const FILES[] = {
        "/etc/ssl/certs/ca-certificates.crt",                /* Debian, Ubuntu, Arch, Alpine */
        "/etc/pki/tls/certs/ca-bundle.crt",                  /* Fedora, Red Hat */
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* newer ones */
        "/etc/ssl/ca-bundle.pem",                            /* openSUSE */
        "/etc/ssl/cert.pem",
    };

    if (getenv(X509_get_default_cert_file_env()) || getenv(X509_get_default_cert_dir_env())) { /* NOLINT: only read */
        (void)SSL_CTX_set_default_verify_paths(ctx);
        return;
    }
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++)
        if (access(FILES[i], R_OK) == 0 && SSL_CTX_load_verify_file(ctx, FILES[i]) == 1)
            return;
    (void)SSL_CTX_set_default_verify_paths(ctx);
}

static od_code load_trust(SSL_CTX *ctx, const od_tls *tls, od_error *err)
{
    const char *what = tls->server ? "CA of clients" : "CA";
    STACK_OF(X509_NAME) * names;
    od_code rc;

    /* What is in a file of our own is trusted, be it the certificate of the peer itself. */
    X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(ctx), X509_V_FLAG_PARTIAL_CHAIN);
    if (!tls->ca) {
        if (!tls->server)
            trust_system(ctx);
        return OD_OK;
    }
    OD_TRY(check_path(what, tls->ca, err));
    if (SSL_CTX_load_verify_file(ctx, tls->ca) != 1)
        return refuse_file(what, tls->ca, err);
    if (tls->server) {
        names = SSL_load_client_CA_file(tls->ca);
        if (!names)
            return refuse_file(what, tls->ca, err);
        SSL_CTX_set_client_CA_list(ctx, names);
    }

out:
    return rc;
}

/* ---- the context ---- */

/* Of what the client offers it takes the one that the connection is for. */
static int select_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in,
                           unsigned in_len, void *unused)
{
    const unsigned char *ours = SSL_get_app_data(ssl);
    unsigned char *chosen;

    (void)unused;
    if (SSL_select_next_proto(&chosen, out_len, ours, ours[0] + 1U, in, in_len) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static bool configure(SSL_CTX *ctx, const od_tls *tls)
{
    int verify = SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT;

    SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                 SSL_OP_PRIORITIZE_CHACHA | SSL_OP_NO_TICKET);
    /* Nothing resumes sessions, so none are kept. */
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(ctx, 0);
    /* What is shown is what is in the file, whatever else is known by the CAs of the other side. */
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
    if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1 || SSL_CTX_set_cipher_list(ctx, CIPHERS) != 1)
        return false;
    if (tls->server) {
        SSL_CTX_set_alpn_select_cb(ctx, select_protocol, NULL);
        SSL_CTX_set_verify(ctx, tls->ca ? verify : SSL_VERIFY_NONE, NULL);
        return true;
    }
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    return true;
}

static od_code make_context(const od_tls *tls, SSL_CTX **out, od_error *err)
{
    SSL_CTX *ctx;
    char reason[200];
    od_code rc = OD_OK;

    od_tls_init();
    ERR_clear_error();
    *out = NULL;
    ctx = SSL_CTX_new(tls->server ? TLS_server_method() : TLS_client_method());
    if (!ctx || !configure(ctx, tls)) {
        rc = od_fail(err, OD_E_NO_MEMORY, "cannot set up TLS: %s", od_tls_reason(reason, sizeof reason));
        goto out;
    }
    if (tls->cert)
        OD_TRY(load_identity(ctx, tls, err));
    OD_TRY(load_trust(ctx, tls, err));
    *out = ctx;
    ctx = NULL;

out:
    SSL_CTX_free(ctx);
    ERR_clear_error();
    return rc;
}

/* ---- the public part ---- */

static char *given(const char *text)
{
    return text && text[0] ? od_strdup(text) : NULL;
}

static bool is_given(const char *text)
{
    return text && text[0];
}

static od_code create(bool server, const od_tls_files *files, od_tls **out, od_error *err)
{
    od_tls *tls;
    od_code rc;

    *out = NULL;
    if (is_given(files->cert) != is_given(files->key))
        return od_fail(err, OD_E_INVALID,
                       is_given(files->cert) ? "a TLS certificate needs its key" : "a TLS key needs its certificate");
    if (server && !is_given(files->cert))
        return od_fail(err, OD_E_INVALID, "TLS needs a certificate and its key");
    tls = od_calloc(1, sizeof *tls);
    if (!tls)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for TLS");
    atomic_init(&tls->refs, 1);
    pthread_mutex_init(&tls->lock, NULL);
    tls->server = server;
    tls->cert = given(files->cert);
    tls->key = given(files->key);
    tls->ca = given(files->ca);
    if (!tls->cert != !is_given(files->cert) || !tls->key != !is_given(files->key) ||
        !tls->ca != !is_given(files->ca)) {
        rc = od_fail(err, OD_E_NO_MEMORY, "out of memory for TLS");
        goto out;
    }
    OD_TRY(make_context(tls, &tls->ctx, err));
    *out = tls;
    tls = NULL;

out:
    od_tls_unref(tls);
    return rc;
}

od_code od_tls_create_server(const od_tls_files *files, od_tls **out, od_error *err)
{
    return create(true, files, out, err);
}

od_code od_tls_create_client(const od_tls_files *files, od_tls **out, od_error *err)
{
    const od_tls_files none = {0};

    return create(false, files ? files : &none, out, err);
}

od_code od_tls_reload(od_tls *tls, od_error *err)
{
    SSL_CTX *fresh, *old;
    od_code rc = make_context(tls, &fresh, err);

    if (rc != OD_OK)
        return rc;
    pthread_mutex_lock(&tls->lock);
    old = tls->ctx;
    tls->ctx = fresh;
    pthread_mutex_unlock(&tls->lock);
    SSL_CTX_free(old);
    return OD_OK;
}

od_tls *od_tls_ref(od_tls *tls)
{
    if (tls)
        atomic_fetch_add_explicit(&tls->refs, 1, memory_order_relaxed);
    return tls;
}

void od_tls_unref(od_tls *tls)
{
    if (!tls || atomic_fetch_sub_explicit(&tls->refs, 1, memory_order_acq_rel) != 1)
        return;
    SSL_CTX_free(tls->ctx);
    od_free(tls->cert);
    od_free(tls->key);
    od_free(tls->ca);
    pthread_mutex_destroy(&tls->lock);
    od_free(tls);
}

SSL_CTX *od_tls_context(od_tls *tls)
{
    SSL_CTX *ctx;

    pthread_mutex_lock(&tls->lock);
    ctx = tls->ctx;
    (void)SSL_CTX_up_ref(ctx);
    pthread_mutex_unlock(&tls->lock);
    return ctx;
}

bool od_tls_is_server(const od_tls *tls)
{
    return tls->server;
}

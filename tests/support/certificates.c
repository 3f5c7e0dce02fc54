#include "support/certificates.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/banned.h"

enum { PATH_SIZE = 200, KEEP = 32 };
static const long DAY = 24L * 60 * 60;
static const char SERVER_NAMES[] = "DNS:localhost,IP:127.0.0.1,IP:::1";

static char folder[PATH_SIZE / 2];
static pid_t owner;

typedef struct {
    X509 *cert;
    EVP_PKEY *key;
} identity;

static void must(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "certificates: %s\n", what);
    abort();
}

static void path_of(const char *name, char *out)
{
    snprintf(out, PATH_SIZE, "%s/%s", folder, name);
}

static void clean_up(void)
{
    char command[PATH_SIZE];

    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (getpid() == owner && system(command) != 0) /* NOLINT: the folder is ours */
        fprintf(stderr, "certificates: '%s' stays\n", folder);
}

static FILE *create_file(const char *name)
{
    char path[PATH_SIZE];
    FILE *file;

    path_of(name, path);
    file = fopen(path, "w");
    must(file != NULL, path);
    return file;
}

static void write_cert(const char *name, X509 *cert)
{
    FILE *file = create_file(name);

    must(PEM_write_X509(file, cert), name);
    fclose(file);
}

static void write_key(const char *name, EVP_PKEY *key, const char *passphrase)
{
    FILE *file = create_file(name);

    must(PEM_write_PKCS8PrivateKey(file, key, passphrase ? EVP_aes_256_cbc() : NULL, passphrase,
                                   passphrase ? (int)strlen(passphrase) : 0, NULL, NULL),
         name);
    fclose(file);
}

static void extend(X509 *cert, const identity *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509_EXTENSION *extension;

    X509V3_set_ctx(&context, issuer ? issuer->cert : cert, cert, NULL, NULL, 0);
    extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    must(extension != NULL && X509_add_ext(cert, extension, -1), value);
    X509_EXTENSION_free(extension);
}

/* A certificate of KEY by ISSUER (NULL: a CA's own), valid from and to so many days from now. NAMES: alternative ones, or NULL. */
static identity make(EVP_PKEY *key, const identity *issuer, const char *subject, const char *names, int from, int to)
{
    static long serial;
    identity made = {X509_new(), key};
    X509_NAME *name = X509_get_subject_name(made.cert);

    X509_set_version(made.cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made.cert), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(made.cert), from * DAY);
    X509_gmtime_adj(X509_getm_notAfter(made.cert), to * DAY);
    must(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)subject, -1, -1, 0), subject);
    X509_set_issuer_name(made.cert, issuer ? X509_get_subject_name(issuer->cert) : name);
    X509_set_pubkey(made.cert, key);
    extend(made.cert, issuer, NID_basic_constraints, issuer ? "critical,CA:FALSE" : "critical,CA:TRUE");
    if (names)
        extend(made.cert, issuer, NID_subject_alt_name, names);
    must(X509_sign(made.cert, issuer ? issuer->key : key, EVP_sha256()) > 0, subject);
    return made;
}

static void write_of(const char *file, EVP_PKEY *key, const identity *issuer, const char *subject, const char *names,
                     int from, int to)
{
    identity made = make(key, issuer, subject, names, from, to);

    write_cert(file, made.cert);
    X509_free(made.cert);
}

static void make_all(void)
{
    EVP_PKEY *keys[5];
    identity ca, foreign_ca;

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        must((keys[i] = EVP_EC_gen("P-256")) != NULL, "key");
    ca = make(keys[0], NULL, "ca", NULL, -1, 30);
    foreign_ca = make(keys[1], NULL, "foreign ca", NULL, -1, 30);
    write_cert("ca.pem", ca.cert);
    write_cert("foreign-ca.pem", foreign_ca.cert);
    write_key("server.key", keys[2], NULL);
    write_key("locked.key", keys[2], "a passphrase");
    write_key("client.key", keys[3], NULL);
    write_key("foreign.key", keys[4], NULL);
    write_of("server.pem", keys[2], &ca, "server", SERVER_NAMES, -1, 30);
    write_of("expired.pem", keys[2], &ca, "server", SERVER_NAMES, -3, -1);
    write_of("future.pem", keys[2], &ca, "server", SERVER_NAMES, 1, 30);
    write_of("elsewhere.pem", keys[2], &ca, "server", "DNS:elsewhere.example,IP:192.0.2.1", -1, 30);
    write_of("nameless.pem", keys[2], &ca, "localhost", NULL, -1, 30);
    write_of("client.pem", keys[3], &ca, "client", NULL, -1, 30);
    write_of("foreign.pem", keys[4], &foreign_ca, "foreign", SERVER_NAMES, -1, 30);
    X509_free(ca.cert);
    X509_free(foreign_ca.cert);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        EVP_PKEY_free(keys[i]);
}

const char *certificate_path(const char *name)
{
    static char kept[KEEP][PATH_SIZE];
    char path[PATH_SIZE];

    if (!folder[0]) {
        snprintf(folder, sizeof folder, "/tmp/od-certificates-XXXXXX");
        must(mkdtemp(folder) != NULL, folder);
        owner = getpid();
        atexit(clean_up);
        make_all();
    }
    path_of(name, path);
    for (int i = 0; i < KEEP; i++) {
        if (!kept[i][0])
            snprintf(kept[i], PATH_SIZE, "%s", path);
        if (strcmp(kept[i], path) == 0)
            return kept[i];
    }
    must(0, "too many names");
    return NULL;
}

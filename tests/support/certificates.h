/* support/certificates.h: a CA and certificates, made when they are first asked for, in a folder that goes with the process.
 *
 *   ca.pem           the CA of all others but foreign.pem
 *   server.pem       for localhost, 127.0.0.1 and ::1; its key is server.key, as of the next four
 *   expired.pem      as server.pem, valid until yesterday
 *   future.pem       as server.pem, valid from tomorrow
 *   elsewhere.pem    for elsewhere.example and 192.0.2.1
 *   nameless.pem     its subject's common name is localhost, and nothing else says so
 *   client.pem       a client's; client.key
 *   foreign.pem      of another CA, foreign-ca.pem, for server and client; foreign.key
 *   locked.key       server.key under a passphrase */
#ifndef OD_TESTS_CERTIFICATES_H
#define OD_TESTS_CERTIFICATES_H

/* The path of one of these files; aborts on failure. The text stays. Not for several threads. */
const char *certificate_path(const char *name);

#endif

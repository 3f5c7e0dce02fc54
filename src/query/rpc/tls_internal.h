/* query/rpc/tls_internal.h: what the files of TLS share. */
#ifndef OD_QUERY_RPC_TLS_INTERNAL_H
#define OD_QUERY_RPC_TLS_INTERNAL_H

#include <openssl/ssl.h>

#include "query/rpc/tls.h"

/* Prepares OpenSSL, once in a process. */
void od_tls_init(void);
/* A reference to the context that new connections use; SSL_CTX_free. */
SSL_CTX *od_tls_context(od_tls *tls);
bool od_tls_is_server(const od_tls *tls);
/* What OpenSSL's queue of errors says first, in words. */
const char *od_tls_reason(char *out, size_t size);

#endif

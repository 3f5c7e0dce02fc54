/* TLS for HTTP/1.1: what http/cover.h asks for, by query/tls_stream.h. */
#ifndef OD_CLI_COVER_H
#define OD_CLI_COVER_H

#include "http/server.h"
#include "query/rpc.h"

/* With the certificate of TLS (borrowed), a server's. */
od_http_cover cover_of(od_tls *tls);

/* A client's: with whom to trust, and the server's name or address. */
typedef struct {
    od_tls *tls;
    const char *host;
} cover_dial;

od_http_cover cover_to(cover_dial *dial); /* DIAL is borrowed */

#endif

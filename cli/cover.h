/* TLS for the pages of a server: what http/server.h asks for, by query/tls_stream.h. */
#ifndef OD_CLI_COVER_H
#define OD_CLI_COVER_H

#include "http/server.h"
#include "query/rpc.h"

/* With the certificate of TLS (borrowed), a server's. */
od_http_cover cover_of(od_tls *tls);

#endif

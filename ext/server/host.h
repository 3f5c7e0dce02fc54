// ext/server/host.h: what the server's engine needs of DuckDB's C++ classes (docs/decisions/0005-cpp-in-the-server.md).
#ifndef OD_SERVER_HOST_H
#define OD_SERVER_HOST_H

#include "query/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

// For od_engine_options.host.
const od_engine_host *od_server_host(void);

#ifdef __cplusplus
}
#endif

#endif

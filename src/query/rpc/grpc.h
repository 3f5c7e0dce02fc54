/* query/rpc/grpc.h: gRPC's small encodings: timeouts, percent-coded messages, status mappings. Pure functions. */
#ifndef OD_QUERY_RPC_GRPC_H
#define OD_QUERY_RPC_GRPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum {
    OD_GRPC_UNKNOWN = 2,
    OD_GRPC_PERMISSION_DENIED = 7,
    OD_GRPC_TIMEOUT_SIZE = 16, /* fits every grpc-timeout value with its NUL */
    OD_GRPC_MESSAGE_MAX = 4096 /* bytes of a grpc-message that are sent or kept */
};

/* "100m" and the like: at most eight digits and a unit; false if TEXT is anything else. */
bool od_grpc_timeout_parse(od_slice text, int64_t *ns);
/* The finest unit that holds NS (at least 1 ns is written) in eight digits, rounded up. */
void od_grpc_timeout_format(int64_t ns, char out[OD_GRPC_TIMEOUT_SIZE]);

/* Writes the percent-coded TEXT, cut to OD_GRPC_MESSAGE_MAX bytes at a whole UTF-8 character, into OUT (three times that
 * size) and returns the length. */
size_t od_grpc_percent_encode(const char *text, char out[3 * OD_GRPC_MESSAGE_MAX]);
/* Decodes into OUT (SIZE > 0 bytes with the NUL; cut). What is not a valid code is kept as it is; NUL bytes become '?'. */
void od_grpc_percent_decode(od_slice text, char *out, size_t size);

/* For peers (proxies) that answer without a grpc-status. */
int od_grpc_status_from_http(int http_status);
int od_grpc_status_from_h2(uint32_t error_code);

#endif

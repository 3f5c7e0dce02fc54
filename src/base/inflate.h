/* base/inflate.h: what is compressed with gzip (RFC 1952, RFC 1951), in memory. Trusts nothing of it. */
#ifndef OD_BASE_INFLATE_H
#define OD_BASE_INFLATE_H

#include "base/buf.h"

/* Appends to OUT what BYTES, one gzip member, holds; its checksum is compared.
 *   OD_E_CORRUPT  it is none     OD_E_TOO_LARGE  it holds more than MAX bytes */
OD_MUST_CHECK od_code od_gunzip(od_slice bytes, size_t max, od_buf *out, od_error *err);

#endif

/* vgi/worker, inside: bodies that are compressed with gzip (RFC 1952), in memory. */
#ifndef OD_VGI_WORKER_GZIP_H
#define OD_VGI_WORKER_GZIP_H

#include "base/buf.h"

/* Appends to OUT what BYTES, one gzip member, holds; its checksum is compared.
 *   OD_E_CORRUPT  it is none     OD_E_TOO_LARGE  it holds more than MAX bytes */
OD_MUST_CHECK od_code vgiw_gunzip(od_slice bytes, size_t max, od_buf *out, od_error *err);

#endif

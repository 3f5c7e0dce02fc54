/* vgi/worker, inside: bodies that are compressed, in memory. */
#ifndef OD_VGI_WORKER_CODING_H
#define OD_VGI_WORKER_CODING_H

#include "base/buf.h"

/* The codings that are read, as a header lists them. */
#define VGIW_CODINGS "gzip, zstd"

/* Appends to OUT what BYTES hold: one member or frame of CODING, a header's value, with its checksum compared.
 *   OD_E_NOT_IMPLEMENTED  another coding     OD_E_CORRUPT  it is none     OD_E_TOO_LARGE  it holds more than MAX bytes */
OD_MUST_CHECK od_code vgiw_decode(od_slice coding, od_slice bytes, size_t max, od_buf *out, od_error *err);

#endif

/* storage/blob.h: where whole files are kept far away: a directory, or a bucket of S3.
 *
 * A blob is there wholly or not at all, and never changes. All may be called from any thread, and block on disk or network. What
 * the network disturbs is tried again, a few times; then, or at a no: OD_E_UNAVAILABLE, OD_E_TIMEOUT, OD_E_CONNECTION_LOST,
 * OD_E_PERMISSION, OD_E_IO. Errors say which blob of which place, and no secret. */
#ifndef OD_STORAGE_BLOB_H
#define OD_STORAGE_BLOB_H

#include <stdint.h>

#include "base/buf.h"

typedef struct od_blob od_blob;

typedef struct {
    const char *url;      /* "s3://BUCKET", "s3://BUCKET/PREFIX", or an existing directory */
    const char *endpoint; /* of S3: "http://HOST:PORT"; NULL: Amazon's */
    const char *region;   /* NULL: "us-east-1" */
    const char *key;
    const char *secret;
    const char *session; /* NULL: none */
    bool virtual_host;   /* BUCKET.HOST, and not HOST/BUCKET; always so at Amazon's */
    uint32_t timeout_ms; /* of one request without its bytes, for which 64 KiB a second are enough; 0: 15 s */
    uint32_t part_bytes; /* of a blob that is sent in parts; 0: 8 MiB. S3 wants 5 MiB at least */
} od_blob_place;

/* What PLACE points to is copied.
 *   OD_E_INVALID   it makes no sense    OD_E_NOT_IMPLEMENTED   there is no libcurl */
OD_MUST_CHECK od_code od_blob_open(const od_blob_place *place, od_blob **out, od_error *err);
void od_blob_close(od_blob *blob);            /* NULL allowed */
const char *od_blob_url(const od_blob *blob); /* without a slash at its end */

/* Gives the LEN bytes at AT of what is put; called in order, and again for a part that is sent once more. */
typedef od_code (*od_blob_source)(void *arg, uint64_t at, void *out, size_t len, od_error *err);

/* Puts SIZE bytes under NAME (letters, digits, dots, dashes), in the place of what is there. */
OD_MUST_CHECK od_code od_blob_put(od_blob *blob, const char *name, uint64_t size, od_blob_source source, void *arg,
                                  od_error *err);
/* Exactly LEN bytes at AT, or an error. OD_E_NOT_FOUND: there is no such blob. */
OD_MUST_CHECK od_code od_blob_read(od_blob *blob, const char *name, uint64_t at, void *out, size_t len, od_error *err);
OD_MUST_CHECK od_code od_blob_size(od_blob *blob, const char *name, uint64_t *out, od_error *err);
/* That it is not there is none. */
OD_MUST_CHECK od_code od_blob_remove(od_blob *blob, const char *name, od_error *err);

#endif

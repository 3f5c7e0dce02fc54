/* base/buf.h: bytes: a borrowed slice, an owned growing buffer, a shared message.
 *
 * Bytes off the wire are never assumed NUL-terminated. */
#ifndef OD_BASE_BUF_H
#define OD_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Borrowed bytes. */
typedef struct {
    const uint8_t *data;
    size_t len;
} od_slice;

od_slice od_slice_of(const void *data, size_t len);
od_slice od_slice_str(const char *str); /* without the NUL; NULL gives an empty slice */
bool od_slice_equal(od_slice a, od_slice b);
int od_hex_value(uint8_t c); /* of a hexadecimal digit of either case; -1: it is none */

/* Owned bytes that grow. Zero-initialise; od_buf_release empties it and may be repeated. */
typedef struct {
    uint8_t *data;
    size_t len;
    size_t cap;
} od_buf;

void od_buf_release(od_buf *buf);
OD_MUST_CHECK od_code od_buf_reserve(od_buf *buf, size_t more, od_error *err);
OD_MUST_CHECK od_code od_buf_append(od_buf *buf, const void *data, size_t len, od_error *err);
OD_MUST_CHECK od_code od_buf_printf(od_buf *buf, od_error *err, const char *fmt, ...) OD_PRINTF(3, 4);
/* NUL-terminates (the NUL is not counted in len) and returns the text; NULL when memory is out. */
const char *od_buf_cstr(od_buf *buf);

/* Shared immutable bytes with a count of owners; thread-safe. DATA is aligned to 64 bytes plus SKEW, see
 * od_msg_create. */
typedef struct od_msg od_msg;

/* Makes a message of LEN bytes to be filled through od_msg_data before it is shared. Its data start at an address that
 * is SKEW (0..63) past a multiple of 64: a reader that knows how many header bytes come first can so have what follows
 * aligned. *out is NULL on failure. */
OD_MUST_CHECK od_code od_msg_create(size_t len, unsigned skew, od_msg **out, od_error *err);
od_msg *od_msg_ref(od_msg *msg);
void od_msg_unref(od_msg *msg); /* NULL allowed */
uint8_t *od_msg_data(od_msg *msg);
size_t od_msg_len(const od_msg *msg);
/* Cuts the message to LEN <= its length; only before it is shared. */
void od_msg_truncate(od_msg *msg, size_t len);

/* Makes messages whose memory is used again after their last owner: of many large ones in a row, each would otherwise get
 * its pages from the system anew. Thread-safe; its messages may outlive it. */
typedef struct od_msg_pool od_msg_pool;

/* Of what is not in use it keeps KEEP bytes at most, and no small messages. */
OD_MUST_CHECK od_code od_msg_pool_create(size_t keep, od_msg_pool **out, od_error *err);
void od_msg_pool_free(od_msg_pool *pool); /* NULL allowed */
/* As od_msg_create; of a pool that is NULL it is that. */
OD_MUST_CHECK od_code od_msg_pool_take(od_msg_pool *pool, size_t len, unsigned skew, od_msg **out, od_error *err);

#endif

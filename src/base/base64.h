/* base/base64.h: bytes from their base64 text. */
#ifndef OD_BASE_BASE64_H
#define OD_BASE_BASE64_H

#include <stdbool.h>

#include "base/buf.h"

/* How many bytes TEXT stands for, at most. */
size_t od_base64_room(od_slice text);
/* TEXT (RFC 4648 4, padded, nothing between) as bytes at OUT, which has room for them; *LEN: how many. False: it is none. */
bool od_base64_decode(od_slice text, uint8_t *out, size_t *len);

#endif

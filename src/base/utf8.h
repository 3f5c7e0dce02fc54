/* base/utf8.h: whether bytes are text. */
#ifndef OD_BASE_UTF8_H
#define OD_BASE_UTF8_H

#include <stdbool.h>

#include "base/buf.h"

/* The length of the UTF-8 sequence at TEXT (LEN > 0), 0 if it is none (RFC 3629: no surrogates, nothing overlong). */
size_t od_utf8_len(const uint8_t *text, size_t len);
bool od_utf8_valid(od_slice text);

#endif

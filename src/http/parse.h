/* http/parse.h: the head of an HTTP/1.1 request, read strictly.
 *
 * What RFC 9112 lets a server be lenient with is refused: bare line feeds, folded headers, blanks before a colon, more than one
 * length. No transfer coding is taken, so a body is as long as Content-Length says. */
#ifndef OD_HTTP_PARSE_H
#define OD_HTTP_PARSE_H

#include "base/buf.h"

enum { OD_HTTP_HEAD_MAX = 8192, OD_HTTP_HEADERS_MAX = 64 };

typedef struct {
    od_slice name, value; /* the value without blanks around it */
} od_http_header;

/* All slices borrow the bytes that were parsed. */
typedef struct {
    od_slice method, path, query; /* QUERY without its '?' */
    od_http_header headers[OD_HTTP_HEADERS_MAX];
    size_t header_count;
    size_t content_length;
    bool keep_alive;
    size_t len; /* of the head, its blank line included */
} od_http_head;

/* Reads the head at the start of BYTES. 0: more bytes are needed; 200: *out is filled; else the status that refuses it.
 * MAX_BODY: a longer body is refused with 413. */
int od_http_parse(od_slice bytes, size_t max_body, od_http_head *out);

/* The value of the header NAME, in any case; empty if there is none. */
od_slice od_http_head_value(const od_http_head *head, const char *name);
/* Whether the header NAME has TOKEN among its values, which commas separate, in any case. */
bool od_http_head_has(const od_http_head *head, const char *name, const char *token);

#endif

/* http/answer.h: which route a whole request takes, and what goes back. */
#ifndef OD_HTTP_ANSWER_H
#define OD_HTTP_ANSWER_H

#include "http/server.h"

/* Appends the response to HEAD with BODY to OUT: by its route, or why it has none. KEEP: the connection goes on. */
OD_MUST_CHECK od_code od_http_answer(const od_http_server_options *options, const od_http_head *head, od_slice body,
                                     bool keep, od_buf *out, od_error *err);
/* Appends a response that refuses a request with STATUS, and ends the connection. */
OD_MUST_CHECK od_code od_http_refuse(int status, od_buf *out, od_error *err);

#endif

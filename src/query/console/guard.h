/* What a request says of who sent it. */
#ifndef OD_QUERY_CONSOLE_GUARD_H
#define OD_QUERY_CONSOLE_GUARD_H

#include "http/parse.h"

enum { GUARD_COOKIE_NAME = 32 };
/* The name of the session's cookie: cookies are a host's, and several of its ports may have a console. */
void guard_cookie_name(const od_http_head *head, char out[GUARD_COOKIE_NAME]);
/* The value of that cookie; empty: there is none. */
od_slice guard_cookie(const od_http_head *head);
/* Whether there is a credential of "Authorization", which then counts alone; *out is a bearer's. */
bool guard_authorization(const od_http_head *head, od_slice *out);
/* Whether a page of this server sent it: browsers name the page's origin in every POST. */
bool guard_same_origin(const od_http_head *head);

#endif

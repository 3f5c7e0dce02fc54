/* What the page asks for, as JSON. */
#ifndef OD_QUERY_CONSOLE_VIEW_H
#define OD_QUERY_CONSOLE_VIEW_H

#include "query/gateway.h"

/* Executions beyond so many, the youngest, are counted only; their SQL is shown as far as so many bytes. */
enum { VIEW_RUNNING = 200, VIEW_SQL = 1000 };

OD_MUST_CHECK od_code view_status(const od_status *status, od_buf *out, od_error *err);
OD_MUST_CHECK od_code view_failures(const od_gateway_failure *list, size_t count, od_buf *out, od_error *err);

#endif

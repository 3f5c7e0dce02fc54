/* vgi/client/execution.h: calls about what a worker keeps for us between them, under an id of its own. */
#ifndef OD_VGI_CLIENT_EXECUTION_H
#define OD_VGI_CLIENT_EXECUTION_H

#include "vgi/client/client_internal.h"

/* How long a worker may take to let go of what it keeps. */
enum { OD_VGI_LET_GO_MS = 2000 };

typedef struct {
    od_vgi *vgi; /* counted; NULL: not made */
    const od_vgi_dialect *dialect;
    od_buf function, schema, attach;
    bool has_schema;
    od_buf id; /* as the worker tells it; empty: not yet */
} od_vgi_execution;

/* Of FUNCTION in SCHEMA (NULL: not told), in the name of CONTEXT, of which only the attach counts. E is zero. */
OD_MUST_CHECK od_code od_vgi_execution_init(od_vgi_execution *e, od_vgi *vgi, const od_vgi_context *context,
                                            const char *function, const char *schema, od_error *err);
void od_vgi_execution_release(od_vgi_execution *e);
/* A request with what all have: the function, its schema, the id and the attach. */
OD_MUST_CHECK od_code od_vgi_execution_request(const od_vgi_execution *e, od_row **out, od_error *err);
/* Asks METHOD with REQUEST; the bytes of the answer's record are appended to ANSWER. */
OD_MUST_CHECK od_code od_vgi_execution_ask(const od_vgi_execution *e, od_vgi_interrupt interrupt, const char *method,
                                           od_row *request, od_buf *answer, od_error *err);
/* The same of a method that only lets go of something: briefly, and whatever comes of it. */
void od_vgi_execution_let_go(const od_vgi_execution *e, const char *method, od_row *request);

#endif

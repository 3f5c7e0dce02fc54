/* vgi/client/scan_internal.h: a scan, over a session or over HTTP. */
#ifndef OD_VGI_CLIENT_SCAN_INTERNAL_H
#define OD_VGI_CLIENT_SCAN_INTERNAL_H

#include "vgi/client/bound.h"

struct od_vgi_scan {
    od_vgi *vgi;
    const od_vgi_dialect *dialect;
    od_vgi_bound *bound;
    od_vgi_interrupt interrupt;
    od_vgi_session *session;
    od_vgi_source source;
    od_vgi_stream stream;
    od_ipc_writer *ticks;
    struct ArrowSchema no_columns; /* of the input stream */
    struct ArrowSchema schema;     /* of what comes */
    od_buf columns;                /* int64_t: what was asked for; none: all */
    od_buf execution, init_opaque; /* what another stream of the same rows sends */
    od_msg *filters;               /* as they are sent, or NULL */
    size_t filter_count;
    int64_t row_limit; /* 0: none */
    size_t pending;    /* ticks that are not answered yet */
    size_t batches;    /* that came */
    int64_t max_workers;
    od_fetched answer; /* over HTTP: what is read */
    bool checked;      /* the stream's schema is the bound one */
    bool broken;       /* the session cannot be used again */
    bool over;         /* the end, or an error, was told */
};

/* scan.c. The header stream, to its end; *FAILED: it tells an error, and the session goes on. */
OD_MUST_CHECK od_code od_vgi_scan_read_header(od_vgi_scan *scan, const od_vgi_wait *wait, bool *failed, od_error *err);
/* Whether the output's schema is the bound one, once it is there. */
OD_MUST_CHECK od_code od_vgi_scan_check_schema(od_vgi_scan *scan, od_error *err);

/* scan_http.c. REQUEST is the init's. */
OD_MUST_CHECK od_code od_vgi_scan_http_start(od_vgi_scan *scan, od_msg *request, od_error *err);
OD_MUST_CHECK od_code od_vgi_scan_http_next(od_vgi_scan *scan, struct ArrowArray *out, od_error *err);

#endif

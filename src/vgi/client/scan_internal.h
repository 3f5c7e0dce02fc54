/* vgi/client/scan_internal.h: a scan, over a session or over HTTP. */
#ifndef OD_VGI_CLIENT_SCAN_INTERNAL_H
#define OD_VGI_CLIENT_SCAN_INTERNAL_H

#include "base/uuid.h"
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
    od_msg *wishes;           /* for batches, the most that are sent at once; NULL: none was */
    struct ArrowSchema input; /* of the input stream; no columns: ticks only */
    const char *phase;        /* of a function over rows, or NULL */
    od_uuid substream;        /* of one with phases, that keeps rows by stream */
    od_buf kept;              /* of a buffering function: which part of what it kept; empty: none */
    bool takes_rows;
    bool input_begun;              /* the input stream's schema was sent */
    struct ArrowSchema schema;     /* of what comes */
    od_buf columns;                /* int64_t: what was asked for; none: all */
    od_buf execution, init_opaque; /* what another stream of the same rows sends */
    od_msg *filters;               /* as they are sent, or NULL */
    size_t filter_count;
    int64_t row_limit; /* 0: none */
    size_t pending;    /* ticks that are not answered yet */
    size_t batches;    /* that came */
    int64_t begun_ns;  /* when the first PACE_BATCHES had come */
    int64_t paced_ns;  /* when the last ones had */
    int64_t gather_ns; /* of od_vgi_wait: a few batches' time while they come fast, else 0 */
    int64_t max_workers;
    od_fetched answer; /* over HTTP: what is read */
    bool checked;      /* the stream's schema is the bound one */
    bool broken;       /* the session cannot be used again */
    bool over;         /* the end, or an error, was told */
};

/* What BUF has; without any bytes no bytes at all: they are absent in a request. */
od_slice od_vgi_bytes_of(const od_buf *buf);

/* scan.c. A scan that has not started, with an input of INPUT (NULL: no columns). */
OD_MUST_CHECK od_code od_vgi_scan_create(od_vgi *vgi, const od_vgi_bound *bound, od_vgi_interrupt interrupt,
                                         const struct ArrowSchema *input, od_vgi_scan **out, od_error *err);
/* Starts it, as another stream of FIRST if that is not NULL. */
OD_MUST_CHECK od_code od_vgi_scan_start(od_vgi_scan *scan, const od_vgi_scan *first, od_error *err);
/* Sends what was added to the input. */
OD_MUST_CHECK od_code od_vgi_scan_send(od_vgi_scan *scan, const od_vgi_wait *wait, od_error *err);
/* The end of the output was read: ends the input. OD_OK, or what the worker failed with. */
OD_MUST_CHECK od_code od_vgi_scan_end(od_vgi_scan *scan, const od_vgi_wait *wait, od_error *err);
/* The header stream, to its end; *FAILED: it tells an error, and the session goes on. */
OD_MUST_CHECK od_code od_vgi_scan_read_header(od_vgi_scan *scan, const od_vgi_wait *wait, bool *failed, od_error *err);
/* Whether the output's schema is the bound one, once it is there. */
OD_MUST_CHECK od_code od_vgi_scan_check_schema(od_vgi_scan *scan, od_error *err);

/* scan_http.c. REQUEST is the init's. */
OD_MUST_CHECK od_code od_vgi_scan_http_start(od_vgi_scan *scan, od_msg *request, od_error *err);
OD_MUST_CHECK od_code od_vgi_scan_http_next(od_vgi_scan *scan, struct ArrowArray *out, od_error *err);
/* Sends what was added to the input, and reads the batch that comes of it. */
OD_MUST_CHECK od_code od_vgi_scan_http_put(od_vgi_scan *scan, struct ArrowArray *rows, const od_ipc_pair *status,
                                           struct ArrowArray *out, od_error *err);

/* buffered.c. Its phase is one of a buffering function's. */
bool od_vgi_scan_is_buffered(const od_vgi_scan *scan);

/* exchange.c. The end of what goes in; reads off what comes. */
OD_MUST_CHECK od_code od_vgi_scan_end_rows(od_vgi_scan *scan, od_error *err);

/* parents.c. TEXT: as the worker tells it; data NULL: it does not. The rest as of od_vgi_scan_parents. */
OD_MUST_CHECK od_code od_vgi_parents_read(od_slice text, int64_t rows, int64_t given, int32_t *out, od_error *err);

#endif

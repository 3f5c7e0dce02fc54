/* vgi/worker/call.h: one request, and what it is answered. */
#ifndef OD_VGI_WORKER_CALL_H
#define OD_VGI_WORKER_CALL_H

#include "vgi/worker/encode.h"
#include "vgi/worker/peer.h"

typedef struct {
    const od_vgiw *worker;
    const od_vgi_dialect *dialect;
    const od_record *request;
    od_row *out; /* the result's record, to be filled */
} vgiw_call;

typedef struct {
    const char *name;
    od_code (*answer)(const vgiw_call *call, od_error *err);
    bool no_result;
} vgiw_method;

/* NULL: there is no such method. */
const vgiw_method *vgiw_method_find(od_slice name);

/* What a refusal says beside its text. */
extern const char vgiw_kind_method[], vgiw_kind_version[], vgiw_kind_unspecified[], vgiw_kind_unsupported[];

/* The dialect in which META speaks. On failure *kind (NULL: none) says why, as clients know it. */
OD_MUST_CHECK od_code vgiw_dialect_of(const vgiw_meta *meta, const od_vgi_dialect **out, const char **kind,
                                      od_error *err);

/* A parameter that is a text, with a NUL behind it, in OUT (emptied first). Absent: *TEXT is NULL. OD_E_INVALID: it has a NUL in it. */
OD_MUST_CHECK od_code vgiw_text(const od_record *record, const char *name, od_buf *out, const char **text,
                                od_error *err);
/* One that names a schema, by a path or by a name; absent: NULL. Paths of several parts are OD_E_NOT_FOUND. */
OD_MUST_CHECK od_code vgiw_schema_text(const vgiw_call *call, const od_record *record, const char *path_field,
                                       const char *name_field, od_buf *out, const char **text, od_error *err);
/* The record in the parameter `request`. */
OD_MUST_CHECK od_code vgiw_inner(const od_record *request, const char *name, od_record **out, od_error *err);

/* A whole answer to a unary request. */
OD_MUST_CHECK od_code vgiw_answer(const od_vgiw *worker, const vgiw_meta *meta, const od_record *request, bool *failed,
                                  od_msg **out, od_error *err);
/* The stream that says WHY. */
OD_MUST_CHECK od_code vgiw_refusal(const od_error *why, const char *kind, od_msg **out, od_error *err);
/* The batch that says so, of the schema of ROW, which is empty. */
typedef struct {
    od_ipc_pair pairs[6];
    size_t count;
    od_buf text, extra;
} vgiw_complaint;
OD_MUST_CHECK od_code vgiw_complaint_make(const od_error *why, const char *kind, vgiw_complaint *out, od_error *err);
void vgiw_complaint_release(vgiw_complaint *complaint);

/* ---- functions (function.c) ---- */

/* What a bind asks for. */
typedef struct {
    const vgiw_function *function;
    struct ArrowSchema arguments_schema; /* release NULL: none */
    struct ArrowArray arguments;
    od_vgiw_values values; /* the two above */
    struct ArrowSchema output;
} vgiw_bound;

/* REQUEST is a BindRequest. */
OD_MUST_CHECK od_code vgiw_bind(const vgiw_call *call, const od_record *request, vgiw_bound *out, od_error *err);
void vgiw_bound_release(vgiw_bound *bound);

/* A scan that runs. */
typedef struct vgiw_rows vgiw_rows;

/* REQUEST is an InitRequest. */
OD_MUST_CHECK od_code vgiw_rows_open(const vgiw_call *call, const od_record *request, vgiw_rows **out, od_error *err);
const struct ArrowSchema *vgiw_rows_schema(const vgiw_rows *rows);
/* out->release NULL: the end. */
OD_MUST_CHECK od_code vgiw_rows_next(vgiw_rows *rows, struct ArrowArray *out, od_error *err);
bool vgiw_rows_more(const vgiw_rows *rows); /* neither the end nor a failure was told */
void vgiw_rows_close(vgiw_rows *rows);      /* NULL allowed */
/* The header stream. */
OD_MUST_CHECK od_code vgiw_header(const od_vgi_dialect *dialect, od_msg **out, od_error *err);

/* ---- sessions (session.c, scan.c) ---- */

/* All that PEER asks, until it ends. What is answered with an error is none here. */
OD_MUST_CHECK od_code vgiw_session(const od_vgiw *worker, vgiw_peer *peer, od_error *err);
/* REQUEST is an init; its input follows. */
OD_MUST_CHECK od_code vgiw_scan(const od_vgiw *worker, vgiw_peer *peer, const od_vgi_dialect *dialect,
                                const od_record *request, od_error *err);

#endif

/* vgi/worker/call.h: one request, and what it is answered. */
#ifndef OD_VGI_WORKER_CALL_H
#define OD_VGI_WORKER_CALL_H

#include "base/uuid.h"
#include "vgi/worker/encode.h"
#include "vgi/worker/peer.h"
#include "vgi/worker/shelf.h"

typedef struct {
    const od_vgiw *worker;
    const od_vgi_dialect *dialect;
    const od_record *request;
    od_row *out; /* the result's record, to be filled; */
    od_msg *
        *stream; /* or, where the result is none, to be made: the stream in its place. NULL: there is nothing to tell */
} vgiw_call;

typedef enum { VGIW_RECORD, VGIW_NO_RESULT, VGIW_STREAM } vgiw_result;

typedef struct {
    const char *name;
    od_code (*answer)(const vgiw_call *call, od_error *err);
    vgiw_result result;
} vgiw_method;

/* NULL: there is no such method. */
const vgiw_method *vgiw_method_find(od_slice name);

/* What a refusal says beside its text. */
extern const char vgiw_kind_method[], vgiw_kind_version[], vgiw_kind_unspecified[], vgiw_kind_unsupported[];

/* The dialect of VERSION, of which the patch does not count; NULL: it is not spoken. */
const od_vgi_dialect *vgiw_generation(od_slice version);
/* The dialect in which META speaks. On failure *kind (NULL: none) says why, as clients know it. */
OD_MUST_CHECK od_code vgiw_dialect_of(const od_vgiw *worker, const vgiw_meta *meta, const od_vgi_dialect **out,
                                      const char **kind, od_error *err);
/* Whether the client has attached this catalog, as its attach_opaque_data in TOLD say. *options: the ATTACH's, a stream; empty: there are none. */
OD_MUST_CHECK od_code vgiw_check_attached(const od_vgiw *worker, od_slice told, od_slice *options, od_error *err);

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

/* The methods about functions (method_function.c). */
OD_MUST_CHECK od_code vgiw_answer_bind(const vgiw_call *call, od_error *err);
OD_MUST_CHECK od_code vgiw_answer_cardinality(const vgiw_call *call, od_error *err);
OD_MUST_CHECK od_code vgiw_answer_statistics(const vgiw_call *call, od_error *err);
OD_MUST_CHECK od_code vgiw_answer_process(const vgiw_call *call, od_error *err);
OD_MUST_CHECK od_code vgiw_answer_combine(const vgiw_call *call, od_error *err);
OD_MUST_CHECK od_code vgiw_answer_destructor(const vgiw_call *call, od_error *err);
/* What ATTACH says (attach.c): REQUEST is a CatalogAttachRequest. *OUT: the options, with the catalog's own values, as a stream; NULL: none. */
OD_MUST_CHECK od_code vgiw_attach_options(const od_vgiw *worker, const od_record *request, od_msg **out, od_error *err);

/* ---- columns of one row (bind.c) ---- */

/* Zero-initialise, release. */
typedef struct {
    struct ArrowSchema schema; /* release NULL: none */
    struct ArrowArray array;
} vgiw_held;

void vgiw_held_release(vgiw_held *held);
/* The one batch of BYTES, if it has a column; empty: none. */
OD_MUST_CHECK od_code vgiw_held_read(od_slice bytes, vgiw_held *out, od_error *err);
od_vgiw_values vgiw_held_values(const vgiw_held *held);
/* Whether each column of HELD is one of LIST, and of its type. WHAT is for the error. */
OD_MUST_CHECK od_code vgiw_held_check(const vgiw_held *held, const vgiw_list *list, const char *what, od_error *err);

/* ---- functions (bind.c) ---- */

/* What a bind asks for. */
typedef struct {
    const vgiw_function *function;
    vgiw_held arguments, options, settings, secrets;
    struct ArrowSchema input; /* release NULL: none */
    od_buf at_unit, at_value, transaction;
    od_vgiw_call call; /* the above */
    struct ArrowSchema output;
    bool wants_secrets; /* they are to be asked for; there is no output */
} vgiw_bound;

/* REQUEST is a BindRequest. */
OD_MUST_CHECK od_code vgiw_bind(const vgiw_call *call, const od_record *request, vgiw_bound *out, od_error *err);
void vgiw_bound_release(vgiw_bound *bound);

/* ---- rows (rows.c) ---- */

/* A scan that runs, or rows that go in and out of a function. */
typedef struct vgiw_rows vgiw_rows;

/* REQUEST is an InitRequest. */
OD_MUST_CHECK od_code vgiw_rows_open(const vgiw_call *call, const od_record *request, vgiw_rows **out, od_error *err);
const struct ArrowSchema *vgiw_rows_schema(const vgiw_rows *rows);
bool vgiw_rows_take(const vgiw_rows *rows); /* rows go in */
/* Whether rows of SCHEMA are what goes in. */
OD_MUST_CHECK od_code vgiw_rows_check(const vgiw_rows *rows, const struct ArrowSchema *schema, od_error *err);
/* IN is moved, or the caller's still. *again: there is more for IN, which comes with the next one, whatever is in it. */
OD_MUST_CHECK od_code vgiw_rows_put(vgiw_rows *rows, struct ArrowArray *in, struct ArrowArray *out, bool *again,
                                    od_error *err);
extern const od_ipc_pair vgiw_more_pair; /* of a batch, if there is */
/* out->release NULL: the end. */
OD_MUST_CHECK od_code vgiw_rows_next(vgiw_rows *rows, struct ArrowArray *out, od_error *err);
bool vgiw_rows_more(const vgiw_rows *rows); /* neither the end nor a failure was told */
/* No more rows go in: they are given up, or kept until their end is asked for. */
void vgiw_rows_end(const od_vgiw *worker, vgiw_rows *rows);
void vgiw_rows_close(vgiw_rows *rows); /* NULL allowed */
void vgiw_rows_drop(vgiw_kept *kept);  /* of those that are kept */
od_uuid vgiw_rows_execution(const vgiw_rows *rows);
/* Whether REQUEST, an init, asks for the end of rows that went in under *execution. */
bool vgiw_asks_end(const od_record *request, od_uuid *execution);
/* The header stream. */
OD_MUST_CHECK od_code vgiw_header(const od_vgi_dialect *dialect, const vgiw_rows *rows, od_msg **out, od_error *err);
/* Of a function that keeps all rows, which REQUEST names: a batch, the end of all, and that it is given up. */
OD_MUST_CHECK od_code vgiw_buffer_put(const vgiw_call *call, const od_record *request, od_error *err);
OD_MUST_CHECK od_code vgiw_buffer_combine(const vgiw_call *call, const od_record *request, od_error *err);
OD_MUST_CHECK od_code vgiw_buffer_drop(const vgiw_call *call, const od_record *request, od_error *err);

/* ---- sessions (session.c, scan.c) ---- */

/* All that PEER asks, until it ends. What is answered with an error is none here. */
OD_MUST_CHECK od_code vgiw_session(const od_vgiw *worker, vgiw_peer *peer, od_error *err);
/* REQUEST is an init; its input follows. */
OD_MUST_CHECK od_code vgiw_scan(const od_vgiw *worker, vgiw_peer *peer, const od_vgi_dialect *dialect,
                                const od_record *request, od_error *err);

#endif

/* vgi/client/bound.h: a bound function. */
#ifndef OD_VGI_CLIENT_BOUND_H
#define OD_VGI_CLIENT_BOUND_H

#include "vgi/client/client_internal.h"
#include "vgi/client/records_internal.h"

struct od_vgi_bound {
    atomic_size_t refs;
    od_msg *request;     /* the BindRequest, sent again with init */
    od_buf schema_bytes; /* the schema message as it came */
    od_buf opaque;
    bool has_opaque;
    struct ArrowSchema schema;
    od_vgi_answer *answer; /* owns the secrets */
    size_t secret_count;
    od_vgi_secret_need *secrets;
};

od_vgi_bound *od_vgi_bound_ref(od_vgi_bound *bound);

/* What a bind sends as streams of their own; NULL: absent. All are released by od_vgi_bind_parts_release. */
typedef struct {
    od_msg *arguments, *settings, *secrets, *input;
} od_vgi_bind_parts;

/* Moved out of BIND. */
OD_MUST_CHECK od_code od_vgi_bind_parts_make(od_vgi_bind_parts *parts, const od_vgi_bind *bind, od_error *err);
void od_vgi_bind_parts_put(const od_vgi_bind_parts *parts, const od_vgi_dialect *dialect, od_row *row);
void od_vgi_bind_parts_release(od_vgi_bind_parts *parts);

#endif

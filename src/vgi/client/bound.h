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

#endif

/* vgi/client/aggregate_internal.h: an aggregate function at work. */
#ifndef OD_VGI_CLIENT_AGGREGATE_INTERNAL_H
#define OD_VGI_CLIENT_AGGREGATE_INTERNAL_H

#include "vgi/client/execution.h"

struct od_vgi_aggregate {
    od_vgi_execution execution;
    struct ArrowSchema schema; /* of results */
    od_buf schema_bytes;       /* the schema message as it came */
};

/* aggregate.c. Asks METHOD, whose answer is a batch of N results. */
OD_MUST_CHECK od_code od_vgi_aggregate_results(const od_vgi_aggregate *a, od_vgi_interrupt interrupt,
                                               const char *method, od_row *request, size_t n, struct ArrowArray *out,
                                               od_error *err);

#endif

/* vgi/worker/filter.h: conditions on rows, as clients of both generations write them. */
#ifndef OD_VGI_WORKER_FILTER_H
#define OD_VGI_WORKER_FILTER_H

#include "arrow/c_data.h"
#include "base/buf.h"
#include "openduck/vgi_worker.h"

typedef struct vgiw_filters vgiw_filters;

/* What was asked, and what it is asked of. */
typedef struct {
    od_slice bytes;                    /* the filters as a stream; empty: none */
    const struct ArrowSchema *columns; /* the function's */
    const int64_t *asked;              /* those that come, in their order; NULL: all */
    size_t asked_count;
} vgiw_filter_request;

/* Conditions that are of a kind which is not known here are left out: a client filters again.
 *   OD_E_CORRUPT  they are not what the protocol says */
OD_MUST_CHECK od_code vgiw_filters_read(const vgiw_filter_request *request, vgiw_filters **out, od_error *err);
void vgiw_filters_free(vgiw_filters *filters); /* NULL allowed */
const od_vgiw_filter *const *vgiw_filters_all(const vgiw_filters *filters, size_t *count);
od_vgiw_values vgiw_filters_values(const vgiw_filters *filters);

#endif

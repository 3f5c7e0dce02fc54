/* vgi/client/filter.h: conditions, as the two generations of the protocol write them. Pure. */
#ifndef OD_VGI_CLIENT_FILTER_H
#define OD_VGI_CLIENT_FILTER_H

#include "vgi/client/client_internal.h"

/* What cannot be told is left out: *SENT says how many of FILTERS *OUT has; NULL: none. SCHEMA is the bound one; COLUMNS the
 * COUNT columns of it that come (COLUMNS NULL: all). Values are moved out of.
 *   OD_E_INVALID  an expression with too few children, or of a column that is not there */
OD_MUST_CHECK od_code od_vgi_filters_write(const od_vgi_dialect *dialect, const struct ArrowSchema *schema,
                                           const int64_t *columns, size_t column_count,
                                           const od_vgi_expr *const *filters, size_t filter_count, od_msg **out,
                                           size_t *sent, od_error *err);

#endif

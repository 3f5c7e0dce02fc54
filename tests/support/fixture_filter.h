/* Filters that a worker was told, as a person would write them: "n >= 8 AND s = 'x'". */
#ifndef FIXTURE_FILTER_H
#define FIXTURE_FILTER_H

#include "base/buf.h"
#include "openduck/vgi_worker.h"

/* COLUMNS: the function's. "" without filters. */
void fixture_filters(const od_vgiw_scan *scan, const struct ArrowSchema *columns, od_buf *out);

#endif

/* vgi/worker/http_scan.h: scans over HTTP, which go on from one request to the next. */
#ifndef OD_VGI_WORKER_HTTP_SCAN_H
#define OD_VGI_WORKER_HTTP_SCAN_H

#include "vgi/worker/call.h"
#include "vgi/worker/shelf.h"

OD_MUST_CHECK od_code vgiw_scans_create(vgiw_shelf **out, od_error *err);

/* Starts what REQUEST, an init, asks for, and appends to ANSWER the header, the first batch, and where the client goes on.
 * Thread: any. OD_E_BUSY: there are too many that go on. */
OD_MUST_CHECK od_code vgiw_scans_begin(vgiw_shelf *scans, const vgiw_call *call, od_buf *answer, od_error *err);
/* The next batch of the scan that the cursor STATE names; a client may ask for the same one twice. Where rows go in, they are REQUEST's, which may
 * then only be freed.
 *   OD_E_NOT_FOUND  it is over, or there is no such */
OD_MUST_CHECK od_code vgiw_scans_next(vgiw_shelf *scans, od_slice state, od_record *request, od_buf *answer,
                                      od_error *err);

#endif

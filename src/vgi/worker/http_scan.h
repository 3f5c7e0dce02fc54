/* vgi/worker/http_scan.h: scans over HTTP, which go on from one request to the next. */
#ifndef OD_VGI_WORKER_HTTP_SCAN_H
#define OD_VGI_WORKER_HTTP_SCAN_H

#include "vgi/worker/call.h"

typedef struct vgiw_scans vgiw_scans;

OD_MUST_CHECK od_code vgiw_scans_create(vgiw_scans **out, od_error *err);
void vgiw_scans_free(vgiw_scans *scans); /* nothing is asked of them any more. NULL allowed */

/* Starts what REQUEST, an init, asks for, and appends to ANSWER the header, the first batch, and where the client goes on.
 * Thread: any. OD_E_BUSY: there are too many that go on. */
OD_MUST_CHECK od_code vgiw_scans_begin(vgiw_scans *scans, const vgiw_call *call, od_buf *answer, od_error *err);
/* The next batch of the scan that the cursor STATE names; a client may ask for the same one twice.
 *   OD_E_NOT_FOUND  it is over, or there is no such */
OD_MUST_CHECK od_code vgiw_scans_next(vgiw_scans *scans, od_slice state, od_buf *answer, od_error *err);

#endif

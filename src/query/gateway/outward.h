/* What workers are called with: a token of the file stays here, and its rights go with the gateway's own token. */
#ifndef OD_QUERY_GATEWAY_OUTWARD_H
#define OD_QUERY_GATEWAY_OUTWARD_H

#include "query/gateway/flow.h"

/* The token to send for a caller with RIGHTS that gave GIVEN: *out borrows GIVEN or *owned, which the caller releases. */
OD_MUST_CHECK od_code outward_token(const od_gateway *g, const od_rights *rights, od_slice given, od_secret *owned,
                                    od_slice *out, od_error *err);
/* F's request as a worker is to get it. OUT borrows *owner (NULL: the request itself), which the caller unrefs. */
OD_MUST_CHECK od_code outward_request(const flow *f, od_msg **owner, od_rpc_out *out, od_error *err);
/* The same of MSG, the first of a call whose reply is KIND; a reference. */
OD_MUST_CHECK od_code outward_head(const od_gateway *g, const od_rights *rights, od_reply_kind kind, od_msg *msg,
                                   od_msg **out, od_error *err);

#endif

/* What the first message of a call that begins, fills or ends a transaction says. */
#ifndef OD_QUERY_GATEWAY_HEAD_H
#define OD_QUERY_GATEWAY_HEAD_H

#include "query/wire.h"

/* Borrows the message. */
typedef struct {
    od_slice id, database, token;
    bool alone;         /* an ingest that is a transaction of its own */
    od_slice statement; /* what its rows go through */
} head;

/* MSG is the first one of the call whose reply is KIND. OD_E_PROTOCOL, OD_E_INVALID */
OD_MUST_CHECK od_code head_read(od_reply_kind kind, od_msg *msg, head *out, od_error *err);

#endif

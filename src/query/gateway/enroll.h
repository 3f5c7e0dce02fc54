/* RegisterWorker: who registers is asked how it is before it is sent anything. */
#ifndef OD_QUERY_GATEWAY_ENROLL_H
#define OD_QUERY_GATEWAY_ENROLL_H

#include "query/gateway/flow.h"

/* Answers CALL, whose REGISTRATION (taken) has a token that fits: at once if there is something wrong with it, else when its
 * worker has answered. On CALL's loop. */
void enroll(od_gateway *gateway, od_rpc_call *call, od_registration *registration);

#endif

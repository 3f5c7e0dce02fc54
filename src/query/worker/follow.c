/* A further stream of an execution's result, on a thread of its own. */
#include "query/worker/worker_internal.h"
#include "base/banned.h"

od_code od_follow_open(od_worker_run *run, od_error *err)
{
    od_worker_run *leader = run->leader;
    od_code rc = OD_OK;
    (void)pthread_mutex_lock(&leader->lock);
    if (leader->execution != NULL)
        rc = od_follower_open(leader->execution, &run->follower, err);
    (void)pthread_mutex_unlock(&leader->lock);
    return rc;
}

static od_code send_one(od_worker_run *run, od_msg *payload, uint64_t place, od_error *err)
{
    od_rpc_out out;
    od_code rc = od_chunk_batch(payload, 0, od_msg_len(payload), &(od_chunk_told){.place = place}, &out, err);
    return rc == OD_OK ? od_run_send(run, run->leader, &out, err) : rc;
}

static od_code stream(od_worker_run *run, od_worker_outcome *outcome, od_error *err)
{
    uint64_t place;
    od_code rc = OD_OK;
    while (rc == OD_OK && run->follower != NULL) {
        rc = od_run_stopped(run, err);
        od_msg *payload = rc == OD_OK ? od_follower_next(run->follower, &place) : NULL;
        if (payload == NULL)
            return rc;
        od_run_heard(run->leader);
        rc = send_one(run, payload, place, err);
        od_msg_unref(payload);
        outcome->rows_payloads += rc == OD_OK;
    }
    return rc;
}

/* Payloads that it took and that did not go out are missed by whoever counts them: its client. */
void od_follow_main(void *arg)
{
    od_worker_run *run = arg;
    od_error err = {0};
    od_rpc_out out;
    od_worker_outcome outcome = {0};
    od_code rc = stream(run, &outcome, &err);
    od_follower_free(run->follower);
    run->follower = NULL;
    od_run_leave(run);
    if (rc != OD_OK)
        outcome.error = &err;
    if (run->events != NULL)
        run->events->on_over(run->events_arg, outcome.error);
    if (rc == OD_OK) {
        od_chunk_finished(0, 0, &out);
        rc = od_rpc_call_reply(run->call, &out, OD_GRPC_OK, NULL, &err);
    }
    if (rc != OD_OK)
        od_rpc_call_fail(run->call, od_code_grpc_status(rc), rc, err.message);
    outcome.bytes = od_worker_run_bytes(run);
    if (run->events != NULL)
        run->events->on_done(run->events_arg, &outcome);
    od_worker_run_unref(run);
}

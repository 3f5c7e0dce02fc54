/* CancelExecution, RegisterWorker, Heartbeat, GetStatus: one request, one reply. */
#include "query/gateway/enroll.h"

#include "base/alloc.h"
#include "query/gateway/outward.h"
#include "base/banned.h"

typedef struct {
    od_gateway *gateway;
    od_rpc_call *call;
    od_rights *rights; /* its caller's */
    atomic_uint refs;
    bool asked;
} control;

static void control_unref(control *c)
{
    if (atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
        return;
    od_rpc_call_unref(c->call);
    od_rights_unref(c->rights);
    od_free(c);
}

/* ---- replies ---- */

static void refuse(control *c, od_code code, const od_error *why)
{
    od_rpc_call_fail(c->call, od_code_grpc_status(code), code, why->message);
}

/* Sends MSG (taken) as the reply. */
static void reply(control *c, od_msg *msg)
{
    od_rpc_out out;
    od_error err;
    od_code rc;

    od_rpc_out_whole(msg, &out);
    rc = od_rpc_call_reply(c->call, &out, OD_GRPC_OK, NULL, &err);
    od_msg_unref(msg);
    if (rc != OD_OK)
        refuse(c, rc, &err);
}

static void reply_flag(control *c, bool flag)
{
    od_msg *msg;
    od_error err;
    od_code rc = od_flag_reply_encode(flag, &msg, &err);

    if (rc != OD_OK)
        refuse(c, rc, &err);
    else
        reply(c, msg);
}

/* False if the token is not known; the call is finished then. */
static bool pass(control *c, od_slice token)
{
    od_error err;
    od_code rc = od_tokens_find(c->gateway->tokens, token, &c->rights, &err);

    if (rc != OD_OK)
        refuse(c, rc, &err);
    return rc == OD_OK;
}

/* ---- CancelExecution ---- */

static void cancel_done(void *arg, bool acknowledged)
{
    control *c = arg;

    reply_flag(c, acknowledged);
    control_unref(c);
}

static void cancel_flow(control *c, flow *f, od_slice given)
{
    od_secret owned = {0};
    od_slice token;
    od_error err;
    bool remote;

    if (outward_token(c->gateway, c->rights, given, &owned, &token, &err) != OD_OK) {
        refuse(c, err.code, &err);
        return;
    }

    pthread_mutex_lock(&f->lock);
    remote = f->worker && !f->run;
    pthread_mutex_unlock(&f->lock);
    if (remote) {
        atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
        flow_cancel_remote(f, c->call, token, cancel_done, c);
    } else {
        flow_end(f, OD_E_CANCELLED, od_code_text(OD_E_CANCELLED));
        reply_flag(c, true);
    }
    od_secret_release(&owned);
}

static void handle_cancel(control *c, od_slice bytes)
{
    od_cancel_request request;
    char id[OD_EXECUTION_ID_SIZE];
    flow *f = NULL;
    od_error err;
    od_code rc = od_cancel_request_decode(bytes, &request, &err);

    if (rc != OD_OK) {
        od_rpc_call_finish(c->call, OD_GRPC_INVALID_ARGUMENT, err.message);
        return;
    }
    if (!pass(c, request.access_token))
        return;
    if (request.execution_id.len > 0 && request.execution_id.len < sizeof id) {
        memcpy(id, request.execution_id.data, request.execution_id.len);
        id[request.execution_id.len] = '\0';
        f = flow_map_find(c->gateway, id);
    }
    if (!f) {
        reply_flag(c, false);
        return;
    }
    rc = od_rights_check_owner(c->rights, f->rights, "cancel executions", &err);
    if (rc == OD_OK)
        cancel_flow(c, f, request.access_token);
    else
        refuse(c, rc, &err);
    flow_unref(f);
}

/* ---- RegisterWorker, Heartbeat ---- */

static bool pass_worker(control *c, od_slice token)
{
    od_error err;
    od_code rc;

    if (!pass(c, token))
        return false;
    rc = od_rights_check_worker(c->rights, &err);
    if (rc != OD_OK)
        refuse(c, rc, &err);
    return rc == OD_OK;
}

static void handle_register(control *c, od_slice bytes)
{
    od_registration registration;
    od_error err;

    if (od_registration_decode(bytes, &registration, &err) != OD_OK) {
        od_rpc_call_finish(c->call, OD_GRPC_INVALID_ARGUMENT, err.message);
        return;
    }
    if (!pass_worker(c, od_slice_str(registration.access_token))) {
        od_registration_release(&registration);
        return;
    }
    if (c->gateway->worker) {
        /* Whoever may register would be given other clients' statements: only where that is what a gateway is for. */
        od_rpc_call_finish(c->call, OD_GRPC_FAILED_PRECONDITION,
                           "this server runs executions itself; workers register at "
                           "a gateway");
        od_registration_release(&registration);
        return;
    }
    enroll(c->gateway, c->call, &registration);
}

static void take_heartbeat(control *c, const od_heartbeat *heartbeat)
{
    const gateway_stats *stats = &c->gateway->stats;
    bool known;

    if (heartbeat->leaving) {
        known = registry_leave(c->gateway->registry, heartbeat->worker_id);
        od_counter_add(stats->left, known);
    } else {
        known = registry_heartbeat(c->gateway->registry, heartbeat->worker_id, od_clock_ns());
        od_counter_add(known ? stats->heartbeats : stats->heartbeats_unknown, 1);
    }
    reply_flag(c, known);
}

static void handle_heartbeat(control *c, od_slice bytes)
{
    od_heartbeat heartbeat;
    od_error err;

    if (od_heartbeat_decode(bytes, &heartbeat, &err) != OD_OK) {
        od_rpc_call_finish(c->call, OD_GRPC_INVALID_ARGUMENT, err.message);
        return;
    }
    if (pass_worker(c, od_slice_str(heartbeat.access_token)))
        take_heartbeat(c, &heartbeat);
    od_heartbeat_release(&heartbeat);
}

/* ---- GetStatus ---- */

static od_code encode_status(void *arg, const od_status *status, od_error *err)
{
    return od_status_encode(status, arg, err);
}

static void handle_status(control *c, od_slice bytes)
{
    od_slice token;
    od_msg *msg = NULL;
    od_error err;
    od_code rc = od_status_request_decode(bytes, &token, &err);

    if (rc != OD_OK) {
        od_rpc_call_finish(c->call, OD_GRPC_INVALID_ARGUMENT, err.message);
        return;
    }
    if (!pass(c, token))
        return;
    rc = od_rights_check_status(c->rights, &err);
    if (rc == OD_OK)
        rc = od_gateway_status(c->gateway, c->rights, encode_status, &msg, &err);
    if (rc != OD_OK)
        refuse(c, rc, &err);
    else
        reply(c, msg);
}

/* ---- events ---- */

static void on_message(void *user, od_rpc_call *call, od_msg *msg)
{
    static const struct {
        const char *path;
        void (*handle)(control *c, od_slice bytes);
    } handlers[] = {{OD_PATH_CANCEL, handle_cancel},
                    {OD_PATH_REGISTER, handle_register},
                    {OD_PATH_HEARTBEAT, handle_heartbeat},
                    {OD_PATH_STATUS, handle_status}};
    control *c = user;

    c->asked = true;
    for (size_t i = 0; i < sizeof handlers / sizeof *handlers; i++) {
        if (strcmp(od_rpc_call_path(call), handlers[i].path) == 0)
            handlers[i].handle(c, od_slice_of(od_msg_data(msg), od_msg_len(msg)));
    }
    od_msg_unref(msg);
}

static void on_half_close(void *user, od_rpc_call *call)
{
    control *c = user;

    if (!c->asked)
        od_rpc_call_finish(call, OD_GRPC_INVALID_ARGUMENT, "the request is missing");
}

static void on_gone(void *user, od_rpc_call *call, const od_error *why)
{
    (void)call;
    (void)why;
    control_unref(user);
}

static const od_rpc_events control_events = {
    .on_message = on_message, .on_half_close = on_half_close, .on_gone = on_gone};

void control_open(void *service, od_rpc_call *call)
{
    control *c = od_calloc(1, sizeof *c);

    if (!c) {
        od_rpc_call_fail(call, OD_GRPC_RESOURCE_EXHAUSTED, OD_E_NO_MEMORY, "out of memory");
        return;
    }
    c->gateway = service;
    c->call = od_rpc_call_ref(call);
    atomic_init(&c->refs, 1);
    od_rpc_call_bind(call, &control_events, c);
    od_rpc_call_next(call);
}

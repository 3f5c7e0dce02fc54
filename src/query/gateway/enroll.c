#include "query/gateway/enroll.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/banned.h"

enum { ANSWER_MS = 5000 };

/* All events come on the loop of CALL. */
typedef struct {
    od_gateway *gateway;
    od_rpc_call *call;
    od_registration registration;
    od_endpoint endpoint;
    od_status status;
    bool answered; /* STATUS has come */
} enrolment;

static void release(enrolment *e)
{
    od_registration_release(&e->registration);
    od_status_release(&e->status);
    od_rpc_call_unref(e->call);
    od_free(e);
}

static void refuse(const enrolment *e, od_code code, const char *text)
{
    od_counter_add(e->gateway->stats.register_refused, 1);
    od_rpc_call_fail(e->call, od_code_grpc_status(code), code, text);
}

static void accept(const enrolment *e)
{
    od_msg *msg = NULL;
    od_rpc_out out;
    od_error err;
    od_code rc;

    OD_TRY(registry_register(e->gateway->registry, &e->registration, od_clock_ns(), &err));
    od_counter_add(e->gateway->stats.registered, 1);
    flow_unpark(e->gateway);
    OD_TRY(od_flag_reply_encode(true, &msg, &err));
    od_rpc_out_whole(msg, &out);
    OD_TRY(od_rpc_call_reply(e->call, &out, OD_GRPC_OK, NULL, &err));

out:
    od_msg_unref(msg);
    if (rc != OD_OK)
        refuse(e, rc, err.message);
}

/* ---- the worker's answer ---- */

static void on_message(void *user, od_rpc_call *call, od_msg *msg)
{
    enrolment *e = user;

    if (!e->answered)
        e->answered = od_status_decode(od_slice_of(od_msg_data(msg), od_msg_len(msg)), &e->status, NULL) == OD_OK;
    od_msg_unref(msg);
    od_rpc_call_next(call);
}

static void on_gone(void *user, od_rpc_call *call, const od_error *why)
{
    enrolment *e = user;
    const char *reason;
    od_error text;

    (void)call;
    /* An answer that cannot be read is one, as that of a server without Status is. */
    if (probe_is_up(why ? why->code : OD_OK, &e->status, why, &reason)) {
        accept(e);
    } else {
        od_fail(&text, OD_E_UNAVAILABLE, "worker at '%s' takes no executions: %s", e->endpoint.authority, reason);
        od_log(OD_LOG_WARN, "gateway", "worker was not registered", "endpoint=%s", e->endpoint.authority);
        refuse(e, OD_E_UNAVAILABLE, text.message);
    }
    release(e);
}

static const od_rpc_events events = {.on_message = on_message, .on_gone = on_gone};

static od_code ask(enrolment *e, od_error *err)
{
    const od_secret *token = &e->gateway->token;
    od_rpc_call *upstream = NULL;
    od_msg *msg = NULL;
    od_rpc_out out;
    od_code rc;

    OD_TRY(od_status_request_encode(od_slice_of(token->value, token->len), &msg, err));
    OD_TRY(od_rpc_call_open(e->call, &e->endpoint, OD_PATH_STATUS, od_deadline_in_ms(ANSWER_MS), &events, e, &upstream,
                            err));
    od_rpc_out_whole(msg, &out);
    if (od_rpc_call_send_last(upstream, &out, NULL) == OD_OK)
        od_rpc_call_next(upstream);

out:
    od_msg_unref(msg);
    od_rpc_call_unref(upstream);
    return rc;
}

void enroll(od_gateway *gateway, od_rpc_call *call, od_registration *registration)
{
    enrolment *e = od_calloc(1, sizeof *e);
    od_error err;
    od_code rc;

    if (!e) {
        od_registration_release(registration);
        od_rpc_call_fail(call, OD_GRPC_RESOURCE_EXHAUSTED, OD_E_NO_MEMORY, "out of memory");
        return;
    }
    e->gateway = gateway;
    e->call = od_rpc_call_ref(call);
    e->registration = *registration;
    rc = registry_check(&e->registration, &e->endpoint, &err);
    if (rc == OD_OK)
        rc = ask(e, &err);
    if (rc == OD_OK)
        return;
    refuse(e, rc == OD_E_NOT_IMPLEMENTED ? OD_E_INVALID : rc, err.message);
    release(e);
}

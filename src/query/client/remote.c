#include "query/client.h"

#include "query/client/client_internal.h"

#include "base/alloc.h"
#include "base/banned.h"

enum { DEFAULT_EXECUTE_MS = 300000, DEFAULT_CANCEL_MS = 10000 };

void od_remote_options_release(od_remote_options *options)
{
    if (!options)
        return;
    od_secret_release(&options->token);
    od_free(options->database);
    od_tls_unref(options->tls);
    *options = (od_remote_options){0};
}

static void remote_free(od_remote *remote)
{
    od_channel_unref(remote->channel);
    od_secret_release(&remote->token);
    od_free(remote->database);
    od_free(remote->snapshot);
    od_free(remote);
}

od_code od_remote_create(const od_remote_options *options, od_remote **out, od_error *err)
{
    const od_channel_options channel = {.endpoint = options->endpoint,
                                        .connect_timeout_ms = options->connect_timeout_ms,
                                        .max_message = options->max_message,
                                        .tls = options->tls};
    od_remote *remote;
    od_code rc;

    *out = NULL;
    remote = od_calloc(1, sizeof *remote);
    if (!remote)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a remote database");
    atomic_init(&remote->refs, 1);
    remote->execute_timeout_ms = options->execute_timeout_ms ? options->execute_timeout_ms : DEFAULT_EXECUTE_MS;
    remote->cancel_timeout_ms = options->cancel_timeout_ms ? options->cancel_timeout_ms : DEFAULT_CANCEL_MS;
    remote->database = od_strdup(options->database ? options->database : "");
    if (!remote->database) {
        rc = od_fail(err, OD_E_NO_MEMORY, "out of memory for a remote database");
        goto out;
    }
    OD_TRY(od_secret_set(&remote->token, od_slice_of(options->token.value, options->token.len), err));
    OD_TRY(od_channel_create(&channel, &remote->channel, err));
    *out = remote;
    remote = NULL;

out:
    if (remote)
        remote_free(remote);
    return rc;
}

od_remote *od_remote_ref(od_remote *remote)
{
    atomic_fetch_add_explicit(&remote->refs, 1, memory_order_relaxed);
    return remote;
}

void od_remote_unref(od_remote *remote)
{
    if (remote && atomic_fetch_sub_explicit(&remote->refs, 1, memory_order_acq_rel) == 1)
        remote_free(remote);
}

const char *od_remote_authority(const od_remote *remote)
{
    return od_channel_endpoint(remote->channel)->authority;
}

const char *od_remote_database(const od_remote *remote)
{
    return remote->database;
}

od_slice remote_token(const od_remote *remote)
{
    return od_slice_of(remote->token.value, remote->token.len);
}

void remote_name_error(const od_remote *remote, const char *execution_id, od_error *err)
{
    char suffix[512];
    size_t room, len;

    if (!err)
        return;
    if (execution_id)
        snprintf(suffix, sizeof suffix, " (openduck %s, execution %s)", od_remote_authority(remote), execution_id);
    else
        snprintf(suffix, sizeof suffix, " (openduck %s)", od_remote_authority(remote));
    /* A text that is too long loses its end, never the suffix. */
    room = sizeof err->message - 1 - strlen(suffix);
    len = strlen(err->message);
    if (len > room) {
        for (len = room; len > 0 && ((unsigned char)err->message[len] & 0xC0U) == 0x80U; len--)
            ;
    }
    memcpy(err->message + len, suffix, strlen(suffix) + 1);
}

/* ---- unary calls ---- */

od_code od_remote_call(od_remote *remote, const char *path, od_msg *request, int64_t timeout_ms, od_interrupt interrupt,
                       od_msg **reply, od_error *err)
{
    od_deadline deadline = od_deadline_in_ms(timeout_ms);
    od_call *call = NULL;
    od_msg *answer = NULL, *more = NULL;
    od_rpc_out out;
    od_code rc;

    *reply = NULL;
    od_rpc_out_whole(request, &out);
    OD_TRY(od_call_open(remote->channel, path, deadline, 0, interrupt, &call, err));
    OD_TRY(od_call_send(call, &out, true, deadline, err));
    OD_TRY(od_call_recv(call, &answer, deadline, err));
    if (answer)
        OD_TRY(od_call_recv(call, &more, deadline, err));
    if (!answer || more) {
        rc = od_fail(err, OD_E_PROTOCOL, "the server answered with %s message", answer ? "more than one" : "no");
        goto out;
    }
    *reply = answer;
    answer = NULL;

out:
    od_msg_unref(answer);
    od_msg_unref(more);
    od_call_free(call);
    if (rc != OD_OK && (call || rc != OD_E_UNAVAILABLE))
        remote_name_error(remote, NULL, err);
    return rc;
}

static od_slice msg_bytes(od_msg *msg)
{
    return od_slice_of(od_msg_data(msg), od_msg_len(msg));
}

od_code od_remote_cancel(od_remote *remote, const char *execution_id, bool *acknowledged, od_error *err)
{
    const od_cancel_request cancel = {od_slice_str(execution_id), remote_token(remote)};
    od_msg *request = NULL, *reply = NULL;
    od_code rc;

    *acknowledged = false;
    OD_TRY(od_cancel_request_encode(&cancel, &request, err));
    OD_TRY(od_remote_call(remote, OD_PATH_CANCEL, request, remote->cancel_timeout_ms, (od_interrupt){0}, &reply, err));
    OD_TRY(od_cancel_reply_decode(msg_bytes(reply), acknowledged, err));

out:
    od_msg_unref(request);
    od_msg_unref(reply);
    return rc;
}

od_code od_remote_status(od_remote *remote, int64_t timeout_ms, od_interrupt interrupt, od_status *out, od_error *err)
{
    od_msg *request = NULL, *reply = NULL;
    od_code rc;

    *out = (od_status){0};
    OD_TRY(od_status_request_encode(remote_token(remote), &request, err));
    OD_TRY(od_remote_call(remote, OD_PATH_STATUS, request, timeout_ms, interrupt, &reply, err));
    OD_TRY(od_status_decode(msg_bytes(reply), out, err));

out:
    od_msg_unref(request);
    od_msg_unref(reply);
    return rc;
}

od_code od_remote_register(od_remote *remote, const od_registration *registration, int64_t timeout_ms,
                           od_interrupt interrupt, bool *accepted, od_error *err)
{
    od_registration with_token = *registration;
    od_msg *request = NULL, *reply = NULL;
    od_code rc;

    *accepted = false;
    with_token.access_token = remote->token.value;
    OD_TRY(od_registration_encode(&with_token, &request, err));
    OD_TRY(od_remote_call(remote, OD_PATH_REGISTER, request, timeout_ms, interrupt, &reply, err));
    OD_TRY(od_flag_reply_decode(msg_bytes(reply), accepted, err));

out:
    od_msg_unref(request);
    od_msg_unref(reply);
    return rc;
}

static od_code heartbeat(od_remote *remote, const char *worker_id, bool leaving, int64_t timeout_ms,
                         od_interrupt interrupt, bool *acknowledged, od_error *err)
{
    const od_heartbeat beat = {.worker_id = worker_id, .access_token = remote->token.value, .leaving = leaving};
    od_msg *request = NULL, *reply = NULL;
    od_code rc;

    *acknowledged = false;
    OD_TRY(od_heartbeat_encode(&beat, &request, err));
    OD_TRY(od_remote_call(remote, OD_PATH_HEARTBEAT, request, timeout_ms, interrupt, &reply, err));
    OD_TRY(od_flag_reply_decode(msg_bytes(reply), acknowledged, err));

out:
    od_msg_unref(request);
    od_msg_unref(reply);
    return rc;
}

od_code od_remote_heartbeat(od_remote *remote, const char *worker_id, int64_t timeout_ms, od_interrupt interrupt,
                            bool *acknowledged, od_error *err)
{
    return heartbeat(remote, worker_id, false, timeout_ms, interrupt, acknowledged, err);
}

bool od_remote_hung_up(od_remote *remote)
{
    return od_channel_hung_up(remote->channel);
}

od_code od_remote_leave(od_remote *remote, const char *worker_id, int64_t timeout_ms, od_error *err)
{
    bool known;

    return heartbeat(remote, worker_id, true, timeout_ms, (od_interrupt){0}, &known, err);
}

#include "query/about.h"

#include <string.h>

#include "base/alloc.h"
#include "query/about/about_internal.h"
#include "base/banned.h"

#define HEALTH_WATCH "/grpc.health.v1.Health/Watch"

od_code od_about_create(od_about **out, od_error *err)
{
    static const struct {
        const char *path;
        void (*on_open)(void *service, od_rpc_call *call);
    } methods[ABOUT_METHODS] = {
        {"/grpc.health.v1.Health/Check", health_check_open},
        {HEALTH_WATCH, health_watch_open},
        {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", reflection_open},
        {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", reflection_open},
    };
    od_about *about = od_calloc(1, sizeof *about);

    *out = about;
    if (!about)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a service");
    pthread_mutex_init(&about->lock, NULL);
    for (size_t i = 0; i < ABOUT_METHODS; i++)
        about->methods[i] = (od_rpc_method){.path = methods[i].path, .on_open = methods[i].on_open, .service = about};
    return OD_OK;
}

void od_about_free(od_about *about)
{
    if (!about)
        return;
    pthread_mutex_destroy(&about->lock);
    od_free(about);
}

const od_rpc_method *od_about_methods(const od_about *about, size_t *count)
{
    *count = ABOUT_METHODS;
    return about->methods;
}

/* ---- calls ---- */

void about_open(od_about *about, od_rpc_call *call, const od_rpc_events *events)
{
    about_call *c = od_calloc(1, sizeof *c);

    if (!c) {
        od_rpc_call_fail(call, OD_GRPC_RESOURCE_EXHAUSTED, OD_E_NO_MEMORY, "out of memory");
        return;
    }
    c->about = about;
    c->call = od_rpc_call_ref(call);
    od_rpc_call_bind(call, events, c);
    od_rpc_call_next(call);
}

bool about_list(about_call *c)
{
    od_about *about = c->about;

    pthread_mutex_lock(&about->lock);
    if (!about->draining && !c->listed) {
        c->next = about->calls;
        c->prev = &about->calls;
        if (c->next)
            c->next->prev = &c->next;
        about->calls = c;
        c->listed = true;
    }
    pthread_mutex_unlock(&about->lock);
    return c->listed;
}

void about_gone(void *user, od_rpc_call *call, const od_error *why)
{
    about_call *c = user;

    (void)call;
    (void)why;
    pthread_mutex_lock(&c->about->lock);
    if (c->listed) {
        *c->prev = c->next;
        if (c->next)
            c->next->prev = c->prev;
    }
    pthread_mutex_unlock(&c->about->lock);
    od_rpc_call_unref(c->call);
    od_free(c);
}

void about_send(od_rpc_call *call, od_slice bytes, bool finish, int status, const char *text)
{
    od_msg *msg = NULL;
    od_rpc_out out = {0};
    od_error err;
    od_code rc;

    OD_TRY(od_msg_create(bytes.len, 0, &msg, &err));
    if (bytes.len > 0)
        memcpy(od_msg_data(msg), bytes.data, bytes.len);
    out.body = msg;
    out.len = bytes.len;
    if (finish)
        OD_TRY(od_rpc_call_reply(call, &out, status, text, &err));
    else
        OD_TRY(od_rpc_call_send(call, &out, &err));

out:
    od_msg_unref(msg);
    if (rc != OD_OK)
        od_rpc_call_fail(call, od_code_grpc_status(rc), rc, err.message);
}

/* References to the calls that are open. NULL: none, or no memory; then they end with their connections. */
static od_rpc_call **start_draining(od_about *about, size_t *count)
{
    od_rpc_call **calls;
    size_t n = 0;

    pthread_mutex_lock(&about->lock);
    about->draining = true;
    for (const about_call *c = about->calls; c; c = c->next)
        n++;
    calls = n > 0 ? od_calloc(n, sizeof(od_rpc_call *)) : NULL;
    n = 0;
    for (const about_call *c = calls ? about->calls : NULL; c; c = c->next)
        calls[n++] = od_rpc_call_ref(c->call);
    pthread_mutex_unlock(&about->lock);
    *count = n;
    return calls;
}

void od_about_drain(od_about *about)
{
    size_t count;
    od_rpc_call **calls = start_draining(about, &count);

    for (size_t i = 0; i < count; i++) {
        if (strcmp(od_rpc_call_path(calls[i]), HEALTH_WATCH) == 0)
            health_end(calls[i]);
        else
            od_rpc_call_finish(calls[i], OD_GRPC_UNAVAILABLE, "the server is shutting down");
        od_rpc_call_unref(calls[i]);
    }
    od_free((void *)calls);
}

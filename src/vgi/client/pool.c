#include <stdlib.h>

#include "base/alloc.h"
#include "vgi/client/client_internal.h"

#include "base/banned.h"

static void session_free(od_vgi_session *session)
{
    od_vgi_link_free(session->link);
    od_free(session);
}

/* Takes those out of the list FROM that are over, as TAKE says; returns them. */
static od_vgi_session *sift(od_vgi_session **from, bool (*take)(od_vgi_session *session, int64_t limit), int64_t limit)
{
    od_vgi_session *taken = NULL;

    while (*from != NULL) {
        od_vgi_session *session = *from;

        if (take(session, limit)) {
            *from = session->next;
            session->next = taken;
            taken = session;
        } else {
            from = &session->next;
        }
    }
    return taken;
}

static bool is_gone(od_vgi_session *session, int64_t limit)
{
    (void)limit;
    return od_vgi_link_gone(session->link, 0);
}

static bool is_old(od_vgi_session *session, int64_t limit)
{
    return session->idle_since_ns < limit;
}

static void free_list(od_vgi_session *list)
{
    while (list != NULL) {
        od_vgi_session *next = list->next;

        session_free(list);
        list = next;
    }
}

/* Under the lock: ends the sessions of LIST. */
static void end_list(od_vgi *vgi, od_vgi_session *list)
{
    while (list != NULL) {
        od_vgi_session *next = list->next;

        od_vgi_link_end(list->link);
        list->next = vgi->ending;
        vgi->ending = list;
        list = next;
    }
}

/* Under the lock: what is over. Free what it returns, without the lock. */
static od_vgi_session *tidy(od_vgi *vgi)
{
    od_vgi_session *old = sift(&vgi->idle, is_old, od_clock_ns() - vgi->options.pool_idle_ms * 1000000);

    for (const od_vgi_session *s = old; s != NULL; s = s->next)
        vgi->idle_count--;
    end_list(vgi, old);
    return sift(&vgi->ending, is_gone, 0);
}

static od_vgi_session *take_idle(od_vgi *vgi)
{
    od_vgi_session *session, *gone;

    pthread_mutex_lock(&vgi->lock);
    gone = tidy(vgi);
    while ((session = vgi->idle) != NULL) {
        vgi->idle = session->next;
        vgi->idle_count--;
        session->next = NULL;
        if (od_vgi_link_usable(session->link))
            break;
        end_list(vgi, session);
    }
    pthread_mutex_unlock(&vgi->lock);
    free_list(gone);
    return session;
}

od_code od_vgi_session_take(od_vgi *vgi, const od_vgi_wait *wait, od_vgi_session **out, od_error *err)
{
    od_code rc;

    *out = take_idle(vgi);
    if (*out != NULL)
        return OD_OK;
    od_vgi_session *session = od_calloc(1, sizeof *session);
    if (session == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    session->fresh = true;
    rc = od_vgi_link_open(&vgi->location, wait, &session->link, err);
    if (rc != OD_OK) {
        od_free(session);
        return rc;
    }
    *out = session;
    return OD_OK;
}

void od_vgi_session_give(od_vgi *vgi, od_vgi_session *session, bool clean)
{
    if (session == NULL)
        return;
    pthread_mutex_lock(&vgi->lock);
    session->fresh = false;
    session->idle_since_ns = od_clock_ns();
    if (clean && !vgi->options.no_pool && vgi->idle_count < vgi->options.pool_max) {
        session->next = vgi->idle;
        vgi->idle = session;
        vgi->idle_count++;
    } else {
        session->next = NULL;
        end_list(vgi, session);
    }
    od_vgi_session *gone = tidy(vgi);
    pthread_mutex_unlock(&vgi->lock);
    free_list(gone);
}

void od_vgi_sessions_free(od_vgi *vgi)
{
    end_list(vgi, vgi->idle); /* all at once, so that they end side by side */
    vgi->idle = NULL;
    free_list(vgi->ending);
    vgi->ending = NULL;
}

od_vgi_wait od_vgi_session_wait(const od_vgi *vgi, const od_vgi_session *session, od_vgi_interrupt interrupt)
{
    int64_t ms = session != NULL && session->fresh ? vgi->options.start_timeout_ms : vgi->options.call_timeout_ms;

    return (od_vgi_wait){.deadline = od_deadline_in_ms(ms), .interrupt = interrupt};
}

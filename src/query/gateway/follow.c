/* Further streams of a result. They are no executions: they take no slot and wait for none, so that nothing can wait for them, and are
 * listed and counted nowhere but among what has to end before the server does. */
#include "query/gateway/flow.h"

#include "base/banned.h"

static flow *find_leader(flow *f)
{
    char id[OD_EXECUTION_ID_SIZE];
    flow *leader;

    if (f->asked.follows.len >= sizeof id || memchr(f->asked.follows.data, 0, f->asked.follows.len))
        return NULL;
    memcpy(id, f->asked.follows.data, f->asked.follows.len);
    id[f->asked.follows.len] = '\0';
    leader = flow_map_find(f->gateway, id);
    if (leader && flow_is_follower(leader)) {
        flow_unref(leader);
        return NULL;
    }
    return leader;
}

static void follow_local(flow *f, od_worker_run *leader)
{
    od_worker_run *run = NULL;
    od_error err;

    if (od_worker_follow_start(f->gateway->worker, f->call, f->request, leader, f->rights, &flow_local_events, f, &run,
                               &err) != OD_OK) {
        flow_refuse(f, err.code, err.message);
        flow_close_end(f);
        return;
    }
    flow_take_run(f, run);
}

void flow_follow(flow *f)
{
    od_worker_run *run;
    worker_entry *worker;
    od_error err;

    f->leader = find_leader(f);
    /* Nothing is left to give, or nobody knows of it: a client that misses rows finds out by itself. */
    if (!f->leader) {
        flow_end_empty(f);
        return;
    }
    if (od_rights_check_follower(f->rights, f->leader->rights, &err) != OD_OK) {
        flow_refuse(f, err.code, err.message);
        return;
    }
    pthread_mutex_lock(&f->leader->lock);
    run = f->leader->run; /* lives as long as the flow */
    worker = !run && f->leader->upstream && f->leader->worker ? worker_entry_ref(f->leader->worker) : NULL;
    pthread_mutex_unlock(&f->leader->lock);
    if (!run && !worker) {
        flow_end_empty(f);
        return;
    }
    /* The worker end is open from here. What runs may be done before this returns. */
    flow_ref(f);
    flow_ref(f);
    atomic_fetch_add(&f->ends, 1);
    if (run)
        follow_local(f, run);
    else
        flow_send_to(f, worker);
    flow_unref(f);
}

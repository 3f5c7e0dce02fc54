/* openduck worker: runs executions for a gateway. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "cli/announce.h"
#include "cli/command.h"
#include "cli/daemon.h"
#include "query/worker.h"
#include "base/banned.h"

/* What is told to the gateway. */
typedef struct {
    od_remote *remote;
    od_registration registration;
    const char **databases;
    od_endpoint endpoint; /* where the gateway reaches it: its name, unless it has another */
    char url[400];
    announce *announce;
} membership;

static bool listens_everywhere(const char *listen)
{
    return strncmp(listen, "0.0.0.0:", 8) == 0 || strncmp(listen, "[::]:", 5) == 0;
}

static od_code check_options(const od_options *options, od_error *err)
{
    const char *listen = od_options_str(options, OD_OPT_WORKER_LISTEN);
    const char *gateway = od_options_str(options, OD_OPT_GATEWAY);
    const char *advertise = od_options_str(options, OD_OPT_ADVERTISE);
    od_endpoint endpoint;

    if (gateway[0] && od_endpoint_parse(od_slice_str(gateway), &endpoint, err) != OD_OK) {
        od_error_prefix(err, "--gateway");
        return OD_E_INVALID;
    }
    if (advertise[0] && od_endpoint_parse(od_slice_str(advertise), &endpoint, err) != OD_OK) {
        od_error_prefix(err, "--advertise");
        return OD_E_INVALID;
    }
    if (gateway[0] && !advertise[0] && listens_everywhere(listen))
        return od_fail(err, OD_E_INVALID,
                       "a gateway cannot dial '%s': --advertise has to say where this worker is reached", listen);
    return OD_OK;
}

/* Those of --databases, else all that ENGINE serves. */
static od_code choose_databases(const od_options *options, const od_engine *engine, membership *m, od_error *err)
{
    size_t count = od_engine_database_count(engine), named;
    const char *const *names = od_options_list(options, OD_OPT_WORKER_DATABASES, &named);

    m->registration.databases = names;
    m->registration.database_count = named;
    for (size_t i = 0; i < named; i++) {
        if (!od_engine_has_database(engine, od_slice_str(names[i])))
            return od_options_reject(options, OD_OPT_WORKER_DATABASES, "only databases that are served may be named",
                                     err);
    }
    if (named > 0)
        return OD_OK;
    m->databases = od_calloc(count + 1, sizeof *m->databases);
    if (!m->databases)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a list of databases");
    for (size_t i = 0; i < count; i++)
        m->databases[i] = od_engine_database_name(engine, i);
    m->registration.databases = m->databases;
    m->registration.database_count = count;
    return OD_OK;
}

static od_code join(const od_options *options, const od_engine *engine, uint16_t port, const daemon_tls *tls,
                    membership *m, od_error *err)
{
    const char *advertise = od_options_str(options, OD_OPT_ADVERTISE);
    const char *id = od_options_str(options, OD_OPT_WORKER_ID);
    const od_secret *own = od_options_secret(options, OD_OPT_WORKER_TOKEN);
    const od_secret *token = own->len > 0 ? own : od_options_secret(options, OD_OPT_TOKEN);
    od_remote_options remote = {
        .connect_timeout_ms = od_options_ms(options, OD_OPT_CONNECT_TIMEOUT), .token = *token, .tls = tls->client};
    od_code rc;

    rc = od_endpoint_parse(od_slice_str(od_options_str(options, OD_OPT_GATEWAY)), &remote.endpoint, err);
    if (rc == OD_OK)
        rc = od_remote_create(&remote, &m->remote, err);
    if (rc != OD_OK)
        return rc;
    daemon_url(od_options_str(options, OD_OPT_WORKER_LISTEN), port, tls->server != NULL, m->url, sizeof m->url);
    m->registration = (od_registration){
        .endpoint = advertise[0] ? advertise : m->url,
        .compute_context = od_options_str(options, OD_OPT_COMPUTE_CONTEXT),
        .max_concurrency = (uint32_t)od_options_int(options, OD_OPT_MAX_CONCURRENCY),
    };
    m->registration.tables = od_options_list(options, OD_OPT_WORKER_TABLES, &m->registration.table_count);
    rc = od_endpoint_parse(od_slice_str(m->registration.endpoint), &m->endpoint, err);
    if (rc == OD_OK)
        rc = choose_databases(options, engine, m, err);
    if (rc != OD_OK)
        return rc;
    m->registration.worker_id = id[0] ? id : m->endpoint.authority;
    return announce_start(m->remote, &m->registration, od_options_ms(options, OD_OPT_HEARTBEAT_INTERVAL), &m->announce,
                          err);
}

static void leave(membership *m)
{
    announce_stop(m->announce);
    od_remote_unref(m->remote);
    od_free((void *)m->databases);
    *m = (membership){0};
}

static void stop_announcing(void *arg)
{
    membership *m = arg;

    announce_stop(m->announce);
    m->announce = NULL;
}

static void withdraw_worker(void *arg)
{
    od_worker_withdraw(arg);
}

int command_worker(const od_options *options)
{
    od_worker_options worker_options = {
        .token = od_options_secret(options, OD_OPT_TOKEN),
        .max_concurrency = (unsigned)od_options_int(options, OD_OPT_MAX_CONCURRENCY),
        .execute_timeout_ms = od_options_ms(options, OD_OPT_EXECUTE_TIMEOUT),
        .on_fatal = daemon_fatal,
        .max_transactions = (unsigned)od_options_int(options, OD_OPT_MAX_TRANSACTIONS),
        .transaction_idle_ms = od_options_ms(options, OD_OPT_TRANSACTION_IDLE_TIMEOUT),
    };
    membership m = {0};
    daemon_tls tls = {0};
    daemon_task task = {0};
    od_tokens *tokens = NULL;
    od_rpc_server_options rpc;
    daemon_mounts *mounts = NULL;
    od_engine *engine = NULL;
    od_worker *worker = NULL;
    od_error err;
    od_code rc;

    daemon_block_signals();
    OD_TRY(check_options(options, &err));
    OD_TRY(daemon_check(options, OD_OPT_WORKER_LISTEN, &err));
    OD_TRY(daemon_tls_open(options, &tls, &err));
    OD_TRY(daemon_tls_open_client(options, &tls, &err));
    daemon_task_options(options, OD_OPT_WORKER_LISTEN, &tls, &task);
    task.role = "worker";
    task.arg = &m;
    task.drain = stop_announcing;
    OD_TRY(daemon_tokens_open(options, false, true, &tokens, &err));
    task.tokens = worker_options.tokens = tokens;
    OD_TRY(observe_create(options, "worker", &task.observe, &err));
    OD_TRY(daemon_open_engine(options, OD_RUN_REMOTE, task.observe, &mounts, &engine, &err));
    worker_options.engine = engine;
    OD_TRY(od_worker_create(&worker_options, &worker, &err));
    task.withdraw = withdraw_worker;
    task.withdrawer = worker;
    daemon_rpc_options(options, OD_OPT_WORKER_LISTEN, &tls, &rpc);
    rpc.methods = od_worker_methods(&rpc.method_count);
    rpc.service = worker;
    OD_TRY(od_worker_watch(worker, observe_metrics(task.observe), &err));
    OD_TRY(observe_serve(task.observe, &rpc, &err));
    OD_TRY(od_rpc_server_start(&rpc, &task.server, &err));
    OD_TRY(observe_start(task.observe, tls.server, &err));
    if (od_options_str(options, OD_OPT_GATEWAY)[0])
        OD_TRY(join(options, engine, od_rpc_server_port(task.server), &tls, &m, &err));
    daemon_run(&task);

out:
    leave(&m);
    observe_stop(task.observe);
    od_rpc_server_free(task.server);
    od_worker_free(worker);
    od_tokens_free(tokens);
    od_engine_close(engine);
    observe_free(task.observe);
    daemon_mounts_close(mounts);
    daemon_tls_close(&tls);
    if (rc != OD_OK)
        return command_fail("worker", rc, &err);
    od_log(OD_LOG_INFO, "worker", "stopped", "pid=%d", (int)getpid());
    return EXIT_DONE;
}

/* openduck serve, openduck gateway: the gateway with or without a worker in the same process. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/daemon.h"
#include "cli/layouts.h"
#include "ext/server/host.h"
#include "query/gateway.h"
#include "base/banned.h"

/* A gateway, and what it has borrowed that may be replaced. */
typedef struct {
    od_gateway *gateway;
    od_engine *engine; /* of the databases that it serves; NULL: workers have them */
    layout_list *layouts;
} gateway_task;

static void drain_gateway(void *arg)
{
    const gateway_task *served = arg;

    od_gateway_drain(served->gateway);
}

static void cancel_gateway(void *arg)
{
    const gateway_task *served = arg;

    od_gateway_cancel_all(served->gateway, OD_E_CANCELLED, "the server is shutting down");
}

static void fill_options(const od_options *options, od_gateway_options *out)
{
    int64_t queued = od_options_int(options, OD_OPT_MAX_QUEUED);
    int64_t queue_ms = od_options_ms(options, OD_OPT_QUEUE_TIMEOUT);

    *out = (od_gateway_options){
        .token = od_options_secret(options, OD_OPT_TOKEN),
        .max_in_flight = (unsigned)od_options_int(options, OD_OPT_MAX_IN_FLIGHT),
        .max_queued = queued > 0 ? (int)queued : -1,
        .queue_timeout_ms = queue_ms > 0 ? queue_ms : -1,
        .execute_timeout_ms = od_options_ms(options, OD_OPT_EXECUTE_TIMEOUT),
        .max_transactions = (unsigned)od_options_int(options, OD_OPT_MAX_TRANSACTIONS),
        .transaction_idle_ms = od_options_ms(options, OD_OPT_TRANSACTION_IDLE_TIMEOUT),
        .cancel_timeout_ms = od_options_ms(options, OD_OPT_CANCEL_TIMEOUT),
        .version = OD_VERSION,
    };
}

static void withdraw_gateway(void *arg)
{
    od_gateway_withdraw(arg);
}

static od_code reload_gateway(void *arg, const od_options *options, od_error *err)
{
    gateway_task *served = arg;
    od_gateway_options fresh;
    layout_list layouts = {0};
    od_code rc;

    fill_options(options, &fresh);
    OD_TRY(layouts_open(options, served->engine, &layouts, err));
    fresh.layouts = layouts.items;
    fresh.layout_count = layouts.count;
    OD_TRY(od_gateway_reconfigure(served->gateway, &fresh, err));
    layout_list before = *served->layouts;
    *served->layouts = layouts;
    layouts = before;
out:
    layouts_close(&layouts);
    return rc;
}

/* Serves with SERVED until a signal ends it. CONNECT_MS: of its calls to workers. */
static od_code serve(const od_options *options, observe *observer, gateway_task *served, od_tokens *tokens,
                     const daemon_tls *tls, int64_t connect_ms, od_error *err)
{
    od_gateway *gateway = served->gateway;
    daemon_task task;
    od_rpc_server_options rpc;
    od_code rc;

    daemon_rpc_options(options, OD_OPT_LISTEN, tls, &rpc);
    rpc.methods = od_gateway_methods(&rpc.method_count);
    rpc.service = gateway;
    rpc.connect_timeout_ms = connect_ms;
    daemon_task_options(options, OD_OPT_LISTEN, tls, &task);
    task.observe = observer;
    task.role = observe_role(observer);
    task.arg = served;
    task.withdrawer = gateway;
    task.tokens = tokens;
    task.withdraw = withdraw_gateway;
    task.drain = drain_gateway;
    task.cancel = cancel_gateway;
    task.reload = reload_gateway;
    OD_TRY(observe_serve(observer, &rpc, err));
    OD_TRY(od_rpc_server_start(&rpc, &task.server, err));
    observe_gateway(observer, gateway);
    OD_TRY(observe_start(observer, tls->server, err));
    daemon_run(&task);

out:
    observe_stop(observer);
    od_rpc_server_free(task.server);
    return rc;
}

int command_serve(const od_options *options)
{
    const od_worker_options worker_options = {
        .token = od_options_secret(options, OD_OPT_TOKEN),
        .max_concurrency = (unsigned)od_options_int(options, OD_OPT_MAX_CONCURRENCY),
        .execute_timeout_ms = od_options_ms(options, OD_OPT_EXECUTE_TIMEOUT),
        .on_fatal = daemon_fatal,
        .max_transactions = (unsigned)od_options_int(options, OD_OPT_MAX_TRANSACTIONS),
        .transaction_idle_ms = od_options_ms(options, OD_OPT_TRANSACTION_IDLE_TIMEOUT),
    };
    const bool hybrid = od_options_bool(options, OD_OPT_HYBRID);
    od_worker_options with_engine = worker_options;
    od_gateway_options gateway_options;
    daemon_mounts *mounts = NULL;
    od_engine *engine = NULL;
    od_worker *worker = NULL;
    od_gateway *gateway = NULL;
    observe *observer = NULL;
    od_tokens *tokens = NULL;
    daemon_tls tls = {0};
    layout_list told = {0};
    od_error err;
    od_code rc;

    daemon_block_signals();
    OD_TRY(daemon_check(options, OD_OPT_LISTEN, &err));
    OD_TRY(daemon_tls_open(options, &tls, &err));
    OD_TRY(daemon_tokens_open(options, false, false, &tokens, &err));
    OD_TRY(observe_create(options, "serve", &observer, &err));
    OD_TRY(daemon_open_engine(options, hybrid ? OD_RUN_LOCAL | OD_RUN_REMOTE : 0, observer, &mounts, &engine, &err));
    with_engine.engine = engine;
    with_engine.tokens = tokens;
    OD_TRY(od_worker_create(&with_engine, &worker, &err));
    fill_options(options, &gateway_options);
    gateway_options.tokens = tokens;
    gateway_options.worker = worker;
    gateway_options.engine = engine;
    gateway_options.hybrid = hybrid ? engine : NULL;
    gateway_options.metrics = observe_metrics(observer);
    OD_TRY(layouts_open(options, engine, &told, &err));
    gateway_options.layouts = told.items;
    gateway_options.layout_count = told.count;
    OD_TRY(od_gateway_create(&gateway_options, &gateway, &err));
    gateway_task served = {gateway, engine, &told};
    OD_TRY(serve(options, observer, &served, tokens, &tls, 0, &err));

out:
    daemon_tls_close(&tls);
    od_worker_free(worker);
    od_gateway_free(gateway);
    layouts_close(&told);
    od_tokens_free(tokens);
    od_engine_close(engine);
    observe_free(observer);
    daemon_mounts_close(mounts);
    if (rc != OD_OK)
        return command_fail("serve", rc, &err);
    od_log(OD_LOG_INFO, "serve", "stopped", "pid=%d", (int)getpid());
    return EXIT_DONE;
}

/* The endpoints of --workers; the caller frees. */
static od_code parse_workers(const od_options *options, od_endpoint **out, size_t *count, od_error *err)
{
    const char *const *list = od_options_list(options, OD_OPT_WORKERS, count);
    od_endpoint *endpoints = od_calloc(*count + 1, sizeof *endpoints);

    *out = endpoints;
    if (!endpoints)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a list of workers");
    for (size_t i = 0; i < *count; i++) {
        od_code rc = od_endpoint_parse(od_slice_str(list[i]), &endpoints[i], err);

        if (rc != OD_OK) {
            od_error_prefix(err, "--workers");
            return OD_E_INVALID;
        }
    }
    return OD_OK;
}

/* The engine of a gateway that runs parts of statements itself; *out is NULL for one that does not. */
static od_code open_hybrid(const od_options *options, observe *observer, od_engine **out, od_error *err)
{
    size_t databases;

    if (od_options_bool(options, OD_OPT_HYBRID))
        return daemon_open_engine(options, OD_RUN_LOCAL, observer, NULL, out, err);
    (void)od_options_pairs(options, OD_OPT_DB, &databases);
    return databases == 0 ? OD_OK : od_fail(err, OD_E_INVALID, "a gateway has databases of its own only with --hybrid");
}

/* The tiers of --route and --tiers; *routes is the caller's. */
static od_code read_tiers(const od_options *options, od_routes **routes, od_federation_provider *provider,
                          od_gateway_options *out, od_error *err)
{
    size_t count;
    const char *const *rules = od_options_list(options, OD_OPT_ROUTES, &count);
    od_code rc = od_routes_create(rules, count, routes, err);

    if (rc != OD_OK) {
        od_error_prefix(err, "--route");
        return rc;
    }
    *provider = od_routes_provider(*routes);
    out->providers = provider;
    out->provider_count = 1;
    out->tiers = od_options_list(options, OD_OPT_TIERS, &out->tier_count);
    return OD_OK;
}

int command_gateway(const od_options *options)
{
    od_gateway_options gateway_options;
    od_engine *engine = NULL;
    od_federation_provider provider;
    od_routes *routes = NULL;
    od_gateway *gateway = NULL;
    observe *observer = NULL;
    od_tokens *tokens = NULL;
    od_endpoint *workers = NULL;
    daemon_tls tls = {0};
    layout_list told = {0};
    od_error err;
    od_code rc;

    daemon_block_signals();
    fill_options(options, &gateway_options);
    OD_TRY(daemon_tokens_open(options, true, false, &tokens, &err));
    gateway_options.tokens = tokens;
    OD_TRY(parse_workers(options, &workers, &gateway_options.worker_count, &err));
    gateway_options.workers = workers;
    gateway_options.host = od_server_host();
    OD_TRY(read_tiers(options, &routes, &provider, &gateway_options, &err));
    gateway_options.probe_ms = od_options_ms(options, OD_OPT_PROBE_INTERVAL);
    gateway_options.evict_ms = od_options_ms(options, OD_OPT_EVICT_AFTER);
    OD_TRY(daemon_check(options, OD_OPT_LISTEN, &err));
    OD_TRY(observe_create(options, "gateway", &observer, &err));
    OD_TRY(open_hybrid(options, observer, &engine, &err));
    gateway_options.hybrid = engine;
    gateway_options.metrics = observe_metrics(observer);
    OD_TRY(daemon_tls_open(options, &tls, &err));
    OD_TRY(daemon_tls_open_client(options, &tls, &err));
    gateway_options.tls = tls.client;
    OD_TRY(layouts_open(options, NULL, &told, &err));
    gateway_options.layouts = told.items;
    gateway_options.layout_count = told.count;
    OD_TRY(od_gateway_create(&gateway_options, &gateway, &err));
    gateway_task served = {gateway, NULL, &told};
    OD_TRY(serve(options, observer, &served, tokens, &tls, od_options_ms(options, OD_OPT_CONNECT_TIMEOUT), &err));

out:
    od_gateway_free(gateway);
    layouts_close(&told);
    od_tokens_free(tokens);
    od_engine_close(engine);
    observe_free(observer);
    daemon_tls_close(&tls);
    od_routes_free(routes);
    od_free(workers);
    if (rc != OD_OK)
        return command_fail("gateway", rc, &err);
    od_log(OD_LOG_INFO, "gateway", "stopped", "pid=%d", (int)getpid());
    return EXIT_DONE;
}

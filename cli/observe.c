#include "cli/observe.h"

#include "base/alloc.h"
#include "base/log.h"
#include "cli/cover.h"
#include "cli/daemon.h"
#include "cli/otlp.h"
#include "http/server.h"
#include "query/about.h"
#include "query/console.h"
#include "telemetry/process.h"
#include "telemetry/prometheus.h"
#include "base/banned.h"

struct observe {
    const od_options *options;
    const char *role;
    od_metrics *metrics;
    od_about *about;
    od_rpc_method *methods; /* of the server, and those of ABOUT */
    od_http_route routes[1];
    od_http_cover tls; /* of both pages, if COVERED */
    bool covered;
    od_http_server *http; /* NULL: not wanted */
    otlp *otlp;           /* NULL: not wanted */
    od_gateway *gateway;  /* NULL: it has no console */
    od_console *console;  /* NULL: not wanted */
};

static double one(void *arg)
{
    (void)arg;
    return 1;
}

static od_code watch_build(od_metrics *metrics, const char *role, od_error *err)
{
    static const od_metric info = {.kind = OD_METRIC_GAUGE,
                                   .name = "openduck.build",
                                   .prometheus_name = "openduck_build_info",
                                   .unit = "1",
                                   .help = "Always 1; the labels tell versions and role"};
    const od_label labels[] = {{"version", OD_VERSION}, {"duckdb_version", od_engine_version()}, {"role", role}};

    return od_metrics_watch(metrics, &info, labels, 3, one, NULL, err);
}

od_code observe_create(const od_options *options, const char *role, observe **out, od_error *err)
{
    observe *o = od_calloc(1, sizeof *o);
    od_code rc;

    *out = NULL;
    if (!o)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for metrics");
    o->options = options;
    o->role = role;
    OD_TRY(od_metrics_create(&o->metrics, err));
    OD_TRY(od_about_create(&o->about, err));
    OD_TRY(watch_build(o->metrics, role, err));
    OD_TRY(od_metrics_watch_process(o->metrics, err));
    *out = o;
    o = NULL;

out:
    observe_free(o);
    return rc;
}

od_metrics *observe_metrics(observe *o)
{
    return o->metrics;
}

const char *observe_role(const observe *o)
{
    return o->role;
}

od_code observe_serve(observe *o, od_rpc_server_options *out, od_error *err)
{
    size_t count;
    const od_rpc_method *more = od_about_methods(o->about, &count);

    o->methods = od_calloc(out->method_count + count, sizeof *o->methods);
    if (!o->methods)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a list of methods");
    memcpy(o->methods, out->methods, out->method_count * sizeof *o->methods);
    memcpy(o->methods + out->method_count, more, count * sizeof *o->methods);
    out->methods = o->methods;
    out->method_count += count;
    out->metrics = o->metrics;
    return OD_OK;
}

void observe_drain(observe *o)
{
    if (o)
        od_about_drain(o->about);
}

static void show_metrics(void *arg, const od_http_request *request, od_http_response *response)
{
    const observe *o = arg;
    bool openmetrics = false;
    od_slice accept = od_http_head_value(request->head, "accept");
    od_error err;

    if (accept.len > 0)
        openmetrics = memmem(accept.data, accept.len, "application/openmetrics-text", 28) != NULL;
    response->content_type = openmetrics ? OD_PROMETHEUS_OPENMETRICS : OD_PROMETHEUS_TEXT;
    if (od_prometheus_write(o->metrics, openmetrics, &response->body, &err) != OD_OK) {
        od_buf_release(&response->body);
        response->status = 503;
    }
}

static od_code start_metrics(observe *o, od_error *err)
{
    const char *listen = od_options_str(o->options, OD_OPT_METRICS_LISTEN);
    od_http_server_options options = {
        .listen = listen,
        .token = od_options_secret(o->options, OD_OPT_TOKEN),
        .routes = o->routes,
        .route_count = sizeof o->routes / sizeof *o->routes,
        .cover = o->covered ? &o->tls : NULL,
    };
    od_code rc;

    if (!listen[0])
        return OD_OK;
    o->routes[0] = (od_http_route){.path = "/metrics", .methods = OD_HTTP_GET, .handle = show_metrics, .arg = o};
    rc = od_listen_check(listen, options.token, err);
    if (rc == OD_OK)
        rc = od_http_server_start(&options, &o->http, err);
    if (rc != OD_OK)
        od_error_prefix(err, "--metrics-listen");
    return rc;
}

static od_code start_console(observe *o, od_error *err)
{
    od_console_options options = {.gateway = o->gateway, .metrics = o->metrics, .cover = o->covered ? &o->tls : NULL};
    od_code rc;

    if (!o->gateway) /* the option is not a worker's */
        return OD_OK;
    options.listen = od_options_str(o->options, OD_OPT_CONSOLE_LISTEN);
    if (!options.listen[0])
        return OD_OK;
    rc = od_console_start(&options, &o->console, err);
    if (rc != OD_OK)
        od_error_prefix(err, "--console-listen");
    return rc;
}

void observe_gateway(observe *o, od_gateway *gateway)
{
    o->gateway = gateway;
}

od_code observe_start(observe *o, od_tls *tls, od_error *err)
{
    od_code rc = otlp_start(o->metrics, &o->otlp, err);

    o->tls = cover_of(tls);
    o->covered = tls != NULL;
    if (rc == OD_OK)
        rc = start_metrics(o, err);
    return rc == OD_OK ? start_console(o, err) : rc;
}

static void log_url(const observe *o, const char *what, od_option listen, uint16_t port, const char *path)
{
    char url[400];

    daemon_url(od_options_str(o->options, listen), port, o->covered, url, sizeof url);
    od_log(OD_LOG_INFO, o->role, what, "url=%s%s", url, path);
    if (!o->covered && !od_listen_is_loopback(od_options_str(o->options, listen)))
        od_log(OD_LOG_WARN, o->role, "a token passes this address in clear text: --tls-cert encrypts it", "url=%s",
               url);
}

void observe_log(const observe *o)
{
    if (o->http)
        log_url(o, "metrics", OD_OPT_METRICS_LISTEN, od_http_server_port(o->http), "/metrics");
    if (o->console)
        log_url(o, "console", OD_OPT_CONSOLE_LISTEN, od_console_port(o->console), "/");
}

void observe_stop(observe *o)
{
    if (!o)
        return;
    otlp_stop(o->otlp);
    o->otlp = NULL;
    od_console_free(o->console);
    o->console = NULL;
    od_http_server_free(o->http);
    o->http = NULL;
}

void observe_free(observe *o)
{
    if (!o)
        return;
    observe_stop(o);
    od_metrics_free(o->metrics);
    od_about_free(o->about);
    od_free(o->methods);
    od_free(o);
}

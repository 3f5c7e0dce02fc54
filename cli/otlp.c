#include "cli/otlp.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/uuid.h"
#include "cli/cover.h"
#include "http/client.h"
#include "query/rpc.h"
#include "base/banned.h"

struct otlp {
    od_otlp_config config;
    od_exporter *exporter;
    od_tls *tls;            /* https:// */
    cover_dial dial;        /* HTTP: with TLS */
    od_http_cover cover;    /* of DIAL */
    od_channel *channel;    /* gRPC */
    od_rpc_header *headers; /* gRPC: of CONFIG */
    od_buf head;            /* HTTP */
};

/* ---- HTTP ---- */

static od_code send_http(void *arg, od_slice body, int64_t timeout_ms, bool (*stop)(void *arg), void *stop_arg,
                         od_error *err)
{
    const otlp *o = arg;
    const od_http_post post = {.host = o->config.host,
                               .port = o->config.port,
                               .path = o->config.path,
                               .head = od_slice_of(o->head.data, o->head.len),
                               .body = body,
                               .cover = o->tls ? &o->cover : NULL,
                               .deadline = od_deadline_in_ms(timeout_ms),
                               .stop = stop,
                               .stop_arg = stop_arg};
    int status;
    od_code rc = od_http_send_post(&post, &status, err);

    if (rc == OD_OK && (status < 200 || status > 299))
        return od_fail(err, OD_E_PROTOCOL, "the collector answers with HTTP status %d", status);
    return rc;
}

static od_code prepare_http(otlp *o, od_error *err)
{
    od_code rc =
        od_buf_printf(&o->head, err, "Content-Type: application/x-protobuf\r\nUser-Agent: openduck/%s\r\n", OD_VERSION);

    for (size_t i = 0; i < o->config.header_count && rc == OD_OK; i++)
        rc = od_buf_printf(&o->head, err, "%s: %s\r\n", o->config.headers[i].key, o->config.headers[i].value);
    return rc;
}

/* ---- gRPC ---- */

static od_code send_grpc(void *arg, od_slice body, int64_t timeout_ms, bool (*stop)(void *arg), void *stop_arg,
                         od_error *err)
{
    const otlp *o = arg;
    od_deadline deadline = od_deadline_in_ms(timeout_ms);
    od_msg *msg = NULL, *reply = NULL;
    od_call *call = NULL;
    od_rpc_out out = {0};
    od_code rc;

    OD_TRY(od_msg_create(body.len, 0, &msg, err));
    memcpy(od_msg_data(msg), body.data, body.len);
    out.body = msg;
    out.len = body.len;
    OD_TRY(od_call_open(o->channel, OD_OTLP_PATH, deadline, 0, (od_interrupt){stop, stop_arg}, &call, err));
    OD_TRY(od_call_send(call, &out, true, deadline, err));
    do {
        od_msg_unref(reply);
        OD_TRY(od_call_recv(call, &reply, deadline, err));
    } while (reply);

out:
    od_msg_unref(msg);
    od_call_free(call);
    return rc;
}

static od_code prepare_grpc(otlp *o, od_error *err)
{
    bool six = strchr(o->config.host, ':') != NULL;
    od_channel_options options = {0};
    od_buf url = {0};
    od_code rc;

    o->headers = od_calloc(o->config.header_count + 1, sizeof *o->headers);
    if (!o->headers)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for OpenTelemetry's settings");
    for (size_t i = 0; i < o->config.header_count; i++)
        o->headers[i] = (od_rpc_header){o->config.headers[i].key, o->config.headers[i].value};
    options.headers = o->headers;
    options.header_count = o->config.header_count;
    options.tls = o->tls;
    OD_TRY(od_buf_printf(&url, err, "http%s://%s%s%s:%u", o->tls ? "s" : "", six ? "[" : "", o->config.host,
                         six ? "]" : "", (unsigned)o->config.port));
    OD_TRY(od_endpoint_parse(od_slice_of(url.data, url.len), &options.endpoint, err));
    OD_TRY(od_channel_create(&options, &o->channel, err));

out:
    od_buf_release(&url);
    return rc;
}

/* ---- start, stop ---- */

static od_code prepare(otlp *o, od_error *err)
{
    const od_tls_files files = {.cert = o->config.cert, .key = o->config.key, .ca = o->config.ca};
    od_code rc = o->config.tls ? od_tls_create_client(&files, &o->tls, err) : OD_OK;

    if (rc != OD_OK)
        return rc;
    o->dial = (cover_dial){o->tls, o->config.host};
    o->cover = cover_to(&o->dial);
    return o->config.grpc ? prepare_grpc(o, err) : prepare_http(o, err);
}

static void otlp_free(otlp *o)
{
    od_channel_unref(o->channel);
    od_tls_unref(o->tls);
    od_free(o->headers);
    if (o->head.data)
        explicit_bzero(o->head.data, o->head.len);
    od_buf_release(&o->head);
    od_otlp_config_release(&o->config);
    od_free(o);
}

od_code otlp_start(od_metrics *metrics, otlp **out, od_error *err)
{
    otlp *o = od_calloc(1, sizeof *o);
    char instance[OD_UUID_TEXT_SIZE], why[600];
    od_code rc;

    *out = NULL;
    if (!o)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for OpenTelemetry's settings");
    od_uuid_format(od_uuid_random(), instance);
    rc = od_otlp_config_read(getenv, instance, &o->config, err);
    if (rc == OD_OK && o->config.wanted)
        rc = prepare(o, err);
    if (rc == OD_OK && o->config.wanted)
        rc = od_exporter_start(metrics, &o->config, (od_exporter_sender){o->config.grpc ? send_grpc : send_http, o},
                               &o->exporter, err);
    if (rc == OD_E_INVALID || rc == OD_E_NOT_IMPLEMENTED) {
        od_log(OD_LOG_WARN, "otlp", "metrics are not exported", "why=%s", od_log_quote(err->message, why, sizeof why));
        rc = OD_OK;
    }
    if (o->exporter)
        *out = o;
    else
        otlp_free(o);
    return rc;
}

void otlp_stop(otlp *o)
{
    if (!o)
        return;
    od_exporter_stop(o->exporter);
    otlp_free(o);
}

/* telemetry/otlp_config.h: OpenTelemetry's own environment variables, as far as they are about metrics. */
#ifndef OD_TELEMETRY_OTLP_CONFIG_H
#define OD_TELEMETRY_OTLP_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct {
    char *key, *value; /* owned */
} od_otlp_pair;

typedef struct {
    bool wanted;           /* false: the rest is empty */
    bool grpc;             /* else HTTP with protobuf */
    bool tls;              /* https:// */
    char *ca, *cert, *key; /* tls: PEM files, NULL for those that are not given; key with cert */
    char host[256];
    uint16_t port;
    char *path;            /* HTTP: with its '/' */
    od_otlp_pair *headers; /* may hold secrets */
    size_t header_count;
    od_otlp_pair *attributes; /* of the resource, service.name among them */
    size_t attribute_count;
    int64_t interval_ms, timeout_ms;
} od_otlp_config;

/* Looks a variable up: getenv fits. */
typedef char *(*od_otlp_env)(const char *name);

/* Export is wanted if OTEL_EXPORTER_OTLP_ENDPOINT, or its _METRICS_ form, is set, and neither OTEL_SDK_DISABLED nor
 * OTEL_METRICS_EXPORTER says otherwise. INSTANCE: service.instance.id, unless the variables give one. On failure *out is empty:
 *   OD_E_INVALID, OD_E_NOT_IMPLEMENTED   names the variable; never the value of a header */
OD_MUST_CHECK od_code od_otlp_config_read(od_otlp_env env, const char *instance, od_otlp_config *out, od_error *err);
void od_otlp_config_release(od_otlp_config *config);

#endif

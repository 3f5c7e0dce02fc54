#include "telemetry/otlp_config.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/banned.h"

enum {
    PAIRS_MAX = 64,
    DEFAULT_INTERVAL_MS = 60000,
    DEFAULT_TIMEOUT_MS = 10000,
    GRPC_PORT = 4317,
    HTTP_PORT = 80,
    HTTPS_PORT = 443
};

/* The value of OTEL_EXPORTER_OTLP_METRICS_NAME, else of OTEL_EXPORTER_OTLP_NAME; NULL if neither is set. */
static const char *exporter_value(od_otlp_env env, const char *name, char variable[64])
{
    const char *value;

    snprintf(variable, 64, "OTEL_EXPORTER_OTLP_METRICS_%s", name);
    value = env(variable);
    if (value && value[0])
        return value;
    snprintf(variable, 64, "OTEL_EXPORTER_OTLP_%s", name);
    value = env(variable);
    return value && value[0] ? value : NULL;
}

static bool is_set_to(od_otlp_env env, const char *variable, const char *value)
{
    const char *have = env(variable);

    return have && strcasecmp(have, value) == 0;
}

/* ---- pairs: key=value,key=value with %XX ---- */

static char *decoded(od_slice text)
{
    char *out = od_strndup((const char *)text.data, text.len);
    size_t len = 0;

    if (!out)
        return NULL;
    for (size_t i = 0; i < text.len; i++) {
        int high = i + 2 < text.len ? od_hex_value(text.data[i + 1]) : -1;
        int low = i + 2 < text.len ? od_hex_value(text.data[i + 2]) : -1;

        if (text.data[i] == '%' && high >= 0 && low >= 0 && high * 16 + low >= ' ') {
            out[len++] = (char)(high * 16 + low);
            i += 2;
        } else {
            out[len++] = (char)text.data[i];
        }
    }
    out[len] = '\0';
    return out;
}

static od_slice trimmed(od_slice text)
{
    while (text.len > 0 && (text.data[0] == ' ' || text.data[0] == '\t')) {
        text.data++;
        text.len--;
    }
    while (text.len > 0 && (text.data[text.len - 1] == ' ' || text.data[text.len - 1] == '\t'))
        text.len--;
    return text;
}

static od_code add_pair(od_otlp_pair **pairs, size_t *count, char *key, char *value, od_error *err)
{
    od_otlp_pair *grown = key && value ? od_realloc(*pairs, (*count + 1) * sizeof **pairs) : NULL;

    if (!grown) {
        od_free(key);
        od_free(value);
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for OpenTelemetry's settings");
    }
    *pairs = grown;
    grown[(*count)++] = (od_otlp_pair){key, value};
    return OD_OK;
}

static od_code read_pairs(const char *variable, const char *text, bool lower, od_otlp_pair **pairs, size_t *count,
                          od_error *err)
{
    od_slice rest = od_slice_str(text);
    od_code rc = OD_OK;

    while (rest.len > 0 && rc == OD_OK) {
        const uint8_t *comma = memchr(rest.data, ',', rest.len);
        od_slice part = trimmed(od_slice_of(rest.data, comma ? (size_t)(comma - rest.data) : rest.len));
        const uint8_t *equals = part.len ? memchr(part.data, '=', part.len) : NULL;
        char *key;

        rest = comma ? od_slice_of(comma + 1, rest.len - (size_t)(comma + 1 - rest.data)) : od_slice_of(rest.data, 0);
        if (part.len == 0)
            continue;
        if (!equals || equals == part.data || *count == PAIRS_MAX)
            return od_fail(err, OD_E_INVALID, "%s is no list of up to %d key=value", variable, PAIRS_MAX);
        key = decoded(trimmed(od_slice_of(part.data, (size_t)(equals - part.data))));
        for (char *c = key; lower && c && *c; c++) /* HTTP/2 wants names so */
            if (*c >= 'A' && *c <= 'Z')
                *c = (char)(*c - 'A' + 'a');
        rc = add_pair(pairs, count, key,
                      decoded(trimmed(od_slice_of(equals + 1, part.len - (size_t)(equals + 1 - part.data)))), err);
    }
    return rc;
}

static od_code read_headers(od_otlp_env env, od_otlp_config *out, od_error *err)
{
    char variable[64];
    const char *value = exporter_value(env, "HEADERS", variable);
    od_code rc = value ? read_pairs(variable, value, true, &out->headers, &out->header_count, err) : OD_OK;

    for (size_t i = 0; rc == OD_OK && i < out->header_count; i++) {
        const od_otlp_pair *h = &out->headers[i];

        if (strspn(h->key, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != strlen(h->key))
            return od_fail(err, OD_E_INVALID, "%s holds a name that no header can have", variable);
        for (const char *c = h->value; *c; c++) {
            if (*c < ' ' || *c > '~')
                return od_fail(err, OD_E_INVALID, "%s: the value of '%s' is not printable ASCII", variable, h->key);
        }
    }
    return rc;
}

static bool has_attribute(const od_otlp_config *config, const char *key)
{
    for (size_t i = 0; i < config->attribute_count; i++) {
        if (strcmp(config->attributes[i].key, key) == 0)
            return true;
    }
    return false;
}

static od_code default_attribute(od_otlp_config *out, const char *key, const char *value, od_error *err)
{
    if (has_attribute(out, key))
        return OD_OK;
    return add_pair(&out->attributes, &out->attribute_count, od_strdup(key), od_strdup(value), err);
}

/* OTEL_SERVICE_NAME beats a service.name among the attributes. */
static od_code read_attributes(od_otlp_env env, const char *instance, od_otlp_config *out, od_error *err)
{
    const char *attributes = env("OTEL_RESOURCE_ATTRIBUTES"), *name = env("OTEL_SERVICE_NAME");
    od_code rc = OD_OK;

    if (attributes)
        rc = read_pairs("OTEL_RESOURCE_ATTRIBUTES", attributes, false, &out->attributes, &out->attribute_count, err);
    for (size_t i = 0; name && name[0] && rc == OD_OK && i < out->attribute_count; i++) {
        if (strcmp(out->attributes[i].key, "service.name") == 0) {
            od_free(out->attributes[i].value);
            out->attributes[i].value = od_strdup(name);
            if (!out->attributes[i].value)
                return od_fail(err, OD_E_NO_MEMORY, "out of memory for OpenTelemetry's settings");
        }
    }
    if (rc == OD_OK)
        rc = default_attribute(out, "service.name", name && name[0] ? name : "openduck", err);
    return rc == OD_OK ? default_attribute(out, "service.instance.id", instance, err) : rc;
}

/* ---- the rest ---- */

static od_code read_ms(const char *variable, const char *text, int64_t fallback, int64_t *out, od_error *err)
{
    int64_t value = 0;

    *out = fallback;
    if (!text || !text[0])
        return OD_OK;
    for (const char *c = text; *c; c++) {
        if (*c < '0' || *c > '9' || value > INT32_MAX)
            return od_fail(err, OD_E_INVALID, "%s is no number of milliseconds", variable);
        value = value * 10 + (*c - '0');
    }
    if (value < 1 || value > INT32_MAX)
        return od_fail(err, OD_E_INVALID, "%s is no number of milliseconds from 1", variable);
    *out = value;
    return OD_OK;
}

/* Splits HOST[:PORT]. */
static bool split_authority(const char *text, size_t len, uint16_t fallback, od_otlp_config *out)
{
    const char *end = text + len, *colon = NULL;
    unsigned port = 0;

    if (len > 0 && text[0] == '[') {
        const char *close = memchr(text, ']', len);

        if (!close || (close + 1 < end && close[1] != ':'))
            return false;
        colon = close + 1 < end ? close + 1 : NULL;
        end = close;
        text++;
    } else {
        colon = memchr(text, ':', len);
        end = colon ? colon : end;
    }
    if (end == text || (size_t)(end - text) >= sizeof out->host || memchr(text, '@', len))
        return false;
    memcpy(out->host, text, (size_t)(end - text));
    out->host[end - text] = '\0';
    out->port = fallback;
    if (!colon)
        return true;
    for (const char *c = colon + 1; *c >= '0' && *c <= '9' && port <= UINT16_MAX; c++)
        port = port * 10 + (unsigned)(*c - '0');
    out->port = (uint16_t)port;
    return port > 0 && port <= UINT16_MAX;
}

/* Takes the scheme off *url; false: it cannot be that. What gRPC is told without one is TLS, unless it is said to be insecure. */
static bool take_scheme(od_otlp_env env, const char **url, od_otlp_config *out)
{
    char variable[64];
    const char *insecure = exporter_value(env, "INSECURE", variable);

    if (strncasecmp(*url, "https://", 8) == 0) {
        *url += 8;
        out->tls = true;
        return true;
    }
    if (strncasecmp(*url, "http://", 7) == 0) {
        *url += 7;
        return true;
    }
    out->tls = !insecure || strcasecmp(insecure, "true") != 0;
    return out->grpc && !strstr(*url, "://");
}

static od_code read_endpoint(od_otlp_env env, const char *variable, const char *url, od_otlp_config *out, od_error *err)
{
    bool whole = strstr(variable, "METRICS") != NULL; /* this form is used as it is */
    size_t len, path_len;
    const char *path;
    od_buf made = {0};
    od_code rc = OD_OK;

    if (!take_scheme(env, &url, out))
        return od_fail(err, OD_E_INVALID, "%s is no http:// or https:// URL", variable);
    len = strcspn(url, "/?#");
    path = url + len;
    for (const char *c = url; *c; c++) {
        if (*c <= ' ' || *c > '~')
            return od_fail(err, OD_E_INVALID, "%s is no http:// or https:// URL", variable);
    }
    if (!split_authority(url, len, out->grpc ? GRPC_PORT : out->tls ? HTTPS_PORT : HTTP_PORT, out))
        return od_fail(err, OD_E_INVALID, "%s is no http:// or https:// URL with HOST:PORT", variable);
    path_len = strlen(path);
    while (!whole && path_len > 0 && path[path_len - 1] == '/')
        path_len--;
    if (out->grpc)
        return OD_OK;
    OD_TRY(od_buf_append(&made, path, path_len, err));
    OD_TRY(od_buf_printf(&made, err, "%s", !whole ? "/v1/metrics" : path_len > 0 ? "" : "/"));
    out->path = od_strdup(od_buf_cstr(&made));
    if (!out->path)
        rc = od_fail(err, OD_E_NO_MEMORY, "out of memory for OpenTelemetry's settings");

out:
    od_buf_release(&made);
    return rc;
}

static od_code read_file(od_otlp_env env, const char *name, char **out, od_error *err)
{
    char variable[64];
    const char *path = exporter_value(env, name, variable);

    if (!path)
        return OD_OK;
    *out = od_strdup(path);
    return *out ? OD_OK : od_fail(err, OD_E_NO_MEMORY, "out of memory for OpenTelemetry's settings");
}

static od_code read_files(od_otlp_env env, od_otlp_config *out, od_error *err)
{
    od_code rc;

    if (!out->tls)
        return OD_OK;
    OD_TRY(read_file(env, "CERTIFICATE", &out->ca, err));
    OD_TRY(read_file(env, "CLIENT_CERTIFICATE", &out->cert, err));
    OD_TRY(read_file(env, "CLIENT_KEY", &out->key, err));
    if (!out->cert != !out->key)
        rc = od_fail(err, OD_E_INVALID, "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and _CLIENT_KEY need each other");

out:
    return rc;
}

static od_code read_all(od_otlp_env env, const char *instance, od_otlp_config *out, od_error *err)
{
    char variable[64];
    const char *protocol = exporter_value(env, "PROTOCOL", variable);
    const char *url;
    od_code rc;

    if (protocol && strcmp(protocol, "grpc") != 0 && strcmp(protocol, "http/protobuf") != 0)
        return od_fail(err, OD_E_NOT_IMPLEMENTED, "%s: supported are grpc and http/protobuf", variable);
    out->grpc = protocol && strcmp(protocol, "grpc") == 0;
    url = exporter_value(env, "ENDPOINT", variable);
    OD_TRY(read_endpoint(env, variable, url ? url : "", out, err));
    OD_TRY(read_files(env, out, err));
    OD_TRY(read_headers(env, out, err));
    OD_TRY(read_attributes(env, instance, out, err));
    OD_TRY(read_ms("OTEL_METRIC_EXPORT_INTERVAL", env("OTEL_METRIC_EXPORT_INTERVAL"), DEFAULT_INTERVAL_MS,
                   &out->interval_ms, err));
    url = exporter_value(env, "TIMEOUT", variable);
    OD_TRY(read_ms(variable, url, DEFAULT_TIMEOUT_MS, &out->timeout_ms, err));

out:
    return rc;
}

od_code od_otlp_config_read(od_otlp_env env, const char *instance, od_otlp_config *out, od_error *err)
{
    const char *exporter = env("OTEL_METRICS_EXPORTER");
    char variable[64];
    od_code rc;

    *out = (od_otlp_config){0};
    if (is_set_to(env, "OTEL_SDK_DISABLED", "true") || !exporter_value(env, "ENDPOINT", variable))
        return OD_OK;
    if (exporter && exporter[0] && strcasecmp(exporter, "otlp") != 0)
        return OD_OK;
    out->wanted = true;
    rc = read_all(env, instance, out, err);
    if (rc != OD_OK)
        od_otlp_config_release(out);
    return rc;
}

static void release_pairs(od_otlp_pair *pairs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        od_free(pairs[i].key);
        explicit_bzero(pairs[i].value, strlen(pairs[i].value));
        od_free(pairs[i].value);
    }
    od_free(pairs);
}

void od_otlp_config_release(od_otlp_config *config)
{
    release_pairs(config->headers, config->header_count);
    release_pairs(config->attributes, config->attribute_count);
    od_free(config->path);
    od_free(config->ca);
    od_free(config->cert);
    od_free(config->key);
    *config = (od_otlp_config){0};
}

#include "telemetry/otlp_config.h"

#include <string.h>

#include "unit/base/check.h"

/* The environment of a case: NAME, VALUE, ..., NULL. */
static const char *const *environment;

static char *env(const char *name)
{
    for (const char *const *e = environment; *e; e += 2) {
        if (strcmp(e[0], name) == 0)
            return (char *)(uintptr_t)e[1];
    }
    return NULL;
}

#define ENV(...) ((const char *const[]){__VA_ARGS__, NULL})

static od_otlp_config config;
static od_error error;

static od_code load(const char *const *variables)
{
    environment = variables;
    od_otlp_config_release(&config);
    return od_otlp_config_read(env, "i-1", &config, &error);
}

static const char *attribute(const char *key)
{
    for (size_t i = 0; i < config.attribute_count; i++) {
        if (strcmp(config.attributes[i].key, key) == 0)
            return config.attributes[i].value;
    }
    return "";
}

static void test_nothing_is_wanted_unless_asked_for(void **state)
{
    (void)state;
    assert_int_equal(load(ENV("OTEL_SERVICE_NAME", "x")), OD_OK);
    assert_false(config.wanted);
    assert_int_equal(load(ENV("OTEL_EXPORTER_OTLP_ENDPOINT", "")), OD_OK);
    assert_false(config.wanted);
    assert_int_equal(load(ENV("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h", "OTEL_SDK_DISABLED", "True")), OD_OK);
    assert_false(config.wanted);
    assert_int_equal(load(ENV("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h", "OTEL_METRICS_EXPORTER", "none")), OD_OK);
    assert_false(config.wanted);
}

static void test_the_defaults_are_those_of_the_specification(void **state)
{
    (void)state;
    assert_int_equal(load(ENV("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h:4318/base/")), OD_OK);
    assert_true(config.wanted && !config.grpc);
    assert_string_equal(config.host, "h");
    assert_int_equal(config.port, 4318);
    assert_string_equal(config.path, "/base/v1/metrics");
    assert_int_equal(config.interval_ms, 60000);
    assert_int_equal(config.timeout_ms, 10000);
    assert_int_equal(config.header_count, 0);
    assert_string_equal(attribute("service.name"), "openduck");
    assert_string_equal(attribute("service.instance.id"), "i-1");
}

static void test_the_form_for_metrics_wins_and_is_used_as_it_is(void **state)
{
    (void)state;
    assert_int_equal(load(ENV("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:1", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
                              "http://[::1]:2/x", "OTEL_EXPORTER_OTLP_HEADERS", "a=1",
                              "OTEL_EXPORTER_OTLP_METRICS_HEADERS", "B=2", "OTEL_EXPORTER_OTLP_TIMEOUT", "7",
                              "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "8", "OTEL_METRIC_EXPORT_INTERVAL", "9")),
                     OD_OK);
    assert_string_equal(config.host, "::1");
    assert_int_equal(config.port, 2);
    assert_string_equal(config.path, "/x");
    assert_int_equal(config.header_count, 1);
    assert_string_equal(config.headers[0].key, "b");
    assert_string_equal(config.headers[0].value, "2");
    assert_int_equal(config.timeout_ms, 8);
    assert_int_equal(config.interval_ms, 9);
    assert_int_equal(load(ENV("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://a")), OD_OK);
    assert_string_equal(config.path, "/");
    assert_int_equal(config.port, 80);
}

static void test_pairs_are_decoded(void **state)
{
    (void)state;
    assert_int_equal(load(ENV("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost", "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc",
                              "OTEL_EXPORTER_OTLP_HEADERS", "X-Key = a%20b%3D ,, y=", "OTEL_RESOURCE_ATTRIBUTES",
                              "service.name=old,k=a%2Cb%zz%0a", "OTEL_SERVICE_NAME", "new")),
                     OD_OK);
    assert_true(config.grpc && config.tls);
    assert_int_equal(config.port, 4317);
    assert_int_equal(config.header_count, 2);
    assert_string_equal(config.headers[0].key, "x-key");
    assert_string_equal(config.headers[0].value, "a b=");
    assert_string_equal(config.headers[1].value, "");
    assert_string_equal(attribute("service.name"), "new");
    assert_string_equal(attribute("k"), "a,b%zz%0a");
}

static void test_https_has_files(void **state)
{
    (void)state;
    assert_int_equal(load(ENV("OTEL_EXPORTER_OTLP_ENDPOINT", "HTTPS://h/", "OTEL_EXPORTER_OTLP_CERTIFICATE", "ca",
                              "OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE", "own-ca",
                              "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "cert", "OTEL_EXPORTER_OTLP_CLIENT_KEY", "key")),
                     OD_OK);
    assert_true(config.tls && !config.grpc);
    assert_int_equal(config.port, 443);
    assert_string_equal(config.host, "h");
    assert_string_equal(config.path, "/v1/metrics");
    assert_string_equal(config.ca, "own-ca");
    assert_string_equal(config.cert, "cert");
    assert_string_equal(config.key, "key");
    assert_int_equal(load(ENV("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h", "OTEL_EXPORTER_OTLP_CERTIFICATE", "ca",
                              "OTEL_EXPORTER_OTLP_INSECURE", "false")),
                     OD_OK);
    assert_true(!config.tls && !config.ca);
    assert_int_equal(load(ENV("OTEL_EXPORTER_OTLP_ENDPOINT", "https://h:1", "OTEL_EXPORTER_OTLP_CLIENT_KEY", "key")),
                     OD_E_INVALID);
    /* Without a scheme, which gRPC alone may leave out. */
    assert_int_equal(load(ENV("OTEL_EXPORTER_OTLP_ENDPOINT", "h:1", "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc",
                              "OTEL_EXPORTER_OTLP_INSECURE", "True")),
                     OD_OK);
    assert_true(config.grpc && !config.tls);
}

static void test_what_is_wrong_names_its_variable(void **state)
{
    static const struct {
        const char *name, *value;
        od_code code;
    } cases[] = {
        {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "https://", OD_E_INVALID},
        {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "https://h:0", OD_E_INVALID},
        {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "ftp://h", OD_E_INVALID},
        {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://", OD_E_INVALID},
        {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://h:0", OD_E_INVALID},
        {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://h:99999", OD_E_INVALID},
        {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://u:p@h", OD_E_INVALID},
        {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://h/a b", OD_E_INVALID},
        {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://[::1", OD_E_INVALID},
        {"OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", OD_E_NOT_IMPLEMENTED},
        {"OTEL_EXPORTER_OTLP_HEADERS", "s3cret", OD_E_INVALID},
        {"OTEL_EXPORTER_OTLP_HEADERS", "a b=s3cret", OD_E_INVALID},
        {"OTEL_EXPORTER_OTLP_HEADERS", "a=s3cret\xc3\xa9", OD_E_INVALID},
        {"OTEL_EXPORTER_OTLP_HEADERS", "a=s3cret\r\nb: c", OD_E_INVALID},
        {"OTEL_EXPORTER_OTLP_TIMEOUT", "1s", OD_E_INVALID},
        {"OTEL_EXPORTER_OTLP_TIMEOUT", "0", OD_E_INVALID},
        {"OTEL_METRIC_EXPORT_INTERVAL", "99999999999", OD_E_INVALID},
        {"OTEL_RESOURCE_ATTRIBUTES", "=x", OD_E_INVALID},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        od_code rc = load(ENV(cases[i].name, cases[i].value, "OTEL_EXPORTER_OTLP_ENDPOINT", "http://h:1"));

        if (rc != cases[i].code || !strstr(error.message, cases[i].name) || strstr(error.message, "s3cret"))
            fail_msg("case %zu: %d, %s", i, (int)rc, error.message);
        assert_false(config.wanted);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_wanted_unless_asked_for),
        cmocka_unit_test(test_the_defaults_are_those_of_the_specification),
        cmocka_unit_test(test_the_form_for_metrics_wins_and_is_used_as_it_is),
        cmocka_unit_test(test_pairs_are_decoded),
        cmocka_unit_test(test_https_has_files),
        cmocka_unit_test(test_what_is_wrong_names_its_variable),
    };
    int failed = check_run("telemetry.otlp_config", tests, argc, argv);

    od_otlp_config_release(&config);
    return failed;
}

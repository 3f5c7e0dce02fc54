#include "rpc_fixture.h"

#include "base/banned.h"

static const struct {
    const char *text, *host, *authority;
    uint16_t port;
    bool tls;
} GOOD[] = {
    {"http://db.example.org:1234", "db.example.org", "db.example.org:1234", 1234, false},
    {"HTTP://db:1", "db", "db:1", 1, false},
    {"127.0.0.1:7878", "127.0.0.1", "127.0.0.1:7878", 7878, false},
    {"[::1]:7878", "::1", "[::1]:7878", 7878, false},
    {"http://[fe80::1%eth0]:65535/", "fe80::1%eth0", "[fe80::1%eth0]:65535", 65535, false},
    {"http://host", "host", "host:7878", 7878, false},
    {"[::1]", "::1", "[::1]:7878", 7878, false},
    {"my_host-1", "my_host-1", "my_host-1:7878", 7878, false},
    {"https://db.example.org", "db.example.org", "db.example.org:7878", 7878, true},
    {"HTTPS://[::1]:443/", "::1", "[::1]:443", 443, true},
};

static const struct {
    const char *text;
    od_code code;
    const char *why;
} BAD[] = {
    {"", OD_E_INVALID, "the host is missing"},
    {"http://", OD_E_INVALID, "the host is missing"},
    {":80", OD_E_INVALID, "the host is missing"},
    {"host:", OD_E_INVALID, "the port"},
    {"host:0", OD_E_INVALID, "from 1 to 65535"},
    {"host:65536", OD_E_INVALID, "the port"},
    {"host:99999999999", OD_E_INVALID, "the port"},
    {"host:12a", OD_E_INVALID, "'host:12a'"},
    {"host:-1", OD_E_INVALID, "the port"},
    {"::1", OD_E_INVALID, "needs brackets"},
    {"fe80::1:7878", OD_E_INVALID, "needs brackets"},
    {"[::1", OD_E_INVALID, "closing bracket"},
    {"[::1]x", OD_E_INVALID, "the port"},
    {"[]:1", OD_E_INVALID, "the host is missing"},
    {"ho st:1", OD_E_INVALID, "not allowed"},
    {"host:1/path", OD_E_INVALID, "must not have a path"},
    {"http://host/?x", OD_E_INVALID, "must not have a path"},
    {"https://", OD_E_INVALID, "the host is missing"},
    {"https://me:hunter2@host:1", OD_E_INVALID, "user information"},
    {"https:host", OD_E_INVALID, "the port"},
    {"grpc://host:1", OD_E_INVALID, "scheme"},
    {"http://me:hunter2@host:1", OD_E_INVALID, "user information"},
    {"me:hunter2@host", OD_E_INVALID, "user information"},
    {"x://me:hunter2@host", OD_E_INVALID, "scheme"},
    {"host\n:1", OD_E_INVALID, "not allowed"},
};

static void test_good_endpoints_are_split(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++) {
        od_endpoint e;
        od_error err = {0};
        if (od_endpoint_parse(od_slice_str(GOOD[i].text), &e, &err) != OD_OK)
            fail_msg("'%s': %s", GOOD[i].text, err.message);
        assert_string_equal(e.host, GOOD[i].host);
        assert_string_equal(e.authority, GOOD[i].authority);
        assert_int_equal(e.port, GOOD[i].port);
        assert_int_equal(e.tls, GOOD[i].tls);
    }
}

static void test_bad_endpoints_are_refused_with_the_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        od_endpoint e;
        od_error err = {0};
        assert_int_equal(od_endpoint_parse(od_slice_str(BAD[i].text), &e, &err), BAD[i].code);
        if (!strstr(err.message, BAD[i].why))
            fail_msg("'%s': '%s' lacks '%s'", BAD[i].text, err.message, BAD[i].why);
        assert_null(strstr(err.message, "hunter2"));
        assert_null(strchr(err.message, '\n'));
    }
}

static void test_a_host_that_is_too_long_is_refused(void **state)
{
    char text[5000];
    od_endpoint e;

    (void)state;
    for (size_t len = 1; len < sizeof text - 1; len += 97) {
        memset(text, 'h', len);
        assert_int_equal(od_endpoint_parse(od_slice_of(text, len), &e, NULL), len < 256 ? OD_OK : OD_E_INVALID);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_endpoints_are_split),
        cmocka_unit_test(test_bad_endpoints_are_refused_with_the_reason),
        cmocka_unit_test(test_a_host_that_is_too_long_is_refused),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

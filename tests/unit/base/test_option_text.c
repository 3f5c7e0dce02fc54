#include "base/option_text.h"

#include "unit/base/check.h"

static const int64_t untouched = -77;

typedef struct {
    const char *text;
    bool good;
    int64_t value;
} number_case;

static void check_all(const number_case *cases, size_t count, bool (*read)(const char *, int64_t *))
{
    for (size_t i = 0; i < count; i++) {
        int64_t value = untouched;

        assert_int_equal(read(cases[i].text, &value), cases[i].good);
        assert_true(value == (cases[i].good ? cases[i].value : untouched));
    }
}

static void test_integers(void **state)
{
    static const number_case cases[] = {
        {"0", true, 0},
        {"007", true, 7},
        {"65536", true, 65536},
        {"-5", true, -5},
        {"", false, 0},
        {"-", false, 0},
        {"--5", false, 0},
        {"+5", false, 0},
        {" 5", false, 0},
        {"5 ", false, 0},
        {"5x", false, 0},
        {"0x10", false, 0},
        {"1e3", false, 0},
        {"1.0", false, 0},
        {"9223372036854775807", true, INT64_MAX},
        {"9223372036854775808", false, 0},
        {"99999999999999999999999", false, 0},
    };

    (void)state;
    check_all(cases, COUNT(cases), od_text_int);
}

static void test_durations(void **state)
{
    static const number_case cases[] = {
        {"0", true, 0},
        {"250", true, 250},
        {"250ms", true, 250},
        {"5s", true, 5000},
        {"5S", true, 5000},
        {"2m", true, 120000},
        {"1h", true, 3600000},
        {"7d", true, 604800000},
        {"", false, 0},
        {"s", false, 0},
        {"-5s", false, 0},
        {"5 s", false, 0},
        {"1.5s", false, 0},
        {"5sec", false, 0},
        {"5s5", false, 0},
        {"5us", false, 0},
        {"9223372036854775807d", false, 0},
    };

    (void)state;
    check_all(cases, COUNT(cases), od_text_ms);
}

static void test_sizes(void **state)
{
    static const number_case cases[] = {
        {"0", true, 0},
        {"512", true, 512},
        {"512B", true, 512},
        {"4KiB", true, 4096},
        {"64MiB", true, 67108864},
        {"64mib", true, 67108864},
        {"1GiB", true, 1 << 30},
        {"1TiB", true, INT64_C(1) << 40},
        {"1kB", true, 1000},
        {"1MB", true, 1000000},
        {"2GB", true, 2000000000},
        {"1TB", true, 1000000000000},
        {"3972KiB", true, 4067328},
        {"", false, 0},
        {"MiB", false, 0},
        {"1M", false, 0},
        {"1.5MiB", false, 0},
        {"-1", false, 0},
        {"1 MiB", false, 0},
        {"9000000TiB", false, 0},
    };

    (void)state;
    check_all(cases, COUNT(cases), od_text_bytes);
}

static void test_truth_values(void **state)
{
    static const struct {
        const char *text;
        bool good;
        bool value;
    } cases[] = {
        {"true", true, true},   {"on", true, true},   {"YES", true, true},     {"1", true, true},
        {"false", true, false}, {"Off", true, false}, {"no", true, false},     {"0", true, false},
        {"", false, false},     {"2", false, false},  {"truee", false, false}, {" true", false, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        bool value = !cases[i].value;

        assert_int_equal(od_text_bool(cases[i].text, &value), cases[i].good);
        if (cases[i].good)
            assert_int_equal(value, cases[i].value);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_truth_values),
    };

    return check_run("base.option_text", tests, argc, argv);
}

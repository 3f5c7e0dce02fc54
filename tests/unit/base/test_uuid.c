#include "base/uuid.h"

#include <string.h>

#include "unit/base/check.h"

static void test_random_is_version_4_and_differs(void **state)
{
    od_uuid ids[100];

    (void)state;
    for (size_t i = 0; i < COUNT(ids); i++) {
        ids[i] = od_uuid_random();
        assert_int_equal(ids[i].bytes[6] >> 4, 4);
        assert_int_equal(ids[i].bytes[8] >> 6, 2);
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(ids[i].bytes, ids[j].bytes, 16);
    }
}

static void test_format_and_parse_are_inverse(void **state)
{
    char text[OD_UUID_TEXT_SIZE];

    (void)state;
    for (int i = 0; i < 100; i++) {
        od_uuid id = od_uuid_random();
        od_uuid back;

        od_uuid_format(id, text);
        assert_int_equal(strlen(text), 36);
        assert_true(od_uuid_parse(text, &back));
        assert_memory_equal(id.bytes, back.bytes, 16);
    }
}

static void test_known_text(void **state)
{
    char text[OD_UUID_TEXT_SIZE];
    od_uuid id;

    (void)state;
    assert_true(od_uuid_parse("00010203-0405-0607-0809-0A0B0C0D0E0F", &id));
    for (int i = 0; i < 16; i++)
        assert_int_equal(id.bytes[i], i);
    od_uuid_format(id, text);
    assert_string_equal(text, "00010203-0405-0607-0809-0a0b0c0d0e0f");
}

static void test_malformed_text_is_refused(void **state)
{
    static const char *const cases[] = {
        "",
        "00010203-0405-0607-0809-0a0b0c0d0e0",
        "00010203-0405-0607-0809-0a0b0c0d0e0f0",
        "00010203-0405-0607-0809-0a0b0c0d0e0g",
        "00010203x0405-0607-0809-0a0b0c0d0e0f",
        "000102030-405-0607-0809-0a0b0c0d0e0f",
        "0001020304050607080900a0b0c0d0e0f000",
        "{0010203-0405-0607-0809-0a0b0c0d0e0}",
        " 0010203-0405-0607-0809-0a0b0c0d0e0f",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        od_uuid id = {{9}};

        assert_false(od_uuid_parse(cases[i], &id));
        assert_int_equal(id.bytes[0], 9);
    }
    assert_false(od_uuid_parse(NULL, &(od_uuid){{0}}));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_is_version_4_and_differs),
        cmocka_unit_test(test_format_and_parse_are_inverse),
        cmocka_unit_test(test_known_text),
        cmocka_unit_test(test_malformed_text_is_refused),
    };

    return check_run("base.uuid", tests, argc, argv);
}

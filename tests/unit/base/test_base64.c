/* Vectors: RFC 4648, section 10. */
#include "base/base64.h"

#include <string.h>

#include "unit/base/check.h"

static void test_the_vectors_of_the_rfc(void **state)
{
    static const char *const texts[] = {"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
    uint8_t out[16];
    size_t len;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_true(od_base64_room(od_slice_str(texts[i])) >= i);
        assert_true(od_base64_decode(od_slice_str(texts[i]), out, &len));
        assert_int_equal(len, i);
        assert_memory_equal(out, "foobar", len);
    }
    assert_true(od_base64_decode(od_slice_str("+/+/"), out, &len));
    assert_memory_equal(out, "\xfb\xff\xbf", 3);
}

static void test_what_is_no_base64(void **state)
{
    static const char *const texts[] = {
        "Z", "Zg", "Zg=", "Zg===", "Z===", "====", "Zg==Zg==", "Zm9v\n\n", "Zm-_", "Zm9=", "@@@ not it @", "Zh=="};
    uint8_t out[16];
    size_t len;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_false(od_base64_decode(od_slice_str(texts[i]), out, &len));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_vectors_of_the_rfc),
        cmocka_unit_test(test_what_is_no_base64),
    };

    return check_run("base.base64", tests, argc, argv);
}

/* Recorded requests of clients, changed in many ways: no crash, no hang. OPENDUCK_VGI_MUTATIONS says how many; a few by default. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/mutate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* NOLINTNEXTLINE(bugprone-suspicious-include): the same target, driven by numbers of our own */
#include "fuzz/fuzz_vgi_requests.c"

enum { ENOUGH = 2000 };

static void test_no_changed_request_does_harm(void **state)
{
    (void)state;
    assert_true(
        mutate_files("tests/fuzz/corpus/vgi_requests", "OPENDUCK_VGI_MUTATIONS", ENOUGH, LLVMFuzzerTestOneInput) > 10);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_changed_request_does_harm),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

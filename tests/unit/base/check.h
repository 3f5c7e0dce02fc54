/* What every test of this folder needs: cmocka with the headers it wants first, and a main. */
#ifndef OD_TESTS_UNIT_BASE_CHECK_H
#define OD_TESTS_UNIT_BASE_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Runs the tests whose name matches argv[1], or all of them: the end of every main. */
#define check_run(name, tests, argc, argv) \
    ((argc) > 1 ? cmocka_set_test_filter((argv)[1]) : (void)0, cmocka_run_group_tests_name(name, tests, NULL, NULL))

#endif

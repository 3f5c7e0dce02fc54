/* DuckDB's texts as codes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "query/engine/engine_internal.h"

static void test_texts(void **state)
{
    static const struct {
        const char *text;
        od_code code;
        const char *message;
    } rows[] = {
        {"Binder Error: no column 'x'", OD_E_BINDER, "no column 'x'"},
        {"INTERNAL Error: broken", OD_E_INTERNAL, "broken"},
        {"IO Error: Cannot open file", OD_E_IO, "Cannot open file"},
        {"Invalid Input Error: no", OD_E_INVALID, "no"},
        {NULL, OD_E_INTERNAL, "the database failed without a reason"},
        {"FATAL Error: Failed: database has been invalidated", OD_E_FATAL, "Failed: database has been invalidated"},
        {"IO Error: Checkpoint failed for database \"x\". The database has been invalidated. Original error: full",
         OD_E_FATAL, "Checkpoint failed for database"},
        {"IO Error: Database \"x\" has been invalidated because checkpointing failed.", OD_E_FATAL, "Database \"x\""},
        /* What a statement can make DuckDB say. */
        {"Conversion Error: Could not convert string 'Database \"x\" has been invalidated' to INT32", OD_E_CONVERSION,
         "Could not convert"},
        {"Invalid Input Error: Database \"x\" has been invalidated", OD_E_INVALID, "Database"},
        {"Invalid Input Error: FATAL Error: Failed: database has been invalidated", OD_E_INVALID, "FATAL"},
        {"IO Error: Cannot open file \"Database \"x\" has been invalidated\"", OD_E_IO, "Cannot open"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        od_error err;
        od_code rc = od_duck_fail(&err, rows[i].text);

        if (rc != rows[i].code || err.code != rc || strncmp(err.message, rows[i].message, strlen(rows[i].message)) != 0)
            fail_msg("'%s': %s: %s", rows[i].text ? rows[i].text : "NULL", od_code_name(rc), err.message);
        assert_string_equal(err.sqlstate, od_code_sqlstate(rc));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_texts)};

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

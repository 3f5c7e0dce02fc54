/* Which worker is chosen, as a table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "query/gateway/route.h"

static const char *const sales[] = {"sales", "stock"};
static const char *const other[] = {"other"};

#define SALES .databases = sales, .database_count = 2
#define OTHER .databases = other, .database_count = 1
#define ANY .databases = NULL, .database_count = 0
#define UP .healthy = true
#define AT(place) .compute_context = place
#define NOWHERE .compute_context = ""

static void test_choices(void **state)
{
    static const struct {
        const char *name;
        route_worker workers[4];
        size_t count;
        const char *database, *context;
        int turns[4]; /* the choice at turn 0, 1, 2, 3 */
    } rows[] = {
        {"none is known", {{0}}, 0, "sales", "", {-1, -1, -1, -1}},
        {"round robin", {{ANY, UP, NOWHERE}, {ANY, UP, NOWHERE}, {ANY, UP, NOWHERE}}, 3, "x", "", {0, 1, 2, 0}},
        {"the database's own first",
         {{ANY, UP, NOWHERE}, {SALES, UP, NOWHERE}, {OTHER, UP, NOWHERE}},
         3,
         "sales",
         "",
         {1, 1, 1, 1}},
        {"two of the database take turns",
         {{SALES, UP, NOWHERE}, {OTHER, UP, NOWHERE}, {SALES, UP, NOWHERE}},
         3,
         "stock",
         "",
         {0, 2, 0, 2}},
        {"without regard to case", {{OTHER, UP, NOWHERE}, {SALES, UP, NOWHERE}}, 2, "SALES", "", {1, 1, 1, 1}},
        {"never one that serves others only", {{OTHER, UP, NOWHERE}}, 1, "sales", "", {-2, -2, -2, -2}},
        {"one that may serve any", {{OTHER, UP, NOWHERE}, {ANY, UP, NOWHERE}}, 2, "sales", "", {1, 1, 1, 1}},
        {"no database named: any worker", {{OTHER, UP, NOWHERE}, {SALES, UP, NOWHERE}}, 2, "", "", {0, 1, 0, 1}},
        {"healthy before unhealthy", {{SALES, NOWHERE}, {SALES, UP, NOWHERE}}, 2, "sales", "", {1, 1, 1, 1}},
        {"an unhealthy one as the last resort", {{SALES, NOWHERE}}, 1, "sales", "", {0, 0, 0, 0}},
        {"a database's own that is down before one that may not serve it",
         {{ANY, UP, NOWHERE}, {SALES, NOWHERE}},
         2,
         "sales",
         "",
         {1, 1, 1, 1}},
        {"compute context", {{SALES, UP, AT("eu")}, {SALES, UP, AT("us")}}, 2, "sales", "us", {1, 1, 1, 1}},
        {"an unknown compute context is no bar", {{SALES, UP, AT("eu")}}, 1, "sales", "us", {0, 0, 0, 0}},
        {"the database before the compute context",
         {{ANY, UP, AT("us")}, {SALES, UP, AT("eu")}},
         2,
         "sales",
         "us",
         {1, 1, 1, 1}},
        {"free before full", {{SALES, UP, NOWHERE, .full = true}, {SALES, UP, NOWHERE}}, 2, "sales", "", {1, 1, 1, 1}},
        {"full rather than none", {{SALES, UP, NOWHERE, .full = true}}, 1, "sales", "", {0, 0, 0, 0}},
        {"not one that was tried",
         {{SALES, UP, NOWHERE, .tried = true}, {SALES, NOWHERE}},
         2,
         "sales",
         "",
         {1, 1, 1, 1}},
        {"all were tried",
         {{SALES, UP, NOWHERE, .tried = true}, {OTHER, UP, NOWHERE}},
         2,
         "sales",
         "",
         {-3, -3, -3, -3}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const route_wish wish = {od_slice_str(rows[i].database), od_slice_str(rows[i].context)};

        for (uint64_t turn = 0; turn < 4; turn++) {
            int got = route_pick(rows[i].workers, rows[i].count, &wish, turn);

            if (got != rows[i].turns[turn])
                fail_msg("%s, turn %d: %d", rows[i].name, (int)turn, got);
        }
    }
}

static void test_a_large_turn_is_fine(void **state)
{
    const route_worker workers[2] = {{ANY, UP, NOWHERE}, {ANY, UP, NOWHERE}};
    const route_wish wish = {od_slice_str("x"), od_slice_str("")};

    (void)state;
    assert_int_equal(route_pick(workers, 2, &wish, UINT64_MAX), 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_a_large_turn_is_fine),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

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
        {"not a full one", {{SALES, UP, NOWHERE, .full = true}}, 1, "sales", "", {-4, -4, -4, -4}},
        {"the database's own that is full before one that may not serve it",
         {{SALES, UP, NOWHERE, .full = true}, {ANY, UP, NOWHERE}},
         2,
         "sales",
         "",
         {-4, -4, -4, -4}},
        {"a full one before one that is down",
         {{SALES, NOWHERE}, {SALES, UP, NOWHERE, .full = true}},
         2,
         "sales",
         "",
         {-4, -4, -4, -4}},
        {"one that is down may only seem to be full", {{SALES, NOWHERE, .full = true}}, 1, "sales", "", {0, 0, 0, 0}},
        {"tables before compute context",
         {{SALES, UP, AT("us")}, {SALES, UP, AT("eu"), .tables = 1}},
         2,
         "sales",
         "us",
         {1, 1, 1, 1}},
        {"the more tables, the better",
         {{SALES, UP, NOWHERE, .tables = 1}, {SALES, UP, NOWHERE, .tables = 2}, {SALES, UP, NOWHERE, .tables = 2}},
         3,
         "sales",
         "",
         {1, 2, 1, 2}},
        {"compute context among those of the tables",
         {{SALES, UP, AT("eu"), .tables = 1}, {SALES, UP, AT("us"), .tables = 1}, {SALES, UP, AT("us")}},
         3,
         "sales",
         "us",
         {1, 1, 1, 1}},
        {"the database before the tables",
         {{ANY, UP, NOWHERE, .tables = 1}, {SALES, UP, NOWHERE}},
         2,
         "sales",
         "",
         {1, 1, 1, 1}},
        {"healthy before the tables",
         {{SALES, NOWHERE, .tables = 1}, {SALES, UP, NOWHERE}},
         2,
         "sales",
         "",
         {1, 1, 1, 1}},
        {"free before the tables",
         {{SALES, UP, NOWHERE, .tables = 1, .full = true}, {SALES, UP, NOWHERE}},
         2,
         "sales",
         "",
         {1, 1, 1, 1}},
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
        const route_wish wish = {.database = od_slice_str(rows[i].database),
                                 .compute_context = od_slice_str(rows[i].context)};
        route_worker workers[4];

        memcpy(workers, rows[i].workers, sizeof workers);
        for (uint64_t turn = 0; turn < 4; turn++) {
            int got = route_pick(workers, rows[i].count, &wish);

            if (got != rows[i].turns[turn])
                fail_msg("%s, turn %d: %d", rows[i].name, (int)turn, got);
            if (got >= 0)
                workers[got].picked = turn + 1;
        }
    }
}

/* Two kinds of requests that alternate still use all workers of each. */
static void test_turns_are_the_workers_own(void **state)
{
    const route_wish of_sales = {.database = od_slice_str("sales")}, of_other = {.database = od_slice_str("other")};
    route_worker workers[4] = {{SALES, UP, NOWHERE}, {SALES, UP, NOWHERE}, {OTHER, UP, NOWHERE}, {OTHER, UP, NOWHERE}};
    int got[8];

    (void)state;
    for (uint64_t turn = 0; turn < 8; turn++) {
        got[turn] = route_pick(workers, 4, turn % 2 ? &of_other : &of_sales);
        workers[got[turn]].picked = turn + 1;
    }
    assert_memory_equal(got, ((int[]){0, 2, 1, 3, 0, 2, 1, 3}), sizeof got);
}

static void test_what_insists_goes_to_a_full_one(void **state)
{
    const route_worker workers[2] = {{SALES, UP, NOWHERE, .full = true}, {OTHER, UP, NOWHERE}};
    const route_wish wish = {.database = od_slice_str("sales"), .insist = true};

    (void)state;
    assert_int_equal(route_pick(workers, 2, &wish), 0);
}

static void test_tiers_of_providers(void **state)
{
    static const route_tier first[] = {{ROUTE_BY_PROVIDER, 1}, {.by = ROUTE_BY_TABLES}, {.by = ROUTE_BY_CONTEXT}},
                            last[] = {{.by = ROUTE_BY_TABLES}, {.by = ROUTE_BY_CONTEXT}, {ROUTE_BY_PROVIDER, 1}},
                            none[] = {{.by = ROUTE_BY_CONTEXT}};
    static const struct {
        const char *name;
        route_worker workers[3];
        const route_tier *tiers;
        size_t tier_count;
        int expected;
    } rows[] = {
        {"a provider before the tables",
         {{SALES, UP, NOWHERE, .tables = 1},
          {SALES, UP, NOWHERE, .ranks = {0, 5}},
          {SALES, UP, NOWHERE, .ranks = {9, 4}}},
         first,
         3,
         1},
        {"a provider after the tables",
         {{SALES, UP, NOWHERE, .tables = 1},
          {SALES, UP, NOWHERE, .ranks = {0, 5}},
          {SALES, UP, NOWHERE, .ranks = {9, 4}}},
         last,
         3,
         0},
        {"a provider decides between equals",
         {{SALES, UP, NOWHERE, .tables = 1}, {SALES, UP, NOWHERE, .tables = 1, .ranks = {0, 5}}, {SALES, UP, NOWHERE}},
         last,
         3,
         1},
        {"the database before a provider",
         {{ANY, UP, NOWHERE, .ranks = {0, 9}}, {OTHER, UP, NOWHERE, .ranks = {0, 9}}, {SALES, UP, NOWHERE}},
         first,
         3,
         2},
        {"a tier that is left out counts for nothing",
         {{SALES, UP, NOWHERE}, {SALES, UP, NOWHERE, .tables = 3, .ranks = {0, -1}}, {SALES, UP, NOWHERE, .tables = 2}},
         none,
         1,
         0},
        {"never one that a provider forbids",
         {{SALES, UP, NOWHERE, .ranks = {0, -1}}, {SALES, NOWHERE}, {OTHER, UP, NOWHERE}},
         last,
         3,
         1},
        {"all are forbidden",
         {{SALES, UP, NOWHERE, .ranks = {0, -1}}, {ANY, UP, NOWHERE, .ranks = {0, -1}}, {OTHER, UP, NOWHERE}},
         last,
         3,
         -5},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const route_wish wish = {
            .database = od_slice_str("sales"), .tiers = rows[i].tiers, .tier_count = rows[i].tier_count};
        int got = route_pick(rows[i].workers, 3, &wish);

        if (got != rows[i].expected)
            fail_msg("%s: %d", rows[i].name, got);
    }
}

static void test_nothing_is_open_where_one_worker_is_best(void **state)
{
    static const struct {
        route_worker workers[3];
        bool open;
    } rows[] = {
        {{{SALES, UP, NOWHERE}, {OTHER, UP, NOWHERE}, {ANY, UP, NOWHERE}}, false},
        {{{SALES, UP, NOWHERE}, {SALES, NOWHERE}, {SALES, UP, NOWHERE, .full = true}}, false},
        {{{SALES, UP, NOWHERE}, {OTHER, UP, NOWHERE}, {SALES, UP, AT("us")}}, true},
        {{{SALES, UP, NOWHERE, .tried = true}, {OTHER, UP, NOWHERE}, {SALES, UP, NOWHERE}}, false},
        {{{OTHER, UP, NOWHERE}, {OTHER, UP, NOWHERE}, {OTHER, UP, NOWHERE}}, false},
    };
    const route_wish wish = {.database = od_slice_str("sales")};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(route_is_open(rows[i].workers, 3, &wish), rows[i].open);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_turns_are_the_workers_own),
        cmocka_unit_test(test_what_insists_goes_to_a_full_one),
        cmocka_unit_test(test_tiers_of_providers),
        cmocka_unit_test(test_nothing_is_open_where_one_worker_is_best),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Providers of tiers: rules, and the order in which tiers count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "query/gateway/tiers.h"
#include "server/host.h"

/* ---- rules ---- */

static void test_rules_that_cannot_be_read(void **state)
{
    static const char *const rules[] = {"", "=", "a", "a=", "=w", "a=|", "a=w|", "a=|w", "a=w||x", "a*b=w", "*a=w"};

    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        od_routes *routes;
        od_error err;

        if (od_routes_create(&rules[i], 1, &routes, &err) != OD_E_INVALID)
            fail_msg("'%s'", rules[i]);
        assert_null(routes);
        assert_non_null(strstr(err.message, "is no route"));
    }
}

static void test_ranks_of_rules(void **state)
{
    static const char *const rules[] = {"analytics.hot=w3", "analytics.*=w1|w2", "logs*=context:region=eu",
                                        "shop.main.orders=w1"};
    static const struct {
        const char *sql, *worker, *context;
        int rank;
    } rows[] = {
        {"FROM analytics.events", "w1", "", 1},
        {"FROM analytics.events", "w2", "", 1},
        {"FROM analytics.events", "w3", "", 0},
        {"FROM analytics.hot", "w3", "", 1},
        {"FROM analytics.hot", "w1", "", 0},
        {"FROM analytics.a, analytics.b, analytics.hot", "w1", "", 2},
        {"FROM logs_2024 JOIN logs USING (i)", "w9", "region=eu", 2},
        {"FROM logs", "w9", "region=us", 0},
        {"FROM logs", "region=eu", "", 0},
        {"FROM orders", "w1", "", 1},
        {"FROM ORDERS", "w1", "", 1},
        {"FROM other.orders", "w1", "", 0},
        {"SELECT 'analytics.events'", "w1", "", 0},
    };
    od_federation_provider provider;
    od_routes *routes;

    (void)state;
    assert_int_equal(od_routes_create(rules, 4, &routes, NULL), OD_OK);
    provider = od_routes_provider(routes);
    assert_string_equal(provider.name, "routes");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const od_federation_worker worker = {.worker_id = rows[i].worker, .compute_context = rows[i].context};
        od_federation_request request = {.database = od_slice_str("shop")};
        reading read = {0};
        int rank;

        reading_take(&read, od_server_host(), od_slice_str(rows[i].sql), request.database);
        request.tables = &read.tables;
        rank = provider.rank(provider.arg, &request, &worker);
        if (rank != rows[i].rank)
            fail_msg("%s at %s: %d", rows[i].sql, rows[i].worker, rank);
        assert_true(read.known);
        request.tables = NULL;
        assert_int_equal(provider.rank(provider.arg, &request, &worker), 0);
        reading_release(&read);
    }
    od_routes_free(routes);
}

static void test_what_a_provider_sees_of_tables(void **state)
{
    od_federation_request request = {.database = od_slice_str("Shop")};
    reading read = {0};

    (void)state;
    assert_int_equal(od_federation_table_count(&request), 0);
    reading_take(&read, od_server_host(), od_slice_str("FROM Sales, x.y.z"), request.database);
    request.tables = &read.tables;
    assert_int_equal(od_federation_table_count(&request), 2);
    assert_string_equal(od_federation_table(&request, 0), "shop.main.sales");
    assert_string_equal(od_federation_table(&request, 1), "x.y.z");
    assert_string_equal(od_federation_table(&request, 2), "");
    assert_true(od_federation_table_is(&request, 0, "SHOP.*"));
    assert_false(od_federation_table_is(&request, 1, "shop.*"));
    assert_false(od_federation_table_is(&request, 2, "*"));
    reading_release(&read);
}

/* ---- tiers ---- */

/* The worker whose name is ARG is the best, one called "never" is banned. */
static int rank_name(void *arg, const od_federation_request *request, const od_federation_worker *worker)
{
    (void)request;
    return strcmp(worker->worker_id, "never") == 0 ? -1 : strcmp(worker->worker_id, arg) == 0;
}

static int rank_secret(void *arg, const od_federation_request *request, const od_federation_worker *worker)
{
    (void)arg;
    if (request->sql.len > 0 && !request->read)
        return -1;
    for (size_t i = 0; i < od_federation_table_count(request); i++) {
        if (od_federation_table_is(request, i, "secret.*") && strcmp(worker->compute_context, "inside") != 0)
            return -1;
    }
    return 0;
}

static od_federation_provider named(const char *name, const char *worker)
{
    return (od_federation_provider){.name = name, .rank = rank_name, .arg = (void *)(uintptr_t)worker};
}

static void test_names_of_tiers(void **state)
{
    static const struct {
        const char *names[4];
        size_t count;
        const char *error; /* NULL: none */
    } rows[] = {
        {{"tables", "context"}, 2, NULL},
        {{"database", "mine", "tables"}, 3, NULL},
        {{"context"}, 1, NULL},
        {{"tables", "database"}, 2, "no tier 'database'"},
        {{"tables", "yours"}, 2, "no tier 'yours'"},
        {{"mine", "tables", "mine"}, 3, "tier 'mine' comes twice"},
        {{"tables", "tables"}, 2, "tier 'tables' comes twice"},
    };
    const od_federation_provider mine = named("mine", "w");
    const od_federation_provider bad[] = {named("mine", "w"), named("mine", "w")}, taken = named("tables", "w");
    od_error err;
    tiers t;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        od_code rc = tiers_make(&mine, 1, rows[i].names, rows[i].count, &t, &err);

        assert_int_equal(rc, rows[i].error ? OD_E_INVALID : OD_OK);
        if (rows[i].error && !strstr(err.message, rows[i].error))
            fail_msg("%s", err.message);
    }
    assert_int_equal(tiers_make(bad, 2, NULL, 0, &t, &err), OD_E_INVALID);
    assert_int_equal(tiers_make(&taken, 1, NULL, 0, &t, &err), OD_E_INVALID);
    assert_int_equal(tiers_make(&mine, 1, NULL, 0, &t, &err), OD_OK);
    assert_int_equal(t.count, 3);
    assert_int_equal(t.order[0].by, ROUTE_BY_PROVIDER);
    assert_int_equal(t.order[1].by, ROUTE_BY_TABLES);
    assert_int_equal(t.order[2].by, ROUTE_BY_CONTEXT);
}

typedef struct {
    const char *id, *database, *table, *context;
} worker;

static void add(registry *r, const worker *w, int number)
{
    char place[30];

    snprintf(place, sizeof place, "127.0.0.1:%d", number + 1);
    assert_int_equal(registry_register(r,
                                       &(od_registration){.worker_id = w->id,
                                                          .endpoint = place,
                                                          .databases = &w->database,
                                                          .database_count = 1,
                                                          .tables = &w->table,
                                                          .table_count = w->table ? 1 : 0,
                                                          .compute_context = w->context},
                                       0, NULL),
                     OD_OK);
}

static void test_choices(void **state)
{
    static const char *const tables_first[] = {"database", "tables", "context", "mine"}, *const context_alone[] = {
                                                                                             "context"};
    static const struct {
        const char *name;
        worker workers[3];
        const char *const *tiers;
        size_t tier_count;
        const char *sql, *expected;
    } rows[] = {
        {"a provider before the tables",
         {{"a", "shop", "t", "x"}, {"best", "shop", NULL, ""}},
         NULL,
         0,
         "FROM t",
         "best"},
        {"the tables before a provider",
         {{"a", "shop", "t", ""}, {"best", "shop", NULL, ""}},
         tables_first,
         4,
         "FROM t",
         "a"},
        {"a provider after the tables",
         {{"a", "shop", "t", ""}, {"best", "shop", NULL, ""}},
         tables_first,
         4,
         "FROM u",
         "best"},
        {"the database before a provider",
         {{"best", "other", NULL, ""}, {"a", "shop", NULL, ""}},
         NULL,
         0,
         "FROM t",
         "a"},
        {"a tier that is left out",
         {{"best", "shop", "t", ""}, {"a", "shop", NULL, "x"}},
         context_alone,
         1,
         "FROM t",
         "a"},
        {"a ban", {{"never", "shop", "t", "x"}, {"a", "shop", NULL, ""}}, NULL, 0, "FROM t", "a"},
        {"a ban of all", {{"never", "shop", "t", "x"}, {"a", "other", NULL, ""}}, NULL, 0, "FROM t", "PERMISSION"},
        {"a ban does not count where its tier is left out",
         {{"never", "shop", "t", "x"}},
         context_alone,
         1,
         "FROM t",
         "never"},
    };
    const od_federation_provider mine = named("mine", "best");

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const tiers_request request = {
            .sql = od_slice_str(rows[i].sql), .database = od_slice_str("shop"), .compute_context = od_slice_str("x")};
        registry *r = NULL;
        worker_entry *w = NULL;
        reading read = {0};
        od_code rc;
        tiers t;

        assert_int_equal(registry_create(NULL, 0, 90000, &r, NULL), OD_OK);
        for (int k = 0; k < 3 && rows[i].workers[k].id; k++)
            add(r, &rows[i].workers[k], k);
        assert_int_equal(tiers_make(&mine, 1, rows[i].tiers, rows[i].tier_count, &t, NULL), OD_OK);
        rc = tiers_choose(&t, r, od_server_host(), &request, &read, NULL, 0, &w, NULL);
        if (strcmp(rc == OD_OK ? w->id : od_code_name(rc), rows[i].expected) != 0)
            fail_msg("%s: %s", rows[i].name, rc == OD_OK ? w->id : od_code_name(rc));
        worker_entry_unref(w);
        reading_release(&read);
        registry_free(r);
    }
}

/* One worker is enough for a statement to be read, if a provider bans by tables. */
static void test_a_ban_by_tables(void **state)
{
    static const worker outside = {"out", "shop", NULL, ""};
    const od_federation_provider provider = {.name = "secret", .reads = OD_TABLES_ALWAYS, .rank = rank_secret};
    tiers_request request = {.sql = od_slice_str("FROM secret.t"), .database = od_slice_str("shop")};
    reading first = {0}, second = {0};
    worker_entry *w = NULL;
    registry *r = NULL;
    tiers t;

    (void)state;
    assert_int_equal(registry_create(NULL, 0, 90000, &r, NULL), OD_OK);
    add(r, &outside, 0);
    assert_int_equal(tiers_make(&provider, 1, NULL, 0, &t, NULL), OD_OK);
    assert_int_equal(tiers_choose(&t, r, od_server_host(), &request, &first, NULL, 0, &w, NULL), OD_E_PERMISSION);
    reading_release(&first);
    request.sql = od_slice_str("FROM FROM");
    assert_int_equal(tiers_choose(&t, r, od_server_host(), &request, &first, NULL, 0, &w, NULL), OD_E_PERMISSION);
    request.sql = od_slice_str("FROM t");
    assert_int_equal(tiers_choose(&t, r, od_server_host(), &request, &second, NULL, 0, &w, NULL), OD_OK);
    worker_entry_unref(w);
    reading_release(&first);
    reading_release(&second);
    registry_free(r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules_that_cannot_be_read),
        cmocka_unit_test(test_ranks_of_rules),
        cmocka_unit_test(test_what_a_provider_sees_of_tables),
        cmocka_unit_test(test_names_of_tiers),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_a_ban_by_tables),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Registration, eviction, health. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "query/gateway/registry.h"

#define S INT64_C(1000000000)

static od_endpoint endpoint(const char *text)
{
    od_endpoint e;

    assert_int_equal(od_endpoint_parse(od_slice_str(text), &e, NULL), OD_OK);
    return e;
}

static od_registration registration(const char *id, const char *address, const char *const *databases, size_t count)
{
    return (od_registration){.worker_id = id,
                             .endpoint = address,
                             .databases = databases,
                             .database_count = count,
                             .compute_context = "",
                             .access_token = ""};
}

/* The address that is picked for DATABASE, or the code as text. */
static const char *pick(registry *r, const char *database, int64_t now)
{
    static char text[300];
    const registry_wish wish = {.route = {.database = od_slice_str(database)}};
    worker_entry *w;
    od_code rc = registry_pick(r, &wish, NULL, 0, now, &w, NULL);

    if (rc != OD_OK)
        return od_code_name(rc);
    memcpy(text, w->endpoint.authority, sizeof w->endpoint.authority);
    worker_entry_leave(w);
    worker_entry_unref(w);
    return text;
}

/* The Ith worker is probed, by what it is now. */
static void probed(registry *r, size_t i, const od_registration *found, const char *why, int64_t now)
{
    size_t count;
    worker_entry **list = registry_list(r, &count);

    assert_true(i < count);
    registry_probed(r, list[i], found, why, now, now + S);
    registry_list_free(list, count);
}

static void test_what_registers_must_be_dialable(void **state)
{
    static const struct {
        const char *endpoint;
        od_code rc;
        const char *text; /* in the message */
    } rows[] = {
        {"", OD_E_INVALID, "endpoint is required"},
        {"http://0.0.0.0:9898", OD_E_INVALID, "cannot be dialled"},
        {"http://[::]:9898", OD_E_INVALID, "cannot be dialled"},
        {"http://127.0.0.1:0", OD_E_INVALID, ""},
        {"not a uri", OD_E_INVALID, "endpoint of worker"},
        {"https://127.0.0.1:1", OD_OK, NULL},
        {"http://127.0.0.1:9898", OD_OK, NULL},
        {"10.0.0.1:9898", OD_OK, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const od_registration what = registration("w", rows[i].endpoint, NULL, 0);
        registry *r = NULL;
        od_error err;

        assert_int_equal(registry_create(NULL, 0, 90000, &r, NULL), OD_OK);
        if (registry_register(r, &what, 0, &err) != rows[i].rc)
            fail_msg("'%s': %s", rows[i].endpoint, err.message);
        if (rows[i].text)
            assert_non_null(strstr(err.message, rows[i].text));
        assert_int_equal(registry_count(r), rows[i].rc == OD_OK);
        registry_free(r);
    }
}

static void test_the_same_id_replaces(void **state)
{
    static const char *const a[] = {"a"}, *const b[] = {"b"};
    const od_registration first = registration("w", "127.0.0.1:1", a, 1),
                          second = registration("w", "127.0.0.1:2", b, 1);
    registry *r = NULL;

    (void)state;
    assert_int_equal(registry_create(NULL, 0, 90000, &r, NULL), OD_OK);
    assert_int_equal(registry_register(r, &first, 0, NULL), OD_OK);
    assert_string_equal(pick(r, "a", 0), "127.0.0.1:1");
    assert_int_equal(registry_register(r, &second, 0, NULL), OD_OK);
    assert_int_equal(registry_register(r, &second, 0, NULL), OD_OK);
    assert_int_equal(registry_count(r), 1);
    assert_string_equal(pick(r, "a", 0), "NOT_FOUND");
    assert_string_equal(pick(r, "b", 0), "127.0.0.1:2");
    registry_free(r);
}

static void test_one_endpoint_is_one_worker(void **state)
{
    const od_registration before = registration("old-name", "127.0.0.1:1", NULL, 0),
                          after = registration("new-name", "http://127.0.0.1:1", NULL, 0),
                          other = registration("other", "127.0.0.1:2", NULL, 0);
    registry *r = NULL;

    (void)state;
    assert_int_equal(registry_create(NULL, 0, 90000, &r, NULL), OD_OK);
    assert_int_equal(registry_register(r, &before, 0, NULL), OD_OK);
    assert_int_equal(registry_register(r, &other, 0, NULL), OD_OK);
    assert_int_equal(registry_register(r, &after, 0, NULL), OD_OK);
    assert_int_equal(registry_count(r), 2);
    assert_false(registry_heartbeat(r, "old-name", 0));
    assert_true(registry_heartbeat(r, "new-name", 0));
    assert_true(registry_heartbeat(r, "other", 0));
    registry_free(r);
}

static void test_no_more_than_it_said_it_can(void **state)
{
    const registry_wish wish = {0}, insists = {.route = {.insist = true}};
    od_registration what = registration("w", "127.0.0.1:1", NULL, 0);
    worker_entry *w[3];
    registry *r = NULL;

    (void)state;
    what.max_concurrency = 2;
    assert_int_equal(registry_create(NULL, 0, 90000, &r, NULL), OD_OK);
    assert_int_equal(registry_register(r, &what, 0, NULL), OD_OK);
    assert_int_equal(registry_pick(r, &wish, NULL, 0, 0, &w[0], NULL), OD_OK);
    assert_int_equal(registry_pick(r, &wish, NULL, 0, 0, &w[1], NULL), OD_OK);
    assert_int_equal(registry_pick(r, &wish, NULL, 0, 0, &w[2], NULL), OD_E_BUSY);
    assert_null(w[2]);
    assert_int_equal(registry_pick(r, &insists, NULL, 0, 0, &w[2], NULL), OD_OK);
    assert_int_equal(atomic_load(&w[2]->in_flight), 3);
    for (int i = 0; i < 2; i++)
        worker_entry_leave(w[i]);
    assert_int_equal(registry_pick(r, &wish, NULL, 0, 0, &w[0], NULL), OD_OK);
    worker_entry_unref(w[0]);
    for (int i = 0; i < 3; i++)
        worker_entry_unref(w[i]);
    registry_free(r);
}

static void test_a_worker_is_due_for_one_probe_at_a_time(void **state)
{
    const od_endpoint fixed[] = {endpoint("127.0.0.1:1"), endpoint("127.0.0.1:2")};
    const od_registration found = registration("", "", NULL, 0);
    worker_entry *a, *b;
    int64_t next;
    registry *r;

    (void)state;
    assert_int_equal(registry_create(fixed, 2, 90000, &r, NULL), OD_OK);
    assert_false(registry_all_asked(r));
    a = registry_due(r, S, &next);
    b = registry_due(r, S, &next);
    assert_non_null(a);
    assert_non_null(b);
    assert_ptr_not_equal(a, b);
    assert_null(registry_due(r, S, &next));
    assert_true(next == INT64_MAX);
    registry_probed(r, a, &found, "", S, 5 * S);
    assert_false(registry_all_asked(r));
    registry_probed(r, b, NULL, "gone", S, 2 * S);
    assert_true(registry_all_asked(r));
    assert_null(registry_due(r, S, &next));
    assert_true(next == 2 * S);
    worker_entry_unref(b);
    b = registry_due(r, 2 * S, &next);
    assert_string_equal(b->endpoint.authority, "127.0.0.1:2");
    assert_true(next == 5 * S);
    worker_entry_unref(a);
    worker_entry_unref(b);
    registry_free(r);
}

static void test_silence_evicts_and_heartbeats_keep(void **state)
{
    const od_registration what = registration("w", "127.0.0.1:1", NULL, 0);
    registry *r = NULL;

    (void)state;
    assert_int_equal(registry_create(NULL, 0, 90000, &r, NULL), OD_OK);
    assert_int_equal(registry_register(r, &what, 0, NULL), OD_OK);
    assert_false(registry_heartbeat(r, "other", 50 * S));
    assert_false(registry_heartbeat(r, "", 50 * S));
    assert_true(registry_heartbeat(r, "w", 50 * S));
    assert_int_equal(registry_evict(r, 139 * S), 0);
    assert_int_equal(registry_evict(r, 140 * S), 1);
    assert_false(registry_heartbeat(r, "w", 141 * S));
    assert_string_equal(pick(r, "a", 0), "PRECONDITION");
    registry_free(r);
}

static void test_fixed_ones_stay_and_join_those_that_register(void **state)
{
    static const char *const a[] = {"a"};
    const od_endpoint fixed[] = {endpoint("127.0.0.1:1"), endpoint("127.0.0.1:2")};
    const od_registration what = registration("w", "http://127.0.0.1:1", a, 1);
    registry *r = NULL;

    (void)state;
    assert_int_equal(registry_create(fixed, 2, 90000, &r, NULL), OD_OK);
    assert_int_equal(registry_evict(r, 1000 * S), 0);
    assert_string_equal(pick(r, "b", 0), "127.0.0.1:1");
    assert_string_equal(pick(r, "b", 0), "127.0.0.1:2");
    /* Now the first has told what it serves, which is not b. */
    assert_int_equal(registry_register(r, &what, 1000 * S, NULL), OD_OK);
    assert_string_equal(pick(r, "b", 0), "127.0.0.1:2");
    assert_string_equal(pick(r, "b", 0), "127.0.0.1:2");
    assert_string_equal(pick(r, "a", 0), "127.0.0.1:1");
    assert_int_equal(registry_evict(r, 1090 * S), 1);
    assert_int_equal(registry_count(r), 2);
    registry_free(r);
}

static void test_a_worker_that_failed_is_left_out_for_longer_each_time(void **state)
{
    const od_endpoint fixed[] = {endpoint("127.0.0.1:1"), endpoint("127.0.0.1:2")};
    static const int64_t pauses[] = {1, 2, 4, 8, 16, 30, 30};
    const registry_wish wish = {0};
    worker_entry *w = NULL, *other = NULL;
    registry *r = NULL;

    (void)state;
    assert_int_equal(registry_create(fixed, 2, 90000, &r, NULL), OD_OK);
    assert_int_equal(registry_pick(r, &wish, NULL, 0, 0, &w, NULL), OD_OK);
    for (size_t i = 0; i < sizeof pauses / sizeof *pauses; i++) {
        worker_entry_failed(w, 0);
        assert_false(worker_entry_healthy(w, pauses[i] * S - 1));
        assert_true(worker_entry_healthy(w, pauses[i] * S));
    }
    assert_string_equal(pick(r, "", 1), "127.0.0.1:2");
    assert_string_equal(pick(r, "", 1), "127.0.0.1:2");
    assert_int_equal(registry_pick(r, &wish, &w, 1, 1, &other, NULL), OD_OK);
    assert_ptr_not_equal(w, other);
    worker_entry_answered(w);
    assert_true(worker_entry_healthy(w, 0));
    worker_entry_unref(other);
    worker_entry_unref(w);
    registry_free(r);
}

static void test_the_number_of_workers_is_bounded(void **state)
{
    registry *r = NULL;
    char id[20], place[30];

    (void)state;
    assert_int_equal(registry_create(NULL, 0, 90000, &r, NULL), OD_OK);
    for (int i = 0; i <= REGISTRY_MAX; i++) {
        od_registration what = registration(id, place, NULL, 0);

        snprintf(id, sizeof id, "w%d", i);
        snprintf(place, sizeof place, "127.0.0.1:%d", i + 1);
        assert_int_equal(registry_register(r, &what, 0, NULL), i < REGISTRY_MAX ? OD_OK : OD_E_BUSY);
    }
    registry_free(r);
}

static void test_probe_teaches_the_databases_of_a_fixed_worker(void **state)
{
    static const char *const sales[] = {"sales"}, *const hr[] = {"hr"};
    const od_endpoint fixed[] = {endpoint("127.0.0.1:1"), endpoint("127.0.0.1:2")};
    od_registration found = registration("127.0.0.1:1", "127.0.0.1:1", sales, 1);
    registry *r;

    (void)state;
    assert_int_equal(registry_create(fixed, 2, 90000, &r, NULL), OD_OK);
    probed(r, 0, &found, "", S);
    found.databases = hr;
    probed(r, 1, &found, "", S);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(pick(r, "sales", S), "127.0.0.1:1");
        assert_string_equal(pick(r, "HR", S), "127.0.0.1:2");
    }
    assert_string_equal(pick(r, "other", S), "NOT_FOUND");
    /* It comes back as something else. */
    probed(r, 1, NULL, "gone", S);
    found.databases = sales;
    probed(r, 1, &found, "", S);
    assert_string_equal(pick(r, "hr", S), "NOT_FOUND");
    assert_int_equal(registry_count(r), 2);
    registry_free(r);
}

static void test_silent_worker_is_skipped_until_it_answers(void **state)
{
    const od_endpoint fixed[] = {endpoint("127.0.0.1:1"), endpoint("127.0.0.1:2")};
    const od_registration found = registration("", "", NULL, 0);
    int second = 0;
    registry *r;

    (void)state;
    assert_int_equal(registry_create(fixed, 2, 90000, &r, NULL), OD_OK);
    probed(r, 1, NULL, "connection refused", S);
    for (int i = 0; i < 4; i++)
        assert_string_equal(pick(r, "", 1000 * S), "127.0.0.1:1");
    probed(r, 1, &found, "", 1000 * S);
    for (int i = 0; i < 4; i++)
        second += strcmp(pick(r, "", 1000 * S), "127.0.0.1:2") == 0;
    assert_int_equal(second, 2);
    registry_free(r);
}

static void test_worker_that_leaves_is_forgotten(void **state)
{
    const od_registration w = registration("w", "127.0.0.1:9", NULL, 0);
    registry *r;

    (void)state;
    assert_int_equal(registry_create(NULL, 0, 90000, &r, NULL), OD_OK);
    assert_int_equal(registry_register(r, &w, S, NULL), OD_OK);
    assert_false(registry_leave(r, "v"));
    assert_true(registry_leave(r, "w"));
    assert_false(registry_leave(r, "w"));
    assert_int_equal(registry_count(r), 0);
    registry_free(r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_registers_must_be_dialable),
        cmocka_unit_test(test_the_same_id_replaces),
        cmocka_unit_test(test_one_endpoint_is_one_worker),
        cmocka_unit_test(test_no_more_than_it_said_it_can),
        cmocka_unit_test(test_a_worker_is_due_for_one_probe_at_a_time),
        cmocka_unit_test(test_silence_evicts_and_heartbeats_keep),
        cmocka_unit_test(test_fixed_ones_stay_and_join_those_that_register),
        cmocka_unit_test(test_a_worker_that_failed_is_left_out_for_longer_each_time),
        cmocka_unit_test(test_the_number_of_workers_is_bounded),
        cmocka_unit_test(test_probe_teaches_the_databases_of_a_fixed_worker),
        cmocka_unit_test(test_silent_worker_is_skipped_until_it_answers),
        cmocka_unit_test(test_worker_that_leaves_is_forgotten),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Slots and the queue before them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "query/gateway/admit.h"

static admit *make(unsigned slots, unsigned queue)
{
    admit *a = NULL;

    assert_int_equal(admit_create(slots, queue, &a, NULL), OD_OK);
    return a;
}

static admit_verdict enter(admit *a, ticket *t, const char *group)
{
    return admit_enter(a, t, od_slice_str(group), OD_DEADLINE_NEVER);
}

static void assert_counts(admit *a, unsigned in_flight, unsigned queued)
{
    admit_counts counts = admit_count(a);

    assert_int_equal(counts.in_flight, in_flight);
    assert_int_equal(counts.queued, queued);
}

/* Each step enters (+) or leaves (-) a ticket, with what must come of it. */
static void test_scripts(void **state)
{
    enum { STEPS = 12 };
    static const struct {
        const char *name;
        unsigned slots, queue;
        struct {
            int ticket; /* 1.. enters, negative leaves, 0 ends */
            const char *group;
            int verdict;         /* of entering */
            const char *granted; /* by leaving: their numbers */
            unsigned in_flight, queued;
        } steps[STEPS];
    } rows[] = {
        {"first come, first served",
         1,
         2,
         {{1, "", ADMIT_RUN, "", 1, 0},
          {2, "", ADMIT_WAIT, "", 1, 1},
          {3, "", ADMIT_WAIT, "", 1, 2},
          {4, "", ADMIT_FULL, "", 1, 2},
          {-1, "", 0, "2", 1, 1},
          {-2, "", 0, "3", 1, 0},
          {-3, "", 0, "", 0, 0}}},
        {"no queue", 1, 0, {{1, "", ADMIT_RUN, "", 1, 0}, {2, "", ADMIT_FULL, "", 1, 0}, {-1, "", 0, "", 0, 0}}},
        {"a statement does not wait for itself",
         1,
         4,
         {{1, "s", ADMIT_RUN, "", 1, 0},
          {2, "s", ADMIT_RUN, "", 1, 0},
          {3, "t", ADMIT_WAIT, "", 1, 1},
          {4, "s", ADMIT_RUN, "", 1, 1},
          {-1, "", 0, "", 1, 1},
          {-4, "", 0, "", 1, 1},
          {-2, "", 0, "3", 1, 0},
          {-3, "", 0, "", 0, 0}}},
        {"what waits of a statement comes in with its first",
         1,
         4,
         {{1, "", ADMIT_RUN, "", 1, 0},
          {2, "s", ADMIT_WAIT, "", 1, 1},
          {3, "", ADMIT_WAIT, "", 1, 2},
          {4, "s", ADMIT_WAIT, "", 1, 3},
          {-1, "", 0, "24", 1, 1},
          {-2, "", 0, "", 1, 1},
          {-4, "", 0, "3", 1, 0},
          {-3, "", 0, "", 0, 0}}},
        {"a new one does not overtake",
         2,
         4,
         {{1, "", ADMIT_RUN, "", 1, 0},
          {2, "", ADMIT_RUN, "", 2, 0},
          {3, "", ADMIT_WAIT, "", 2, 1},
          {-3, "", 0, "", 2, 0},
          {-1, "", 0, "", 1, 0},
          {3, "", ADMIT_RUN, "", 2, 0},
          {-2, "", 0, "", 1, 0},
          {-3, "", 0, "", 0, 0}}},
        {"leaving twice gives one slot back",
         1,
         1,
         {{1, "", ADMIT_RUN, "", 1, 0},
          {-1, "", 0, "", 0, 0},
          {-1, "", 0, "", 0, 0},
          {2, "", ADMIT_RUN, "", 1, 0},
          {-1, "", 0, "", 1, 0},
          {-2, "", 0, "", 0, 0}}},
    };

    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        admit *a = make(rows[r].slots, rows[r].queue);
        ticket tickets[10] = {{0}};

        for (size_t s = 0; s < STEPS && rows[r].steps[s].ticket != 0; s++) {
            int number = rows[r].steps[s].ticket;
            char granted[10] = "";
            size_t n = 0;

            if (number > 0) {
                admit_verdict v = enter(a, &tickets[number], rows[r].steps[s].group);

                if ((int)v != rows[r].steps[s].verdict)
                    fail_msg("%s, step %zu: verdict %d", rows[r].name, s, (int)v);
            } else {
                for (ticket *t = admit_leave(a, &tickets[-number]); t; t = t->next)
                    granted[n++] = (char)('0' + (t - tickets));
                if (strcmp(granted, rows[r].steps[s].granted) != 0)
                    fail_msg("%s, step %zu: granted '%s'", rows[r].name, s, granted);
            }
            assert_counts(a, rows[r].steps[s].in_flight, rows[r].steps[s].queued);
        }
        assert_counts(a, 0, 0);
        admit_free(a);
    }
}

static void test_group_is_capped(void **state)
{
    admit *a = make(2, 4);
    ticket tickets[ADMIT_GROUP_MAX + 2] = {{0}};

    (void)state;
    for (int i = 0; i < ADMIT_GROUP_MAX; i++)
        assert_int_equal(enter(a, &tickets[i], "s"), ADMIT_RUN);
    assert_counts(a, 1, 0);
    assert_int_equal(enter(a, &tickets[ADMIT_GROUP_MAX], "s"), ADMIT_RUN);
    assert_counts(a, 2, 0);
    assert_int_equal(enter(a, &tickets[ADMIT_GROUP_MAX + 1], "s"), ADMIT_WAIT);
    assert_ptr_equal(admit_leave(a, &tickets[3]), &tickets[ADMIT_GROUP_MAX + 1]);
    for (int i = 0; i < ADMIT_GROUP_MAX + 2; i++)
        assert_null(admit_leave(a, &tickets[i]));
    assert_counts(a, 0, 0);
    admit_free(a);
}

static void test_withdraw_only_what_waits(void **state)
{
    admit *a = make(1, 2);
    ticket t[3] = {{0}};

    (void)state;
    assert_false(admit_withdraw(a, &t[0]));
    assert_int_equal(enter(a, &t[0], ""), ADMIT_RUN);
    assert_int_equal(enter(a, &t[1], ""), ADMIT_WAIT);
    assert_int_equal(enter(a, &t[2], ""), ADMIT_WAIT);
    assert_false(admit_withdraw(a, &t[0]));
    assert_true(admit_withdraw(a, &t[1]));
    assert_false(admit_withdraw(a, &t[1]));
    assert_ptr_equal(admit_leave(a, &t[0]), &t[2]);
    assert_null(admit_leave(a, &t[2]));
    assert_counts(a, 0, 0);
    admit_free(a);
}

static void test_expire_takes_those_whose_time_is_over(void **state)
{
    admit *a = make(1, 8);
    ticket t[4] = {{0}};
    int64_t next;

    (void)state;
    assert_int_equal(enter(a, &t[0], ""), ADMIT_RUN);
    assert_int_equal(admit_enter(a, &t[1], od_slice_str(""), (od_deadline){100}), ADMIT_WAIT);
    assert_int_equal(admit_enter(a, &t[2], od_slice_str(""), (od_deadline){300}), ADMIT_WAIT);
    assert_int_equal(admit_enter(a, &t[3], od_slice_str(""), (od_deadline){200}), ADMIT_WAIT);
    assert_null(admit_expire(a, 99, &next));
    assert_int_equal(next, 100);
    assert_ptr_equal(admit_expire(a, 200, &next), &t[1]);
    assert_ptr_equal(t[1].next, &t[3]);
    assert_null(t[3].next);
    assert_int_equal(next, 300);
    assert_counts(a, 1, 1);
    assert_ptr_equal(admit_leave(a, &t[0]), &t[2]);
    assert_null(admit_expire(a, 1000, &next));
    assert_int_equal(next, INT64_MAX);
    assert_null(admit_leave(a, &t[2]));
    admit_free(a);
}

/* Against a model that only counts. */
static void test_random_never_leaks_a_slot(void **state)
{
    enum { TICKETS = 40, ROUNDS = 20000 };
    static ticket t[TICKETS];
    static const char *const groups[] = {"", "", "a", "b", "c"};
    admit *a = make(4, 10);
    unsigned seed = 7;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        ticket *one;

        seed = seed * 1103515245U + 12345U;
        one = &t[(seed >> 16) % TICKETS];
        if (one->state == TICKET_OUT) {
            assert_in_range(enter(a, one, groups[(seed >> 8) % 5]), ADMIT_RUN, ADMIT_FULL);
        } else if ((seed >> 4) % 3 == 0) {
            admit_withdraw(a, one);
        } else {
            for (ticket *g = admit_leave(a, one); g; g = g->next)
                assert_int_equal(g->state, TICKET_RUNNING);
        }
        assert_in_range(admit_count(a).in_flight, 0, 4);
        assert_in_range(admit_count(a).queued, 0, 10);
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < TICKETS; i++)
            admit_leave(a, &t[i]);
    }
    assert_counts(a, 0, 0);
    admit_free(a);
}

static void test_more_slots_let_in_what_waits(void **state)
{
    ticket t[6] = {0}, *granted;
    admit *a = make(1, 4);

    (void)state;
    assert_int_equal(enter(a, &t[0], "s"), ADMIT_RUN);
    assert_int_equal(enter(a, &t[1], ""), ADMIT_WAIT);
    assert_int_equal(enter(a, &t[2], "u"), ADMIT_WAIT);
    assert_int_equal(enter(a, &t[3], "v"), ADMIT_WAIT);
    assert_int_equal(admit_resize(a, 3, 1, &granted, NULL), OD_OK);
    assert_ptr_equal(granted, &t[1]);
    assert_ptr_equal(granted->next, &t[2]);
    assert_null(granted->next->next);
    assert_counts(a, 3, 1);
    assert_int_equal(admit_count(a).max_in_flight, 3);
    assert_int_equal(enter(a, &t[4], "w"), ADMIT_FULL);
    /* Groups that were made before and after. */
    assert_int_equal(enter(a, &t[4], "s"), ADMIT_RUN);
    assert_int_equal(enter(a, &t[5], "u"), ADMIT_RUN);
    for (int i = 0; i < 6; i++)
        admit_leave(a, &t[i]);
    assert_counts(a, 0, 0);
    admit_free(a);
}

static void test_fewer_slots_take_none_away(void **state)
{
    ticket t[4] = {0}, *granted;
    admit *a = make(3, 4);

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(enter(a, &t[i], ""), ADMIT_RUN);
    assert_int_equal(admit_resize(a, 1, 4, &granted, NULL), OD_OK);
    assert_null(granted);
    assert_counts(a, 3, 0);
    assert_int_equal(enter(a, &t[3], ""), ADMIT_WAIT);
    assert_null(admit_leave(a, &t[0]));
    assert_null(admit_leave(a, &t[1]));
    assert_ptr_equal(admit_leave(a, &t[2]), &t[3]);
    admit_leave(a, &t[3]);
    assert_counts(a, 0, 0);
    admit_free(a);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scripts),
        cmocka_unit_test(test_group_is_capped),
        cmocka_unit_test(test_withdraw_only_what_waits),
        cmocka_unit_test(test_expire_takes_those_whose_time_is_over),
        cmocka_unit_test(test_more_slots_let_in_what_waits),
        cmocka_unit_test(test_fewer_slots_take_none_away),
        cmocka_unit_test(test_random_never_leaks_a_slot),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

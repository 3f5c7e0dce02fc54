#include "storage/extent.h"

#include <string.h>

#include "base/alloc.h"
#include "unit/base/check.h"

#define SPACE 4096U

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return *state >> 33;
}

/* What a byte of the model says: which put it came from, and which byte of that. */
typedef struct {
    uint32_t position;
    uint32_t skip;
} cell;

static void compare(const od_extent_map *map, const cell *model)
{
    uint64_t at = 0;
    size_t count = 0;
    od_extent extent;
    uint64_t last_end = 0;

    while (od_extent_map_find(map, at, &extent)) {
        assert_true(extent.length > 0 && extent.offset >= last_end);
        for (; at < extent.offset; at++)
            assert_int_equal(model[at].position, 0);
        for (; at < extent.offset + extent.length; at++) {
            assert_int_equal(model[at].position, extent.position);
            assert_int_equal(model[at].skip, extent.skip + (at - extent.offset));
        }
        last_end = at;
        count++;
    }
    for (; at < SPACE; at++)
        assert_int_equal(model[at].position, 0);
    assert_int_equal(count, map->count);
}

static void test_newest_wins_as_in_an_array(void **state)
{
    static cell model[SPACE];

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        od_extent_map map = {0};
        uint64_t dice = seed;

        memset(model, 0, sizeof model);
        for (uint32_t step = 1; step <= 400; step++) {
            uint32_t at = (uint32_t)(next_random(&dice) % SPACE);
            uint32_t len = 1 + (uint32_t)(next_random(&dice) % 300);

            if (next_random(&dice) % 10 == 0) {
                od_extent_map_cut(&map, at);
                memset(model + at, 0, (SPACE - at) * sizeof *model);
            } else {
                if (len > SPACE - at)
                    len = SPACE - at;
                assert_int_equal(
                    od_extent_map_put(&map, &(od_extent){.offset = at, .length = len, .position = step}, NULL), OD_OK);
                for (uint32_t i = 0; i < len; i++)
                    model[at + i] = (cell){.position = step, .skip = i};
            }
            if (step % 20 == 0)
                compare(&map, model);
        }
        compare(&map, model);
        od_extent_map_clear(&map);
        assert_int_equal(map.count, 0);
        od_extent_map_clear(&map);
    }
}

static void test_one_inside_another_splits_it(void **state)
{
    od_extent_map map = {0};
    od_extent got;

    (void)state;
    assert_int_equal(
        od_extent_map_put(&map, &(od_extent){.offset = 100, .length = 100, .position = 7, .layer = 1}, NULL), OD_OK);
    assert_int_equal(
        od_extent_map_put(&map, &(od_extent){.offset = 140, .length = 20, .position = 9, .layer = 2}, NULL), OD_OK);
    assert_int_equal(map.count, 3);
    assert_true(od_extent_map_find(&map, 0, &got));
    assert_int_equal(got.offset, 100);
    assert_int_equal(got.length, 40);
    assert_true(od_extent_map_find(&map, 140, &got));
    assert_int_equal(got.layer, 2);
    assert_true(od_extent_map_find(&map, 160, &got));
    assert_int_equal(got.skip, 60);
    assert_int_equal(got.length, 40);
    assert_int_equal(got.layer, 1);
    assert_false(od_extent_map_find(&map, 200, &got));
    od_extent_map_clear(&map);
}

static void test_without_memory_nothing_changes(void **state)
{
    od_extent_map map = {0};
    od_error err = {0};
    od_extent got;

    (void)state;
    assert_int_equal(od_extent_map_put(&map, &(od_extent){.offset = 0, .length = 50, .position = 1}, NULL), OD_OK);
    od_alloc_fail_after(0);
    assert_int_equal(od_extent_map_put(&map, &(od_extent){.offset = 10, .length = 5, .position = 2}, &err),
                     OD_E_NO_MEMORY);
    od_alloc_fail_after(-1);
    assert_int_equal(map.count, 1);
    assert_true(od_extent_map_find(&map, 12, &got));
    assert_int_equal(got.length, 50);

    assert_int_equal(od_extent_map_reserve(&map, NULL), OD_OK);
    od_alloc_fail_after(0);
    assert_int_equal(od_extent_map_put(&map, &(od_extent){.offset = 10, .length = 5, .position = 2}, NULL), OD_OK);
    od_alloc_fail_after(-1);
    assert_int_equal(map.count, 3);
    od_extent_map_clear(&map);
}

static void test_ascending_puts_stay_fast(void **state)
{
    od_extent_map map = {0};
    od_extent got;

    (void)state;
    /* A list or an unbalanced tree would need 10^10 steps. */
    for (uint64_t i = 0; i < 100000; i++)
        assert_int_equal(od_extent_map_put(&map, &(od_extent){.offset = i * 8, .length = 8, .position = i}, NULL),
                         OD_OK);
    for (uint64_t i = 0; i < 100000; i++) {
        assert_true(od_extent_map_find(&map, i * 8 + 7, &got));
        assert_int_equal(got.position, i);
    }
    od_extent_map_clear(&map);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_newest_wins_as_in_an_array),
        cmocka_unit_test(test_one_inside_another_splits_it),
        cmocka_unit_test(test_without_memory_nothing_changes),
        cmocka_unit_test(test_ascending_puts_stay_fast),
    };

    return check_run("storage.extent", tests, argc, argv);
}

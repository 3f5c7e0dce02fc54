/* Functions of a worker of ours that rows go into, and whose rows streams share, asked by our client in every way. */
#include <stdio.h>
#include <string.h>

#include "arrow/schema.h"
#include "support/fixture_sql.h"
#include "support/worker_world.h"
#include "unit/base/check.h"
#include "vgi/client/bound.h"
#include "vgi/worker/worker_internal.h"

static struct ArrowSchema numbers; /* of one column */

static od_code try_bind(world *w, const char *function, od_vgi_function_type type, od_vgi_bound **bound, od_error *err)
{
    const od_vgi_bind bind = {
        .function = function, .schema = "other", .type = type, .input = &numbers, .secrets_resolved = true};

    return od_vgi_bind_function(w->vgi, &w->context, &bind, bound, err);
}

static od_vgi_bound *bind(world *w, const char *function, od_vgi_function_type type)
{
    od_vgi_bound *bound;

    assert_int_equal(try_bind(w, function, type, &bound, NULL), OD_OK);
    return bound;
}

static od_vgi_scan *open_rows(world *w, const od_vgi_bound *bound, bool streaming)
{
    const od_vgi_scan_options options = {.input = &numbers, .streaming = streaming};
    od_vgi_scan *scan;

    assert_int_equal(od_vgi_scan_open(w->vgi, &w->context, bound, &options, &scan, NULL), OD_OK);
    return scan;
}

/* The last number of what comes, and how many there are. */
static int64_t last_of(struct ArrowArray *array, int64_t *rows)
{
    const struct ArrowArray *column = array->children[0];
    int64_t last = array->length > 0 ? ((const int64_t *)column->buffers[1])[column->offset + array->length - 1] : -1;

    *rows = array->length;
    array->release(array);
    return last;
}

static int64_t read_one(od_vgi_scan *scan)
{
    struct ArrowArray array;
    int64_t rows, value;

    do
        assert_int_equal(od_vgi_scan_next(scan, &array, NULL), OD_OK);
    while (array.release != NULL && array.length == 0 && (array.release(&array), true));
    assert_non_null(array.release);
    value = last_of(&array, &rows);
    assert_int_equal(rows, 1);
    do {
        assert_int_equal(od_vgi_scan_next(scan, &array, NULL), OD_OK);
        if (array.release != NULL)
            assert_int_equal((last_of(&array, &rows), rows), 0);
    } while (array.release != NULL);
    return value;
}

/* ---- scalar functions ---- */

static void check_scalar(world *w)
{
    od_vgi_bound *bound = bind(w, "counted", OD_VGI_SCALAR_FUNCTION);
    od_vgi_scan *scan = open_rows(w, bound, false);
    struct ArrowArray in, out;
    od_error err = {.code = OD_OK};
    int64_t rows;
    bool more;

    assert_string_equal(od_vgi_bound_schema(bound)->children[0]->name, "sum_0");
    for (int64_t n = 5; n > 0; n -= 2) {
        fixture_integers(0, 1, n, &in);
        assert_int_equal(od_vgi_scan_put(scan, &in, false, &out, &more, NULL), OD_OK);
        assert_false(more);
        (void)last_of(&out, &rows);
        assert_int_equal(rows, n);
    }
    assert_int_equal(od_vgi_scan_finish(scan, NULL), OD_OK);
    od_vgi_scan_close(scan);
    /* One too few, and a failure: neither is a value. */
    for (w->state.fail_at = 1; w->state.fail_at <= 2; w->state.fail_at++) {
        scan = open_rows(w, bound, false);
        fixture_integers(0, 1, 4, &in);
        assert_int_equal(od_vgi_scan_put(scan, &in, false, &out, &more, &err), OD_E_UNKNOWN);
        assert_non_null(strstr(err.message, w->state.fail_at == 1 ? "gives 3 values for 4" : "cannot be counted"));
        od_vgi_scan_close(scan);
    }
    w->state.fail_at = 0;
    od_vgi_bound_free(bound);
}

static void test_a_scalar_function_gives_a_value_for_each(void **state)
{
    (void)state;
    world_each_way(check_scalar);
}

/* ---- functions over rows ---- */

static void check_rows(world *w)
{
    od_vgi_bound *bound = bind(w, "running", OD_VGI_TABLE_FUNCTION);
    od_vgi_scan *scan = open_rows(w, bound, true), *other = open_rows(w, bound, true), *kept = NULL;
    struct ArrowArray in, out;
    int64_t rows;
    bool more;

    for (int i = 0; i < 2; i++) {
        fixture_integers(1, 1, 3, &in);
        assert_int_equal(od_vgi_scan_put(scan, &in, false, &out, &more, NULL), OD_OK);
        assert_true(more);
        assert_int_equal(last_of(&out, &rows), 6 * (i + 1));
        /* More of the same: it is not added again. */
        fixture_integers(1, 1, 3, &in);
        assert_int_equal(od_vgi_scan_put(scan, &in, true, &out, &more, NULL), OD_OK);
        assert_false(more);
        assert_int_equal(last_of(&out, &rows), 6 * (i + 1));
    }
    fixture_integers(100, 1, 1, &in);
    assert_int_equal(od_vgi_scan_put(other, &in, false, &out, &more, NULL), OD_OK);
    out.release(&out);
    /* Each has its own. */
    assert_int_equal(od_vgi_scan_finalize(scan, &kept, NULL), OD_OK);
    assert_int_equal(read_one(kept), 12);
    od_vgi_scan_close(kept);
    assert_int_equal(od_vgi_scan_finalize(other, &kept, NULL), OD_OK);
    assert_int_equal(read_one(kept), 100);
    od_vgi_scan_close(kept);
    od_vgi_scan_close(scan);
    od_vgi_scan_close(other);
    /* One that is given up is not kept open. */
    od_vgi_scan_close(open_rows(w, bound, true));
    od_vgi_bound_free(bound);
    /* Some clients ask for an end that nobody promised: it has no rows. */
    bound = bind(w, "endless", OD_VGI_TABLE_FUNCTION);
    scan = open_rows(w, bound, true);
    assert_int_equal(od_vgi_scan_finalize(scan, &kept, NULL), OD_OK);
    assert_int_equal(od_vgi_scan_next(kept, &out, NULL), OD_OK);
    assert_null(out.release);
    od_vgi_scan_close(kept);
    od_vgi_scan_close(scan);
    od_vgi_bound_free(bound);
}

static void test_rows_go_in_and_out_and_have_an_end(void **state)
{
    (void)state;
    world_each_way(check_rows);
}

static void check_buffered(world *w)
{
    od_vgi_bound *bound = bind(w, "whole", OD_VGI_TABLE_BUFFERING_FUNCTION);
    od_vgi_buffered *buffered[2];
    od_vgi_scan *scan;
    struct ArrowArray in;
    size_t parts;

    for (int i = 0; i < 2; i++)
        assert_int_equal(od_vgi_buffered_open(w->vgi, &w->context, bound, "whole", "other", &buffered[i], NULL), OD_OK);
    for (int64_t i = 0; i < 4; i++) {
        fixture_integers(10, 0, 5, &in);
        assert_int_equal(od_vgi_buffered_put(buffered[i > 0], &numbers, &in, NULL), OD_OK);
    }
    assert_int_equal(od_vgi_buffered_combine(buffered[1], &parts, NULL), OD_OK);
    assert_int_equal(parts, 1);
    assert_int_equal(od_vgi_buffered_scan(buffered[1], 0, &scan, NULL), OD_OK);
    assert_int_equal(read_one(scan), 150);
    od_vgi_scan_close(scan);
    /* What was given is not there any more. */
    assert_int_not_equal(od_vgi_buffered_scan(buffered[1], 0, &scan, NULL), OD_OK);
    od_vgi_buffered_close(buffered[1]);
    od_vgi_buffered_close(buffered[0]);
    od_vgi_bound_free(bound);
}

static void test_all_rows_are_kept_until_their_end(void **state)
{
    (void)state;
    world_each_way(check_buffered);
}

/* ---- streams ---- */

static int64_t count_rows(od_vgi_scan *scan, int64_t most)
{
    struct ArrowArray array = {0};
    int64_t rows, sum = 0;

    while (sum < most) {
        assert_int_equal(od_vgi_scan_next(scan, &array, NULL), OD_OK);
        if (array.release == NULL)
            break;
        (void)last_of(&array, &rows);
        sum += rows;
    }
    return sum;
}

static void check_streams(world *w)
{
    const od_vgi_bind asked = {.function = "ones", .schema = "other", .type = OD_VGI_TABLE_FUNCTION};
    od_vgi_statistics told;
    od_vgi_bound *bound;
    od_vgi_scan *first, *second;

    assert_int_equal(od_vgi_bind_function(w->vgi, &w->context, &asked, &bound, NULL), OD_OK);
    assert_int_equal(od_vgi_bound_statistics(w->vgi, &w->context, bound, &told, NULL), OD_OK);
    assert_int_equal(told.count, 1);
    assert_true(told.items->distinct_count.known && told.items->distinct_count.value == 7 && told.items->has_range);
    assert_true(told.items->min == -3 && told.items->max > 9e18);
    od_vgi_answer_free(told.answer);
    assert_int_equal(od_vgi_scan_open(w->vgi, &w->context, bound, NULL, &first, NULL), OD_OK);
    assert_int_equal(od_vgi_scan_max_workers(first), 3);
    assert_int_equal(count_rows(first, 1), 1);
    assert_int_equal(od_vgi_scan_share(first, &second, NULL), OD_OK);
    assert_int_equal(count_rows(second, 1), 1);
    assert_int_equal(count_rows(second, 100) + count_rows(first, 100), 48);
    od_vgi_scan_close(second);
    /* Who comes when all have ended has none: the rows came. */
    assert_int_equal(od_vgi_scan_share(first, &second, NULL), OD_OK);
    assert_int_equal(count_rows(second, 100), 0);
    od_vgi_scan_close(second);
    od_vgi_scan_close(first);
    od_vgi_bound_free(bound);
}

static void test_streams_share_the_rows_of_a_scan(void **state)
{
    (void)state;
    world_each_way(check_streams);
}

/* ---- what a call is made with ---- */

static void check_calls(world *w)
{
    od_vgi_values nothing = {.schema = {.release = NULL}};
    struct ArrowSchema texts;
    const od_vgi_bind unresolved = {
        .function = "whole", .schema = "other", .type = OD_VGI_TABLE_BUFFERING_FUNCTION, .input = &numbers};
    od_vgi_bind other = {
        .function = "running", .schema = "other", .type = OD_VGI_TABLE_FUNCTION, .arguments = &nothing};
    od_vgi_bound *bound;
    od_error err = {.code = OD_OK};

    assert_int_equal(od_vgi_bind_function(w->vgi, &w->context, &unresolved, &bound, NULL), OD_OK);
    assert_int_equal(od_vgi_bound_secret_count(bound), 1);
    assert_true(od_slice_equal(od_vgi_bound_secrets(bound)->secret_type, od_slice_str("purse")));
    assert_true(od_slice_equal(od_vgi_bound_secrets(bound)->scope, od_slice_str("s3://there")));
    od_vgi_bound_free(bound);
    /* Without rows, with others, and with another kind of function. */
    assert_int_equal(od_vgi_bind_function(w->vgi, &w->context, &other, &bound, &err), OD_E_UNKNOWN);
    assert_non_null(strstr(err.message, "function 'running' takes rows"));
    fixture_columns("t:u", &texts);
    other.input = &texts;
    assert_int_equal(od_vgi_bind_function(w->vgi, &w->context, &other, &bound, &err), OD_E_UNKNOWN);
    assert_non_null(strstr(err.message, "these rows are not numbers"));
    other.type = OD_VGI_SCALAR_FUNCTION;
    assert_int_equal(od_vgi_bind_function(w->vgi, &w->context, &other, &bound, &err), OD_E_UNKNOWN);
    assert_non_null(strstr(err.message, "there is no scalar function 'running'"));
    od_schema_release(&texts);
}

static void test_calls_are_checked(void **state)
{
    (void)state;
    world_each_way(check_calls);
}

static void check_options(world *w)
{
    struct ArrowSchema schema;
    struct ArrowArray array;
    od_vgi_values options;
    od_vgi_attach attach = {.name = "hot", .options = &options};
    od_vgi_attached attached;
    od_vgi_bound *bound;
    od_error err = {.code = OD_OK};

    fixture_columns("factor:l", &schema);
    fixture_integers(4, 0, 1, &array);
    options = (od_vgi_values){schema, array};
    assert_int_equal(od_vgi_attach_catalog(w->vgi, (od_vgi_interrupt){0}, &attach, &attached, NULL), OD_OK);
    od_schema_release(&options.schema);
    world of = *w;
    of.context.attach = attached.opaque;
    bound = bind(&of, "running", OD_VGI_TABLE_FUNCTION);
    assert_string_equal(od_vgi_bound_schema(bound)->children[0]->name, "sum_4");
    od_vgi_bound_free(bound);
    od_vgi_answer_free(attached.answer);
    for (int i = 0; i < 2; i++) {
        fixture_columns(i == 0 ? "shiny:l" : "factor:tsu:", &schema);
        fixture_integers(4, 0, 1, &array);
        options = (od_vgi_values){schema, array};
        assert_int_equal(od_vgi_attach_catalog(w->vgi, (od_vgi_interrupt){0}, &attach, &attached, &err), OD_E_UNKNOWN);
        assert_non_null(strstr(err.message, i == 0 ? "no option 'shiny'" : "the option 'factor' is of another type"));
        od_schema_release(&options.schema);
    }
}

static void test_options_of_attach_come_back(void **state)
{
    (void)state;
    world_each_way(check_options);
}

/* ---- adding ---- */

static void test_what_makes_no_sense_is_refused(void **state)
{
    numbers_state numbers_are = {0};
    od_vgiw *worker = numbers_worker(&numbers_are);
    const vgiw_function *all = worker->functions.items;
    const char *const nothing[] = {"nothing"};
    od_vgiw_function f = {.schema = "other", .name = "f", .kind = OD_VGIW_ROWS};
    od_vgiw_setting setting = {.name = "more", .type = &numbers};
    const od_vgiw_branch branches[] = {{.function = "numbers", .writable = 1}, {.function = "numbers", .writable = 1}};
    const int32_t third[] = {2};
    const od_vgiw_columns key = {third, 1};
    od_vgiw_table table = {.name = "t", .columns = &numbers, .branches = branches, .branch_count = 2};
    od_vgiw_view view = {.schema = "nowhere", .name = "v", .definition = "SELECT 1"};
    od_vgiw_error err = {.code = OD_VGIW_OK};

    (void)state;
    assert_int_equal(od_vgiw_add_function(worker, &f, &err), OD_VGIW_INVALID);
    assert_non_null(strstr(err.message, "lacks bind, open, put or close"));
    for (size_t i = 0; i < worker->functions.count; i++) {
        if (strcmp(all[i].name, "running") != 0)
            continue;
        f = all[i].call;
        f.schema = "other";
        f.name = "RUNNING";
        f.parameters = &all[i].parameters;
    }
    assert_int_equal(od_vgiw_add_function(worker, &f, &err), OD_VGIW_EXISTS);
    f.name = "g";
    f.settings = nothing;
    f.setting_count = 1;
    assert_int_equal(od_vgiw_add_function(worker, &f, &err), OD_VGIW_NOT_FOUND);
    assert_non_null(strstr(err.message, "needs the setting 'nothing'"));
    f.setting_count = 0;
    f.filters = 1;
    assert_int_equal(od_vgiw_add_function(worker, &f, &err), OD_VGIW_INVALID);
    assert_non_null(strstr(err.message, "takes rows, so it has no projection, filters or streams"));
    assert_int_equal(od_vgiw_add_setting(worker, &setting, &err), OD_VGIW_EXISTS);
    assert_int_equal(od_vgiw_add_table(worker, &table, &err), OD_VGIW_INVALID);
    assert_non_null(strstr(err.message, "2 branches are writable"));
    table.branch_count = 1;
    table.primary_key = &key;
    assert_int_equal(od_vgiw_add_table(worker, &table, &err), OD_VGIW_INVALID);
    assert_non_null(strstr(err.message, "a constraint is on column 2 of 1"));
    assert_int_equal(od_vgiw_add_view(worker, &view, &err), OD_VGIW_NOT_FOUND);
    od_vgiw_free(worker);
    assert_int_equal(od_vgiw_create(&(od_vgiw_catalog){.name = "x", .generation = "3.0"}, &worker, &err),
                     OD_VGIW_INVALID);
    assert_non_null(strstr(err.message, "generation '3.0'"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_scalar_function_gives_a_value_for_each),
        cmocka_unit_test(test_rows_go_in_and_out_and_have_an_end),
        cmocka_unit_test(test_all_rows_are_kept_until_their_end),
        cmocka_unit_test(test_streams_share_the_rows_of_a_scan),
        cmocka_unit_test(test_calls_are_checked),
        cmocka_unit_test(test_options_of_attach_come_back),
        cmocka_unit_test(test_what_makes_no_sense_is_refused),
    };
    int failed;

    fixture_columns("n:l", &numbers);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    od_schema_release(&numbers);
    return failed;
}

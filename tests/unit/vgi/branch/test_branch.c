#include "unit/base/check.h"

#include <string.h>

#include "vgi/branch.h"

#define HOT                    \
    {                          \
        .function_name = "hot" \
    }
#define COLD                                                                        \
    {                                                                               \
        .source_catalog = "lake", .source_schema = "main", .source_table = "events" \
    }

static void test_a_list_must_make_sense(void **state)
{
    static const struct {
        od_branch branches[3];
        size_t count;
        const char *error; /* NULL: fine */
    } cases[] = {
        {{HOT}, 1, NULL},
        {{HOT, COLD}, 2, NULL},
        {{HOT, {.format_name = "parquet", .location_count = 1}}, 2, NULL},
        {{{.function_name = "hot", .writable = true}, COLD}, 2, NULL},
        {{{.function_name = ""}}, 0, "VGI table returned zero scan branches [table: s.t]"},
        {{{.function_name = ""}}, 1, "VGI branch 0 names nothing to read [table: s.t]"},
        {{HOT, {.source_table = "t"}}, 2, "VGI branch 1 reads table 't' of no catalog [table: s.t]"},
        {{{.format_name = "parquet"}}, 1, "VGI branch 0 of format 'parquet' names no file [table: s.t]"},
        {{{.function_name = "f", .writable = true}, HOT, {.function_name = "g", .writable = true}},
         3,
         "VGI multi-branch table declared 2 writable branches (ordinals: 0, 2); exactly zero or one is allowed "
         "[table: s.t]"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        od_error err = {0};
        od_code rc = od_branches_check(cases[i].branches, cases[i].count, "s.t", &err);

        assert_int_equal(rc, cases[i].error ? OD_E_BINDER : OD_OK);
        assert_string_equal(err.message, cases[i].error ? cases[i].error : "");
    }
}

static void test_a_table_comes_before_a_format_before_a_function(void **state)
{
    od_branch branch = {.function_name = "f", .format_name = "parquet", .source_table = "t"};

    (void)state;
    assert_int_equal(od_branch_kind_of(&branch), OD_BRANCH_TABLE);
    branch.source_table = "";
    assert_int_equal(od_branch_kind_of(&branch), OD_BRANCH_FORMAT);
    branch.format_name = NULL;
    assert_int_equal(od_branch_kind_of(&branch), OD_BRANCH_FUNCTION);
}

static void test_too_many_branches_are_refused(void **state)
{
    static od_branch many[OD_BRANCH_MAX + 1];

    (void)state;
    for (size_t i = 0; i < COUNT(many); i++)
        many[i].function_name = "f";
    assert_int_equal(od_branches_check(many, OD_BRANCH_MAX, "t", NULL), OD_OK);
    assert_int_equal(od_branches_check(many, OD_BRANCH_MAX + 1, "t", NULL), OD_E_BINDER);
}

static void test_columns_are_found_by_name(void **state)
{
    static const od_branch_column table[] = {{"A", "BIGINT"}, {"b", "VARCHAR"}, {"c", "DATE"}};
    static const od_branch_column branch[] = {{"B", "VARCHAR"}, {"a", "INTEGER"}};
    od_column_plan plan[3];

    (void)state;
    assert_int_equal(od_branch_columns_plan(table, 3, branch, 2, plan, NULL), OD_OK);
    assert_int_equal(plan[0].way, OD_COLUMN_CAST);
    assert_int_equal(plan[0].source, 1);
    assert_int_equal(plan[1].way, OD_COLUMN_AS_IT_IS);
    assert_int_equal(plan[1].source, 0);
    assert_int_equal(plan[2].way, OD_COLUMN_MISSING);
}

static void test_columns_that_no_one_asked_for_are_refused(void **state)
{
    static const od_branch_column table[] = {{"a", "BIGINT"}};
    static const od_branch_column more[] = {{"a", "BIGINT"}, {"x", "BIGINT"}};
    static const od_branch_column twice[] = {{"a", "BIGINT"}, {"A", "BIGINT"}};
    od_column_plan plan[1];
    od_error err = {0};

    (void)state;
    assert_int_equal(od_branch_columns_plan(table, 1, more, 2, plan, &err), OD_E_BINDER);
    assert_string_equal(err.message, "VGI branch returned column 'x' which is not in the table's declared schema");
    assert_int_equal(od_branch_columns_plan(table, 1, twice, 2, plan, &err), OD_E_BINDER);
    assert_string_equal(err.message, "VGI branch returned two columns of the name 'a'");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_list_must_make_sense),
        cmocka_unit_test(test_a_table_comes_before_a_format_before_a_function),
        cmocka_unit_test(test_too_many_branches_are_refused),
        cmocka_unit_test(test_columns_are_found_by_name),
        cmocka_unit_test(test_columns_that_no_one_asked_for_are_refused),
    };

    return check_run("branches", tests, argc, argv);
}

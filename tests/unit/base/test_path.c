#include "base/path.h"

#include <string.h>

#include "base/alloc.h"
#include "unit/base/check.h"

static void test_names_that_go_down_are_joined(void **state)
{
    static const char *const cases[][3] = {
        {"/data", "layer.seg", "/data/layer.seg"},
        {"/data/", "a/b/c", "/data/a/b/c"},
        {"/data///", "a", "/data/a"},
        {"/", "a", "/a"},
        {"rel", "a", "rel/a"},
        {".", "a", "./a"},
        {"..", "a", "../a"},
        {"/d", "..a", "/d/..a"},
        {"/d", "a..", "/d/a.."},
        {"/d", "...", "/d/..."},
        {"/d", ".hidden", "/d/.hidden"},
        {"/d", "a b\\c:\xC3\xA4", "/d/a b\\c:\xC3\xA4"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        od_buf out = {0};

        assert_int_equal(od_path_join(&out, cases[i][0], od_slice_str(cases[i][1]), NULL), OD_OK);
        assert_string_equal((const char *)out.data, cases[i][2]);
        assert_int_equal(out.len, strlen(cases[i][2]));
        od_buf_release(&out);
    }
}

static void test_names_that_escape_are_refused(void **state)
{
    static const struct {
        const char *name;
        size_t len;
        const char *why;
    } cases[] = {
        {"", 0, "is empty"},
        {"/etc/passwd", 11, "is absolute"},
        {"/", 1, "is absolute"},
        {"..", 2, "'..'"},
        {"../a", 4, "'..'"},
        {"a/..", 4, "'..'"},
        {"a/../../b", 9, "'..'"},
        {".", 1, "'.'"},
        {"a/./b", 5, "'.'"},
        {"a//b", 4, "empty component"},
        {"a/", 2, "empty component"},
        {"a\0b", 3, "control character"},
        {"..\0", 3, "control character"},
        {"a\nb", 3, "control character"},
        {"a\x7F", 2, "control character"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        od_buf out = {0};
        od_error err = {0};
        od_slice name = od_slice_of(cases[i].name, cases[i].len);

        assert_int_equal(od_path_check(name, &err), OD_E_INVALID);
        assert_non_null(strstr(err.message, cases[i].why));
        assert_null(strpbrk(err.message, "\n\x7F"));
        assert_int_equal(od_path_join(&out, "/d", name, &err), OD_E_INVALID);
        assert_null(out.data);
    }
}

static void test_lengths_are_bounded(void **state)
{
    char name[5000];
    od_buf out = {0};
    od_error err = {0};

    (void)state;
    memset(name, 'n', sizeof name);
    assert_int_equal(od_path_join(&out, "/d", od_slice_of(name, 255), &err), OD_OK);
    assert_int_equal(od_path_join(&out, "/d", od_slice_of(name, 256), &err), OD_E_INVALID);
    for (size_t i = 200; i < sizeof name; i += 200)
        name[i] = '/';
    /* "/d" and "/" before it: 4,095 in all is the longest. */
    assert_int_equal(od_path_join(&out, "/d", od_slice_of(name, 4092), &err), OD_OK);
    assert_int_equal(od_path_join(&out, "/d", od_slice_of(name, 4093), &err), OD_E_INVALID);
    assert_int_equal(od_path_join(&out, "", od_slice_str("a"), &err), OD_E_INVALID);
    od_buf_release(&out);
}

static void test_join_appends_or_leaves_the_buffer(void **state)
{
    char name[200];
    od_buf out = {0};

    (void)state;
    memset(name, 'n', sizeof name);
    assert_int_equal(od_buf_append(&out, "file:", 5, NULL), OD_OK);
    od_alloc_fail_after(0);
    assert_int_equal(od_path_join(&out, "/d", od_slice_of(name, sizeof name), NULL), OD_E_NO_MEMORY);
    od_alloc_fail_after(-1);
    assert_int_equal(out.len, 5);
    assert_int_equal(od_path_join(&out, "/d", od_slice_str("a"), NULL), OD_OK);
    assert_string_equal((const char *)out.data, "file:/d/a");
    od_buf_release(&out);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_that_go_down_are_joined),
        cmocka_unit_test(test_names_that_escape_are_refused),
        cmocka_unit_test(test_lengths_are_bounded),
        cmocka_unit_test(test_join_appends_or_leaves_the_buffer),
    };

    return check_run("base.path", tests, argc, argv);
}

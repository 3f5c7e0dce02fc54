#include "unit/base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "openduck/v1/execution.pb-c.h"
#include "vgi/layout.h"

/* Reads TEXT as a file does; the file's name in messages is replaced by "FILE". */
static od_code read_text(const char *text, od_layout *out, od_error *err)
{
    char path[] = "/tmp/openduck_layout_XXXXXX", message[OD_ERROR_MESSAGE_SIZE];
    int fd = mkstemp(path);
    const char *at;
    od_code rc;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    rc = od_layout_read(path, out, err);
    unlink(path);
    at = strstr(err->message, path);
    if (at) {
        snprintf(message, sizeof message, "FILE%s", at + strlen(path));
        memcpy(err->message, message, sizeof message);
    }
    return rc;
}

static const char whole[] = "# of the events\n"
                            "[catalog]\n"
                            "comment = All of it\n"
                            "tables = listed\n"
                            "[companion lake]\n"
                            "target = ducklake:postgres:dbname=lake\n"
                            "option data_path = /srv/lake/\n"
                            "secret = key\n"
                            "optional = TRUE\n"
                            "\n"
                            "[table \"My \"\"own\"\"\".events]\n"
                            "split = SELECT min(ts) FROM events\n"
                            "extension = icu\n"
                            "[branch]\n"
                            "  from = events\n"
                            "where = ts >= {split}\n"
                            "[branch]\n"
                            "from = lake.main.\"old.events\"\n"
                            "where = ts < {split} AND {split} > 'x = 1'\n"
                            "[branch]\n"
                            "files = parquet\n"
                            "location = a.parquet\n"
                            "location = b.parquet\n";

static void assert_is_whole(const od_layout *layout)
{
    const od_layout_companion *lake;
    const od_layout_table *table;
    const od_layout_branch *branch;

    assert_int_equal(OD_LAYOUT_COUNT(layout->companions, od_layout_companion), 1);
    lake = OD_LAYOUT_AT(layout->companions, od_layout_companion, 0);
    assert_string_equal(lake->alias, "lake");
    assert_string_equal(lake->target, "ducklake:postgres:dbname=lake");
    assert_string_equal(lake->secret, "key");
    assert_null(lake->type);
    assert_true(lake->optional && !lake->hidden);
    assert_string_equal(OD_LAYOUT_AT(lake->options, od_layout_option, 0)->name, "data_path");
    assert_string_equal(OD_LAYOUT_AT(lake->options, od_layout_option, 0)->value, "/srv/lake/");
    table = OD_LAYOUT_AT(layout->tables, od_layout_table, 0);
    assert_int_equal(table->name.count, 2);
    assert_string_equal(table->name.parts[0], "My \"own\"");
    assert_string_equal(*OD_LAYOUT_AT(table->extensions, char *, 0), "icu");
    assert_int_equal(OD_LAYOUT_COUNT(table->branches, od_layout_branch), 3);
    branch = OD_LAYOUT_AT(table->branches, od_layout_branch, 1);
    assert_int_equal(branch->from.count, 3);
    assert_string_equal(branch->from.parts[2], "old.events");
    assert_string_equal(branch->where, "ts < {split} AND {split} > 'x = 1'");
    branch = OD_LAYOUT_AT(table->branches, od_layout_branch, 2);
    assert_string_equal(branch->format, "parquet");
    assert_int_equal(OD_LAYOUT_COUNT(branch->locations, char *), 2);
    assert_true(od_layout_has_companion(layout, "LAKE"));
    assert_false(od_layout_has_companion(layout, "lak"));
}

static void test_a_file_says_it_all(void **state)
{
    od_layout layout = {0};
    od_error err = {0};

    (void)state;
    assert_int_equal(read_text(whole, &layout, &err), OD_OK);
    assert_string_equal(layout.comment, "All of it");
    assert_true(layout.listed);
    assert_is_whole(&layout);
    assert_int_equal(od_layout_check(&layout, &err), OD_OK);
    od_layout_release(&layout);
}

static void test_a_layout_goes_over_the_wire_as_protobuf_has_it(void **state)
{
    Openduck__V1__DatabaseLayout *pb;
    od_layout layout = {0}, back = {0};
    od_error err = {0};
    od_buf bytes = {0};

    (void)state;
    assert_int_equal(read_text(whole, &layout, &err), OD_OK);
    assert_int_equal(od_layout_encode(&layout, &bytes, &err), OD_OK);
    assert_int_equal(od_layout_decode(od_slice_of(bytes.data, bytes.len), &back, &err), OD_OK);
    assert_is_whole(&back);
    pb = openduck__v1__database_layout__unpack(NULL, bytes.len, bytes.data);
    assert_non_null(pb);
    assert_string_equal(pb->companions[0]->target, "ducklake:postgres:dbname=lake");
    assert_true(pb->companions[0]->optional);
    assert_string_equal(pb->companions[0]->options[0]->value, "/srv/lake/");
    assert_string_equal(pb->tables[0]->split, "SELECT min(ts) FROM events");
    assert_int_equal(pb->tables[0]->branches[1]->n_from, 3);
    assert_string_equal(pb->tables[0]->branches[0]->condition, "ts >= {split}");
    assert_string_equal(pb->tables[0]->branches[2]->locations[1], "b.parquet");
    openduck__v1__database_layout__free_unpacked(pb, NULL);
    /* Cut anywhere, it is refused or is a smaller layout, and nothing is lost. */
    for (size_t i = 0; i < bytes.len; i++) {
        od_layout cut = {0};

        if (od_layout_decode(od_slice_of(bytes.data, i), &cut, &err) != OD_OK)
            assert_int_equal(err.code, OD_E_PROTOCOL);
        od_layout_release(&cut);
    }
    od_buf_release(&bytes);
    od_layout_release(&layout);
    od_layout_release(&back);
}

static void test_what_is_no_layout_is_refused(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
    } cases[] = {
        {"\x0a\x00", 2},                                                       /* a companion without a name */
        {"\x12\x00", 2},                                                       /* a table without one */
        {"\x12\x09\x0a\x01g\x0a\x01g\x0a\x01g", 11},                           /* a table's name of three parts */
        {"\x12\x11\x2a\x0f\x0a\x01g\x0a\x01g\x0a\x01g\x0a\x01g\x0a\x01g", 19}, /* a branch's of five */
        {"\x0a\x03\x0a\x01\xff", 5},                                           /* no UTF-8 */
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        od_layout layout = {0};
        od_error err = {0};

        assert_int_equal(od_layout_decode(od_slice_of(cases[i].bytes, cases[i].len), &layout, &err), OD_E_PROTOCOL);
        od_layout_release(&layout);
    }
}

static void test_a_layout_that_makes_no_sense_is_told(void **state)
{
    static const struct {
        const char *text, *told;
    } cases[] = {
        {"[companion a]\ntarget = duckdb:x\n[companion A]\ntarget = duckdb:y", "line 3: there are two companions 'A'"},
        {"[companion a]\ntarget = http:x", "not permitted"},
        {"[table t]", "line 1: VGI table returned zero scan branches [table: main.t]"},
        {"[table t]\n[branch]\nfrom = lake.main.t", "line 2: there is no companion 'lake'"},
        {"[table t]\n[branch]\nfrom = t\n[table main.T]\n[branch]\nfrom = t",
         "line 4: there are two tables 'T' in schema 'main'"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        od_layout layout = {0};
        od_error err = {0};

        assert_int_equal(read_text(cases[i].text, &layout, &err), OD_OK);
        assert_int_not_equal(od_layout_check(&layout, &err), OD_OK);
        assert_non_null(strstr(err.message, cases[i].told));
        od_layout_release(&layout);
    }
}

static void test_a_line_that_is_wrong_is_named(void **state)
{
    static const struct {
        const char *text, *told;
    } cases[] = {
        {"x = 1", "FILE:1: this is in no section: 'x'"},
        {"\n[catalog]\nx", "FILE:3: no 'name = value': 'x'"},
        {"[catalog]\nx = 1", "FILE:2: [catalog] has no 'x'"},
        {"[catalog]\ncomment =", "FILE:2: no value for 'comment'"},
        {"[table t", "FILE:1: a section without its end: '[table t'"},
        {"[companion a]\nhidden = yes", "FILE:2: neither true nor false: 'yes'"},
        {"[companion a]\nwhere = true", "FILE:2: [companion] has no 'where'"},
        {"[companion a]", "FILE:1: there is no target of companion 'a'"},
        {"[table t]\n[branch]\nfrom = a.b.c.d", "FILE:3: no name: 'a.b.c.d'"},
        {"[table t]\n[branch]\nfrom = a\nfrom = b", "FILE:4: told twice: 'from'"},
        {"[table t]\n[branch]\nfrom = a\nfiles = csv", "FILE:2: a branch has either 'from' or 'files': '[branch]'"},
        {"[table t]\n[branch]\nfiles = csv", "FILE:2: 'files' and 'location' go together: '[branch]'"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        od_layout layout = {0};
        od_error err = {0};

        assert_int_equal(read_text(cases[i].text, &layout, &err), OD_E_INVALID);
        assert_string_equal(err.message, cases[i].told);
        od_layout_release(&layout);
    }
}

static void test_a_file_that_is_not_there_is_told(void **state)
{
    od_layout layout = {0};
    od_error err = {0};

    (void)state;
    assert_int_equal(od_layout_read("/nonexistent/layout", &layout, &err), OD_E_NOT_FOUND);
    assert_non_null(strstr(err.message, "/nonexistent/layout"));
    od_layout_release(&layout);
}

static void test_the_split_stands_wherever_a_condition_names_it(void **state)
{
    static const struct {
        const char *where, *told;
    } cases[] = {
        {NULL, ""},
        {"ts > 1", "ts > 1"},
        {"{split}", "CAST('1' AS INTEGER)"},
        {"a < {split} OR b = {split} {", "a < CAST('1' AS INTEGER) OR b = CAST('1' AS INTEGER) {"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        od_buf text = {0};

        assert_int_equal(od_layout_condition(cases[i].where, "CAST('1' AS INTEGER)", &text, NULL), OD_OK);
        assert_string_equal(od_buf_cstr(&text), cases[i].told);
        od_buf_release(&text);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file_says_it_all),
        cmocka_unit_test(test_a_layout_goes_over_the_wire_as_protobuf_has_it),
        cmocka_unit_test(test_what_is_no_layout_is_refused),
        cmocka_unit_test(test_a_layout_that_makes_no_sense_is_told),
        cmocka_unit_test(test_a_line_that_is_wrong_is_named),
        cmocka_unit_test(test_a_file_that_is_not_there_is_told),
        cmocka_unit_test(test_the_split_stands_wherever_a_condition_names_it),
    };

    return check_run("layouts", tests, argc, argv);
}

#include "unit/base/check.h"

#include <stdio.h>
#include <string.h>

#include "vgi/companion.h"

typedef struct {
    const char *target;
    const char *db_type;
    const char *type; /* NULL: not permitted */
    const char *path; /* or what the error must hold */
} target_case;

static void test_only_listed_schemes_are_attached(void **state)
{
    static const target_case cases[] = {
        {"ducklake:sqlite:/d/m.sqlite", "", "ducklake", "sqlite:/d/m.sqlite"},
        {"DuckLake:/d/m.ducklake", NULL, "ducklake", "/d/m.ducklake"},
        {"ducklake:postgres:host=h", "ducklake", "ducklake", "postgres:host=h"},
        {"sqlite:/d/m.sqlite", "ducklake", "ducklake", "sqlite:/d/m.sqlite"},
        {"ducklake:https://h/m.ducklake", "", "ducklake", "https://h/m.ducklake"},
        {"postgres:host=h dbname=d", "", "postgres", "host=h dbname=d"},
        {"postgres:host=h", "POSTGRES", "postgres", "host=h"},
        {"host=h dbname=d", "postgres", "postgres", "host=h dbname=d"},
        {"dbname=d options=a:b", "postgres", "postgres", "dbname=d options=a:b"},
        {"postgresql://u@h/d", "", "postgres", "postgresql://u@h/d"},
        {"postgres://u@h/d", "", "postgres", "postgres://u@h/d"},
        {"postgresql://u@h/d", "postgres", "postgres", "postgresql://u@h/d"},
        {"postgresql:host=h", "", "postgres", "host=h"},
        {"mysql://u@h/d", "mysql", "mysql", "mysql://u@h/d"},
        {"mysql:host=h", "", "mysql", "host=h"},
        {"/d/x.duckdb", "duckdb", "duckdb", "/d/x.duckdb"},
        {"duckdb:/d/x.duckdb", "duckdb", "duckdb", "/d/x.duckdb"},
        {"s3://bucket/x.duckdb", "duckdb", "duckdb", "s3://bucket/x.duckdb"},
        {":memory:", "duckdb", "duckdb", ":memory:"},
        {"C:/d/x.duckdb", "duckdb", "duckdb", "C:/d/x.duckdb"},
        {"sqlite:/d/x.db", "", "sqlite", "/d/x.db"},
        {"iceberg:warehouse", "", "iceberg", "warehouse"},
        {"arn:aws:s3tables:eu:1:bucket/b", "iceberg", "iceberg", "arn:aws:s3tables:eu:1:bucket/b"},
        {"/d/x.duckdb", "", NULL, "scheme ''"},
        {"", "", NULL, "scheme ''"},
        {"x", "foo", NULL, "scheme 'foo'"},
        {"http://h/x", "", NULL, "scheme 'http'"},
        {"ftp://nope/x", "", NULL, "scheme 'ftp' is not permitted (allowed: ducklake, iceberg, postgres"},
        {"vgi:worker", "", NULL, "scheme 'vgi'"},
        {"vgi:worker", "duckdb", NULL, "scheme 'vgi'"},
        {"sqlite:/d/x", "postgres", NULL, "scheme 'sqlite'"},
        {"postgres:host=h", "duckdb", NULL, "scheme 'postgres'"},
        {"postgres://h/d", "duckdb", NULL, "scheme 'postgres'"},
        {"https://h/d", "sqlite", NULL, "scheme 'https'"},
        {"ducklake:vgi:worker", "", NULL, "scheme 'vgi'"},
        {"vgi:worker", "ducklake", NULL, "scheme 'vgi'"},
        {"ducklake:ducklake:x", "", NULL, "scheme 'ducklake'"},
        {"ducklake:iceberg:x", "", NULL, "scheme 'iceberg'"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        od_companion_wish wish = {.alias = "lake", .target = cases[i].target, .db_type = cases[i].db_type};
        od_companion_terms terms = {.catalog = "w"};
        od_companion_request request = {0};
        od_error err = {0};
        od_code rc = od_companion_request_make(&wish, &terms, &request, &err);

        if (!cases[i].type) {
            assert_int_equal(rc, OD_E_BINDER);
            assert_non_null(strstr(err.message, cases[i].path));
            assert_null(request.path);
            continue;
        }
        if (rc != OD_OK)
            fail_msg("%s: %s", cases[i].target, err.message);
        assert_string_equal(request.type, cases[i].type);
        assert_string_equal(request.path, cases[i].path);
        od_companion_request_release(&request);
    }
}

static void test_an_alias_is_no_name_that_has_a_meaning(void **state)
{
    static const char *const cases[] = {"", "temp", "SYSTEM", "main", "W"};

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        od_companion_wish wish = {.alias = cases[i], .target = "sqlite:x"};
        od_companion_terms terms = {.catalog = "w"};
        od_companion_request request = {0};

        assert_int_equal(od_companion_request_make(&wish, &terms, &request, NULL), OD_E_BINDER);
    }
}

typedef struct {
    const char *target;
    const char *key;
    const char *value;
    const char *secret_ref;
    bool secrets;
    const char *option; /* "key=value" that the request has; NULL: refused */
    bool skipped;
} secret_case;

static void test_a_secret_goes_by_name_and_only_if_the_user_lets_it(void **state)
{
    static const secret_case cases[] = {
        {"postgres:host=h", NULL, NULL, "s", true, "secret=s", false},
        {"mysql:host=h", NULL, NULL, "s", true, "secret=s", false},
        {"iceberg:w", NULL, NULL, "s", true, "secret=s", false},
        {"ducklake:postgres:host=h", NULL, NULL, "s", true, "meta_secret=s", false},
        {"postgres:host=h", NULL, NULL, "s", false, "", true},
        {"ducklake:sqlite:/m", NULL, NULL, "s", true, NULL, false},
        {"ducklake:/m", NULL, NULL, "s", true, NULL, false},
        {"duckdb:/m", NULL, NULL, "s", true, NULL, false},
        /* Not by the back door. */
        {"postgres:host=h", "Secret", "s", NULL, false, NULL, false},
        {"ducklake:postgres:host=h", "META_SECRET", "s", NULL, false, NULL, false},
        {"postgres:host=h", "secret", "t", "s", true, "secret=t", false},
        {"duckdb:/m", "type", "vgi", NULL, true, NULL, false},
        {"duckdb:/m", "hidden", "true", NULL, true, NULL, false},
        {"ducklake:/m", "META_TYPE", "vgi", NULL, true, NULL, false},
        {"ducklake:/m", "META_TYPE", "sqlite", NULL, true, "meta_type=sqlite", false},
        {"ducklake:/m", "DATA_PATH", "s3://b", NULL, false, "data_path=s3://b", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const secret_case *c = &cases[i];
        od_companion_option option = {c->key, c->value};
        od_companion_wish wish = {.alias = "lake", .target = c->target, .secret_ref = c->secret_ref};
        od_companion_terms terms = {.catalog = "w", .secrets = c->secrets};
        od_companion_request request = {0};
        char text[64] = "";

        wish.options = &option;
        wish.option_count = c->key ? 1 : 0;
        if (!c->option) {
            assert_int_equal(od_companion_request_make(&wish, &terms, &request, NULL), OD_E_BINDER);
            continue;
        }
        assert_int_equal(od_companion_request_make(&wish, &terms, &request, NULL), OD_OK);
        if (request.option_count > 0)
            snprintf(text, sizeof(text), "%s=%s", request.options[0].key, request.options[0].value);
        assert_string_equal(text, c->option);
        assert_int_equal(request.secret_skipped, c->skipped);
        od_companion_request_release(&request);
    }
}

static void test_what_may_share_one_attachment(void **state)
{
    static const od_companion_option ab[] = {{"A", "1"}, {"b", "2"}};
    static const od_companion_option ba[] = {{"B", "2"}, {"a", "1"}};
    static const od_companion_option other[] = {{"a", "1"}, {"b", "3"}};
    const od_companion_wish base = {
        .alias = "lake", .target = "postgres:host=h", .options = ab, .option_count = 2, .secret_ref = "s"};
    struct {
        od_companion_wish wish;
        bool secrets;
        bool read_only;
        bool same;
    } cases[] = {
        {base, true, false, true},  {base, true, false, true},  {base, true, false, true}, {base, false, false, false},
        {base, true, true, false},  {base, true, false, false}, {base, true, false, true}, {base, true, false, false},
        {base, true, false, false}, {base, true, false, false},
    };
    od_companion_terms terms = {.catalog = "w", .secrets = true};
    od_companion_request first = {0};

    (void)state;
    cases[1].wish.alias = "LAKE";
    cases[2].wish.options = ba;
    cases[5].wish.options = other;
    cases[6].wish.required = true;
    cases[7].wish.hidden = true;
    cases[8].wish.target = "postgres:host=i";
    cases[9].wish.secret_ref = "t";
    assert_int_equal(od_companion_request_make(&base, &terms, &first, NULL), OD_OK);
    for (size_t i = 0; i < COUNT(cases); i++) {
        od_companion_request request = {0};

        terms.secrets = cases[i].secrets;
        terms.read_only = cases[i].read_only;
        assert_int_equal(od_companion_request_make(&cases[i].wish, &terms, &request, NULL), OD_OK);
        assert_int_equal(od_companion_request_same(&first, &request), cases[i].same);
        od_companion_request_release(&request);
    }
    od_companion_request_release(&first);
}

static void test_an_option_comes_once(void **state)
{
    static const od_companion_option twice[] = {{"a", "1"}, {"A", "2"}};
    od_companion_wish wish = {.alias = "lake", .target = "sqlite:x", .options = twice, .option_count = 2};
    od_companion_terms terms = {.catalog = "w"};
    od_companion_request request = {0};

    (void)state;
    assert_int_equal(od_companion_request_make(&wish, &terms, &request, NULL), OD_E_BINDER);
}

static void test_read_only_is_the_users_word(void **state)
{
    static const od_companion_option options[] = {{"READ_WRITE", "true"}, {"x", "1"}};
    od_companion_wish wish = {.alias = "lake", .target = "sqlite:x", .options = options, .option_count = 2};
    od_companion_terms terms = {.catalog = "w", .read_only = true};
    od_companion_request request = {0};

    (void)state;
    assert_int_equal(od_companion_request_make(&wish, &terms, &request, NULL), OD_OK);
    assert_true(request.read_only);
    assert_int_equal(request.option_count, 1);
    assert_string_equal(request.options[0].key, "x");
    od_companion_request_release(&request);
}

static void test_passwords_are_not_shown(void **state)
{
    static const char *const cases[][2] = {
        {"", ""},
        {"ducklake:sqlite:/d/m", "ducklake:sqlite:/d/m"},
        {"postgres:host=h password=x dbname=d", "postgres:host=h password=*** dbname=d"},
        {"postgres:password = 'a b\\'c' host=h", "postgres:password = *** host=h"},
        {"host=h PASSWORD=x", "host=h PASSWORD=***"},
        {"host=h sslpassword=x;pwd=y", "host=h sslpassword=***;pwd=***"},
        {"postgresql://u:x@h/d", "postgresql://u:***@h/d"},
        {"postgresql://u:x@y@h/d", "postgresql://u:***@h/d"},
        {"postgresql://u:x/y@h/d", "postgresql://u:***@h/d"},
        {"ducklake:postgres://u:x@h:1/d?password=y&a=b", "ducklake:postgres://u:***@h:1/d?password=***&a=b"},
        {"postgresql://u@h:5432/d", "postgresql://u@h:5432/d"},
        {"postgresql://h:5432/d", "postgresql://h:5432/d"},
        {"password=", "password="},
        {"token=abc&secret=d", "token=***&secret=***"},
        {"mysql:passwd=x", "mysql:passwd=***"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        od_buf out = {0};

        assert_int_equal(od_companion_redact(&out, cases[i][0], NULL), OD_OK);
        assert_string_equal(od_buf_cstr(&out), cases[i][1]);
        od_buf_release(&out);
    }
}

static void test_an_error_shows_no_password(void **state)
{
    od_companion_wish wish = {.alias = "lake", .target = "ftp://u:hush@h/d"};
    od_companion_terms terms = {.catalog = "w"};
    od_companion_request request = {0};
    od_error err = {0};

    (void)state;
    assert_int_equal(od_companion_request_make(&wish, &terms, &request, &err), OD_E_BINDER);
    assert_null(strstr(err.message, "hush"));
    assert_non_null(strstr(err.message, "ftp://u:***@h/d"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_listed_schemes_are_attached),
        cmocka_unit_test(test_an_alias_is_no_name_that_has_a_meaning),
        cmocka_unit_test(test_a_secret_goes_by_name_and_only_if_the_user_lets_it),
        cmocka_unit_test(test_what_may_share_one_attachment),
        cmocka_unit_test(test_an_option_comes_once),
        cmocka_unit_test(test_read_only_is_the_users_word),
        cmocka_unit_test(test_passwords_are_not_shown),
        cmocka_unit_test(test_an_error_shows_no_password),
    };

    return check_run("companion policy", tests, argc, argv);
}

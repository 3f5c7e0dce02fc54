/* Whose token it is, what is handed on to workers, and what another file takes away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "query/rights.h"

#include "own_file.h"

static void write_text(const char *text)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static od_secret secret_of(const char *text)
{
    od_secret secret = {0};
    assert_int_equal(od_secret_set(&secret, od_slice_str(text), NULL), OD_OK);
    return secret;
}

static od_tokens *tokens_of(const char *token, const char *worker, const char *file, bool delegated)
{
    od_secret access = secret_of(token), own = secret_of(worker);
    od_tokens_options options = {&access, &own, file, delegated};
    od_tokens *tokens = NULL;
    assert_int_equal(od_tokens_create(&options, &tokens, NULL), OD_OK);
    od_secret_release(&access);
    od_secret_release(&own);
    return tokens;
}

static void expect(od_tokens *tokens, const char *given, od_code code, const char *says)
{
    od_rights *rights;
    od_error err;
    assert_int_equal(od_tokens_find(tokens, od_slice_str(given), &rights, &err), code);
    if (says != NULL)
        assert_string_equal(err.message, says);
    od_rights_unref(rights);
}

static bool registers(od_tokens *tokens, const char *given)
{
    od_rights *rights;
    assert_int_equal(od_tokens_find(tokens, od_slice_str(given), &rights, NULL), OD_OK);
    bool yes = od_rights_check_worker(rights, NULL) == OD_OK;
    od_rights_unref(rights);
    return yes;
}

static void test_single_tokens(void **state)
{
    (void)state;
    od_tokens *tokens = tokens_of("", "", NULL, false);
    assert_false(od_tokens_required(tokens));
    expect(tokens, "", OD_OK, NULL);
    expect(tokens, "any", OD_OK, NULL);
    assert_true(registers(tokens, ""));
    od_tokens_free(tokens);

    tokens = tokens_of("right", "", NULL, false);
    expect(tokens, "right", OD_OK, NULL);
    expect(tokens, "", OD_E_UNAUTHENTICATED, "access_token required when OPENDUCK_TOKEN is set");
    expect(tokens, "wrong", OD_E_UNAUTHENTICATED, "invalid access_token");
    expect(tokens, "right ", OD_E_UNAUTHENTICATED, "invalid access_token");
    assert_true(registers(tokens, "right"));
    od_tokens_free(tokens);

    tokens = tokens_of("right", "work", NULL, false);
    assert_true(!registers(tokens, "right") && registers(tokens, "work"));
    od_tokens_free(tokens);

    tokens = tokens_of("", "work", NULL, false);
    assert_true(!registers(tokens, "") && !registers(tokens, "any") && registers(tokens, "work"));
    od_tokens_free(tokens);

    tokens = tokens_of("same", "same", NULL, false);
    assert_true(registers(tokens, "same"));
    od_tokens_free(tokens);
}

static void test_delegated_rights_arrive(void **state)
{
    (void)state;
    write_text(
        "[ana]\ntoken=a\ndatabases = sales, s p,\xc3\xa4%2a*\nread-only=1\n[ops]\ntoken=o\ndatabases=*\nadmin=1\n");
    od_tokens *gateway = tokens_of("shared key", "", path, false), *worker = tokens_of("shared key", "", NULL, true);
    od_secret shared = secret_of("shared key"), other = secret_of("other key"), text = {0};
    od_rights *given, *got;
    assert_int_equal(od_tokens_find(gateway, od_slice_str("a"), &given, NULL), OD_OK);
    assert_int_equal(od_rights_delegate(given, &shared, &text, NULL), OD_OK);
    assert_int_equal(od_tokens_find(worker, od_slice_of(text.value, text.len), &got, NULL), OD_OK);
    assert_string_equal(od_rights_name(got), "ana");
    assert_true(!od_rights_writes(got) && !od_rights_admin(got) && !od_rights_worker(got));
    assert_true(od_rights_database(got, od_slice_str("sales")) && od_rights_database(got, od_slice_str("s p")) &&
                od_rights_database(got, od_slice_str("\xc3\xa4%2a9")));
    assert_false(od_rights_database(got, od_slice_str("s")) || od_rights_database(got, od_slice_str("x")));
    assert_true(od_rights_same_bearer(given, got));
    od_rights_unref(got);
    /* A gateway takes the form from nobody, a worker from nobody without its token. */
    assert_int_equal(od_tokens_find(gateway, od_slice_of(text.value, text.len), &got, NULL), OD_E_UNAUTHENTICATED);
    assert_int_equal(od_rights_delegate(given, &other, &text, NULL), OD_OK);
    assert_int_equal(od_tokens_find(worker, od_slice_of(text.value, text.len), &got, NULL), OD_E_UNAUTHENTICATED);
    od_rights_unref(given);
    assert_int_equal(od_tokens_find(gateway, od_slice_str("o"), &given, NULL), OD_OK);
    assert_int_equal(od_rights_delegate(given, &shared, &text, NULL), OD_OK);
    assert_int_equal(od_tokens_find(worker, od_slice_of(text.value, text.len), &got, NULL), OD_OK);
    assert_true(od_rights_writes(got) && od_rights_admin(got) && !od_rights_limited(got));
    od_rights_unref(got);
    od_rights_unref(given);
    od_secret_release(&shared);
    od_secret_release(&other);
    od_secret_release(&text);
    od_tokens_free(gateway);
    od_tokens_free(worker);
}

static void test_delegated_forms_that_are_none(void **state)
{
    static const char *const rows[] = {"openduck-rights/1 ",
                                       "openduck-rights/1 a w- x",
                                       "openduck-rights/1 a w-  key",
                                       "openduck-rights/1 a wz- x key",
                                       "openduck-rights/1 a w- x, key",
                                       "openduck-rights/1 a w- % key",
                                       "openduck-rights/1 a w- %0 key",
                                       "openduck-rights/1 a w- %00 key",
                                       "openduck-rights/1 a w- x-y key",
                                       "openduck-rights/1  w- x key",
                                       "openduck-rights/1 a= w- x key",
                                       "openduck-rights/2 a w- x key",
                                       "openduck-rights/1 a w- x key ",
                                       "openduck-rights/1 a w- x ke"};
    (void)state;
    od_tokens *worker = tokens_of("key", "", NULL, true);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        od_rights *rights = NULL;
        od_code rc = od_tokens_find(worker, od_slice_str(rows[i]), &rights, NULL);
        if (i == 2) /* no databases: nothing may be done, but it is of the form */
            assert_true(rc == OD_OK && !od_rights_executes(rights));
        else
            assert_int_equal(rc, OD_E_UNAUTHENTICATED);
        od_rights_unref(rights);
    }
    od_tokens_free(worker);
}

static void test_reload_withdraws_what_is_gone_or_other(void **state)
{
    bool withdrawn;
    od_rights *a, *b, *c, *root, *again;
    od_error err;
    (void)state;
    write_text("[a]\ntoken=a\ndatabases=x\n[b]\ntoken=b\ndatabases=x\n[c]\ntoken=c\ndatabases=x\n");
    od_tokens *tokens = tokens_of("root", "", path, false);
    assert_int_equal(od_tokens_find(tokens, od_slice_str("a"), &a, NULL), OD_OK);
    assert_int_equal(od_tokens_find(tokens, od_slice_str("b"), &b, NULL), OD_OK);
    assert_int_equal(od_tokens_find(tokens, od_slice_str("c"), &c, NULL), OD_OK);
    assert_int_equal(od_tokens_find(tokens, od_slice_str("root"), &root, NULL), OD_OK);
    write_text("[a]\ntoken=a\ndatabases=x\n[b]\ntoken=b\nfault\n");
    assert_int_equal(od_tokens_reload(tokens, &withdrawn, &err), OD_E_INVALID);
    assert_non_null(strstr(err.message, ":6: "));
    expect(tokens, "c", OD_OK, NULL);
    assert_false(withdrawn || od_rights_withdrawn(c));
    write_text("[b]\ntoken=b\ndatabases=x,y\n[a]\ntoken=a\ndatabases=x\n[d]\ntoken=d\nadmin=1\n");
    assert_int_equal(od_tokens_reload(tokens, &withdrawn, &err), OD_OK);
    assert_true(withdrawn && od_rights_withdrawn(b) && od_rights_withdrawn(c));
    assert_false(od_rights_withdrawn(a) || od_rights_withdrawn(root));
    expect(tokens, "c", OD_E_UNAUTHENTICATED, "invalid access_token");
    expect(tokens, "d", OD_OK, NULL);
    assert_int_equal(od_tokens_find(tokens, od_slice_str("a"), &again, NULL), OD_OK);
    assert_ptr_equal(again, a);
    assert_int_equal(od_tokens_reload(tokens, &withdrawn, &err), OD_OK);
    assert_false(withdrawn || od_rights_withdrawn(a));
    od_rights_unref(a);
    od_rights_unref(again);
    od_rights_unref(b);
    od_rights_unref(c);
    od_rights_unref(root);
    od_tokens_free(tokens);
}

static void test_a_change_is_seen_once_the_file_rests(void **state)
{
    bool withdrawn;
    (void)state;
    write_text("[a]\ntoken=a\ndatabases=x\n");
    od_tokens *tokens = tokens_of("", "", path, false);
    assert_false(od_tokens_changed(tokens));
    write_text("[a]\ntoken=a\ndatabases=x, y\n");
    assert_false(od_tokens_changed(tokens)); /* somebody may be writing it */
    assert_true(od_tokens_changed(tokens));
    assert_int_equal(od_tokens_reload(tokens, &withdrawn, NULL), OD_OK);
    assert_false(od_tokens_changed(tokens));
    /* A fault is told once. */
    write_text("[a]\n");
    assert_false(od_tokens_changed(tokens));
    assert_true(od_tokens_changed(tokens));
    assert_int_equal(od_tokens_reload(tokens, &withdrawn, NULL), OD_E_INVALID);
    assert_false(od_tokens_changed(tokens));
    expect(tokens, "a", OD_OK, NULL);
    od_tokens_free(tokens);
}

static void test_refusals_name_token_and_right(void **state)
{
    od_rights *ana, *ops;
    od_error err;
    (void)state;
    write_text("[ana]\ntoken=a\ndatabases=x\n[ops]\ntoken=o\nadmin=1\n");
    od_tokens *tokens = tokens_of("", "", path, false);
    assert_int_equal(od_tokens_find(tokens, od_slice_str("a"), &ana, NULL), OD_OK);
    assert_int_equal(od_tokens_find(tokens, od_slice_str("o"), &ops, NULL), OD_OK);
    assert_int_equal(od_rights_check_database(ana, od_slice_str("x"), &err), OD_OK);
    assert_int_equal(od_rights_check_database(ana, od_slice_str(""), &err), OD_OK);
    assert_int_equal(od_rights_check_database(ana, od_slice_str("y"), &err), OD_E_PERMISSION);
    assert_string_equal(err.message, "token 'ana' has no right to database 'y'");
    assert_int_equal(od_rights_check_database(ops, od_slice_str(""), &err), OD_E_PERMISSION);
    assert_string_equal(err.message, "token 'ops' has no right to any database");
    assert_int_equal(od_rights_check_worker(ana, &err), OD_E_PERMISSION);
    assert_string_equal(err.message, "token 'ana' lacks the right 'worker'");
    assert_int_equal(od_rights_check_owner(ana, ana, "cancel executions", &err), OD_OK);
    assert_int_equal(od_rights_check_owner(ops, ana, "cancel executions", &err), OD_OK);
    assert_int_equal(od_rights_check_owner(NULL, ana, "cancel executions", &err), OD_OK);
    assert_int_equal(od_rights_check_owner(ana, NULL, "cancel executions", &err), OD_E_PERMISSION);
    assert_string_equal(err.message, "token 'ana' may not cancel executions of others: it lacks the right 'admin'");
    od_rights_unref(ana);
    od_rights_unref(ops);
    od_tokens_free(tokens);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single_tokens),
        cmocka_unit_test(test_delegated_rights_arrive),
        cmocka_unit_test(test_delegated_forms_that_are_none),
        cmocka_unit_test(test_reload_withdraws_what_is_gone_or_other),
        cmocka_unit_test(test_a_change_is_seen_once_the_file_rests),
        cmocka_unit_test(test_refusals_name_token_and_right),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, make_file, remove_file);
}

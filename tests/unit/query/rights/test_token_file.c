/* The file of tokens: what it gives, and what is wrong with it, said without any secret. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "query/rights.h"

#include "own_file.h"

#define HASH "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b" /* of "secret" */

static void write_bytes(const void *data, size_t len)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static void write_text(const char *text)
{
    write_bytes(text, strlen(text));
}

static od_code open_tokens(const char *token, const char *worker, od_tokens **out, od_error *err)
{
    od_secret access = {0}, own = {0};
    assert_int_equal(od_secret_set(&access, od_slice_str(token), NULL), OD_OK);
    assert_int_equal(od_secret_set(&own, od_slice_str(worker), NULL), OD_OK);
    od_tokens_options options = {.token = &access, .worker_token = &own, .file = path};
    od_code rc = od_tokens_create(&options, out, err);
    od_secret_release(&access);
    od_secret_release(&own);
    return rc;
}

static od_rights *find(od_tokens *tokens, const char *given)
{
    od_rights *rights = NULL;
    assert_int_equal(od_tokens_find(tokens, od_slice_str(given), &rights, NULL), OD_OK);
    return rights;
}

static bool may(const od_rights *rights, const char *database)
{
    return od_rights_database(rights, od_slice_str(database));
}

static void test_a_file_gives_rights(void **state)
{
    od_tokens *tokens;
    od_rights *r;
    od_error err;
    (void)state;
    write_text("# comment\r\n\n[ana]\n sha256 = " HASH "\n databases = sales, stage_*\nread-only = yes\n"
               "[ops]\ntoken = \" two words \"\nadmin=true\n[w-1]\ntoken=work=er\nworker = on\n"
               "[boss]\ntoken = b\ndatabases = *\n");
    assert_int_equal(open_tokens("root", "", &tokens, &err), OD_OK);
    assert_int_equal(od_tokens_count(tokens), 4);
    r = find(tokens, "secret");
    assert_string_equal(od_rights_name(r), "ana");
    assert_true(may(r, "sales") && may(r, "SALES") && may(r, "stage_") && may(r, "Stage_2"));
    assert_false(may(r, "sales2") || may(r, "sale") || may(r, "stage") || may(r, "") || may(r, "*"));
    assert_true(!od_rights_writes(r) && !od_rights_admin(r) && !od_rights_worker(r) && od_rights_limited(r));
    od_rights_unref(r);
    r = find(tokens, " two words ");
    assert_true(od_rights_admin(r) && !od_rights_executes(r) && !may(r, "sales"));
    od_rights_unref(r);
    r = find(tokens, "work=er");
    assert_true(od_rights_worker(r) && !od_rights_executes(r));
    od_rights_unref(r);
    r = find(tokens, "b");
    assert_true(may(r, "any") && od_rights_writes(r) && !od_rights_limited(r) && !od_rights_admin(r));
    od_rights_unref(r);
    r = find(tokens, "root");
    assert_true(may(r, "any") && od_rights_writes(r) && od_rights_admin(r) && od_rights_worker(r));
    assert_string_equal(od_rights_name(r), "");
    od_rights_unref(r);
    assert_int_equal(od_tokens_find(tokens, od_slice_str("secret "), &r, &err), OD_E_UNAUTHENTICATED);
    assert_string_equal(err.message, "invalid access_token");
    assert_int_equal(od_tokens_find(tokens, od_slice_str(""), &r, &err), OD_E_UNAUTHENTICATED);
    assert_int_equal(od_tokens_find(tokens, od_slice_str(HASH), &r, &err), OD_E_UNAUTHENTICATED);
    od_tokens_free(tokens);
}

static void test_faults_name_the_line_and_no_secret(void **state)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"token = hunter2\n", ":1: a setting comes after"},
        {"[a]\nhunter2\n", ":2: a line is"},
        {"[a]\nhunter2 = x\n", ":2: settings are"},
        {"[a]\ntoken = hunter2\n", ":1: the token has no right"},
        {"\n[a]\ndatabases = x\n", ":2: the token has neither"},
        {"[a]\ntoken =\ndatabases = x\n", ":2: 'token' is empty"},
        {"[a]\nsha256 = hunter2\n", ":2: 'sha256' is of 64"},
        {"[a]\nsha256 = " HASH "0\n", ":2: 'sha256' is of 64"},
        {"[a]\nsha256 = zbb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\n", ":2: 'sha256' is of 64"},
        {"[a]\ntoken = hunter2\nsha256 = " HASH "\n", ":3: a token has one"},
        {"[a]\ntoken = hunter2\ntoken = hunter2\n", ":3: a token has one"},
        {"[a]\ntoken = hunter2\ndatabases = x\n[a]\n", ":4: 'a' is there for the second time; the first is in line 1"},
        {"[a]\ntoken=hunter2\ndatabases=x\n[b]\ntoken=hunter2\ndatabases=y\n",
         ":4: the token is the same as another one, of line 1"},
        {"[a]\ntoken=secret\ndatabases=x\n[b]\nsha256=" HASH "\ndatabases=y\n",
         ":4: the token is the same as another one"},
        {"[a]\ntoken = root\ndatabases = x\n", ":1: the token is the same as OPENDUCK_TOKEN"},
        {"[a]\ntoken = wtok\ndatabases = x\n", ":1: the token is the same as OPENDUCK_TOKEN or the worker token"},
        {"[a]\ndatabases = x,,y\n", ":2: 'databases' has an empty name"},
        {"[a]\ndatabases =\n", ":2: 'databases' has an empty name"},
        {"[a]\ndatabases = x,\n", ":2: 'databases' has an empty name"},
        {"[a]\ndatabases = a*b\n", ":2: a '*' may only end"},
        {"[a]\ndatabases = x\ndatabases = y\n", ":3: 'databases' is there for the second time"},
        {"[a]\nread-only = perhaps hunter2\n", ":2: 'read-only' is true or false"},
        {"[a]\nadmin = 1\nadmin = 1\n", ":3: 'admin' is there for the second time"},
        {"[]\n", ":1: a name is of"},
        {"[\n", ":1: a section is"},
        {"[a b]\n", ":1: a name is of"},
        {"[hunter2=]\n", ":1: a name is of"},
        {"[aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]\n", ":1: a name is of"},
        {"[a]\ntoken = hunter2\xff\n", ":2: the line is not UTF-8"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        od_tokens *tokens;
        od_error err = {0};
        write_text(rows[i].text);
        assert_int_equal(open_tokens("root", "wtok", &tokens, &err), OD_E_INVALID);
        assert_null(tokens);
        if (strstr(err.message, rows[i].says) == NULL || strstr(err.message, "hunter") != NULL ||
            strncmp(err.message, path, strlen(path)) != 0)
            fail_msg("row %zu: %s", i, err.message);
    }
}

static void test_hostile_bytes(void **state)
{
    static char text[1 << 16];
    od_tokens *tokens;
    od_error err;
    uint32_t seed = 20240601;
    (void)state;
    write_bytes("[a]\ntoken = x\0y\n", 16);
    assert_int_equal(open_tokens("", "", &tokens, &err), OD_E_INVALID);
    assert_non_null(strstr(err.message, ":2: the line holds a NUL byte"));
    memset(text, 'a', sizeof text);
    write_bytes(text, sizeof text);
    assert_int_equal(open_tokens("", "", &tokens, &err), OD_E_INVALID);
    assert_non_null(strstr(err.message, ":1: the line is longer than"));
    /* Pieces of good files, in any order and cut anywhere: refused or taken, and nothing worse. */
    for (int round = 0; round < 3000; round++) {
        static const char *const pieces[] = {"[a]",
                                             "[b]\n",
                                             "\n",
                                             "token=",
                                             "x",
                                             "sha256 = " HASH "\n",
                                             "databases = ",
                                             "*",
                                             ",",
                                             "read-only",
                                             " = true\n",
                                             "admin=1\n",
                                             "worker = 0\n",
                                             "#",
                                             "\"",
                                             "\r",
                                             "\t",
                                             "[",
                                             "]",
                                             "\0",
                                             "\xc3",
                                             "="};
        size_t len = 0;
        for (int i = 0; i < 24; i++) {
            seed = seed * 1664525U + 1013904223U;
            const char *piece = pieces[(seed >> 16) % (sizeof pieces / sizeof pieces[0])];
            size_t size = piece[0] == '\0' ? 1 : strlen(piece);
            memcpy(text + len, piece, size);
            len += size;
        }
        write_bytes(text, len - (seed >> 8) % 4);
        if (open_tokens("", "", &tokens, &err) == OD_OK)
            od_tokens_free(tokens);
        else
            assert_int_equal(strncmp(err.message, path, strlen(path)), 0);
    }
}

static void test_a_file_that_others_can_use_is_refused(void **state)
{
    static const struct {
        mode_t mode;
        bool good;
    } rows[] = {{0600, true}, {0400, true}, {0640, true}, {0644, false}, {0660, false}, {0602, false}};
    (void)state;
    write_text("[a]\ntoken = hunter2\ndatabases = *\n");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        od_tokens *tokens;
        od_error err;
        assert_int_equal(chmod(path, rows[i].mode), 0);
        assert_int_equal(open_tokens("", "", &tokens, &err), rows[i].good ? OD_OK : OD_E_INVALID);
        if (!rows[i].good)
            assert_non_null(strstr(err.message, "can be used by others"));
        od_tokens_free(tokens);
    }
    assert_int_equal(chmod(path, 0600), 0);
    od_tokens_options folder = {.file = "/tmp"}, missing = {.file = "/nowhere/tokens"};
    od_tokens *tokens;
    assert_int_equal(od_tokens_create(&folder, &tokens, NULL), OD_E_INVALID);
    assert_int_equal(od_tokens_create(&missing, &tokens, NULL), OD_E_IO);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file_gives_rights),
        cmocka_unit_test(test_faults_name_the_line_and_no_secret),
        cmocka_unit_test(test_hostile_bytes),
        cmocka_unit_test(test_a_file_that_others_can_use_is_refused),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, make_file, remove_file);
}

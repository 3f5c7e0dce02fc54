#include "base/error.h"

#include <errno.h>
#include <string.h>

#include "unit/base/check.h"

static void test_fail_fills_every_field_from_the_table(void **state)
{
    (void)state;
    for (int i = 1; i < OD_CODE_COUNT; i++) {
        od_error err = {0};
        od_code code = (od_code)i;

        assert_int_equal(od_fail(&err, code, "cannot open '%s'", "x"), code);
        assert_int_equal(err.code, code);
        assert_int_equal(err.kind, od_code_kind(code));
        assert_int_equal(err.retriable, od_code_retriable(code));
        assert_string_equal(err.sqlstate, od_code_sqlstate(code));
        assert_string_equal(err.message, "cannot open 'x'");
        assert_true(err.kind >= OD_KIND_CATALOG && err.kind <= OD_KIND_INTERNAL);
        assert_int_equal(strlen(err.sqlstate), 5);
        assert_true(od_code_grpc_status(code) >= 1 && od_code_grpc_status(code) <= 16);
        assert_true(strlen(od_code_name(code)) > 0 && strlen(od_code_text(code)) > 0);
    }
}

static void test_null_error_is_allowed_everywhere(void **state)
{
    (void)state;
    assert_int_equal(od_fail(NULL, OD_E_IO, "x"), OD_E_IO);
    assert_int_equal(od_fail_errno(NULL, OD_E_IO, ENOENT, "x"), OD_E_IO);
    assert_int_equal(od_fail_errno(NULL, OD_E_IO, ENOMEM, "x"), OD_E_NO_MEMORY);
    assert_int_equal(od_error_from_wire(NULL, OD_KIND_PARSER, NULL, NULL), OD_E_PARSER);
    od_error_prefix(NULL, "x");
}

static void test_long_message_is_cut_at_a_character(void **state)
{
    /* Characters of 1 to 4 bytes; whatever the offset of the cut, no character is split. */
    static const char *const characters[] = {"a", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\xA6\x86"};

    (void)state;
    for (size_t c = 0; c < COUNT(characters); c++) {
        size_t width = strlen(characters[c]);

        for (size_t shift = 0; shift < width; shift++) {
            char text[3000];
            od_error err = {0};
            size_t len;

            memset(text, 'x', shift);
            text[shift] = '\0';
            for (len = shift; len + width < sizeof text; len += width)
                memcpy(text + len, characters[c], width + 1);
            od_fail(&err, OD_E_IO, "%s", text);
            len = strlen(err.message);
            assert_true(len < OD_ERROR_MESSAGE_SIZE && len > OD_ERROR_MESSAGE_SIZE - 1 - width);
            assert_int_equal((len - shift) % width, 0);
            assert_memory_equal(err.message, text, len);
        }
    }
}

static void test_cut_message_that_is_not_utf8_keeps_its_length(void **state)
{
    char text[2000];
    od_error err = {0};

    (void)state;
    memset(text, 0x80, sizeof text - 1);
    text[sizeof text - 1] = '\0';
    od_fail(&err, OD_E_IO, "%s", text);
    assert_int_equal(strlen(err.message), OD_ERROR_MESSAGE_SIZE - 1);
}

static void test_fail_may_format_its_own_message(void **state)
{
    od_error err = {0};

    (void)state;
    od_fail(&err, OD_E_IO, "inner");
    od_fail(&err, OD_E_CORRUPT, "outer (%s)", err.message);
    assert_string_equal(err.message, "outer (inner)");
    od_error_prefix(&err, "seen %s", err.message);
    assert_string_equal(err.message, "seen outer (inner): outer (inner)");
}

static void test_errno_becomes_text(void **state)
{
    od_error err = {0};

    (void)state;
    assert_int_equal(od_fail_errno(&err, OD_E_IO, ENOENT, "cannot open '%s'", "a"), OD_E_IO);
    assert_string_equal(err.message, "cannot open 'a': No such file or directory");
    assert_int_equal(od_fail_errno(&err, OD_E_IO, ENOMEM, "cannot map"), OD_E_NO_MEMORY);
    assert_int_equal(err.code, OD_E_NO_MEMORY);
    od_fail_errno(&err, OD_E_IO, 99999, "x");
    assert_string_equal(err.message, "x: error number 99999");
}

static void test_prefix_keeps_the_rest_and_cuts_the_end(void **state)
{
    char text[OD_ERROR_MESSAGE_SIZE * 2];
    od_error err = {0};

    (void)state;
    od_fail(&err, OD_E_TIMEOUT, "no answer");
    od_error_prefix(&err, "cannot tier layer %d", 7);
    assert_string_equal(err.message, "cannot tier layer 7: no answer");
    assert_int_equal(err.code, OD_E_TIMEOUT);

    memset(text, 'p', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    od_error_prefix(&err, "%s", text);
    assert_int_equal(strlen(err.message), OD_ERROR_MESSAGE_SIZE - 1);
    assert_string_equal(err.message + OD_ERROR_MESSAGE_SIZE - 3, ": ");
}

static void test_wire_error_finds_its_code(void **state)
{
    static const struct {
        od_kind kind;
        const char *sqlstate;
        od_code code;
        const char *shown;
    } cases[] = {
        {OD_KIND_CATALOG, "", OD_E_CATALOG, "42P01"},
        {OD_KIND_CATALOG, "42704", OD_E_NOT_FOUND, "42704"},
        {OD_KIND_CATALOG, "55006", OD_E_STALE_CATALOG, "55006"},
        {OD_KIND_CATALOG, "3F000", OD_E_CATALOG, "3F000"},
        {OD_KIND_BINDER, NULL, OD_E_BINDER, "42000"},
        {OD_KIND_BINDER, "0A000", OD_E_NOT_IMPLEMENTED, "0A000"},
        {OD_KIND_CONSTRAINT, "23505", OD_E_CONSTRAINT, "23505"},
        {OD_KIND_CONVERSION, "22003", OD_E_CONVERSION, "22003"},
        {OD_KIND_PARSER, "42601", OD_E_PARSER, "42601"},
        {OD_KIND_IO, "57014", OD_E_CANCELLED, "57014"},
        {OD_KIND_IO, "58030", OD_E_IO, "58030"},
        {OD_KIND_IO, "40001", OD_E_TRANSACTION, "40001"},
        {OD_KIND_IO, "40P01", OD_E_TRANSACTION, "40P01"},
        {OD_KIND_IO, "25006", OD_E_TRANSACTION, "25006"},
        {OD_KIND_IO, "53300", OD_E_BUSY, "53300"},
        {OD_KIND_PERMISSION, "28000", OD_E_UNAUTHENTICATED, "28000"},
        {OD_KIND_PERMISSION, "", OD_E_PERMISSION, "42501"},
        {OD_KIND_INTERNAL, "XX000", OD_E_INTERNAL, "XX000"},
        /* A state of another kind does not change the kind; a malformed one counts as none. */
        {OD_KIND_PARSER, "57014", OD_E_PARSER, "57014"},
        {OD_KIND_IO, "5701", OD_E_IO, "58030"},
        {OD_KIND_IO, "57 14", OD_E_IO, "58030"},
        {OD_KIND_IO, "570144", OD_E_IO, "58030"},
        /* A kind that we do not know. */
        {OD_KIND_NONE, "", OD_E_INTERNAL, "XX000"},
        {(od_kind)99, "", OD_E_INTERNAL, "XX000"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        od_error err = {0};
        od_code code = od_error_from_wire(&err, cases[i].kind, cases[i].sqlstate, "Boom");

        assert_int_equal(code, cases[i].code);
        assert_int_equal(err.code, cases[i].code);
        assert_int_equal(err.kind, od_code_kind(code));
        assert_string_equal(err.sqlstate, cases[i].shown);
        assert_string_equal(err.message, "Boom");
    }
}

static void test_every_code_survives_the_wire_as_its_kind(void **state)
{
    (void)state;
    for (int i = 1; i < OD_CODE_COUNT; i++) {
        od_error err = {0};
        od_code back;

        back = od_error_from_wire(&err, od_code_kind((od_code)i), od_code_sqlstate((od_code)i), "x");
        assert_int_equal(od_code_kind(back), od_code_kind((od_code)i));
        assert_string_equal(err.sqlstate, od_code_sqlstate((od_code)i));
        if (i != OD_E_CORRUPT) /* shares its SQLSTATE with IO */
            assert_int_equal(back, i);
    }
}

static void test_wire_error_without_text_gets_the_code_s_text(void **state)
{
    od_error err = {0};

    (void)state;
    od_error_from_wire(&err, OD_KIND_IO, "57014", "");
    assert_string_equal(err.message, od_code_text(OD_E_CANCELLED));
}

static void test_grpc_status_and_back(void **state)
{
    (void)state;
    assert_int_equal(od_code_from_grpc_status(0), OD_OK);
    assert_int_equal(od_code_grpc_status(OD_OK), 0);
    for (int i = 1; i <= 16; i++) {
        od_code code = od_code_from_grpc_status(i);

        assert_true(code != OD_OK);
        if (i != 11)
            assert_int_equal(od_code_grpc_status(code), i);
    }
    assert_int_equal(od_code_from_grpc_status(17), OD_E_UNKNOWN);
    assert_int_equal(od_code_from_grpc_status(-1), OD_E_UNKNOWN);
}

static void test_names_are_never_null(void **state)
{
    (void)state;
    assert_string_equal(od_code_name(OD_E_NOT_FOUND), "NOT_FOUND");
    assert_string_equal(od_kind_name(OD_KIND_CATALOG), "CATALOG");
    assert_string_equal(od_kind_name((od_kind)77), "INTERNAL");
    assert_string_equal(od_code_name((od_code)-5), "INTERNAL");
    assert_string_equal(od_code_text((od_code)1000), od_code_text(OD_E_INTERNAL));
}

static void test_codes_are_found_by_name(void **state)
{
    (void)state;
    for (int code = 1; code < OD_CODE_COUNT; code++) {
        const char *name = od_code_name((od_code)code);

        assert_int_equal(od_code_named(name, strlen(name)), code);
    }
    assert_int_equal(od_code_named("BUSYBODY", 8), OD_OK);
    assert_int_equal(od_code_named("BUSYBODY", 4), OD_E_BUSY);
    assert_int_equal(od_code_named("", 0), OD_OK);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fail_fills_every_field_from_the_table),
        cmocka_unit_test(test_null_error_is_allowed_everywhere),
        cmocka_unit_test(test_long_message_is_cut_at_a_character),
        cmocka_unit_test(test_cut_message_that_is_not_utf8_keeps_its_length),
        cmocka_unit_test(test_fail_may_format_its_own_message),
        cmocka_unit_test(test_errno_becomes_text),
        cmocka_unit_test(test_prefix_keeps_the_rest_and_cuts_the_end),
        cmocka_unit_test(test_wire_error_finds_its_code),
        cmocka_unit_test(test_every_code_survives_the_wire_as_its_kind),
        cmocka_unit_test(test_wire_error_without_text_gets_the_code_s_text),
        cmocka_unit_test(test_grpc_status_and_back),
        cmocka_unit_test(test_names_are_never_null),
        cmocka_unit_test(test_codes_are_found_by_name),
    };

    return check_run("base.error", tests, argc, argv);
}

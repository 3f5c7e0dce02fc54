/* Rows made by hand, and read again by names; message metadata. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "arrow/ipc_read.h"
#include "arrow/record.h"
#include "arrow/row.h"
#include "arrow/schema.h"

static od_slice str(const char *text)
{
    return od_slice_str(text);
}

static od_msg *finish(od_row *row)
{
    od_msg *msg;

    assert_int_equal(od_row_finish(row, NULL, 0, &msg, NULL), OD_OK);
    return msg;
}

static od_slice bytes(od_msg *msg)
{
    return od_slice_of(od_msg_data(msg), od_msg_len(msg));
}

static void test_a_row_comes_back_as_it_was_made(void **state)
{
    const od_slice items[] = {str("a"), {NULL, 0}, str("")};
    const int64_t number = -7, numbers[] = {3, INT64_MIN};
    od_row *row;
    od_record *record;
    od_slice text;
    int64_t n;
    bool flag;

    (void)state;
    assert_int_equal(od_row_create(&row, NULL), OD_OK);
    od_row_text(row, "text", OD_ROW_NOT_NULL, str("ü"));
    od_row_binary(row, "none", OD_ROW_NULLABLE, (od_slice){NULL, 0});
    od_row_binary(row, "empty", OD_ROW_NOT_NULL, str(""));
    od_row_large_binary(row, "large", OD_ROW_NULLABLE, od_slice_of("\0\1", 2));
    od_row_symbol(row, "symbol", OD_ROW_NOT_NULL, str("TABLE"));
    od_row_symbol(row, "no_symbol", OD_ROW_NULLABLE, (od_slice){NULL, 0});
    od_row_bool(row, "flag", true);
    od_row_int64(row, "number", OD_ROW_NULLABLE, &number);
    od_row_int64(row, "no_number", OD_ROW_NULLABLE, NULL);
    od_row_text_list(row, "list", OD_ROW_NULLABLE, items, 3);
    od_row_text_list(row, "no_list", OD_ROW_NULLABLE, NULL, 0);
    od_row_int64_list(row, "numbers", OD_ROW_NULLABLE, numbers, 2);
    od_row_empty_struct(row, "args");
    od_msg *msg = finish(row);
    assert_int_equal(od_record_of_payload(bytes(msg), &record, NULL), OD_OK);
    od_msg_unref(msg);
    assert_int_equal(od_record_rows(record), 1);
    assert_int_equal(od_record_schema(record)->children[0]->flags & ARROW_FLAG_NULLABLE, 0);
    assert_int_not_equal(od_record_schema(record)->children[1]->flags & ARROW_FLAG_NULLABLE, 0);
#define BYTES(name) (assert_int_equal(od_cell_bytes(od_record_cell(record, name, 0), &text, NULL), OD_OK), text)
    assert_true(od_slice_equal(BYTES("text"), str("ü")));
    assert_null(BYTES("none").data);
    assert_null(BYTES("not there").data);
    assert_non_null(BYTES("empty").data);
    assert_int_equal(text.len, 0);
    assert_int_equal(BYTES("large").len, 2);
    assert_true(od_slice_equal(BYTES("symbol"), str("TABLE")));
    assert_null(BYTES("no_symbol").data);
    assert_int_equal(od_cell_bool(od_record_cell(record, "flag", 0), &flag, NULL), OD_OK);
    assert_true(flag);
    assert_int_equal(od_cell_int(od_record_cell(record, "number", 0), &n, NULL), OD_OK);
    assert_int_equal(n, -7);
    assert_null(od_record_cell(record, "no_number", 0).view);
    od_cell list = od_record_cell(record, "list", 0);
    assert_int_equal(od_cell_count(list, &n, NULL), OD_OK);
    assert_int_equal(n, 3);
    assert_int_equal(od_cell_bytes(od_cell_item(list, 0), &text, NULL), OD_OK);
    assert_true(od_slice_equal(text, str("a")));
    assert_null(od_cell_item(list, 1).view);
    assert_non_null(od_cell_item(list, 2).view);
    assert_null(od_record_cell(record, "no_list", 0).view);
    assert_int_equal(od_cell_int(od_cell_item(od_record_cell(record, "numbers", 0), 1), &n, NULL), OD_OK);
    assert_int_equal(n, INT64_MIN);
    assert_non_null(od_record_cell(record, "args", 0).view);
    od_record_free(record);
    od_row_free(row);
}

static void test_a_value_of_another_type_is_told_by_name(void **state)
{
    od_row *row;
    od_record *record;
    od_slice text;
    int64_t n;
    bool flag;
    od_error err = {0};

    (void)state;
    assert_int_equal(od_row_create(&row, NULL), OD_OK);
    od_row_bool(row, "flag", true);
    od_row_text(row, "text", OD_ROW_NOT_NULL, str("1"));
    od_msg *msg = finish(row);
    assert_int_equal(od_record_of_payload(bytes(msg), &record, NULL), OD_OK);
    assert_int_equal(od_cell_bytes(od_record_cell(record, "flag", 0), &text, &err), OD_E_CORRUPT);
    assert_non_null(strstr(err.message, "'flag'"));
    assert_int_equal(od_cell_int(od_record_cell(record, "text", 0), &n, &err), OD_E_CORRUPT);
    assert_int_equal(od_cell_bool(od_record_cell(record, "text", 0), &flag, &err), OD_E_CORRUPT);
    assert_int_equal(od_cell_count(od_record_cell(record, "text", 0), &n, &err), OD_E_CORRUPT);
    assert_null(od_cell_item(od_record_cell(record, "text", 0), 0).view);
    assert_null(od_cell_child(od_record_cell(record, "text", 0), "x").view);
    od_record_free(record);
    od_msg_unref(msg);
    od_row_free(row);
}

static void test_every_cut_of_a_record_is_refused(void **state)
{
    od_row *row;
    od_record *record;

    (void)state;
    assert_int_equal(od_row_create(&row, NULL), OD_OK);
    od_row_symbol(row, "symbol", OD_ROW_NOT_NULL, str("TABLE"));
    od_row_text(row, "text", OD_ROW_NOT_NULL, str("some text"));
    od_msg *msg = finish(row);
    for (size_t len = 0; len < od_msg_len(msg) - 4; len++) {
        /* Without the end mark's last half it is whole. */
        od_code rc = od_record_of_payload(od_slice_of(od_msg_data(msg), len), &record, NULL);
        assert_int_not_equal(rc, OD_OK);
        assert_null(record);
    }
    od_msg_unref(msg);
    od_row_free(row);
}

/* A stream read message by message, as it comes over a pipe: with a dictionary, and with metadata of a message's own. */
static void test_a_stream_is_read_piece_by_piece(void **state)
{
    const od_ipc_pair pairs[] = {{str("method"), str("bind")}, {str("empty"), str("")}};
    od_row *row;
    od_msg *msg;
    od_ipc_reader *reader;
    size_t at = 0, batches = 0, dictionaries = 0;

    (void)state;
    assert_int_equal(od_row_create(&row, NULL), OD_OK);
    od_row_symbol(row, "symbol", OD_ROW_NOT_NULL, str("TABLE"));
    assert_int_equal(od_row_finish(row, pairs, 2, &msg, NULL), OD_OK);
    assert_int_equal(od_ipc_reader_create(&reader, NULL), OD_OK);
    for (;;) {
        od_ipc_head head;
        size_t metadata;

        assert_int_equal(od_ipc_prefix(od_msg_data(msg) + at, &metadata, NULL), OD_OK);
        if (metadata == 0)
            break;
        od_slice whole = od_slice_of(od_msg_data(msg) + at, 8 + metadata);
        assert_int_equal(od_ipc_reader_peek(reader, whole, &head, NULL), OD_OK);
        whole.len += head.body_len;
        if (at == 0) {
            assert_int_equal(head.type, OD_IPC_SCHEMA);
            assert_null(od_ipc_reader_pair(reader, "method").data);
            assert_int_equal(od_ipc_reader_start(reader, whole, NULL, NULL), OD_OK);
        } else {
            assert_int_equal(od_ipc_reader_feed(reader, whole, msg, NULL), OD_OK);
            dictionaries += head.type == OD_IPC_DICTIONARY;
        }
        if (head.type == OD_IPC_BATCH) {
            struct ArrowArray array;
            od_record *record;
            od_slice text;

            assert_int_equal(head.rows, 1);
            assert_true(od_slice_equal(od_ipc_reader_pair(reader, "method"), str("bind")));
            assert_non_null(od_ipc_reader_pair(reader, "empty").data);
            assert_null(od_ipc_reader_pair(reader, "metho").data);
            assert_int_equal(od_ipc_reader_next_array(reader, msg, &array, NULL), OD_OK);
            assert_int_equal(od_record_wrap(od_ipc_reader_schema(reader), &array, &record, NULL), OD_OK);
            assert_int_equal(od_cell_bytes(od_record_cell(record, "symbol", 0), &text, NULL), OD_OK);
            assert_true(od_slice_equal(text, str("TABLE")));
            od_record_free(record);
            batches++;
        }
        at += whole.len;
    }
    assert_int_equal(at + 8, od_msg_len(msg));
    assert_int_equal(batches, 1);
    assert_int_equal(dictionaries, 1);
    od_ipc_reader_free(reader);
    od_msg_unref(msg);
    od_row_free(row);
}

static void test_schemas_are_the_same_by_names_and_types(void **state)
{
    struct ArrowSchema a, b;

    (void)state;
    assert_int_equal(od_schema_make(&a, "", "+s", 1, NULL), OD_OK);
    assert_int_equal(od_schema_make(a.children[0], "x", "l", 0, NULL), OD_OK);
    assert_int_equal(od_schema_copy(&a, &b, NULL), OD_OK);
    b.children[0]->flags = 0;
    assert_true(od_schema_same(&a, &b));
    assert_int_equal(od_schema_rename(b.children[0], "y", NULL), OD_OK);
    assert_false(od_schema_same(&a, &b));
    od_schema_release(&b);
    assert_int_equal(od_schema_make(&b, "", "+s", 1, NULL), OD_OK);
    assert_int_equal(od_schema_make(b.children[0], "x", "i", 0, NULL), OD_OK);
    assert_false(od_schema_same(&a, &b));
    od_schema_release(&a);
    od_schema_release(&b);
    /* A decimal of 128 bits is the same with its width and without. */
    assert_int_equal(od_schema_make(&a, "x", "d:18,4", 0, NULL), OD_OK);
    assert_int_equal(od_schema_make(&b, "x", "d:18,4,128", 0, NULL), OD_OK);
    assert_true(od_schema_same(&a, &b));
    od_schema_release(&b);
    assert_int_equal(od_schema_make(&b, "x", "d:18,4,64", 0, NULL), OD_OK);
    assert_false(od_schema_same(&a, &b));
    od_schema_release(&a);
    od_schema_release(&b);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_row_comes_back_as_it_was_made),
        cmocka_unit_test(test_a_value_of_another_type_is_told_by_name),
        cmocka_unit_test(test_every_cut_of_a_record_is_refused),
        cmocka_unit_test(test_a_stream_is_read_piece_by_piece),
        cmocka_unit_test(test_schemas_are_the_same_by_names_and_types),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

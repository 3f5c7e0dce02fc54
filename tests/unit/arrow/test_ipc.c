/* The Arrow IPC reader against streams of another writer (tests/fuzz/corpus/ipc_read, made by pyarrow), and the writer
 * against the reader. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "arrow/ipc_read.h"
#include "arrow/ipc_write.h"

#define CORPUS "tests/fuzz/corpus/ipc_read/"

static od_error err;

#define assert_ok(expr)                             \
    do {                                            \
        err.message[0] = '\0';                      \
        od_code code_ = (expr);                     \
        if (code_ != OD_OK)                         \
            fail_msg("%s: %s", #expr, err.message); \
    } while (0)

/* The file as a message whose bytes start SKEW past a multiple of 64. */
static od_msg *load(const char *name, unsigned skew)
{
    char path[256];
    od_msg *msg;
    (void)snprintf(path, sizeof path, CORPUS "%s.arrows", name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    size_t size = (size_t)ftell(f);
    rewind(f);
    assert_ok(od_msg_create(size, skew, &msg, &err));
    assert_int_equal(fread(od_msg_data(msg), 1, size, f), size);
    (void)fclose(f);
    return msg;
}

static od_slice bytes_of(od_msg *msg)
{
    return od_slice_of(od_msg_data(msg), od_msg_len(msg));
}

static od_ipc_reader *new_reader(void)
{
    od_ipc_reader *reader;
    assert_ok(od_ipc_reader_create(&reader, &err));
    return reader;
}

static bool valid(const od_column *column, int64_t row)
{
    return column->validity == NULL || (column->validity[row / 8] >> (row % 8) & 1);
}

static int64_t i64(const od_column *column, int64_t row)
{
    int64_t v;
    memcpy(&v, column->data + row * 8, 8);
    return v;
}

static void assert_text(const od_column *column, int64_t row, const char *expected)
{
    const int32_t *offsets = (const int32_t *)(const void *)column->data;
    size_t len = (size_t)(offsets[row + 1] - offsets[row]);
    assert_int_equal(len, strlen(expected));
    if (len > 0)
        assert_memory_equal(column->bytes + offsets[row], expected, len);
}

static void check_several(unsigned skew)
{
    od_ipc_reader *reader = new_reader();
    od_msg *msg = load("several_batches", skew);
    const od_batch *batch;
    assert_ok(od_ipc_reader_start(reader, bytes_of(msg), NULL, &err));
    const struct ArrowSchema *schema = od_ipc_reader_schema(reader);
    assert_int_equal(schema->n_children, 2);
    assert_string_equal(schema->children[1]->name, "s");
    assert_string_equal(schema->children[1]->format, "u");
    assert_ok(od_ipc_reader_next(reader, &batch, &err));
    assert_int_equal(batch->rows, 3);
    assert_int_equal(i64(&batch->columns[0], 2), 3);
    assert_false(valid(&batch->columns[0], 1));
    assert_true(valid(&batch->columns[0], 0));
    assert_int_equal((uintptr_t)batch->columns[0].data % 8, 0);
    assert_text(&batch->columns[1], 2, "ccc");
    assert_ok(od_ipc_reader_next(reader, &batch, &err));
    assert_int_equal(batch->rows, 0);
    assert_non_null(batch->columns[1].data);
    assert_ok(od_ipc_reader_next(reader, &batch, &err));
    assert_int_equal(batch->rows, 1);
    assert_text(&batch->columns[1], 0, "dd");
    assert_ok(od_ipc_reader_next(reader, &batch, &err));
    assert_null(batch);
    assert_ok(od_ipc_reader_next(reader, &batch, &err));
    assert_null(batch);
    od_ipc_reader_free(reader);
    od_msg_unref(msg);
}

static void test_several_batches_are_read(void **state)
{
    (void)state;
    check_several(0);
}

static void test_misaligned_payload_is_shown_aligned(void **state)
{
    (void)state;
    for (unsigned skew = 1; skew < 16; skew++)
        check_several(skew);
}

static void test_schema_alone_has_no_batch(void **state)
{
    (void)state;
    od_ipc_reader *reader = new_reader();
    od_msg *msg = load("schema_only", 0);
    const od_batch *batch;
    assert_ok(od_ipc_reader_start(reader, bytes_of(msg), NULL, &err));
    assert_ok(od_ipc_reader_next(reader, &batch, &err));
    assert_null(batch);
    od_ipc_reader_free(reader);
    od_msg_unref(msg);
}

static void test_same_schema_is_noticed(void **state)
{
    (void)state;
    od_ipc_reader *reader = new_reader();
    od_msg *first = load("several_batches", 0), *second = load("one_row", 5), *other = load("nested", 0);
    const od_batch *batch;
    bool same = true;
    assert_ok(od_ipc_reader_start(reader, bytes_of(first), &same, &err));
    assert_false(same);
    assert_ok(od_ipc_reader_start(reader, bytes_of(second), &same, &err));
    assert_true(same);
    assert_ok(od_ipc_reader_next(reader, &batch, &err));
    assert_int_equal(i64(&batch->columns[0], 0), 7);
    assert_ok(od_ipc_reader_start(reader, bytes_of(other), &same, &err));
    assert_false(same);
    assert_int_equal(od_ipc_reader_schema(reader)->n_children, 8);
    od_ipc_reader_free(reader);
    od_msg_unref(first);
    od_msg_unref(second);
    od_msg_unref(other);
}

static void test_nested_columns_are_shown(void **state)
{
    (void)state;
    od_ipc_reader *reader = new_reader();
    od_msg *msg = load("nested", 3);
    const od_batch *batch;
    assert_ok(od_ipc_reader_start(reader, bytes_of(msg), NULL, &err));
    assert_ok(od_ipc_reader_next(reader, &batch, &err));
    const od_column *list = &batch->columns[0], *record = &batch->columns[1], *map = &batch->columns[3];
    const int32_t *offsets = (const int32_t *)(const void *)list->data;
    assert_int_equal(list->child_count, 1);
    assert_int_equal(offsets[1] - offsets[0], 2);
    assert_int_equal(offsets[4] - offsets[3], 1);
    assert_false(valid(list, 1));
    assert_int_equal(record->child_count, 2);
    assert_text(&record->children[1], 3, "y");
    assert_int_equal(map->children[0].child_count, 2);
    assert_text(&map->children[0].children[0], 1, "a");
    assert_int_equal(batch->columns[2].children[0].length, 8);
    assert_int_equal(batch->columns[6].length, 4); /* null */
    assert_null(batch->columns[6].data);
    assert_int_equal(batch->columns[7].data[16 * 3], 'z');
    od_ipc_reader_free(reader);
    od_msg_unref(msg);
}

static void test_metadata_of_a_field(void **state)
{
    (void)state;
    od_ipc_reader *reader = new_reader();
    od_msg *msg = load("metadata", 0);
    assert_ok(od_ipc_reader_start(reader, bytes_of(msg), NULL, &err));
    const struct ArrowSchema *field = od_ipc_reader_schema(reader)->children[0];
    assert_true(od_slice_equal(od_schema_metadata(field, "openduck:type"), od_slice_str("INTEGER")));
    assert_non_null(od_schema_metadata(field, "k").data);
    assert_int_equal(od_schema_metadata(field, "k").len, 0);
    assert_null(od_schema_metadata(field, "missing").data);
    od_ipc_reader_free(reader);
    od_msg_unref(msg);
}

static void assert_refused(const char *name, od_code code)
{
    od_ipc_reader *reader = new_reader();
    od_msg *msg = load(name, 0);
    const od_batch *batch;
    od_code got = od_ipc_reader_start(reader, bytes_of(msg), NULL, &err);
    if (got == OD_OK)
        got = od_ipc_reader_next(reader, &batch, &err);
    assert_int_equal(got, code);
    od_ipc_reader_free(reader);
    od_msg_unref(msg);
}

static void test_layouts_that_are_not_read_are_named(void **state)
{
    (void)state;
    assert_refused("view", OD_E_NOT_IMPLEMENTED);
    assert_refused("compressed", OD_E_NOT_IMPLEMENTED);
    assert_refused("large_utf8", OD_E_NOT_IMPLEMENTED);
    assert_refused("union", OD_E_NOT_IMPLEMENTED);
    assert_refused("dictionary", OD_E_NOT_IMPLEMENTED);
    assert_non_null(strstr(err.message, "'e'"));
}

static void test_every_cut_is_found(void **state)
{
    (void)state;
    static const char *const names[] = {"several_batches", "nested", "dictionary", "schema_only"};
    for (size_t k = 0; k < 4; k++) {
        od_msg *msg = load(names[k], 0);
        for (size_t len = 0; len + 4 < od_msg_len(msg); len++) {
            od_ipc_reader *reader = new_reader();
            struct ArrowArray array = {0};
            od_slice cut = od_slice_of(od_msg_data(msg), len);
            od_code rc = od_ipc_reader_start(reader, cut, NULL, &err);
            while (rc == OD_OK) {
                rc = od_ipc_reader_next_array(reader, msg, &array, &err);
                if (rc != OD_OK || array.release == NULL)
                    break;
                array.release(&array);
            }
            assert_int_equal(rc, OD_E_CORRUPT);
            assert_non_null(strstr(err.message, "offset"));
            od_ipc_reader_free(reader);
        }
        od_msg_unref(msg);
    }
}

static void test_arrays_outlive_reader_and_payload(void **state)
{
    (void)state;
    for (unsigned skew = 0; skew < 8; skew += 7) {
        od_ipc_reader *reader = new_reader();
        od_msg *msg = load("several_batches", skew);
        struct ArrowArray first, second, third;
        assert_ok(od_ipc_reader_start(reader, bytes_of(msg), NULL, &err));
        assert_ok(od_ipc_reader_next_array(reader, msg, &first, &err));
        assert_ok(od_ipc_reader_next_array(reader, msg, &second, &err));
        assert_ok(od_ipc_reader_next_array(reader, msg, &third, &err));
        struct ArrowArray none;
        assert_ok(od_ipc_reader_next_array(reader, msg, &none, &err));
        assert_null(none.release);
        od_ipc_reader_free(reader);
        od_msg_unref(msg);
        assert_int_equal(first.length, 3);
        assert_int_equal(((const int64_t *)first.children[0]->buffers[1])[2], 3);
        assert_int_equal(third.length, 1);
        assert_memory_equal(third.children[1]->buffers[2], "dd", 2);
        first.release(&first);
        second.release(&second);
        third.release(&third);
    }
}

/* As the C data interface allows it: a column is moved out, and lives longer than the batch and the other columns. */
static void test_a_column_taken_out_of_a_batch_outlives_it(void **state)
{
    (void)state;
    for (unsigned skew = 0; skew < 8; skew += 7) {
        od_ipc_reader *reader = new_reader();
        od_msg *msg = load("several_batches", skew);
        struct ArrowArray batch, column;
        assert_ok(od_ipc_reader_start(reader, bytes_of(msg), NULL, &err));
        assert_ok(od_ipc_reader_next_array(reader, msg, &batch, &err));
        od_ipc_reader_free(reader);
        od_msg_unref(msg);
        column = *batch.children[0];
        batch.children[0]->release = NULL;
        batch.release(&batch);
        assert_null(batch.release);
        assert_int_equal(column.length, 3);
        assert_int_equal(((const int64_t *)column.buffers[1])[2], 3);
        column.release(&column);
        assert_null(column.release);
    }
}

static void test_dictionaries_come_with_arrays(void **state)
{
    (void)state;
    od_ipc_reader *reader = new_reader();
    for (int round = 0; round < 2; round++) {
        od_msg *msg = load("dictionary_replaced", round ? 5 : 0);
        struct ArrowArray one, two;
        assert_ok(od_ipc_reader_start(reader, bytes_of(msg), NULL, &err));
        assert_ok(od_ipc_reader_next_array(reader, msg, &one, &err));
        assert_ok(od_ipc_reader_next_array(reader, msg, &two, &err));
        od_msg_unref(msg);
        assert_int_equal(one.children[0]->dictionary->length, 2);
        assert_memory_equal(one.children[0]->dictionary->buffers[2], "xy", 2);
        assert_memory_equal(two.children[0]->dictionary->buffers[2], "pq", 2);
        one.release(&one);
        two.release(&two);
    }
    od_ipc_reader_free(reader);
}

/* Any one byte changed: nothing may be read out of bounds (sanitizers look), nor anything hang. */
static void test_flipped_bytes_do_no_harm(void **state)
{
    (void)state;
    static const char *const names[] = {"nested", "dictionary_replaced", "list_of_dictionary", "union", "v4"};
    for (size_t k = 0; k < 5; k++) {
        od_msg *msg = load(names[k], 0);
        uint8_t *data = od_msg_data(msg);
        for (size_t i = 0; i < od_msg_len(msg); i++) {
            static const uint8_t flips[] = {0xff, 0x80, 0x01};
            for (size_t f = 0; f < sizeof flips; f++) {
                od_ipc_reader *reader = new_reader();
                struct ArrowArray array = {0};
                const od_batch *batch = NULL;
                data[i] ^= flips[f];
                od_code rc = od_ipc_reader_start(reader, bytes_of(msg), NULL, &err);
                while (rc == OD_OK && (rc = od_ipc_reader_next_array(reader, msg, &array, &err)) == OD_OK &&
                       array.release)
                    array.release(&array);
                rc = od_ipc_reader_start(reader, bytes_of(msg), NULL, &err);
                while (rc == OD_OK && (rc = od_ipc_reader_next(reader, &batch, &err)) == OD_OK && batch)
                    ;
                data[i] ^= flips[f];
                od_ipc_reader_free(reader);
            }
        }
        od_msg_unref(msg);
    }
}

/* What was read as arrays is written again, and read again. */
static void rewrite(const char *name)
{
    od_ipc_reader *reader = new_reader(), *again = new_reader();
    od_msg *msg = load(name, 0), *written;
    od_ipc_writer *writer;
    struct ArrowArray array;
    int64_t rows = 0, batches = 0, rows_again = 0, batches_again = 0;
    assert_ok(od_ipc_reader_start(reader, bytes_of(msg), NULL, &err));
    assert_ok(od_ipc_writer_create(od_ipc_reader_schema(reader), &writer, &err));
    for (;;) {
        assert_ok(od_ipc_reader_next_array(reader, msg, &array, &err));
        if (array.release == NULL)
            break;
        rows += array.length;
        batches++;
        assert_ok(od_ipc_writer_add(writer, &array, &err));
        assert_null(array.release);
    }
    size_t pending = od_ipc_writer_pending(writer);
    assert_ok(od_ipc_writer_flush(writer, &written, &err));
    assert_int_equal(od_msg_len(written), pending);
    bool same;
    assert_ok(od_ipc_reader_start(again, bytes_of(written), &same, &err));
    for (;;) {
        assert_ok(od_ipc_reader_next_array(again, written, &array, &err));
        if (array.release == NULL)
            break;
        rows_again += array.length;
        batches_again++;
        array.release(&array);
    }
    assert_int_equal(rows, rows_again);
    assert_int_equal(batches, batches_again);
    od_ipc_writer_free(writer);
    od_ipc_reader_free(reader);
    od_ipc_reader_free(again);
    od_msg_unref(msg);
    od_msg_unref(written);
}

static void test_arrays_are_written(void **state)
{
    (void)state;
    rewrite("several_batches");
    rewrite("nested");
    rewrite("dictionary");
    rewrite("list_of_dictionary");
    rewrite("union");
    rewrite("large_utf8");
}

static void test_layout_puts_the_body_at_64(void **state)
{
    (void)state;
    od_ipc_reader *reader = new_reader();
    od_msg *msg = load("one_row", 0), *made;
    od_ipc_writer *writer;
    const od_batch *batch;
    size_t at;
    assert_ok(od_ipc_reader_start(reader, bytes_of(msg), NULL, &err));
    assert_ok(od_ipc_writer_create(od_ipc_reader_schema(reader), &writer, &err));
    od_ipc_node nodes[] = {{2, 0}, {2, 0}};
    od_ipc_span spans[] = {{0, 0}, {0, 16}, {64, 0}, {64, 12}, {128, 5}};
    od_ipc_layout layout = {2, nodes, 2, spans, 5, 192};
    assert_ok(od_ipc_writer_layout(writer, &layout, &made, &at, &err));
    assert_int_equal(at % 64, 0);
    assert_true(od_ipc_writer_layout_size(writer, 2, 5, 192) >= od_msg_len(made));
    uint8_t *body = od_msg_data(made) + at;
    memset(body, 0, 192);
    memcpy(body, (int64_t[]){11, 22}, 16);
    memcpy(body + 64, (int32_t[]){0, 2, 5}, 12);
    memcpy(body + 128, "abcde", 5);
    od_ipc_reader *other = new_reader();
    assert_ok(od_ipc_reader_start(other, bytes_of(made), NULL, &err));
    assert_ok(od_ipc_reader_next(other, &batch, &err));
    assert_int_equal(batch->rows, 2);
    assert_ptr_equal(batch->columns[0].data, body);
    assert_text(&batch->columns[1], 1, "cde");
    od_ipc_writer_free(writer);
    od_ipc_reader_free(reader);
    od_ipc_reader_free(other);
    od_msg_unref(msg);
    od_msg_unref(made);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_several_batches_are_read),
        cmocka_unit_test(test_misaligned_payload_is_shown_aligned),
        cmocka_unit_test(test_schema_alone_has_no_batch),
        cmocka_unit_test(test_same_schema_is_noticed),
        cmocka_unit_test(test_nested_columns_are_shown),
        cmocka_unit_test(test_metadata_of_a_field),
        cmocka_unit_test(test_layouts_that_are_not_read_are_named),
        cmocka_unit_test(test_every_cut_is_found),
        cmocka_unit_test(test_arrays_outlive_reader_and_payload),
        cmocka_unit_test(test_a_column_taken_out_of_a_batch_outlives_it),
        cmocka_unit_test(test_dictionaries_come_with_arrays),
        cmocka_unit_test(test_flipped_bytes_do_no_harm),
        cmocka_unit_test(test_arrays_are_written),
        cmocka_unit_test(test_layout_puts_the_body_at_64),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

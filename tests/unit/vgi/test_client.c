/* What the client makes of records, and how it writes conditions; no worker is needed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "arrow/schema.h"
#include "base/alloc.h"
#include "vgi/client/decode.h"
#include "vgi/client/filter.h"
#include "vgi/client/scan_internal.h"
#include "vgi/wire.h"

static const od_vgi_dialect newer = {.paths = true, .nulls = true, .expressions = true};
static const od_vgi_dialect older = {.version = "1.3.0"};

/* ---- rows of rows ---- */

static void test_rows_are_told_to_be_of_rows_that_went_in(void **state)
{
    static const struct {
        const char *text; /* NULL: nothing is told */
        int64_t rows, given;
        od_code code;
        int32_t first, last;
    } cases[] = {
        {NULL, 3, 3, OD_OK, 0, 2},
        {NULL, 3, 0, OD_OK, -1, -1},
        {"@", 3, 0, OD_OK, -1, -1},
        {NULL, 3, 2, OD_E_PROTOCOL, -1, -1},
        {"AgAAAAAAAAA=", 3, 2, OD_OK, 2, 0},
        {"AgAAAAAAAAA=", 2, 2, OD_E_PROTOCOL, -1, -1}, /* there is no row 2 */
        {"AgAAAAAAAAA=", 3, 1, OD_E_PROTOCOL, -1, -1}, /* of two rows */
        {"AgAAAAAAAAA=", 3, 3, OD_E_PROTOCOL, -1, -1},
        {"/////w==", 3, 1, OD_E_PROTOCOL, -1, -1}, /* -1 */
        {"AAAAAA", 3, 1, OD_E_PROTOCOL, -1, -1},
        {"", 3, 1, OD_E_PROTOCOL, -1, -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        od_slice text = cases[i].text != NULL ? od_slice_str(cases[i].text) : (od_slice){NULL, 0};
        int32_t out[3] = {-1, -1, -1};
        od_error err;

        assert_int_equal(od_vgi_parents_read(text, cases[i].rows, cases[i].given, out, &err), cases[i].code);
        assert_int_equal(out[0], cases[i].first);
        if (cases[i].code == OD_OK && cases[i].given > 0)
            assert_int_equal(out[cases[i].given - 1], cases[i].last);
    }
}

/* ---- secrets ---- */

static void test_secrets_go_to_safe_urls_only(void **state)
{
    static const struct {
        const char *url;
        bool safe;
    } cases[] = {
        {"https://secrets.example/x", true},
        {"HTTPS://h", true},
        {"https://", false},
        {"https:///x", false},
        {"http://127.0.0.1", true},
        {"http://127.0.0.1:8080/x", true},
        {"http://localhost/", true},
        {"http://[::1]:1", true},
        {"http://localhost.evil.example", false},
        {"http://127.0.0.1.evil.example", false},
        {"http://127.0.0.1@evil.example", false},
        {"http://localhost:x@evil.example", false},
        {"http://secrets.example", false},
        {"ftp://127.0.0.1", false},
        {"http://[::1]evil.example", false},
        {"", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(od_vgi_secret_url_is_safe(cases[i].url), cases[i].safe);
}

static void test_secrets_are_kept_as_long_as_they_say(void **state)
{
    (void)state;
    assert_int_equal(od_vgi_secret_keep_seconds(&(od_vgi_secret){.found = true}, 1000), 300);
    assert_int_equal(od_vgi_secret_keep_seconds(&(od_vgi_secret){.found = true, .ttl_seconds = 7}, 1000), 7);
    assert_int_equal(
        od_vgi_secret_keep_seconds(&(od_vgi_secret){.found = true, .ttl_seconds = 7, .expires_at_unix = 1003}, 1000),
        3);
    assert_int_equal(od_vgi_secret_keep_seconds(&(od_vgi_secret){.found = true, .expires_at_unix = 900}, 1000), 0);
    assert_int_equal(od_vgi_secret_keep_seconds(&(od_vgi_secret){.ttl_seconds = 4000}, 1000), 30);
    assert_int_equal(od_vgi_secret_keep_seconds(&(od_vgi_secret){.ttl_seconds = 5}, 1000), 5);
}

/* ---- records ---- */

static od_slice bytes(od_msg *msg)
{
    return od_slice_of(od_msg_data(msg), od_msg_len(msg));
}

static od_msg *finish(od_row *row)
{
    od_msg *msg;

    assert_int_equal(od_row_finish(row, NULL, 0, &msg, NULL), OD_OK);
    return msg;
}

static od_row *begin(void)
{
    od_row *row;

    assert_int_equal(od_row_create(&row, NULL), OD_OK);
    return row;
}

/* A table of one column with the constraint, as the list of a result. */
static od_code decode_table(int32_t columns, int64_t not_null, const char *name, od_vgi_tables *out, od_error *err)
{
    struct ArrowSchema schema;
    od_msg *schema_bytes, *table, *list;
    od_row *row = begin();

    assert_int_equal(od_schema_make(&schema, "", "+s", columns, NULL), OD_OK);
    for (int32_t i = 0; i < columns; i++) {
        assert_int_equal(od_schema_make(schema.children[i], "c", "l", 0, NULL), OD_OK);
        if (i > 0)
            assert_int_equal(od_schema_set_metadata(schema.children[i], "is_row_id", od_slice_str("1"), NULL), OD_OK);
    }
    assert_int_equal(od_vgi_schema_write(&schema, &schema_bytes, NULL), OD_OK);
    od_row_text(row, "name", OD_ROW_NOT_NULL, od_slice_str(name));
    od_row_binary(row, "columns", OD_ROW_NOT_NULL, bytes(schema_bytes));
    od_row_int64_list(row, "not_null_constraints", OD_ROW_NULLABLE, &not_null, 1);
    /* Declared not null, and null all the same: absent. */
    od_row_binary(row, "scan_function", OD_ROW_NOT_NULL, (od_slice){NULL, 0});
    od_row_int64(row, "cardinality_estimate", OD_ROW_NOT_NULL, NULL);
    table = finish(row);
    od_slice item = bytes(table);
    od_row_binary_list(row, "items", OD_ROW_NOT_NULL, &item, 1);
    list = finish(row);
    od_code rc = od_vgi_decode_tables(bytes(list), out, err);
    od_row_free(row);
    od_msg_unref(list);
    od_msg_unref(table);
    od_msg_unref(schema_bytes);
    od_schema_release(&schema);
    return rc;
}

static void test_a_table_is_read_with_what_it_leaves_out(void **state)
{
    od_vgi_tables tables;

    (void)state;
    assert_int_equal(decode_table(2, 0, "t", &tables, NULL), OD_OK);
    assert_int_equal(tables.count, 1);
    assert_string_equal((const char *)tables.items[0].name.data, "t");
    assert_int_equal(tables.items[0].row_id, 1);
    assert_int_equal(tables.items[0].not_null.count, 1);
    assert_false(tables.items[0].has_scan_function);
    assert_false(tables.items[0].cardinality_estimate.known);
    assert_null(tables.items[0].comment.data);
    od_vgi_answer_free(tables.answer);
}

static void test_a_table_that_contradicts_itself_is_refused_by_name(void **state)
{
    static const struct {
        int32_t columns;
        int64_t not_null;
        const char *name, *why;
    } cases[] = {
        {2, 2, "t", "table 't': a constraint on column 2 of 2"},
        {2, -1, "t", "table 't': a constraint on column -1 of 2"},
        {3, 0, "t", "table 't': more than one column is the row id"},
        {2, 0, "", "table '': a table without a name or columns"},
    };
    od_vgi_tables tables;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        od_error err = {0};

        assert_int_equal(decode_table(cases[i].columns, cases[i].not_null, cases[i].name, &tables, &err), OD_E_CORRUPT);
        assert_string_equal(err.message, cases[i].why);
        assert_null(tables.answer);
    }
}

static void test_a_result_that_is_missing_is_told(void **state)
{
    od_vgi_tables tables;
    od_error err = {0};

    (void)state;
    assert_int_equal(od_vgi_decode_tables((od_slice){NULL, 0}, &tables, &err), OD_E_CORRUPT);
    assert_string_equal(err.message, "a record is due where there is none");
}

/* Each allocation fails once, and nothing is lost: the leak checker looks on. */
static void test_memory_that_runs_out_is_an_error(void **state)
{
    od_code rc = OD_E_NO_MEMORY;
    od_row *row = begin();
    od_slice none = {NULL, 0};

    (void)state;
    od_row_binary_list(row, "items", OD_ROW_NOT_NULL, &none, 0);
    od_msg *list = finish(row);
    for (long n = 0; n < 200 && rc != OD_OK; n++) {
        od_vgi_tables tables;

        od_alloc_fail_after(n);
        rc = od_vgi_decode_tables(bytes(list), &tables, NULL);
        od_alloc_fail_after(-1);
        od_vgi_answer_free(tables.answer);
    }
    assert_int_equal(rc, OD_OK);
    od_msg_unref(list);
    od_row_free(row);
}

/* ---- conditions ---- */

static void keep_array(struct ArrowArray *array)
{
    array->release = NULL;
}

static void keep_schema(struct ArrowSchema *schema)
{
    schema->release = NULL;
}

typedef struct {
    int64_t number;
    const void *buffers[2], *none[1];
    struct ArrowArray column, *columns[1];
    struct ArrowSchema field, *fields[1];
    od_vgi_values values;
} literal;

static od_vgi_values *literal_of(literal *l, int64_t number)
{
    *l = (literal){.number = number, .columns = {&l->column}, .fields = {&l->field}};
    l->buffers[1] = &l->number;
    l->column = (struct ArrowArray){.length = 1, .n_buffers = 2, .buffers = l->buffers, .release = keep_array};
    l->field = (struct ArrowSchema){.format = "l", .name = "", .flags = ARROW_FLAG_NULLABLE, .release = keep_schema};
    l->values.array = (struct ArrowArray){.length = 1,
                                          .n_buffers = 1,
                                          .n_children = 1,
                                          .buffers = l->none,
                                          .children = l->columns,
                                          .release = keep_array};
    l->values.schema = (struct ArrowSchema){
        .format = "+s", .name = "", .n_children = 1, .children = l->fields, .release = keep_schema};
    return &l->values;
}

static void make_schema(struct ArrowSchema *out)
{
    assert_int_equal(od_schema_make(out, "", "+s", 2, NULL), OD_OK);
    assert_int_equal(od_schema_make(out->children[0], "a", "l", 0, NULL), OD_OK);
    assert_int_equal(od_schema_make(out->children[1], "b \"q\"", "l", 0, NULL), OD_OK);
}

/* The text of the conditions; how many were written. */
static size_t write_filters(const od_vgi_dialect *dialect, const int64_t *columns, size_t column_count,
                            const od_vgi_expr *const *filters, size_t count, char *text, size_t size)
{
    struct ArrowSchema schema;
    od_msg *msg;
    size_t sent;

    make_schema(&schema);
    text[0] = '\0';
    assert_int_equal(od_vgi_filters_write(dialect, &schema, columns, column_count, filters, count, &msg, &sent, NULL),
                     OD_OK);
    if (msg != NULL) {
        od_record *record;
        od_slice spec;

        assert_int_equal(od_record_of_payload(bytes(msg), &record, NULL), OD_OK);
        assert_int_equal(od_cell_bytes(od_record_cell(record, "filter_spec", 0), &spec, NULL), OD_OK);
        snprintf(text, size, "%.*s", (int)spec.len, (const char *)spec.data);
        od_record_free(record);
        od_msg_unref(msg);
    }
    od_schema_release(&schema);
    return sent;
}

static void test_conditions_are_written_as_each_generation_reads_them(void **state)
{
    static const int64_t projected[] = {1};
    literal seven;
    const od_vgi_expr column = {.kind = OD_VGI_COLUMN, .column = 1};
    od_vgi_expr value = {.kind = OD_VGI_LITERAL};
    const od_vgi_expr *const parts[] = {&column, &value}, *const one[] = {&column};
    const od_vgi_expr compare = {.kind = OD_VGI_COMPARE, .op = OD_VGI_LE, .child_count = 2, .children = parts};
    const od_vgi_expr null = {.kind = OD_VGI_IS_NULL, .child_count = 1, .children = one};
    const od_vgi_expr *const either_parts[] = {&compare, &null};
    const od_vgi_expr either = {.kind = OD_VGI_OR, .child_count = 2, .children = either_parts};
    const od_vgi_expr *const filters[] = {&either};
    char text[1024];

    (void)state;
    value.value = literal_of(&seven, 7);
    assert_int_equal(write_filters(&newer, projected, 1, filters, 1, text, sizeof text), 1);
    assert_string_equal(
        text, "{\"encoding\":\"vgi.filters.v2\",\"semantics\":\"vgi.duckdb.standard.v1\",\"kind\":\"snapshot\","
              "\"predicates\":[{\"id\":\"q0\",\"revision\":0,\"mode\":\"required\",\"source\":\"query\",\"expression\":"
              "{\"node\":\"or\",\"children\":[{\"node\":\"comparison\",\"op\":\"le\",\"left\":{\"node\":\"column_ref\","
              "\"column_index\":1,\"column_name\":\"b \\\"q\\\"\"},\"right\":{\"node\":\"literal\",\"value_ref\":0}},"
              "{\"node\":\"is_null\",\"expression\":{\"node\":\"column_ref\",\"column_index\":1,\"column_name\":"
              "\"b \\\"q\\\"\"},\"negated\":false}]}}]}");
    value.value = literal_of(&seven, 7);
    assert_int_equal(write_filters(&older, projected, 1, filters, 1, text, sizeof text), 1);
    /* The older counts in the columns that come. */
    assert_string_equal(text, "[{\"column_name\":\"b \\\"q\\\"\",\"column_index\":0,\"type\":\"or\",\"children\":["
                              "{\"column_name\":\"b \\\"q\\\"\",\"column_index\":0,\"type\":\"constant\",\"op\":\"le\","
                              "\"value_ref\":0},{\"column_name\":\"b \\\"q\\\"\",\"column_index\":0,\"type\":"
                              "\"is_null\"}]}]");
}

/* The caller applies them; those behind it are told all the same. */
static void test_conditions_that_cannot_be_told_are_left_out(void **state)
{
    static const int64_t projected[] = {0};
    const od_vgi_expr a = {.kind = OD_VGI_COLUMN, .column = 0}, b = {.kind = OD_VGI_COLUMN, .column = 1};
    const od_vgi_expr *const both[] = {&a, &b}, *const only_a[] = {&a}, *const only_b[] = {&b};
    const od_vgi_expr equal = {.kind = OD_VGI_COMPARE, .child_count = 2, .children = both};
    const od_vgi_expr a_null = {.kind = OD_VGI_IS_NULL, .child_count = 1, .children = only_a};
    const od_vgi_expr b_null = {.kind = OD_VGI_IS_NULL, .child_count = 1, .children = only_b};
    const od_vgi_expr *const first[] = {&a_null, &equal, &b_null}, *const gone[] = {&b_null};
    od_vgi_expr deep[100];
    const od_vgi_expr *deep_parts[100][1];
    char text[2048];

    (void)state;
    assert_int_equal(write_filters(&newer, NULL, 0, first, 3, text, sizeof text), 3);
    assert_int_equal(write_filters(&older, NULL, 0, first, 3, text, sizeof text), 2);
    assert_string_equal(text, "[{\"column_name\":\"a\",\"column_index\":0,\"type\":\"is_null\"},"
                              "{\"column_name\":\"b \\\"q\\\"\",\"column_index\":1,\"type\":\"is_null\"}]");
    assert_int_equal(write_filters(&older, projected, 1, gone, 1, text, sizeof text), 0);
    assert_string_equal(text, "");
    deep[0] = a_null;
    for (size_t i = 1; i < 100; i++) {
        deep_parts[i][0] = &deep[i - 1];
        deep[i] = (od_vgi_expr){.kind = OD_VGI_NOT, .child_count = 1, .children = deep_parts[i]};
    }
    const od_vgi_expr *const too_deep[] = {&deep[99]}, *const not_too_deep[] = {&deep[10]};
    assert_int_equal(write_filters(&newer, NULL, 0, too_deep, 1, text, sizeof text), 0);
    assert_int_equal(write_filters(&newer, NULL, 0, not_too_deep, 1, text, sizeof text), 1);
}

/* A worker of generation 1.3 may find that NaN is above nothing, where DuckDB has it above all. */
static void test_numbers_that_may_be_nan_are_told_only_where_they_compare_alike(void **state)
{
    const od_vgi_expr x = {.kind = OD_VGI_COLUMN}, *const parts[] = {&x};
    const od_vgi_expr null = {.kind = OD_VGI_IS_NULL, .child_count = 1, .children = parts};
    const od_vgi_expr *const filters[] = {&null};
    struct ArrowSchema schema;
    size_t sent[2];

    (void)state;
    assert_int_equal(od_schema_make(&schema, "", "+s", 1, NULL), OD_OK);
    assert_int_equal(od_schema_make(schema.children[0], "x", "g", 0, NULL), OD_OK);
    for (size_t i = 0; i < 2; i++) {
        od_msg *msg;

        assert_int_equal(
            od_vgi_filters_write(i == 0 ? &newer : &older, &schema, NULL, 0, filters, 1, &msg, &sent[i], NULL), OD_OK);
        od_msg_unref(msg);
    }
    assert_int_equal(sent[0], 1);
    assert_int_equal(sent[1], 0);
    od_schema_release(&schema);
}

static void test_conditions_without_their_parts_are_refused(void **state)
{
    const od_vgi_expr no_parts = {.kind = OD_VGI_COMPARE}, far = {.kind = OD_VGI_COLUMN, .column = 2},
                      no_value = {.kind = OD_VGI_LITERAL};
    const od_vgi_expr *const cases[] = {&no_parts, &far, &no_value};
    struct ArrowSchema schema;
    od_msg *msg;
    size_t sent;

    (void)state;
    make_schema(&schema);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(od_vgi_filters_write(&newer, &schema, NULL, 0, &cases[i], 1, &msg, &sent, NULL), OD_E_INVALID);
    od_schema_release(&schema);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_told_to_be_of_rows_that_went_in),
        cmocka_unit_test(test_secrets_go_to_safe_urls_only),
        cmocka_unit_test(test_secrets_are_kept_as_long_as_they_say),
        cmocka_unit_test(test_a_table_is_read_with_what_it_leaves_out),
        cmocka_unit_test(test_a_table_that_contradicts_itself_is_refused_by_name),
        cmocka_unit_test(test_a_result_that_is_missing_is_told),
        cmocka_unit_test(test_memory_that_runs_out_is_an_error),
        cmocka_unit_test(test_conditions_are_written_as_each_generation_reads_them),
        cmocka_unit_test(test_conditions_that_cannot_be_told_are_left_out),
        cmocka_unit_test(test_numbers_that_may_be_nan_are_told_only_where_they_compare_alike),
        cmocka_unit_test(test_conditions_without_their_parts_are_refused),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

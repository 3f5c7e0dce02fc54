/* A worker of ours, asked by our client in both generations, over a socket and by HTTP. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arrow/schema.h"
#include "support/worker_world.h"
#include "unit/base/check.h"
#include "vgi/client/bound.h"
#include "vgi/worker/http_scan.h"
#include "vgi/worker/worker_internal.h"

static bool is(od_slice text, const char *what)
{
    return od_slice_equal(text, od_slice_str(what));
}

/* ---- catalogs ---- */

static void check_catalog(world *w)
{
    const od_vgi_table_ref moving = {.schema = "main", .name = "moving"}, missing = {.schema = "main", .name = "no"};
    od_vgi_schemas schemas;
    od_vgi_tables tables;
    od_vgi_functions functions;
    od_vgi_branches branches;
    od_error err = {.code = OD_OK};

    assert_true(is(w->attached.comment, "for tests") && is(w->attached.default_schema, "main"));
    assert_int_equal(w->attached.companion_count, 1);
    assert_true(is(w->attached.companions->target, "duckdb:/nowhere") && !w->attached.companions->required);
    assert_true(is(w->attached.companions->options.items->value, "true"));
    assert_int_equal(od_vgi_list_schemas(w->vgi, &w->context, &schemas, NULL), OD_OK);
    assert_int_equal(schemas.count, 2);
    assert_true(is(schemas.items[1].name, "other"));
    od_vgi_answer_free(schemas.answer);
    assert_int_equal(od_vgi_list_tables(w->vgi, &w->context, "MAIN", &tables, NULL), OD_OK);
    assert_int_equal(tables.count, 2);
    assert_int_equal(tables.items[0].not_null.count, 1);
    assert_false(tables.items[0].cardinality_estimate.known);
    od_vgi_answer_free(tables.answer);
    assert_int_equal(od_vgi_get_table(w->vgi, &w->context, &missing, &tables, NULL), OD_OK);
    assert_int_equal(tables.count, 0);
    od_vgi_answer_free(tables.answer);
    assert_int_equal(od_vgi_list_functions(w->vgi, &w->context, "main", OD_VGI_TABLE_FUNCTION, &functions, NULL),
                     OD_OK);
    assert_int_equal(functions.count, 1);
    assert_true(functions.items->filter_pushdown && is(functions.items->comment, "they count"));
    od_vgi_answer_free(functions.answer);
    /* The filters are those of this moment. */
    for (unsigned i = 1; i < 3; i++) {
        char filter[32];

        assert_int_equal(od_vgi_get_branches(w->vgi, &w->context, &moving, &branches, NULL), OD_OK);
        assert_int_equal(branches.count, 2);
        snprintf(filter, sizeof filter, "n < %u", i);
        assert_true(is(branches.items[1].filter, filter) && is(branches.items[1].source_catalog, "lake"));
        assert_true(is(branches.required_extensions.items[0], "parquet"));
        od_vgi_answer_free(branches.answer);
    }
    assert_int_equal(od_vgi_get_branches(w->vgi, &w->context, &missing, &branches, &err), OD_E_UNKNOWN);
    assert_non_null(strstr(err.message, "there is no table 'main.no'"));
}

static void test_the_catalog_is_told(void **state)
{
    (void)state;
    world_each_way(check_catalog);
}

/* ---- rows ---- */

static void take(od_msg *msg, od_vgi_values *out)
{
    od_record *record;

    assert_int_equal(od_record_of_payload(od_slice_of(od_msg_data(msg), od_msg_len(msg)), &record, NULL), OD_OK);
    od_record_take(record, &out->schema, &out->array);
    od_record_free(record);
    od_msg_unref(msg);
}

static od_vgi_values number(const char *name, int64_t value)
{
    od_vgi_values out = {0};
    od_row *row;
    od_msg *msg;

    assert_int_equal(od_row_create(&row, NULL), OD_OK);
    od_row_int64(row, name, OD_ROW_NULLABLE, &value);
    assert_int_equal(od_row_finish(row, NULL, 0, &msg, NULL), OD_OK);
    take(msg, &out);
    od_row_free(row);
    return out;
}

static void values_release(od_vgi_values *values)
{
    if (values->array.release != NULL)
        values->array.release(&values->array);
    od_schema_release(&values->schema);
}

static od_vgi_bound *bind_numbers(world *w, int64_t count)
{
    od_vgi_values arguments = number("arg_0", count);
    const od_vgi_bind bind = {
        .function = "numbers", .schema = "main", .type = OD_VGI_TABLE_FUNCTION, .arguments = &arguments};
    od_vgi_bound *bound;

    assert_int_equal(od_vgi_bind_function(w->vgi, &w->context, &bind, &bound, NULL), OD_OK);
    values_release(&arguments);
    return bound;
}

/* How many rows come; the last text goes to TEXT (of 256), if that is the first column. */
static od_code read_all(od_vgi_scan *scan, size_t *rows, char *text, od_error *err)
{
    struct ArrowArray array;
    od_code rc;

    *rows = 0;
    while ((rc = od_vgi_scan_next(scan, &array, err)) == OD_OK && array.release != NULL) {
        *rows += (size_t)array.length;
        if (text != NULL && array.length > 0) {
            const int32_t *offsets = array.children[0]->buffers[1];

            snprintf(text, 256, "%.*s", (int)(offsets[1] - offsets[0]), (const char *)array.children[0]->buffers[2]);
        }
        array.release(&array);
    }
    return rc;
}

static void check_rows(world *w)
{
    const int64_t columns[] = {1, 0};
    od_vgi_scan_options options = {.columns = columns, .column_count = 2};
    od_vgi_bound *bound = bind_numbers(w, 7);
    od_vgi_number estimate, max;
    od_vgi_scan *scan;
    od_error err = {.code = OD_OK};
    size_t rows;
    char text[256] = "?";

    assert_int_equal(od_vgi_bound_cardinality(w->vgi, &w->context, bound, &estimate, &max, NULL), OD_OK);
    assert_true(estimate.known && estimate.value == 7 && !max.known);
    assert_int_equal(od_vgi_scan_open(w->vgi, &w->context, bound, &options, &scan, NULL), OD_OK);
    assert_string_equal(od_vgi_scan_schema(scan)->children[0]->name, "s");
    assert_int_equal(read_all(scan, &rows, text, NULL), OD_OK);
    assert_int_equal(rows, 7);
    assert_string_equal(text, "");
    od_vgi_scan_close(scan);
    /* One that is given up, and one that fails; the session goes on. */
    assert_int_equal(od_vgi_scan_open(w->vgi, &w->context, bound, NULL, &scan, NULL), OD_OK);
    od_vgi_scan_close(scan);
    w->state.fail_at = 3;
    assert_int_equal(od_vgi_scan_open(w->vgi, &w->context, bound, NULL, &scan, NULL), OD_OK);
    assert_int_equal(read_all(scan, &rows, NULL, &err), OD_E_UNKNOWN);
    assert_non_null(strstr(err.message, "this batch cannot be made"));
    assert_int_equal(rows, 2);
    od_vgi_scan_close(scan);
    w->state.fail_at = 0;
    assert_int_equal(od_vgi_scan_open(w->vgi, &w->context, bound, NULL, &scan, NULL), OD_OK);
    assert_int_equal(read_all(scan, &rows, NULL, NULL), OD_OK);
    assert_int_equal(rows, 7);
    od_vgi_scan_close(scan);
    od_vgi_bound_free(bound);
}

static void test_rows_come_as_they_are_asked_for(void **state)
{
    (void)state;
    world_each_way(check_rows);
}

static void check_bad_bind(world *w)
{
    od_vgi_values arguments = number("label", 1);
    od_vgi_bind bind = {
        .function = "numbers", .schema = "main", .type = OD_VGI_TABLE_FUNCTION, .arguments = &arguments};
    od_vgi_bound *bound;
    od_error err = {.code = OD_OK};

    assert_int_equal(od_vgi_bind_function(w->vgi, &w->context, &bind, &bound, &err), OD_E_UNKNOWN);
    assert_non_null(strstr(err.message, "numbers needs a count"));
    bind.function = "nothing";
    assert_int_equal(od_vgi_bind_function(w->vgi, &w->context, &bind, &bound, &err), OD_E_UNKNOWN);
    assert_non_null(strstr(err.message, "there is no table function 'nothing'"));
    bind = (od_vgi_bind){.function = "numbers", .type = OD_VGI_TABLE_FUNCTION};
    w->context.attach = od_slice_str("of somebody else");
    assert_int_equal(od_vgi_bind_function(w->vgi, &w->context, &bind, &bound, &err), OD_E_UNKNOWN);
    assert_non_null(strstr(err.message, "attach_opaque_data not recognized"));
    w->context.attach = w->attached.opaque;
    values_release(&arguments);
}

static void test_what_cannot_be_bound_is_told(void **state)
{
    (void)state;
    world_each_way(check_bad_bind);
}

/* ---- filters ---- */

static const od_vgi_expr column_n = {.kind = OD_VGI_COLUMN};

static void check_filters(world *w)
{
    const int64_t columns[] = {1, 0};
    od_vgi_values five = number("x", 5), nine = number("x", 9);
    const od_vgi_expr low = {.kind = OD_VGI_LITERAL, .value = &five}, high = {.kind = OD_VGI_LITERAL, .value = &nine};
    const od_vgi_expr *const of_low[] = {&column_n, &low}, *const of_high[] = {&column_n, &high};
    const od_vgi_expr above = {.kind = OD_VGI_COMPARE, .op = OD_VGI_GE, .child_count = 2, .children = of_low};
    const od_vgi_expr below = {.kind = OD_VGI_COMPARE, .op = OD_VGI_LT, .child_count = 2, .children = of_high};
    const od_vgi_expr *const of_n[] = {&column_n};
    const od_vgi_expr null = {.kind = OD_VGI_IS_NULL, .negated = true, .child_count = 1, .children = of_n};
    const od_vgi_expr *const of_either[] = {&below, &null};
    const od_vgi_expr either = {.kind = OD_VGI_OR, .child_count = 2, .children = of_either};
    const od_vgi_expr *const all[] = {&above, &either};
    const od_vgi_scan_options options = {.columns = columns, .column_count = 2, .filters = all, .filter_count = 2};
    od_vgi_bound *bound = bind_numbers(w, 1);
    od_vgi_scan *scan;
    char text[256] = "?";
    size_t rows;

    assert_int_equal(od_vgi_scan_open(w->vgi, &w->context, bound, &options, &scan, NULL), OD_OK);
    assert_int_equal(read_all(scan, &rows, text, NULL), OD_OK);
    assert_string_equal(text, "(\"n\" >= $value_0) AND ((\"n\" < $value_1) OR (\"n\" IS NOT NULL))");
    od_vgi_scan_close(scan);
    od_vgi_bound_free(bound);
    values_release(&five);
    values_release(&nine);
}

static void test_filters_become_sql(void **state)
{
    (void)state;
    world_each_way(check_filters);
}

/* ---- what is added ---- */

static void expect(od_vgiw_code code, od_vgiw_code wanted, const od_vgiw_error *err, const char *text)
{
    assert_int_equal(code, wanted);
    assert_non_null(strstr(err->message, text));
}

static void test_what_makes_no_sense_is_refused(void **state)
{
    numbers_state numbers = {0};
    od_vgiw *worker = numbers_worker(&numbers);
    const vgiw_function *known = vgiw_find_function(worker, "main", "NUMBERS");
    const vgiw_table *table = vgiw_find_table(worker, "main", "numbers");
    const od_vgiw_branch none = {0}, files = {.format = "parquet"};
    od_vgiw_function function = known->call;
    od_vgiw_table made = {.name = "t", .columns = &table->columns, .branches = &none};
    od_vgiw_error err;

    (void)state;
    expect(od_vgiw_create(&(od_vgiw_catalog){0}, &(od_vgiw *){NULL}, &err), OD_VGIW_INVALID, &err, "needs a name");
    expect(od_vgiw_add_schema(worker, "OTHER", NULL, &err), OD_VGIW_EXISTS, &err, "two schemas 'OTHER'");
    expect(od_vgiw_add_companion(worker, &(od_vgiw_companion){.alias = "x"}, &err), OD_VGIW_INVALID, &err, "a target");
    expect(od_vgiw_add_companion(worker, &(od_vgiw_companion){.alias = "Lake", .target = "x"}, &err), OD_VGIW_EXISTS,
           &err, "two companions 'Lake'");
    function.name = "Numbers";
    expect(od_vgiw_add_function(worker, &function, &err), OD_VGIW_EXISTS, &err, "two functions 'Numbers'");
    function.name = "more";
    function.schema = "nowhere";
    expect(od_vgiw_add_function(worker, &function, &err), OD_VGIW_NOT_FOUND, &err, "no schema 'nowhere'");
    function.next = NULL;
    expect(od_vgiw_add_function(worker, &function, &err), OD_VGIW_INVALID, &err, "lacks bind, open, next or close");
    expect(od_vgiw_add_table(worker, &made, &err), OD_VGIW_INVALID, &err, "has no branch");
    made.branch_count = 1;
    expect(od_vgiw_add_table(worker, &made, &err), OD_VGIW_INVALID, &err, "a branch is a table, files");
    made.branches = &files;
    expect(od_vgiw_add_table(worker, &made, &err), OD_VGIW_INVALID, &err, "has no location");
    made.columns = NULL;
    expect(od_vgiw_add_table(worker, &made, &err), OD_VGIW_INVALID, &err, "'t' has no columns");
    made.name = "NUMBERS";
    expect(od_vgiw_add_table(worker, &made, &err), OD_VGIW_EXISTS, &err, "two tables 'NUMBERS'");
    expect(od_vgiw_serve_unix(worker, "", NULL, &err), OD_VGIW_INVALID, &err, "the path of a socket");
    expect(od_vgiw_serve_http(worker, "nonsense", NULL, &err), OD_VGIW_INVALID, &err, "no address to listen on");
    od_vgiw_free(worker);
}

/* ---- HTTP ---- */

static od_record *init_request(world *w, od_vgi_bound **bound)
{
    od_row *row, *inner;
    od_record *request;
    od_msg *msg;

    *bound = bind_numbers(w, 3);
    assert_int_equal(od_row_create(&row, NULL), OD_OK);
    assert_int_equal(od_row_create(&inner, NULL), OD_OK);
    od_row_binary(inner, "bind_call", OD_ROW_NOT_NULL, od_vgi_msg_bytes((*bound)->request));
    assert_int_equal(od_vgi_put_request(row, inner, NULL), OD_OK);
    assert_int_equal(od_row_finish(row, NULL, 0, &msg, NULL), OD_OK);
    assert_int_equal(od_record_of_payload(od_vgi_msg_bytes(msg), &request, NULL), OD_OK);
    od_msg_unref(msg);
    od_row_free(row);
    od_row_free(inner);
    return request;
}

/* The cursor in ANSWER. */
static od_slice cursor_in(const od_buf *answer)
{
    static const char key[] = "vgi_rpc.stream_state#b64";
    const uint8_t *at = memmem(answer->data, answer->len, key, strlen(key));
    enum { CURSOR = 48 };

    assert_non_null(at);
    /* A text with its length before it stands near the key; which side is the writer's choice. */
    for (const uint8_t *p = answer->data; p + 4 + CURSOR < answer->data + answer->len; p++)
        if (memcmp(p, "\x30\0\0\0", 4) == 0 && memchr(p + 4, 0, CURSOR) == NULL)
            return od_slice_of(p + 4, CURSOR);
    fail();
    return (od_slice){NULL, 0};
}

static void test_a_batch_over_http_can_be_asked_for_again(void **state)
{
    od_buf answer = {0}, again = {0};
    od_vgi_bound *bound;
    od_slice cursor;
    char kept[64];
    vgiw_shelf *scans;
    world w;

    (void)state;
    world_begin(&w, true, &od_vgi_dialects[0]);
    od_record *request = init_request(&w, &bound);
    const vgiw_call call = {.worker = w.worker, .dialect = &od_vgi_dialects[0], .request = request};
    assert_int_equal(vgiw_scans_create(&scans, NULL), OD_OK);
    assert_int_equal(vgiw_scans_begin(scans, &call, &answer, NULL), OD_OK);
    cursor = cursor_in(&answer);
    memcpy(kept, cursor.data, cursor.len);
    cursor.data = (const uint8_t *)kept;
    answer.len = 0;
    assert_int_equal(vgiw_scans_next(scans, cursor, NULL, &answer, NULL), OD_OK);
    assert_int_equal(vgiw_scans_next(scans, cursor, NULL, &again, NULL), OD_OK);
    assert_int_equal(answer.len, again.len);
    assert_memory_equal(answer.data, again.data, answer.len);
    /* One that was answered long ago, and one that never was. */
    const od_slice later = cursor_in(&again);
    again.len = 0;
    answer.len = 0;
    char next[64];
    memcpy(next, later.data, later.len);
    assert_int_equal(vgiw_scans_next(scans, od_slice_of(next, later.len), NULL, &answer, NULL), OD_OK);
    assert_int_equal(vgiw_scans_next(scans, cursor, NULL, &again, NULL), OD_E_NOT_FOUND);
    kept[0] = kept[0] == '0' ? '1' : '0';
    assert_int_equal(vgiw_scans_next(scans, cursor, NULL, &again, NULL), OD_E_NOT_FOUND);
    assert_int_equal(vgiw_scans_next(scans, od_slice_str("short"), NULL, &again, NULL), OD_E_NOT_FOUND);
    vgiw_shelf_free(scans);
    od_record_free(request);
    od_vgi_bound_free(bound);
    od_buf_release(&answer);
    od_buf_release(&again);
    world_end(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_catalog_is_told),
        cmocka_unit_test(test_rows_come_as_they_are_asked_for),
        cmocka_unit_test(test_what_cannot_be_bound_is_told),
        cmocka_unit_test(test_filters_become_sql),
        cmocka_unit_test(test_what_makes_no_sense_is_refused),
        cmocka_unit_test(test_a_batch_over_http_can_be_asked_for_again),
    };

    return check_run("worker", tests, argc, argv);
}

/* NATIVE: every value must come back the same. What the engine writes is put into vectors again, stored in a table, and
 * compared with what the same SQL gives without the engine. */
#include "engine_helper.h"

typedef struct {
    duckdb_database db;
    duckdb_connection con;
} local;

static void local_run(local *own, const char *sql)
{
    duckdb_result result;
    if (duckdb_query(own->con, sql, &result) == DuckDBError)
        fail_msg("%s: %s", sql, duckdb_result_error(&result));
    duckdb_destroy_result(&result);
}

static char *local_text(local *own, const char *sql)
{
    duckdb_result result;
    if (duckdb_query(own->con, sql, &result) == DuckDBError)
        fail_msg("%s: %s", sql, duckdb_result_error(&result));
    char *text = duckdb_value_varchar(&result, 0, 0);
    duckdb_destroy_result(&result);
    return text;
}

static void local_open(local *own)
{
    assert_int_equal(duckdb_open(NULL, &own->db), DuckDBSuccess);
    assert_int_equal(duckdb_connect(own->db, &own->con), DuckDBSuccess);
}

static void local_close(local *own)
{
    duckdb_disconnect(&own->con);
    duckdb_close(&own->db);
}

/* ---- NATIVE to vectors ---- */

static bool valid(const od_column *column, int64_t row)
{
    return column->validity == NULL || (column->validity[row / 8] >> (row % 8) & 1);
}

static size_t width_of(const char *format)
{
    switch (format[0]) {
    case 'c':
    case 'C':
        return 1;
    case 's':
    case 'S':
        return 2;
    case 'i':
    case 'I':
    case 'f':
        return 4;
    case 'w':
        return 16;
    case 't':
        return strcmp(format, "tdD") == 0 ? 4 : 8;
    default:
        return 8;
    }
}

/* Rows [FROM, FROM + COUNT) of COLUMN become rows [AT, ...) of VECTOR. */
static void fill(const struct ArrowSchema *field, const od_column *column, int64_t from, int64_t count,
                 duckdb_vector vector, idx_t at)
{
    const int32_t *offsets = (const int32_t *)(const void *)column->data;
    duckdb_vector_ensure_validity_writable(vector);
    uint64_t *validity = duckdb_vector_get_validity(vector);
    int64_t nulls = 0;
    for (int64_t i = 0; i < count; i++) {
        duckdb_validity_set_row_validity(validity, at + (idx_t)i, valid(column, from + i));
        nulls += !valid(column, from + i);
    }
    if (column->null_count == 0)
        assert_int_equal(nulls, 0);
    const char *format = field->format;
    if (format[0] == 'u' || format[0] == 'z') {
        for (int64_t i = 0; i < count; i++)
            if (valid(column, from + i))
                duckdb_unsafe_vector_assign_string_element_len(vector, at + (idx_t)i,
                                                               (const char *)column->bytes + offsets[from + i],
                                                               (idx_t)(offsets[from + i + 1] - offsets[from + i]));
    } else if (strcmp(format, "+l") == 0) {
        duckdb_list_entry *entries = duckdb_vector_get_data(vector);
        idx_t size = duckdb_list_vector_get_size(vector);
        int64_t first = offsets[from], n = offsets[from + count] - first;
        for (int64_t i = 0; i < count; i++) {
            entries[at + (idx_t)i].offset = size + (idx_t)(offsets[from + i] - first);
            entries[at + (idx_t)i].length = (idx_t)(offsets[from + i + 1] - offsets[from + i]);
            if (!valid(column, from + i))
                assert_int_equal(entries[at + (idx_t)i].length, 0);
        }
        assert_int_equal(duckdb_list_vector_reserve(vector, size + (idx_t)n), DuckDBSuccess);
        assert_int_equal(duckdb_list_vector_set_size(vector, size + (idx_t)n), DuckDBSuccess);
        fill(field->children[0], &column->children[0], first, n, duckdb_list_vector_get_child(vector), size);
    } else if (strncmp(format, "+w:", 3) == 0) {
        int64_t n = strtol(format + 3, NULL, 10);
        fill(field->children[0], &column->children[0], from * n, count * n, duckdb_array_vector_get_child(vector),
             at * (idx_t)n);
    } else if (strcmp(format, "+s") == 0) {
        for (int64_t i = 0; i < column->child_count; i++)
            fill(field->children[i], &column->children[i], from, count,
                 duckdb_struct_vector_get_child(vector, (idx_t)i), at);
    } else {
        size_t width = width_of(format);
        memcpy((uint8_t *)duckdb_vector_get_data(vector) + at * width, column->data + (size_t)from * width,
               (size_t)count * width);
    }
}

static void append_batch(const struct ArrowSchema *schema, const od_batch *batch, duckdb_logical_type *types,
                         duckdb_appender appender)
{
    for (int64_t from = 0; from < batch->rows; from += 2048) {
        int64_t count = batch->rows - from < 2048 ? batch->rows - from : 2048;
        duckdb_data_chunk chunk = duckdb_create_data_chunk(types, (idx_t)batch->column_count);
        assert_non_null(chunk);
        for (int64_t i = 0; i < batch->column_count; i++)
            fill(schema->children[i], &batch->columns[i], from, count, duckdb_data_chunk_get_vector(chunk, (idx_t)i),
                 0);
        duckdb_data_chunk_set_size(chunk, (idx_t)count);
        if (duckdb_append_data_chunk(appender, chunk) == DuckDBError)
            fail_msg("append: %s", duckdb_appender_error(appender));
        duckdb_destroy_data_chunk(&chunk);
    }
}

typedef struct {
    size_t payloads, largest, rows;
} seen;

/* Runs SQL on ENGINE, stores what comes into the table `copy` of OWN. */
static seen store(od_engine *engine, local *own, const char *sql)
{
    od_execution *execution;
    od_ipc_reader *reader;
    duckdb_appender appender;
    duckdb_logical_type types[256];
    seen out = {0};
    assert_int_equal(duckdb_appender_create(own->con, NULL, "copy", &appender), DuckDBSuccess);
    idx_t n = duckdb_appender_column_count(appender);
    assert_true(n <= 256);
    for (idx_t i = 0; i < n; i++)
        types[i] = duckdb_appender_column_type(appender, i);
    assert_ok(try_start(engine, sql, &execution));
    assert_ok(od_ipc_reader_create(&reader, &err));
    for (;;) {
        od_msg *msg;
        const od_batch *batch;
        bool same;
        assert_ok(od_execution_next(execution, &msg, &err));
        if (msg == NULL)
            break;
        assert_ok(od_ipc_reader_start(reader, od_slice_of(od_msg_data(msg), od_msg_len(msg)), &same, &err));
        assert_true(same == (out.payloads > 0));
        assert_int_equal(od_ipc_reader_schema(reader)->n_children, n);
        assert_ok(od_ipc_reader_next(reader, &batch, &err));
        if (batch != NULL) {
            for (int64_t i = 0; i < batch->column_count; i++)
                assert_int_equal((uintptr_t)batch->columns[i].data % 64, 0);
            append_batch(od_ipc_reader_schema(reader), batch, types, appender);
            out.rows += (size_t)batch->rows;
            assert_ok(od_ipc_reader_next(reader, &batch, &err));
            assert_null(batch);
        }
        out.payloads++;
        out.largest = od_msg_len(msg) > out.largest ? od_msg_len(msg) : out.largest;
        od_msg_unref(msg);
    }
    od_execution_end(execution);
    od_ipc_reader_free(reader);
    for (idx_t i = 0; i < n; i++)
        duckdb_destroy_logical_type(&types[i]);
    assert_int_equal(duckdb_appender_destroy(&appender), DuckDBSuccess);
    return out;
}

static void assert_same_tables(local *own)
{
    duckdb_result columns;
    assert_int_equal(duckdb_query(own->con, "SELECT column_name FROM (DESCRIBE orig)", &columns), DuckDBSuccess);
    for (idx_t i = 0; i < duckdb_row_count(&columns); i++) {
        char *name = duckdb_value_varchar(&columns, 0, i), sql[600], *texts[2];
        static const char *const tables[] = {"orig", "copy"};
        for (int k = 0; k < 2; k++) {
            (void)snprintf(sql, sizeof sql,
                           "SELECT md5(string_agg(coalesce(\"%s\"::VARCHAR, '<null>'), '|' ORDER BY rowid)) || ' ' || "
                           "left(string_agg(coalesce(\"%s\"::VARCHAR, '<null>'), '|' ORDER BY rowid), 200) FROM %s",
                           name, name, tables[k]);
            texts[k] = local_text(own, sql);
        }
        if ((texts[0] == NULL) != (texts[1] == NULL) || (texts[0] != NULL && strcmp(texts[0], texts[1]) != 0))
            fail_msg("column %s: %s is not %s", name, texts[1], texts[0]);
        duckdb_free(texts[0]);
        duckdb_free(texts[1]);
        duckdb_free(name);
    }
    duckdb_destroy_result(&columns);
}

static seen round_trip_on(od_engine *engine, const char *sql)
{
    local own;
    char statement[2048];
    local_open(&own);
    (void)snprintf(statement, sizeof statement, "CREATE TABLE orig AS %s", sql);
    local_run(&own, statement);
    local_run(&own, "CREATE TABLE copy AS FROM orig LIMIT 0");
    seen out = store(engine, &own, sql);
    assert_same_tables(&own);
    local_close(&own);
    return out;
}

static seen round_trip(const char *sql)
{
    od_engine *engine = memory_engine();
    seen out = round_trip_on(engine, sql);
    od_engine_close(engine);
    return out;
}

/* ---- tests ---- */

static void test_every_type(void **state)
{
    (void)state;
    seen out = round_trip("SELECT * FROM test_all_types()");
    assert_int_equal(out.rows, 3);
    (void)round_trip("SELECT * FROM test_all_types(use_large_enum := true)");
}

static void test_every_type_in_many_batches(void **state)
{
    (void)state;
    seen out = round_trip("SELECT * FROM test_all_types(), range(1400) t(i) ORDER BY i, int");
    assert_int_equal(out.rows, 4200);
    assert_true(out.payloads > 1);
}

static void test_null_type(void **state)
{
    (void)state;
    od_engine *engine = memory_engine();
    od_execution *execution;
    od_msg *msg;
    od_ipc_reader *reader;
    const od_batch *batch;
    assert_ok(try_start(engine, "SELECT NULL AS n, [NULL, NULL] AS l FROM range(3)", &execution));
    assert_ok(od_execution_next(execution, &msg, &err));
    assert_ok(od_ipc_reader_create(&reader, &err));
    assert_ok(od_ipc_reader_start(reader, od_slice_of(od_msg_data(msg), od_msg_len(msg)), NULL, &err));
    assert_ok(od_ipc_reader_next(reader, &batch, &err));
    const struct ArrowSchema *field = od_ipc_reader_schema(reader)->children[0];
    if (od_slice_equal(od_schema_metadata(field, "openduck:type"), od_slice_str("NULL"))) {
        assert_int_equal(batch->columns[0].null_count, 3);
        assert_false(valid(&batch->columns[0], 2));
    }
    od_ipc_reader_free(reader);
    od_msg_unref(msg);
    od_execution_end(execution);
    od_engine_close(engine);
}

static void test_lists_out_of_order(void **state)
{
    (void)state;
    (void)round_trip(
        "SELECT list_reverse(list(x)) AS l, list_sort(list(x), 'DESC') AS m FROM range(9000) t(x) GROUP BY x % 7 "
        "ORDER BY min(x)");
    (void)round_trip("SELECT CASE WHEN i % 3 = 0 THEN NULL ELSE range(i % 5) END AS l, "
                     "[[i, NULL], NULL, [], range(i % 3)] AS ll, i FROM range(5000) t(i)");
    (void)round_trip(
        "SELECT list_slice(range(20), i % 7, i % 13) AS l, "
        "list_transform(range(i % 4), lambda x: {'a': x, 'b': repeat('text ', x::INT)}) AS s FROM range(5000) t(i)");
    (void)round_trip("SELECT map([i, i + 1], [repeat('v', i::INT % 20), NULL]) AS m, "
                     "array_value(i, NULL, i + 1) AS a, array_value([i], [], NULL) AS al, [array_value(i, i)] AS la "
                     "FROM range(4100) t(i)");
}

static void test_structs_and_unions(void **state)
{
    (void)state;
    (void)round_trip(
        "SELECT CASE WHEN i % 4 = 0 THEN NULL ELSE {'a': i, 'b': {'c': repeat('x', i::INT % 30), 'd': [i]}} END AS s "
        "FROM range(5000) t(i)");
    (void)round_trip(
        "SELECT CASE WHEN i % 3 = 0 THEN union_value(num := i) ELSE NULL END AS u, "
        "(CASE WHEN i % 2 = 0 THEN i::VARCHAR ELSE NULL END)::UNION(a VARCHAR, b BIGINT) AS v FROM range(3000) t(i)");
    (void)round_trip("SELECT [union_value(k := i), NULL] AS l FROM range(3000) t(i)");
}

static void test_variants(void **state)
{
    (void)state;
    (void)round_trip("SELECT i::VARIANT AS a, {'x': i, 'y': [i, i + 1]}::VARIANT AS b, "
                     "CASE WHEN i % 2 = 0 THEN NULL ELSE i::VARCHAR::VARIANT END AS c FROM range(3000) t(i)");
}

static void test_texts_of_every_length(void **state)
{
    (void)state;
    (void)round_trip("SELECT repeat(chr(65 + (i % 26)::INT), (i % 131)::INT) AS t, "
                     "CASE WHEN i % 5 = 0 THEN NULL ELSE repeat('ä', (i % 70)::INT) END AS u, "
                     "encode(repeat('b', (i % 33)::INT)) AS b FROM range(20000) t(i)");
}

static void test_filters_and_validity(void **state)
{
    (void)state;
    (void)round_trip(
        "SELECT CASE WHEN (i * 7919) % 11 = 0 THEN NULL ELSE i END AS n, i % 3 = 0 AS b, "
        "CASE WHEN i > 4000 THEN NULL ELSE i::DECIMAL(30,4) END AS d FROM range(10000) t(i) WHERE i % 3 <> 1");
}

static void test_empty_result_has_a_schema(void **state)
{
    (void)state;
    seen out = round_trip("SELECT * FROM test_all_types() WHERE false");
    assert_int_equal(out.payloads, 1);
    assert_int_equal(out.rows, 0);
}

static void test_wide_table(void **state)
{
    (void)state;
    char sql[4096] = "SELECT ";
    for (int i = 0; i < 250; i++)
        (void)snprintf(sql + strlen(sql), sizeof sql - strlen(sql), "%si", i ? "," : "");
    (void)snprintf(sql + strlen(sql), sizeof sql - strlen(sql), " FROM range(30000) t(i)");
    od_engine *engine = memory_engine();
    assert_ok(run(engine, sql));
    od_engine_close(engine);
    (void)round_trip("SELECT * FROM (SELECT i, i::VARCHAR s FROM range(100) t(i)) PIVOT (first(s) FOR i IN (1, 2, 3))");
}

static void test_payloads_grow_and_stay_below_four_mib(void **state)
{
    (void)state;
    seen out = round_trip("SELECT i, repeat('x', 3000) AS t FROM range(4500) t(i)");
    assert_int_equal(out.rows, 4500);
    assert_true(out.largest < (4U << 20));
    out = round_trip("SELECT i, repeat('x', 1500000) AS t FROM range(7) t(i)");
    assert_true(out.largest < (4U << 20));
}

static void test_one_large_row(void **state)
{
    (void)state;
    seen out = round_trip("SELECT repeat('abcdefgh', 700000) AS t FROM range(2)");
    assert_int_equal(out.payloads, 2);
    assert_true(out.largest > 5600000);
}

static void test_a_row_above_the_limit_is_refused(void **state)
{
    (void)state;
    od_engine *engine = memory_engine();
    assert_fails(engine, "SELECT i AS small, repeat('abcdefgh', 9000000) AS big FROM range(1) t(i)", OD_E_TOO_LARGE);
    assert_non_null(strstr(err.message, "'big'"));
    assert_non_null(strstr(err.message, "72000"));
    assert_int_equal(ask(engine, "SELECT 5::BIGINT"), 5);
    od_engine_close(engine);
    engine = open_engine(&(od_engine_options){.threads = 2, .max_payload = 100000});
    static const od_format formats[] = {OD_FORMAT_PLAIN, OD_FORMAT_LOSSLESS, OD_FORMAT_NATIVE};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(run_as(engine, "SELECT repeat('x', 200000) AS big", formats[i]), OD_E_TOO_LARGE);
        assert_non_null(strstr(err.message, "100000"));
        assert_ok(run_as(engine, "SELECT repeat('x', 9000) AS many FROM range(3000)", formats[i]));
    }
    od_engine_close(engine);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type),
        cmocka_unit_test(test_every_type_in_many_batches),
        cmocka_unit_test(test_null_type),
        cmocka_unit_test(test_lists_out_of_order),
        cmocka_unit_test(test_structs_and_unions),
        cmocka_unit_test(test_variants),
        cmocka_unit_test(test_texts_of_every_length),
        cmocka_unit_test(test_filters_and_validity),
        cmocka_unit_test(test_empty_result_has_a_schema),
        cmocka_unit_test(test_wide_table),
        cmocka_unit_test(test_payloads_grow_and_stay_below_four_mib),
        cmocka_unit_test(test_one_large_row),
        cmocka_unit_test(test_a_row_above_the_limit_is_refused),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* PLAIN, LOSSLESS and NATIVE as another reader sees them: pyarrow reads every payload, and compares PLAIN and LOSSLESS with what
 * DuckDB's own Python gives for the same SQL. */
#include <sys/stat.h>
#include <unistd.h>

#include "engine_helper.h"

static char dir[] = "/tmp/od-plain-XXXXXX";

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) != NULL ? 0 : -1;
}

static int remove_dir(void **state)
{
    char command[64];
    (void)state;
    (void)snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static const char script[] =
    "import sys, glob, pyarrow as pa, duckdb\n"
    "folder, mode, rows, sql = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]\n"
    "parts = []\n"
    "for f in sorted(glob.glob(folder + '/*.arrows')):\n"
    "    r = pa.ipc.open_stream(pa.memory_map(f))\n"
    "    for b in r:\n"
    "        try: b.validate(full=True)\n"
    "        except pa.ArrowInvalid as e:\n" /* DuckDB's largest times and numbers are beyond Arrow's */
    "            if 'acceptable range' not in str(e) and 'precision' not in str(e): raise\n"
    "            b.validate()\n"
    "        if mode != 'native': assert b.num_rows <= 2048, b.num_rows\n"
    "        parts.append(b)\n"
    "    schema = r.schema\n"
    "got = pa.Table.from_batches(parts, schema)\n"
    "assert got.num_rows == rows, got.num_rows\n"
    "if mode != 'native':\n"
    "    c = duckdb.connect()\n"
    "    if mode == 'lossless': c.execute('SET arrow_lossless_conversion = true')\n"
    "    q = c.execute(sql)\n"
    "    want = (q.to_arrow_table if hasattr(q, 'to_arrow_table') else q.fetch_arrow_table)()\n"
    "    for a, b in zip(got.schema, want.schema): assert a.equals(b, check_metadata=True), (a, b)\n"
    "    assert len(got.schema) == len(want.schema)\n"
    "    for n, a, b in zip(got.schema.names, got.columns, want.columns):\n"
    "        t = a.type.storage_type if isinstance(a.type, pa.BaseExtensionType) else a.type\n"
    "        a, b = a.combine_chunks(), b.combine_chunks()\n"
    "        if str(a) != str(b) or len(a) != len(b): raise SystemExit('column %s differs: %s' % (n, t))\n";

static bool exists(const char *path)
{
    return access(path, X_OK) == 0;
}

static void check(const char *sql, od_format format, const char *mode, size_t rows)
{
    static const char python[] = ".deps/venv/bin/python";
    char command[4096], path[128];
    od_engine *engine = memory_engine();
    od_execution *execution;
    od_execution_request request = {.sql = od_slice_str(sql), .format = format};
    if (!exists(python))
        skip();
    assert_ok(od_execution_start(engine, &request, &execution, &err));
    for (int i = 0;; i++) {
        od_msg *msg;
        assert_ok(od_execution_next(execution, &msg, &err));
        if (msg == NULL)
            break;
        assert_true(od_msg_len(msg) < (4U << 20));
        (void)snprintf(path, sizeof path, "%s/%06d.arrows", dir, i);
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(od_msg_data(msg), 1, od_msg_len(msg), f), od_msg_len(msg));
        (void)fclose(f);
        od_msg_unref(msg);
    }
    od_execution_end(execution);
    od_engine_close(engine);
    (void)snprintf(path, sizeof path, "%s/check.py", dir);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    (void)fputs(script, f);
    (void)fclose(f);
    (void)snprintf(command, sizeof command, "ASAN_OPTIONS= LD_PRELOAD= %s %s %s %s %zu \"%s\"", python, path, dir, mode,
                   rows, sql);
    assert_int_equal(system(command), 0);
    (void)snprintf(command, sizeof command, "rm -f %s/*.arrows", dir);
    assert_int_equal(system(command), 0);
}

#define ALL "SELECT * FROM test_all_types()"
#define MANY "SELECT * FROM test_all_types(), range(3000) t(i) ORDER BY i, int"
#define MIXED                                                                                                        \
    "SELECT i, i::VARCHAR AS t, CASE WHEN i % 3 = 0 THEN NULL ELSE [i, NULL] END AS l, {'a': i, 'b': [i::VARCHAR]} " \
    "AS s, "                                                                                                         \
    "(['a', 'b', 'c'])[1 + i % 3]::ENUM('a', 'b', 'c') AS e FROM range(20000) t(i)"

static void test_plain_is_duckdbs_own(void **state)
{
    (void)state;
    check(ALL, OD_FORMAT_PLAIN, "plain", 3);
    check(MANY, OD_FORMAT_PLAIN, "plain", 9000);
    check(MIXED, OD_FORMAT_PLAIN, "plain", 20000);
    check("SELECT 1 AS a WHERE false", OD_FORMAT_PLAIN, "plain", 0);
    check("SELECT repeat('x', 3000) AS t, i FROM range(9000) r(i)", OD_FORMAT_PLAIN, "plain", 9000);
}

static void test_lossless_keeps_types(void **state)
{
    (void)state;
    check(ALL, OD_FORMAT_LOSSLESS, "lossless", 3);
    check(MIXED, OD_FORMAT_LOSSLESS, "lossless", 20000);
}

static void test_native_is_valid_arrow(void **state)
{
    (void)state;
    check(ALL, OD_FORMAT_NATIVE, "native", 3);
    check(MANY, OD_FORMAT_NATIVE, "native", 9000);
    check(MIXED, OD_FORMAT_NATIVE, "native", 20000);
}

/* A connection serves formats in turn. */
static void test_formats_take_turns(void **state)
{
    (void)state;
    od_engine *engine = memory_engine();
    static const od_format formats[] = {OD_FORMAT_PLAIN, OD_FORMAT_LOSSLESS, OD_FORMAT_NATIVE, OD_FORMAT_PLAIN};
    for (size_t i = 0; i < 4; i++) {
        od_execution *execution;
        od_msg *msg;
        od_ipc_reader *reader;
        od_execution_request request = {.sql = od_slice_str("SELECT 1::HUGEINT AS h"), .format = formats[i]};
        assert_ok(od_execution_start(engine, &request, &execution, &err));
        assert_ok(od_execution_next(execution, &msg, &err));
        assert_ok(od_ipc_reader_create(&reader, &err));
        assert_ok(od_ipc_reader_start(reader, od_slice_of(od_msg_data(msg), od_msg_len(msg)), NULL, &err));
        const struct ArrowSchema *field = od_ipc_reader_schema(reader)->children[0];
        od_slice extension = od_schema_metadata(field, "ARROW:extension:name");
        assert_int_equal(extension.len > 0, formats[i] == OD_FORMAT_LOSSLESS);
        assert_int_equal(field->format[0] == 'd', formats[i] == OD_FORMAT_PLAIN);
        od_ipc_reader_free(reader);
        od_msg_unref(msg);
        od_execution_end(execution);
    }
    od_engine_close(engine);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_is_duckdbs_own),
        cmocka_unit_test(test_lossless_keeps_types),
        cmocka_unit_test(test_native_is_valid_arrow),
        cmocka_unit_test(test_formats_take_turns),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}

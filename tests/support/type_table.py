"""DuckDB's types, each with values that show whether it travels whole."""

# A column of each kind: name, SQL type, and expressions for values; `i` is the row number.
SCALARS = {
    "boolean": ("BOOLEAN", "i % 2 = 0"),
    "tinyint": ("TINYINT", "(i % 256 - 128)::TINYINT"),
    "smallint": ("SMALLINT", "(i % 65536 - 32768)::SMALLINT"),
    "integer": ("INTEGER", "(i * 858993 - 2147483648)::INTEGER"),
    "bigint": ("BIGINT", "-9223372036854775808 + i::BIGINT * 3074457345618"),
    "hugeint": ("HUGEINT", "'-170141183460469231731687303715884105728'::HUGEINT + i * 3074457345618258602::HUGEINT"),
    "utinyint": ("UTINYINT", "(i % 256)::UTINYINT"),
    "usmallint": ("USMALLINT", "(i % 65536)::USMALLINT"),
    "uinteger": ("UINTEGER", "(4294967295 - i)::UINTEGER"),
    "ubigint": ("UBIGINT", "18446744073709551615::UBIGINT - i::UBIGINT"),
    "uhugeint": ("UHUGEINT", "340282366920938463463374607431768211455::UHUGEINT - i::UHUGEINT"),
    "float": ("FLOAT", "CASE i % 5 WHEN 0 THEN 'nan' WHEN 1 THEN '-inf' WHEN 2 THEN '-0.0' ELSE i / 3 END::FLOAT"),
    "double": ("DOUBLE", "CASE i % 5 WHEN 0 THEN 'nan' WHEN 1 THEN 'inf' WHEN 2 THEN '5e-324' ELSE i / 3 END::DOUBLE"),
    "dec4": ("DECIMAL(4,1)", "(i % 1000 - 500.5)::DECIMAL(4,1)"),
    "dec9": ("DECIMAL(9,4)", "(i - 500.1234)::DECIMAL(9,4)"),
    "dec18": ("DECIMAL(18,6)", "(i * 1000 - 0.000001)::DECIMAL(18,6)"),
    "dec38": ("DECIMAL(38,10)", "(i * 10000000000000000000::HUGEINT)::DECIMAL(38,10) + 0.0000000001"),
    "varchar": ("VARCHAR", "repeat(chr((97 + i % 26)::INTEGER), (i % 40)::INTEGER) || '🦆' || chr(0)"),
    "blob": ("BLOB", "('\\x00\\xFF' || chr((65 + i % 26)::INTEGER))::BLOB"),
    "bit": ("BIT", "repeat('10', (1 + i % 20)::INTEGER)::BIT"),
    "bignum": ("BIGNUM", "(i::VARCHAR || repeat('7', (i % 60)::INTEGER))::BIGNUM"),
    "uuid": ("UUID", "md5(i::VARCHAR)::UUID"),
    "date": ("DATE", "CASE i % 7 WHEN 0 THEN 'infinity' WHEN 1 THEN '-infinity' ELSE '2000-01-01' END::DATE"),
    "time": ("TIME", "TIME '00:00:00' + to_microseconds(i * 86399999)"),
    "time_ns": ("TIME_NS", "'12:34:56.123456789'::TIME_NS"),
    "timetz": ("TIME WITH TIME ZONE", "'12:34:56.789012+05:30'::TIMETZ"),
    "timestamp": ("TIMESTAMP", "TIMESTAMP '1970-01-01' + to_microseconds(i * 123456789012)"),
    "timestamp_s": ("TIMESTAMP_S", "('1969-12-31 23:59:59'::TIMESTAMP + to_seconds(i))::TIMESTAMP_S"),
    "timestamp_ms": ("TIMESTAMP_MS", "('1969-12-31 23:59:59.999'::TIMESTAMP + to_seconds(i))::TIMESTAMP_MS"),
    "timestamp_ns": ("TIMESTAMP_NS", "make_timestamp_ns(i * 1234567890123)"),
    "timestamptz": ("TIMESTAMP WITH TIME ZONE", "'2020-06-01 12:00:00+02'::TIMESTAMPTZ + to_seconds(i)"),
    "interval": ("INTERVAL", "to_months((i % 13)::INTEGER) - to_days((i % 40)::INTEGER) + to_microseconds(i * -7)"),
    "enum8": ("ENUM('a', 'b', 'a b', '''q', 'é')", "['a', 'b', 'a b', '''q', 'é'][1 + i % 5]"),
    "json": ("JSON", "json_object('k', i, 'n', NULL)"),
    "enum16": (None, "('v' || i % 300)::big_enum"),
    "list": ("INTEGER[]", "CASE WHEN i % 3 = 0 THEN [] ELSE [i, NULL, i + 1] END::INTEGER[]"),
    "list_list": ("VARCHAR[][]", "[[i::VARCHAR], NULL, [], [NULL, 'x']]"),
    "array": ("INTEGER[3]", "[i, NULL, i + 1]"),
    "array_list": ("INTEGER[][2]", "[[i], CASE WHEN i % 2 = 0 THEN NULL ELSE [1, 2] END]"),
    "struct": ('STRUCT(a INTEGER, "b c" VARCHAR)', "{'a': i, 'b c': 's' || i}"),
    "struct_null": ("STRUCT(a INTEGER, b STRUCT(c BOOLEAN[]))", "{'a': NULL, 'b': {'c': [i % 2 = 0, NULL]}}"),
    "map": ("MAP(VARCHAR, INTEGER)", "MAP {'k' || i: i, 'n': NULL}"),
    "map_empty": ("MAP(INTEGER, VARCHAR[])", "CASE WHEN i % 2 = 0 THEN MAP {} ELSE MAP {i: ['v']} END"),
    "union": (
        "UNION(num INTEGER, str VARCHAR)",
        "CASE WHEN i % 2 = 0 THEN union_value(num := i::INTEGER)::UNION(num INTEGER, str VARCHAR) "
        "ELSE union_value(str := 's' || i)::UNION(num INTEGER, str VARCHAR) END",
    ),
    "variant": (
        "VARIANT",
        "CASE i % 3 WHEN 0 THEN i::VARIANT WHEN 1 THEN 'text'::VARIANT ELSE {'a': [i]}::VARIANT END",
    ),
    "geometry": ("GEOMETRY", "'POINT (' || i || ' 2.5)'"),
    "deep": ("STRUCT(l STRUCT(m MAP(VARCHAR, DECIMAL(20,2)[]))[])", "{'l': [{'m': MAP {'x': [i + 0.25]}}, NULL]}"),
}


def column_sql(name):
    declared, expression = SCALARS[name]
    value = "CASE WHEN i %% 11 = 10 THEN NULL ELSE (%s) END" % expression
    return value if declared is None else "(%s)::%s" % (value, declared)


def columns_of_all_types():
    import duckdb

    rows = duckdb.execute("DESCRIBE FROM test_all_types(use_large_enum := true)").fetchall()
    return [r[0] for r in rows]

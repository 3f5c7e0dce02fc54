"""Random tables of all types, for random queries, and what can be said of their columns."""

import random

ENUM = "ENUM('a', 'c', 'b')"
STRUCT = "STRUCT(a INTEGER, b VARCHAR)"
NESTED = "STRUCT(l DATE[], s STRUCT(x DECIMAL(9,2)))"

# Types, and expressions for their values over a row's number; NULLs are added.
VALUES = {
    "TINYINT": ("i % 200 - 100", "CASE i % 6 WHEN 0 THEN -128 WHEN 1 THEN 127 ELSE i % 4 END"),
    "SMALLINT": ("i % 9 - 4", "CASE i % 7 WHEN 0 THEN -32768 WHEN 1 THEN 32767 ELSE i % 3 END"),
    "INTEGER": ("(i * 7 % 23 - 9)", "CASE i % 9 WHEN 0 THEN 2147483647 WHEN 1 THEN -2147483648 ELSE i % 5 END"),
    "BIGINT": ("i % 12", "CASE i % 11 WHEN 0 THEN 9223372036854775807 ELSE i * 3 % 14 END"),
    "UTINYINT": ("i % 256", "255 - i % 3"),
    "USMALLINT": ("i % 8", "CASE i % 5 WHEN 0 THEN 65535 ELSE i % 6 END"),
    "UINTEGER": ("i % 10", "CASE i % 4 WHEN 0 THEN 4294967295 ELSE i % 7 END"),
    "UBIGINT": ("i % 9", "CASE i % 6 WHEN 0 THEN 18446744073709551615 ELSE i % 5 END"),
    "HUGEINT": ("i::HUGEINT * 1000000000000000000 % 7", "i % 6 - 3"),
    "UHUGEINT": ("i % 7", "CASE i % 5 WHEN 0 THEN '340282366920938463463374607431768211455' ELSE (i % 4)::VARCHAR END"),
    "DECIMAL(4,1)": ("(i % 9) * 0.5", "CASE i % 6 WHEN 0 THEN 999.9 WHEN 1 THEN -999.9 ELSE i % 3 END"),
    "DECIMAL(9,2)": ("(i % 17) * 1.25", "CASE i % 8 WHEN 0 THEN 9999999.99 ELSE -0.01 * (i % 9) END"),
    "DECIMAL(18,3)": ("(i % 7) * 0.125", "CASE i % 9 WHEN 0 THEN 999999999999999.999 ELSE 3 - i % 5 END"),
    "DECIMAL(38,4)": ("(i % 9) * 10.5", "-1.0001 * (i % 4)"),
    "BIGNUM": ("(i % 9)::VARCHAR", "CASE i % 5 WHEN 0 THEN '-1' || repeat('0', 45) ELSE (i % 4)::VARCHAR END"),
    "DOUBLE": ("i % 10 / 4", "CASE i % 7 WHEN 0 THEN 'nan'::DOUBLE WHEN 1 THEN '-inf'::DOUBLE ELSE i % 3 END"),
    "FLOAT": ("i % 6", "CASE i % 5 WHEN 0 THEN 'inf'::FLOAT ELSE i % 4 / 8 END"),
    "VARCHAR": ("chr((97 + i % 6)::INTEGER)", "CASE i % 6 WHEN 0 THEN '' WHEN 1 THEN 'É_%' ELSE 'ab' || i % 4 END"),
    "DATE": ("DATE '2000-01-01' + (i % 9)::INTEGER", "CASE i % 8 WHEN 0 THEN 'infinity' ELSE '1999-12-31' END::DATE"),
    "TIME": ("TIME '00:00:00' + to_minutes(i % 50)", "CASE i % 4 WHEN 0 THEN '24:00:00' ELSE '23:59:59.999999' END"),
    "TIMETZ": ("'10:00:00+0' || i % 4", "CASE i % 3 WHEN 0 THEN '00:00:00+15:59' ELSE '24:00:00-12' END"),
    "TIMESTAMP": ("TIMESTAMP '2000-01-01' + to_hours(i % 8)", "'1970-01-01 00:00:00.000001'::TIMESTAMP"),
    "TIMESTAMP_S": (
        "TIMESTAMP '2000-01-01' + to_seconds(i % 5)",
        "CASE i % 3 WHEN 0 THEN '-infinity' ELSE 'epoch' END",
    ),
    "TIMESTAMP_MS": ("TIMESTAMP '2000-01-01' + to_milliseconds(i % 5)", "'1969-12-31 23:59:59.999'"),
    "TIMESTAMP_NS": ("TIMESTAMP '2000-01-01' + to_microseconds(i % 5)", "'2262-04-11 23:47:16.854775806'"),
    "TIMESTAMPTZ": ("TIMESTAMPTZ '2000-01-01 00:00:00+00' + to_hours(i % 5)", "'infinity'::TIMESTAMPTZ"),
    "INTERVAL": ("to_days((i % 4)::INTEGER)", "to_months((i % 3)::INTEGER)"),
    "BOOLEAN": ("i % 2 = 0", "i % 3 = 0"),
    "UUID": ("md5((i % 5)::VARCHAR)::UUID", "md5('x')::UUID"),
    "BLOB": ("chr((97 + i % 4)::INTEGER)::BLOB", "'\\x00\\xFF'::BLOB"),
    "BIT": ("(i % 5)::UTINYINT::BIT", "CASE i % 3 WHEN 0 THEN '1' ELSE repeat('10', 40) END"),
    ENUM: ("['a', 'c', 'b'][(1 + i % 3)::INTEGER]", "'b'"),
    "INTEGER[]": ("[i % 3, NULL]", "[]::INTEGER[]"),
    "VARCHAR[]": ("['x', chr((97 + i % 4)::INTEGER)]", "CASE i % 3 WHEN 0 THEN [] ELSE ['', NULL] END"),
    "INTEGER[2]": ("[i % 3, NULL]", "[i % 2, 7]"),
    STRUCT: ("{'a': i % 4, 'b': 's'}", "{'a': NULL, 'b': 'x'}"),
    NESTED: ("{'l': [DATE '2000-01-01'], 's': {'x': i % 3}}", "{'l': NULL, 's': NULL}"),
    "MAP(VARCHAR, INTEGER)": ("MAP {'a': i % 3, 'b': NULL}", "MAP {}"),
    "UNION(n INTEGER, s VARCHAR)": ("union_value(n := (i % 4)::INTEGER)", "union_value(s := 'x' || i % 2)"),
}
NUMBERS = (
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "HUGEINT", "UHUGEINT",
    "DECIMAL(4,1)", "DECIMAL(9,2)", "DECIMAL(18,3)", "DECIMAL(38,4)", "BIGNUM",
)  # fmt: skip
#: No sum of them overflows.
SUMMED = (
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "DECIMAL(4,1)", "DECIMAL(9,2)",
    "DECIMAL(18,3)",
)  # fmt: skip
INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
#: Of each two of them DuckDB finds a type that holds both, so that they are compared, joined and put together.
MIXED = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "DECIMAL(4,1)", "DECIMAL(9,2)", "DOUBLE")
#: Equal ones look alike: not so INTERVAL.
COMPARED = (
    *NUMBERS, "DOUBLE", "FLOAT", "VARCHAR", "DATE", "TIME", "TIMETZ", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS",
    "TIMESTAMP_NS", "TIMESTAMPTZ", "BOOLEAN", "UUID", "BLOB", "BIT", ENUM, "INTEGER[]", "VARCHAR[]", "INTEGER[2]",
    STRUCT,
)  # fmt: skip
#: DuckDB 1.5.5 has no CASE and coalesce of arrays.
CHOSEN = tuple(t for t in COMPARED if t != "INTEGER[2]")
CONSTANTS = {
    "TINYINT": ("1", "-128", "127"),
    "SMALLINT": ("2", "-32768"),
    "INTEGER": ("3", "-2147483648", "0"),
    "BIGINT": ("5", "9223372036854775807"),
    "UTINYINT": ("255", "7"),
    "USMALLINT": ("65535", "4"),
    "UINTEGER": ("4294967295", "3"),
    "UBIGINT": ("18446744073709551615", "2"),
    "HUGEINT": ("2", "-1"),
    "UHUGEINT": ("340282366920938463463374607431768211455", "3"),
    "DECIMAL(4,1)": ("0.5", "999.9", "2"),
    "DECIMAL(9,2)": ("2.5", "9999999.99", "0.01"),
    "DECIMAL(18,3)": ("0.125", "999999999999999.999"),
    "DECIMAL(38,4)": ("10.5", "-1.0001"),
    "BIGNUM": ("'3'::BIGNUM", "('-1' || repeat('0', 45))::BIGNUM"),
    "DOUBLE": ("0.5", "'nan'::DOUBLE", "'-inf'::DOUBLE"),
    "FLOAT": ("1", "'inf'::FLOAT"),
    "VARCHAR": ("'b'", "''", "'É_%'", "'ab1'"),
    "DATE": ("DATE '2000-01-03'", "DATE 'infinity'"),
    "TIME": ("TIME '00:05:00'", "'24:00:00'::TIME"),
    "TIMETZ": ("'10:00:00+01'::TIMETZ", "'00:00:00+15:59'::TIMETZ"),
    "TIMESTAMP": ("TIMESTAMP '2000-01-01 03:00:00'",),
    "TIMESTAMP_S": ("TIMESTAMP_S '2000-01-01 00:00:03'", "'-infinity'::TIMESTAMP_S"),
    "TIMESTAMP_MS": ("TIMESTAMP_MS '2000-01-01 00:00:00.002'",),
    "TIMESTAMP_NS": ("TIMESTAMP_NS '2000-01-01 00:00:00.000001'",),
    "TIMESTAMPTZ": ("TIMESTAMPTZ '2000-01-01 02:00:00+00'",),
    "BOOLEAN": ("true", "false"),
    "UUID": ("md5('1')::UUID",),
    "BLOB": ("'a'::BLOB", "'\\x00\\xFF'::BLOB"),
    "BIT": ("'1'::BIT", "'00000010'::BIT"),
    ENUM: ("'c'::" + ENUM, "'b'::" + ENUM),
    "INTEGER[]": ("[1, NULL]::INTEGER[]", "[]::INTEGER[]"),
    "VARCHAR[]": ("['x', 'b']", "[]::VARCHAR[]"),
    "INTEGER[2]": ("[1, 7]::INTEGER[2]", "[2, NULL]::INTEGER[2]"),
    STRUCT: ("row(2, 's')::" + STRUCT, "row(NULL, 'x')::" + STRUCT),
}
#: What is computed of one column ({0}) or two of a type, and its type; None: it is not compared. No zero has a sign: of
#: two that are equal any could come.
COMPUTED = (
    ("TINYINT", "{0}::SMALLINT - 1", "SMALLINT"),
    ("SMALLINT", "{0}::INTEGER * 2", "INTEGER"),
    ("INTEGER", "{0} / 2", "DOUBLE"),
    ("INTEGER", "{0} / {1} + 0", "DOUBLE"),
    ("INTEGER", "{0} % 3", "INTEGER"),
    ("INTEGER", "{0} // 4", "INTEGER"),
    ("INTEGER", "round({0}, -1)", "INTEGER"),
    ("INTEGER", "TRY_CAST({0} AS UTINYINT)", "UTINYINT"),
    ("INTEGER", "{0}::BIGINT - {1}", "BIGINT"),
    ("INTEGER", "nullif({0}, {1})", "INTEGER"),
    ("INTEGER", "bit_count({0})", "TINYINT"),
    ("INTEGER", "list_value({0}, {1})", "INTEGER[]"),
    ("INTEGER", "row({0}, 'r')::" + STRUCT, STRUCT),
    ("BIGINT", "{0} % 1000", "BIGINT"),
    ("BIGINT", "{0} & 6", "BIGINT"),
    ("BIGINT", "hex({0})", "VARCHAR"),
    ("BIGINT", "({0} BETWEEN 2 AND {1})", "BOOLEAN"),
    ("BIGINT", "{0}::VARCHAR", "VARCHAR"),
    ("BIGINT", "least({0}, 7)", "BIGINT"),
    ("UTINYINT", "{0} % {1}", "UTINYINT"),
    ("UTINYINT", "{0} // {1}", "UTINYINT"),
    ("USMALLINT", "xor({0}, 5::USMALLINT)", "USMALLINT"),
    ("UINTEGER", "{0} | 1::UINTEGER", "UINTEGER"),
    ("UBIGINT", "{0} % 7::UBIGINT", "UBIGINT"),
    ("UHUGEINT", "{0}::VARCHAR", "VARCHAR"),
    ("HUGEINT", "sign({0})", "TINYINT"),
    ("DECIMAL(4,1)", "{0}::INTEGER", "INTEGER"),
    ("DECIMAL(4,1)", "floor({0})", None),
    ("DECIMAL(9,2)", "{0} % {1}", "DECIMAL(9,2)"),
    ("DECIMAL(9,2)", "{0} / {1} + 0", "DOUBLE"),
    ("DECIMAL(9,2)", "{0}::VARCHAR", "VARCHAR"),
    ("DECIMAL(9,2)", "round({0}, 1)", None),
    ("DECIMAL(18,3)", "abs({0})", "DECIMAL(18,3)"),
    ("BIGNUM", "{0}::VARCHAR", "VARCHAR"),
    ("DOUBLE", "{0} / {1} + 0", "DOUBLE"),
    ("DOUBLE", "{0} % {1} + 0", "DOUBLE"),
    ("DOUBLE", "floor({0})", "DOUBLE"),
    ("DOUBLE", "greatest({0}, {1})", "DOUBLE"),
    ("DOUBLE", "isnan({0})", "BOOLEAN"),
    ("FLOAT", "{0} / {1} + 0", "FLOAT"),
    ("FLOAT", "abs({0})", "FLOAT"),
    ("FLOAT", "{0}::DOUBLE", "DOUBLE"),
    ("VARCHAR", "concat({0}, {1})", "VARCHAR"),
    ("VARCHAR", "concat_ws('-', {0}, {1}, 'z')", "VARCHAR"),
    ("VARCHAR", "replace({0}, 'a', {1})", "VARCHAR"),
    ("VARCHAR", "regexp_replace({0}, '[a-c]', '.')", "VARCHAR"),
    ("VARCHAR", "regexp_matches({0}, 'b[0-9]?$')", "BOOLEAN"),
    ("VARCHAR", "instr({0}, {1})", "BIGINT"),
    ("VARCHAR", "levenshtein({0}, {1})", "BIGINT"),
    ("VARCHAR", "TRY_CAST({0} AS DOUBLE)", "DOUBLE"),
    ("VARCHAR", "lpad({0}, 4, '*')", "VARCHAR"),
    ("VARCHAR", "{0}[2:3]", "VARCHAR"),
    ("VARCHAR", "string_split({0}, 'b')", "VARCHAR[]"),
    ("VARCHAR", "encode({0})", "BLOB"),
    ("VARCHAR", "md5({0})", "VARCHAR"),
    ("VARCHAR", "CASE {0} WHEN {1} THEN 'same' WHEN 'b' THEN NULL ELSE 'other' END", "VARCHAR"),
    ("VARCHAR", "({0} ILIKE 'A%')", "BOOLEAN"),
    ("DATE", "year({0})", "BIGINT"),
    ("DATE", "dayname({0})", "VARCHAR"),
    ("TIMESTAMP", "date_trunc('month', {0})", None),
    ("DATE", "{0} - {1}", "BIGINT"),
    ("DATE", "strftime({0}, '%d.%m')", "VARCHAR"),
    ("TIME", "minute({0})", "BIGINT"),
    ("TIMETZ", "{0}::VARCHAR", "VARCHAR"),
    ("TIMESTAMP", "hour({0})", "BIGINT"),
    ("TIMESTAMP", "{0}::DATE", "DATE"),
    ("TIMESTAMP", "date_diff('hour', {0}, {1})", "BIGINT"),
    ("TIMESTAMP", "{0} - {1}", None),
    ("TIMESTAMP_S", "{0}::TIMESTAMP", "TIMESTAMP"),
    ("TIMESTAMPTZ", "{0}::DATE", "DATE"),
    ("TIMESTAMPTZ", "{0}::VARCHAR", "VARCHAR"),
    ("BOOLEAN", "(NOT {0})", "BOOLEAN"),
    ("BOOLEAN", "({0} IS NOT TRUE)", "BOOLEAN"),
    ("BOOLEAN", "{0}::INTEGER", "INTEGER"),
    ("BLOB", "octet_length({0})", "BIGINT"),
    ("BLOB", "{0} || {1}", "BLOB"),
    ("BIT", "{0}::VARCHAR", "VARCHAR"),
    ("UUID", "{0}::VARCHAR", "VARCHAR"),
    (ENUM, "{0}::VARCHAR", "VARCHAR"),
    (ENUM, "greatest({0}, {1})", ENUM),
    ("INTEGER[]", "len({0})", "BIGINT"),
    ("INTEGER[]", "list_contains({0}, 2)", "BOOLEAN"),
    ("INTEGER[]", "{0}[1]", "INTEGER"),
    ("INTEGER[]", "list_sort({0})", "INTEGER[]"),
    ("VARCHAR[]", "array_to_string({0}, '+')", "VARCHAR"),
    ("VARCHAR[]", "list_position({0}, 'b')", "INTEGER"),
    (STRUCT, "struct_extract({0}, 'a')", "INTEGER"),
    (STRUCT, "struct_extract({0}, 'b')", "VARCHAR"),
    (NESTED, "{0}.s.x", "DECIMAL(9,2)"),
    ("MAP(VARCHAR, INTEGER)", "cardinality({0})", "UBIGINT"),
    ("MAP(VARCHAR, INTEGER)", "{0}['a']", "INTEGER"),
    ("UNION(n INTEGER, s VARCHAR)", "union_tag({0})::VARCHAR", "VARCHAR"),
    ("UNION(n INTEGER, s VARCHAR)", "{0}.n", "INTEGER"),
)


class Tables:
    """Names, columns and the statements that make some tables. Every one begins with a key, `id`."""

    def __init__(self, rnd):
        self.columns = {}
        self.rows = {}
        self.statements = []
        for n in range(4):
            name = "t%d" % n
            # Some types in every table, so that tables can be joined.
            types = ["INTEGER", "VARCHAR", *rnd.sample(("BIGINT", "DOUBLE", "DATE", "DECIMAL(9,2)", "BOOLEAN"), 2)]
            types += rnd.sample(sorted(VALUES), 4)
            rows = rnd.choice((0, 1, 7, 20, 40, 40, 70, 150))
            columns = {"id": "BIGINT"}
            parts = ["i AS id"]
            for k, sql_type in enumerate(types):
                nulls = rnd.choice((2, 5, 9, 1000000))
                value = rnd.choice(VALUES[sql_type])
                columns["c%d" % k] = sql_type
                parts.append("CASE WHEN (i + %d) %% %d > 0 THEN %s END::%s AS c%d" % (n, nulls, value, sql_type, k))
            self.columns[name] = columns
            self.rows[name] = rows
            self.statements.append("CREATE TABLE %s AS SELECT %s FROM range(%d) r(i)" % (name, ", ".join(parts), rows))
            if rnd.random() < 0.7:
                self.statements.append("ALTER TABLE %s ADD PRIMARY KEY (id)" % name)


def tables(seed):
    return Tables(random.Random(seed))

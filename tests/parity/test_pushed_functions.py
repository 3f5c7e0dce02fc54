"""Functions, casts and ENUMs that the server computes: values and types of plain DuckDB, under any settings here."""

import duckdb
import pytest
import services
from twin_tables import same_on_every_level as check
from twin_tables import twin_tables

pytestmark = pytest.mark.extension

#: The server's macros of these names are what it makes of `x + y`, and so on.
TAKEN_FUNCTIONS = "lower chr count sum list_value struct_extract".split()
TAKEN_OPERATORS = "+ * / // % || ~~ !~~ ~~* !~~* ~~~ ^@ & | << >> list_extract array_extract concat".split()

TABLES = (
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'it''s', 'glad')",
    "CREATE TABLE v AS SELECT i AS id,"
    " [0, 1, -1, 7, -7, 2147483647, -2147483647, NULL][1 + i % 8]::INTEGER AS i,"
    " [3, 0, 255, NULL, 2][1 + i % 5]::UTINYINT AS u,"
    " [5, -3, 0, 9007199254740993, NULL][1 + i % 5]::BIGINT AS b,"
    " ['0.5', '-2.5', '0', '-0.0', 'nan', 'inf', '-inf', '1e300', NULL][1 + i % 9]::DOUBLE AS f,"
    " ['0', '-0.0', '3', '-1.25', 'nan', 'inf', NULL][1 + i % 7]::FLOAT AS r,"
    " [1.25, -7.5, 0, 99999.99, NULL][1 + i % 5]::DECIMAL(9,2) AS n,"
    " ['', 'a,b', 'Éclair', 'it''s', '%_', 'xyz', NULL][1 + i % 7] AS s,"
    " ['12', '-3', ' 7 ', 'x', '2020-02-29', 'true', NULL][1 + i % 7] AS w,"
    " ['2000-02-29', '1969-12-31', 'infinity', '2024-12-30', NULL][1 + i % 5]::DATE AS d,"
    " ['2000-02-29 13:14:15.123456', '1969-12-31 23:59:59.9', '-infinity', NULL][1 + i % 4]::TIMESTAMP AS t,"
    " ['12:34:56.789', '00:00:00', NULL][1 + i % 3]::TIME AS h,"
    " ['sad', 'ok', 'it''s', 'glad', NULL][1 + i % 5]::mood AS m,"
    " ['ok', 'sad', NULL][1 + i % 3]::mood AS o,"
    " ['a', 'zz', NULL][1 + i % 3]::BLOB AS x,"
    " CASE WHEN i % 6 > 0 THEN [i % 4, NULL, 3] END AS l, {'a': i % 3} AS st"
    " FROM range(630) t(i)",
    "CREATE MACRO max(x) AS -1",
    *("CREATE MACRO %s(x) AS 'taken'" % name for name in TAKEN_FUNCTIONS),
    *("CREATE MACRO \"%s\"(x, y) AS 'taken'" % name for name in TAKEN_OPERATORS),
    "CREATE MACRO \"-\"(x) AS 'taken', (x, y) AS 'taken'",
    "CREATE MACRO \"~\"(x) AS 'taken'",
)


@pytest.fixture(scope="module")
def con(tmp_path_factory):
    with twin_tables(tmp_path_factory.mktemp("functions") / "mydb.duckdb", ("v",), *TABLES) as c:
        yield c


@pytest.fixture(autouse=True)
def full(con):
    yield
    con.execute("SET openduck_pushdown = 'full'")


ANYWHERE = """
f / 2 ; f / f ; (f / r)::VARCHAR ; (f % r)::VARCHAR ; f / r ; i / 2 ; n / i ; r / 0 ; f / 0.0 ; r % 2 ; f % r ; f // 2
i // 2 ; i % 3 ; u % u ; u // 3 ; n % 0.7 ; i % 0 ; b % 10 ; b // 1000 ; isinf(d) ; -f ; abs(f) ; sign(i) ; sign(f)
floor(f) ; ceil(n) ; trunc(n) ; trunc(f) ; round(n) ; round(n, 1) ; round(f, 1) ; round(i, 1) ; floor(r) ; even(f)
signbit(f) ; nextafter(f, 1) ; b & 6 ; b | 9 ; xor(i, 3) ; ~u ; bit_count(i) ; greatest(i, 3, b) ; least(n, 2.5)
greatest(s, 'b') ; least(f, r) ; lower(s) ; upper(s) ; s || '!' ; concat(s, i, '-', w) ; concat_ws('-', s, w)
instr(s, 't') ; replace(s, 'a', 'bb') ; translate(s, 'ab', 'x') ; trim(s, 'a') ; ascii(s) ; ord(s) ; bit_length(s)
strip_accents(s) ; left(s, 2) ; right(s, -1) ; left_grapheme(s, 1) ; md5(s) ; sha256(s) ; hex(s) ; hex(i::BIGINT)
bin(b) ; to_base64(x) ; encode(s) ; octet_length(x) ; x || x ; url_encode(s) ; levenshtein(s, w)
damerau_levenshtein(s, 'abc') ; s GLOB '*a*' ; s SIMILAR TO '.*a.*' ; regexp_replace(s, '[a-c]', 'Q', 'g')
regexp_extract(s, '([a-z]),', 1) ; regexp_matches(s, 'A', 'i') ; reverse(s) ; year(t) ; hour(t) ; minute(h)
second(t) ; millisecond(t) ; microsecond(h) ; epoch(t) ; week(d) ; isodow(d) ; dayofyear(t) ; isoyear(d) ; yearweek(d)
decade(d) ; century(t) ; era(d) ; dayname(d) ; monthname(t) ; extract(epoch FROM d) ; date_part('doy', d) ; t::DATE
t::VARCHAR ; h::VARCHAR ; f::VARCHAR ; r::VARCHAR ; n::VARCHAR ; x::VARCHAR ; n::FLOAT ; i::BOOLEAN ; (i > 0)::INTEGER
TRY_CAST(w AS INTEGER) ; TRY_CAST(w AS DATE) ; TRY_CAST(w AS DOUBLE) ; TRY_CAST(w AS DECIMAL(5,1))
TRY_CAST(b AS SMALLINT) ; TRY_CAST(f AS BIGINT) ; TRY_CAST(s AS BOOLEAN) ; m ; m::VARCHAR ; m = 'ok' ; m < o ; m = o
coalesce(m, o) ; CASE WHEN m = o THEN m END ; greatest(m, o) ; m IN ('sad', 'it''s') ; m IS NOT DISTINCT FROM o
m::VARCHAR || 'x' ; m BETWEEN o AND 'glad'::mood_ ; m >= 'ok'::mood_ ; coalesce(o, 'glad'::mood_) ; len(l)
list_contains(l, 3) ; array_position(l, 3) ; array_length(l)
"""
#: They may fail, so that a scan does not leave out rows by them, but what is computed of a scan may hold them.
COMPUTED = """
i + 1::BIGINT ; -(i::BIGINT) ; abs(n) ; u::BIGINT << 1 ; (u >> 1) ; gcd(i, 6) ; sqrt(abs(f)) ; l[1] ; l[-1]
chr(u::INTEGER + 65) ; lpad(s, 5, '*') ; rpad(s, 3, 'ab') ; repeat(s, 3) ; s[2:3] ; s[2] ; greatest(d, t)
date_trunc('month', d) ; date_trunc('hour', t) ; date_trunc('week', t) ; d + 3 ; d - DATE '2000-01-01'
t + INTERVAL 1 MONTH ; t - INTERVAL '1 day 3 hours' ; h + INTERVAL 1 HOUR ; 2 + d ; d + INTERVAL (u) DAY
date_diff('day', d, DATE '2001-01-01') ; datesub('month', t, TIMESTAMP '2010-01-31') ; last_day(d)
strftime(d, '%d.%m.%y') ; strftime(t, '%H|%f') ; epoch_ms(t) ; n::INTEGER ; (n % 100)::DECIMAL(4,1)
(u // 3)::TINYINT ; i::DECIMAL(12,1) ; d::TIMESTAMP ; DATE '2000-01-01' + to_days(u::INTEGER) ; s LIKE 'x%' ESCAPE 'x'
i::HUGEINT % b ; -n ; i // b ; i::BIGINT % b ; from_hex(hex(s)) ; decode(encode(s))
"""
MOOD = "ENUM('sad', 'ok', 'it''s', 'glad')"


def listed(text):
    return [p.strip().replace("::mood_", "::" + MOOD) for line in text.strip().splitlines() for p in line.split(" ; ")]


@pytest.mark.parametrize("value", listed(ANYWHERE) + listed(COMPUTED))
def test_computed_there(con, value):
    # Errors are compared below.
    rows = "d <> DATE 'infinity' AND" if value in listed(COMPUTED) else ""
    sent = check(con, "SELECT %s AS value, count(*), min(id) FROM {0}.v WHERE %s id >= 0 GROUP BY 1" % (value, rows))
    assert len(sent) == 1 and "GROUP BY" in sent[0], sent


@pytest.mark.parametrize("value", listed(ANYWHERE))
def test_rows_left_out_there(con, value):
    sql = "SELECT id FROM {0}.v WHERE length(coalesce((%s)::VARCHAR, 'none')) %% 2 = 0" % value
    sent = check(con, sql)
    assert len(sent) == 1 and "WHERE" in sent[0], sent


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM {0}.v",
        "SELECT count(*) FROM (FROM {0}.v LIMIT 5)",
        "SELECT count(*), count(s), sum(i), max(b) FROM {0}.v GROUP BY u",
        "SELECT id FROM {0}.v WHERE w || chr(0) = 'x' || chr(0)",
        "SELECT id FROM {0}.v WHERE list_contains(['12', 'x'], w)",
        "SELECT id FROM {0}.v WHERE st.a = 1",
        "SELECT id, unnest(l) FROM {0}.v",
        "SELECT id, sum(i) OVER (PARTITION BY u ORDER BY id ROWS 3 PRECEDING), count(*) OVER () FROM {0}.v",
        "SELECT id FROM {0}.v JOIN (SELECT unnest([4, 90, 411]) AS id) USING (id)",
    ],
)
def test_what_is_written_around_values_is_duckdbs_own(con, sql):
    check(con, sql)


@pytest.mark.parametrize("setting", ["ieee_floating_point_ops = false", "integer_division = true"])
def test_divisions_under_settings_of_this_side(con, setting):
    con.execute("SET " + setting)
    try:
        for value in ("f / 2", "f / f", "i / u", "r % r", "f % 0.0", "r / 0", "b / 2"):
            test_computed_there(con, value)
            test_rows_left_out_there(con, value)
    finally:
        con.execute("RESET " + setting.split()[0])


@pytest.mark.parametrize(
    "value, error",
    [
        ("w::INTEGER", duckdb.ConversionException),
        ("b::SMALLINT", duckdb.ConversionException),
        ("sqrt(f)", duckdb.OutOfRangeException),
        ("(i - 2147483641) // (u - 4)::INTEGER", duckdb.OutOfRangeException),
        ("i << 3", duckdb.OutOfRangeException),
        ("chr(i)", duckdb.InvalidInputException),
    ],
)
def test_an_error_is_the_same_wherever_it_is_made(con, value, error):
    sql = "SELECT %s AS value, count(*) FROM {0}.v GROUP BY 1" % value
    assert "GROUP BY" in services.remote_sql(con, sql.format("cloud"))[0]
    for schema in ("twin", "cloud"):
        with pytest.raises(error):
            con.execute(sql.format(schema)).fetchall()


@pytest.mark.parametrize(
    "value",
    ["exp(f)", "f ** 2.5", "sin(f)", "hash(s)", "t::TIMESTAMPTZ", "w::TIMESTAMPTZ", "random() < 2"],
)
def test_what_could_mean_something_else_stays_here(con, value):
    sent = services.remote_sql(con, "SELECT %s AS value, count(*) FROM cloud.v GROUP BY 1" % value)
    assert "GROUP BY" not in sent[0], sent


def test_a_filter_that_may_fail_goes_where_all_filters_go(con):
    sql = "SELECT id, s FROM {0}.v WHERE u + b > 5 AND strftime(t, '%H') > '12'"
    sent = check(con, sql)
    assert "strftime(" in sent[0] and '"u"' in sent[0] and "WHERE" in sent[0], sent
    # What stays here could have left out the row that fails.
    sent = check(con, "SELECT id FROM {0}.v WHERE hash(w) % 2 < 2 AND w = '12' AND w::INTEGER > 3")
    assert "AS INTEGER" not in sent[0], sent


def test_a_long_enum_is_compared_with_texts(tmp_path):
    values = ", ".join("'value %d'" % n for n in range(900))
    made = "CREATE TABLE e AS SELECT ('value ' || i)::ENUM(%s) AS e, i FROM range(900) t(i)" % values
    with twin_tables(tmp_path / "mydb.duckdb", ("e",), made) as con:
        assert "value 7" in check(con, "SELECT i FROM {0}.e WHERE e = 'value 7'")[0]
        check(con, "SELECT i FROM {0}.e WHERE e < 'value 7'::ENUM(%s)" % values)
        check(con, "SELECT e, count(*) FROM {0}.e GROUP BY e")
        check(con, "SELECT coalesce(e, 'value 3'::ENUM(%s)) AS x, count(*) FROM {0}.e GROUP BY x" % values)


@pytest.mark.parametrize("text", ["s[2:3]", "s[1:2] || s", "lpad(s, 3, 'a')", "s"])
@pytest.mark.parametrize("expression", ["a.*", "[A-É].*", "b[0-2]?", ".*,.*"])
def test_bounds_of_a_regular_expression(con, text, expression):
    # DuckDB compares texts with bytes for them.
    for sql in (
        "SELECT id, s FROM {0}.v WHERE %s SIMILAR TO '%s'",
        "SELECT count(*) FILTER (WHERE %s SIMILAR TO '%s') FROM {0}.v",
        "SELECT s, count(*) FROM {0}.v WHERE NOT %s SIMILAR TO '%s' OR s IS NULL GROUP BY s",
    ):
        check(con, sql % (text, expression))

"""Functions of a VGI worker, called for each row of another table."""

import duckdb
import pytest
import vgi_catalogs
from vgi_catalogs import one, refused, rows

pytestmark = [pytest.mark.extension, pytest.mark.usefixtures("nothing_preloaded")]


@pytest.fixture
def con():
    con = vgi_catalogs.connect()
    con.execute("SET memory_limit = '3GB'")
    yield con
    con.close()


def test_a_function_over_a_table_is_called_for_each_row_of_another(ex):
    # Each row's query is a table of its own.
    sql = "FROM range(3) r(i), LATERAL (FROM ex.echo((SELECT r.i AS a, 'x' || r.i AS b))) ORDER BY ALL"
    assert rows(ex, sql) == [(i, i, "x%d" % i) for i in range(3)]
    sql = "SELECT sum(a), count(*) FROM range(3000) r(i), LATERAL (FROM ex.echo((SELECT r.i AS a, NULL AS b)))"
    assert rows(ex, sql) == [(2999 * 1500, 3000)]
    sql = "SELECT i, a, ordinality FROM range(2) r(i), "
    sql += "LATERAL (FROM ex.repeat_inputs(2, (SELECT r.i AS a)) WITH ORDINALITY)"
    assert rows(ex, sql + " ORDER BY ALL") == [(0, 0, 1), (0, 0, 2), (1, 1, 1), (1, 1, 2)]


@pytest.mark.parametrize("table", ["range(3)", "range(0)"])
def test_a_function_that_keeps_rows_is_not_called_for_each_row(ex, table):
    sql = "SELECT * FROM %s r(i), LATERAL (FROM ex.substream_partial_sum((SELECT r.i AS n)))" % table
    assert isinstance(refused(ex, sql, "keeps rows for its end"), duckdb.BinderException)
    ex.execute("PRAGMA disable_optimizer")
    refused(ex, sql, "cannot be called without the optimizer")
    ex.execute("PRAGMA enable_optimizer; SET disabled_optimizers = 'extension'")
    refused(ex, sql, "cannot be called without the optimizer")
    ex.execute("RESET disabled_optimizers")
    assert one(ex, "SELECT sum(n) FROM ex.substream_partial_sum((SELECT range AS n FROM range(10)))") == 45

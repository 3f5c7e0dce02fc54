"""Statements over tables of two places give what one DuckDB gives that has them all."""

import collections

import hybrid_plans
import pytest
import services

pytestmark = [pytest.mark.extension, pytest.mark.timeout(600)]
SHORT = range(20)  # for each of the two ways
LONG = range(20, 220)


@pytest.fixture(scope="module")
def databases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plans")
    return {
        name: services.make_database(folder / (name + ".duckdb"), *map(hybrid_plans.table_sql, tables))
        for name, tables in (
            ("mydb", hybrid_plans.REMOTE),
            ("home", hybrid_plans.LOCAL),
            ("all", hybrid_plans.LOCAL + hybrid_plans.REMOTE),
        )
    }


@pytest.fixture(scope="module")
def plain(databases):
    import duckdb

    with duckdb.connect(str(databases["all"])) as con:
        yield con


@pytest.fixture(scope="module")
def server(databases):
    """A gateway that has the near tables, with a worker that has the far ones."""
    with services.Worker({"mydb": databases["mydb"]}) as worker:
        with services.Gateway(
            [worker.url], "--hybrid", "--db", "home=%s" % databases["home"], "--read-only"
        ) as gateway:
            yield gateway
            gateway.wait_idle()
            worker.wait_idle()


@pytest.fixture(scope="module")
def gateway(server):
    """A connection that has no table itself."""
    with services.attached(server) as con:
        yield con


@pytest.fixture(scope="module")
def user(databases, server):
    """A connection that has the near tables itself."""
    with services.attached(server) as con:
        con.execute("ATTACH '%s' AS home (READ_ONLY)" % databases["home"])
        con.execute("USE home")
        yield con


def answer(con, sql):
    """Columns with their types, and rows."""
    columns = [row[:2] for row in con.execute("DESCRIBE " + sql).fetchall()]
    return columns, collections.Counter(con.execute("SELECT k, n, v::VARCHAR FROM (%s)" % sql).fetchall())


def check(plain, con, seed, wrap):
    expected, sql = hybrid_plans.make(seed)
    assert answer(con, wrap(sql)) == answer(plain, expected), "seed %d: %s" % (seed, sql)


def through_query(sql):
    return "FROM openduck_query('cloud', '%s')" % sql.replace("'", "''")


def test_through_a_gateway(plain, gateway):
    for seed in SHORT:
        check(plain, gateway, seed, through_query)


def test_in_the_extension(plain, user):
    for seed in SHORT:
        check(plain, user, seed, str)


@pytest.mark.long
def test_many_through_a_gateway(plain, gateway):
    for seed in LONG:
        check(plain, gateway, seed, through_query)


@pytest.mark.long
def test_many_in_the_extension(plain, user):
    for seed in LONG:
        check(plain, user, seed, str)

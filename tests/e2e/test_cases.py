"""The case files beside the clone (../shared/cases), run over an attached catalog, answer as plain DuckDB does."""

import os
import re
import subprocess
import sys

import pytest
import services

CASES = (
    "01-numeric-types",
    "02-temporal-types",
    "04-strings-blobs",
    "06-batches-and-large-values",
    "07-wide-tables-projection",
    "08-identifiers",
    "09-schemas-views-use",
    "11-filters-nulls",
    "12-filters-strings",
    "15-limit-order",
    "16-hybrid-joins",
    "18-dml",
    "19-transactions",
    "21-schema-changes-under-cache",
    "22-error-classes",
    "23-introspection",
    "24-copy-and-ctas",
    "26-detach-reattach",
)
# Answers that differ for a reason of the case file itself. Number: why.
JUDGED = {}

pytestmark = [pytest.mark.extension, pytest.mark.cases, pytest.mark.timeout(600)]


@pytest.mark.parametrize("topology", ["serve", "gateway"] if services.SLOW == 1 else ["serve"])
@pytest.mark.parametrize("case", CASES)
def test_case_gives_the_answers_of_plain_duckdb(case, topology):
    run(case, topology, "full")


@pytest.mark.long
@pytest.mark.parametrize("level", ["off", "scan"])
@pytest.mark.parametrize("case", CASES)
def test_case_gives_them_whatever_is_pushed_down(case, level):
    run(case, "serve", level)


def run(case, topology, level):
    runner = services.CASES / "run_case.py"
    file = services.CASES / (case + ".sql")
    assert runner.exists() and file.exists(), "the case files are missing: %s must lie beside the clone" % file
    port = services.free_port()
    server = [sys.executable, str(services.ROOT / "tests" / "support" / "case_server.py")]
    if topology == "gateway":
        server.append("--separate-gateway")
    attach = services.attach_sql("http://127.0.0.1:%d" % port)
    attach += "; SET GLOBAL openduck_pushdown = '%s'" % level
    done = subprocess.run(
        [sys.executable, runner, "-v", "--mode", "attach", "--load", services.extension_path()]
        + ["--attach", attach, "--server-cmd", " ".join(server), file],
        capture_output=True,
        text=True,
        timeout=580,
        env={**os.environ, "OPENDUCK_CASE_PORT": str(port), "OPENDUCK_PRESET": services.PRESET},
        check=False,
    )
    assert "case server:" not in done.stderr, done.stderr[-6000:]
    first = re.search(r"^%s\.sql (\d+)/(\d+)(?: fail: ([\d,]+))?$" % re.escape(case), done.stdout, re.M)
    assert first, "the runner failed:\n%s\n%s" % (done.stdout[-3000:], done.stderr[-6000:])
    failed = {int(n) for n in (first[3] or "").split(",") if n}
    unexpected = failed - set(JUDGED.get(case, ()))
    assert not unexpected, "%s: %s\n%s" % (case, sorted(unexpected), explain(done.stdout, unexpected))
    assert int(first[2]) - len(failed) > 0, "nothing was right"


def explain(output, numbers):
    """The wanted and the given answers of NUMBERS, from the runner's -v output."""
    parts = re.split(r"(?m)^(?=   want \[)", output)
    return "\n".join(p for p in parts if (m := re.match(r"   want \[(\d+)\]", p)) and int(m[1]) in numbers)[:8000]

"""The client of VGI workers against those of the public SDK, and of our own, in both generations of the protocol."""

import os
import signal
import subprocess

import psutil
import pytest
import services
import vgi_worker

CLIENT = services.BUILD / "programs" / "vgi_client"
TARGET = "ducklake:sqlite:/nowhere/lake.sqlite"


def ask(location, *arguments, fails=False, **env):
    """The lines that the client prints."""
    done = subprocess.run(
        [CLIENT, location, *arguments],
        env={**os.environ, **env},
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module", params=vgi_worker.KINDS, ids=vgi_worker.IDS)
def worker(request):
    peer, generation = request.param
    with vgi_worker.VgiWorker(generation, peer=peer) as started:
        yield started


@pytest.fixture(scope="module", params=vgi_worker.KINDS, ids=vgi_worker.IDS)
def far(request):
    peer, generation = request.param
    with vgi_worker.VgiWorker(generation, "http", peer=peer) as started:
        yield started


def test_a_catalog_is_told_as_it_is(worker):
    there = {"catalog example", "catalog writable"} if worker.peer == "sdk" else {"catalog example"}
    assert there <= set(ask(worker.location, "catalogs"))
    told = ask(worker.location, "attach", "example")
    assert {"default_schema main", "version 1", "frozen 1", "transactions 1"} <= set(told)
    assert {"setting greeting u", "setting config +s"} <= set(told)
    assert "secret_type secret_string:u api_key:u port:i use_ssl:b timeout:g" in told
    schemas = ask(worker.location, "schemas", "example")
    assert [line.split()[1] for line in schemas] == ["main", "data"]
    assert "view first_ten: SELECT * FROM sequence(10)" in ask(worker.location, "views", "example", "main")
    assert "macro vgi_multiply table=0 parameters=2: x * y" in ask(worker.location, "macros", "example", "main")
    assert "table numbers value:l" in ask(worker.location, "tables", "example", "data")


def test_functions_are_told_with_what_they_can_do(worker):
    functions = ask(worker.location, "functions", "example", "main")
    sequence = [line for line in functions if line.startswith("function sequence ")]
    assert sequence and "type=2 projection=1" in sequence[0]
    assert any(line.startswith("arguments add_values ") for line in functions)


def test_branches_are_told_with_arguments_and_filters(worker):
    told = ask(worker.location, "branches", "example", "data", "multi_branch_filtered_numbers")
    assert [line for line in told if line.startswith("branch")] == [
        "branch kind=0 function=sequence filter=n < 50 writable=0 source=.. format=",
        "branch kind=0 function=sequence filter=n >= 50 writable=0 source=.. format=",
    ]
    assert told.count("argument value arg_0=100") == 2


def test_a_table_that_is_not_there_is_no_error(worker):
    assert ask(worker.location, "table", "example", "data", "no_such_table") == ["found 0"]


def test_every_row_of_a_scan_comes_once(worker):
    told = ask(worker.location, "scan", "example", "main", "sequence", "100000")
    assert "bound n:l" in told and "estimate 100000" in told
    assert next(line for line in told if line.startswith("first")).startswith("first rows=100000 sum=4999950000 ")


def test_streams_share_the_rows_of_a_scan(worker):
    """Of a function with several workers each row is in one of the streams."""
    told = ask(worker.location, "scan", "example", "main", "partitioned_sequence", "5000")
    assert int(told[-3].split()[1]) > 1, told
    rows = [dict(part.split("=") for part in line.split()[1:]) for line in told[-2:]]
    assert sum(int(r["rows"]) for r in rows) == 5000
    assert sum(int(r["sum"]) for r in rows) == 5000 * 4999 // 2


def test_a_scan_that_is_given_up_leaves_the_session_in_order(worker):
    told = ask(worker.location, "again", "example", "main", "sequence", "100000", "10")
    firsts = [line for line in told if line.startswith("first")]
    assert firsts[0] == "first rows=2048 sum=2096128 batches=1"
    assert firsts[1].startswith("first rows=100000 sum=4999950000 ")


def test_filters_reach_the_worker(worker):
    """The rows 90 to 93 of 100: both conditions were told, and applied."""
    told = ask(worker.location, "filter", "example", "main", "sequence", "100", "90", "93")
    assert told[0] == "filters 2"
    assert told[1].startswith("filtered rows=4 sum=366 ")


def test_only_the_columns_that_are_asked_for_come_in_their_order(worker):
    told = ask(worker.location, "scan", "example", "main", "filter_echo", "5", "-1", "1", "0")
    assert "bound n:l s:u pushed_filters:u" in told and "columns s:u n:l" in told
    assert told[-1].startswith("first rows=5 ")


def test_what_the_worker_says_is_the_error(worker):
    told = ask(worker.location, "again", "example", "main", "no_such_function", "1", fails=True)
    assert told[0].startswith("first error vgi bind of function 'no_such_function': the worker says: ")
    own = "Unknown function: '%s'" if worker.peer == "sdk" else "there is no table function '%s'"
    assert own % "no_such_function" in told[0]
    assert any(line.startswith("error UNKNOWN vgi bind of function 'no_such_function': ") for line in told)


def test_transactions_begin_and_end(worker):
    size = 16 if worker.peer == "sdk" else 32
    assert ask(worker.location, "versions", "example")[-1] == "transaction %d" % size


@pytest.mark.parametrize("generation", vgi_worker.GENERATIONS)
def test_a_companion_is_told_by_a_process(generation):
    location = vgi_worker.command(generation, "companion", {"VGI_TEST_COMPANION_TARGET": TARGET})
    told = ask(location, "attach", "companion")
    assert f"companion vgi_companion target={TARGET} db_type= hidden=0 required=1 secret_ref=" in told
    assert "default_schema data" in told


def test_a_process_is_asked_for_rows_and_outlives_nobody():
    """Killed while it scans, the client leaves no worker behind."""
    location = vgi_worker.command("2.2")
    client = subprocess.Popen(
        [CLIENT, location, "scan", "example", "main", "sequence", "100000000"], stdout=subprocess.PIPE, text=True
    )
    while not client.stdout.readline().startswith("max_workers"):
        pass
    children = psutil.Process(client.pid).children(recursive=True)
    assert any("python3.13" in child.name() for child in children)
    client.send_signal(signal.SIGKILL)
    client.wait()
    client.stdout.close()
    _, alive = psutil.wait_procs(children, timeout=60)
    assert not alive


def test_tcp_is_a_transport_too():
    with vgi_worker.VgiWorker("2.2", "tcp", "companion", {"VGI_TEST_COMPANION_TARGET": TARGET}) as worker:
        assert ask(worker.location, "catalogs") == ["catalog companion"]


def test_http_tells_the_same_as_a_session(far):
    assert "catalog example" in ask(far.location, "catalogs")
    assert "default_schema main" in ask(far.location + "/", "attach", "example")
    told = ask(far.location, "scan", "example", "main", "sequence", "5000")
    assert told[-1] == "first rows=5000 sum=12497500 batches=3"
    told = ask(far.location, "scan", "example", "main", "sequence", "100000", "10")
    assert told[-1] == "first rows=2048 sum=2096128 batches=1"
    told = ask(far.location, "scan", "example", "main", "no_such_function", "1", fails=True)
    assert told[0].startswith("error UNKNOWN vgi bind of function 'no_such_function': the worker says: ")


def test_no_worker_at_a_url_is_an_error_with_the_url(far):
    location = far.location + "/no/such/base"
    told = ask(location, "catalogs", fails=True)
    assert told[0].startswith("error PROTOCOL") and location in told[0]


def test_a_url_wants_its_token():
    serve = "vgi.serve vgi._test_fixtures.worker:ExampleWorker"
    with vgi_worker.VgiWorker("2.2", "http", serve, {"VGI_BEARER_TOKENS": "tok1=alice"}) as worker:
        assert ask(worker.location, "catalogs", VGI_TOKEN="tok1") == ["catalog example"]
        for env in ({}, {"VGI_TOKEN": "a-wrong-token"}):
            told = ask(worker.location, "catalogs", fails=True, **env)
            assert told[0].startswith("error UNAUTHENTICATED") and worker.location in told[0]
            assert "a-wrong-token" not in told[0]
    assert "bearer token is for workers at" in ask("true", "catalogs", fails=True, VGI_TOKEN="tok1")[0]


@pytest.mark.parametrize("generation", vgi_worker.GENERATIONS)
def test_a_secret_service_is_asked_for_a_path(generation):
    with vgi_worker.VgiWorker(generation, "http", "vgi.secret_service --host 127.0.0.1") as service:
        told = ask(service.location, "secret", "s3://test-bucket/x", "s3", "http://localhost")
        assert told[1] == "found 1 type=s3 provider=orchard keep=60"
        assert told[2].startswith("values key_id:u secret:u region:u ")
        told = ask(service.location, "secret", "s3://other/x", "s3", "http://localhost")
        assert told[1] == "found 0 type= provider= keep=30"


# ---- workers that lie, stall or die ----


def liar(fault):
    python, script = services.ROOT / ".deps" / "venv" / "bin" / "python", services.ROOT / "tests/support/vgi_liar.py"
    return f"exec {python} {script} {fault}"


def patience(fault):
    return "2000" if fault.startswith("stalls") else "60000"


def test_a_worker_without_a_fault_is_believed():
    told = ask(liar("none"), "scan", "x", "main", "f", "-")
    assert told[-1] == "first rows=20 sum=190 batches=2"
    assert ask(liar("none"), "branches", "x", "main", "t") == []


def test_a_worker_without_branches_is_asked_for_its_function():
    told = ask(liar("method_missing"), "branches", "x", "main", "t")
    assert told == ["branch kind=0 function=f filter= writable=0 source=.. format="]


def test_what_a_worker_says_while_it_scans_is_passed_on():
    told = ask(liar("talks"), "scan", "x", "main", "f", "-")
    assert "log WARN nearly done" in told and told[-1] == "first rows=20 sum=190 batches=2"


@pytest.mark.parametrize(
    ("fault", "code", "text"),
    [
        ("garbage", "CORRUPT", "no message starts where one is due"),
        ("cut", "CONNECTION_LOST", "exit code 3; its stderr ends with: I am going down"),
        ("no_end", "CONNECTION_LOST", "ended before its answer was complete, exit code 0"),
        ("stalls", "TIMEOUT", "timed out"),
        ("huge_head", "TOO_LARGE", "metadata"),
        ("elsewhere", "NOT_IMPLEMENTED", "keeps its answer in a storage of its own"),
        ("answers_twice", "PROTOCOL", "more than one batch"),
    ],
)
def test_a_false_answer_is_an_error_that_says_what(fault, code, text):
    told = ask(liar(fault), "attach", "x", fails=True, VGI_CALL_MS=patience(fault))
    assert told[-1].startswith(f"error {code} vgi catalog_attach: ") and text in told[-1]


@pytest.mark.parametrize(
    ("fault", "code", "text"),
    [
        ("breaks_in_scan", "CONNECTION_LOST", "ended before its answer was complete"),
        ("ends_without_end", "CONNECTION_LOST", "ended before its answer was complete, exit code 0"),
        ("killed_in_scan", "CONNECTION_LOST", "killed by signal 9"),
        ("stalls_in_scan", "TIMEOUT", "timed out"),
        ("fails_in_scan", "UNKNOWN", "the worker says: ValueError: in the middle"),
        ("fails_in_init", "UNKNOWN", "the worker says: ValueError: no such rows"),
        ("other_columns", "PROTOCOL", "other columns than it was bound with"),
        ("two_headers", "PROTOCOL", "more than one batch"),
        ("no_header", "PROTOCOL", "header of a scan is missing"),
    ],
)
def test_a_scan_that_goes_wrong_is_never_a_short_one(fault, code, text):
    told = ask(liar(fault), "scan", "x", "main", "f", "-", fails=True, VGI_CALL_MS=patience(fault))
    assert told[-1].startswith(f"error {code} vgi ") and text in told[-1]


def test_bytes_that_nobody_asked_for_end_the_session():
    """The attach is answered; what is then too much is not taken for the answer to the next call."""
    assert ask(liar("more_bytes"), "schemas", "x") == []
    told = ask(liar("more_bytes"), "scan", "x", "main", "f", "-")
    assert told[-1] == "first rows=20 sum=190 batches=2"


def test_secrets_that_are_asked_for_are_told():
    assert ask(liar("asks_for_secrets"), "scan", "x", "main", "f", "-") == ["secrets 1"]

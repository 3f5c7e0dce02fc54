"""The operator's door to a store: snapshot, gc, storage."""

import json
import os
import pty
import re
import sqlite3
import subprocess

import pytest
import services

ID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def run(store, *args, code=0, **env):
    done = services.cli(*args, env={"OPENDUCK_DATA_DIR": str(store), **env})
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def answer(store, *args, **kw):
    return json.loads(run(store, *args, "--json", **kw))


def layers(store):
    return sorted(p.name for p in (store / "layers").glob("*.seg"))


@pytest.fixture
def store(tmp_path):
    """A store with the databases tour and copy."""
    subprocess.run(
        [services.BUILD / "programs" / "storage", tmp_path], check=True, env=services.server_env(), capture_output=True
    )
    return tmp_path


def test_a_snapshot_is_sealed_listed_shown_cloned_and_dropped(store):
    first = run(store, "snapshot", "seal", "tour").strip()
    assert re.fullmatch(ID, first)
    second = answer(store, "snapshot", "seal", "tour")
    assert second["database"] == "tour" and second["snapshot"] != first
    run(store, "snapshot", "seal", "copy")
    listed = answer(store, "snapshot", "list", "tour")
    assert [s["snapshot"] for s in listed] == [first, second["snapshot"]]
    assert len(answer(store, "snapshot", "list")) == 3
    assert run(store, "snapshot", "list", "tour").startswith(first + "  20")

    shown = answer(store, "snapshot", "show", first.upper())
    assert shown["files"] == [{"name": "greeting", "size": 12}] and shown["created_ms"] == listed[0]["created_ms"]
    text = run(store, "snapshot", "show", first)
    assert "database:  tour" in text and "file:      greeting, 12 B" in text

    assert "trial" in run(store, "snapshot", "clone", first, "trial")
    assert "already" in run(store, "snapshot", "clone", first, "trial", code=1)
    assert answer(store, "storage", "status", "trial")[0]["data_bytes"] == 12
    assert answer(store, "snapshot", "drop", first) == {"dropped": first}
    assert "no such snapshot" in run(store, "snapshot", "drop", first, code=1)
    assert "no such snapshot" in run(store, "snapshot", "show", first, code=1)
    assert [s["snapshot"] for s in answer(store, "snapshot", "list", "tour")] == [second["snapshot"]]


def test_layers_are_merged_and_garbage_goes(store):
    made = [run(store, "snapshot", "seal", "tour").strip() for _ in range(5)]
    (before,) = answer(store, "storage", "status", "tour")
    assert before["snapshots"] == 5 and before["layers"] == 7 and not before["has_writer"]
    for snapshot in made[:-1]:
        run(store, "snapshot", "drop", snapshot)
    assert "1 snapshot, 7 layers, 5 to be merged" in run(store, "storage", "status", "tour")
    (merge,) = answer(store, "storage", "compact", "tour", "--whole")["merges"]
    assert merge["layers"] == 5 and merge["bytes_after"] < merge["bytes_before"]
    (after,) = answer(store, "storage", "status", "tour")
    assert after["layers"] == 3 and after["data_bytes"] == before["data_bytes"] == 12
    assert after["stored_bytes"] < before["stored_bytes"]
    assert run(store, "storage", "compact") == "nothing to merge\n"

    # A database that begins at what a dropped snapshot was, and is the only one to need it.
    run(store, "snapshot", "drop", made[-1])
    assert answer(store, "gc")["layers"] == []
    assert answer(store, "storage", "verify")["damaged"] == []


def test_layers_are_sent_far_away(store, tmp_path_factory):
    far = {"OPENDUCK_BLOB_URL": str(tmp_path_factory.mktemp("far"))}
    run(store, "snapshot", "seal", "tour")
    sent = answer(store, "storage", "tier", **far)["sent"]
    assert sent and all(re.fullmatch(ID, s["layer"]) and s["bytes"] > 0 for s in sent)
    assert run(store, "storage", "tier", **far) == "nothing to send\n"
    run(store, "snapshot", "seal", "tour")
    assert re.fullmatch(ID + r"  [0-9.]+ \w+\n", run(store, "storage", "tier", **far))
    (store / "layers" / (sent[0]["layer"] + ".seg")).unlink()
    assert run(store, "storage", "verify", **far).endswith(" 0 damaged\n"), "its copy is read"
    assert "no place" in run(store, "storage", "tier", code=1)


def test_gc_tells_before_it_removes(store):
    """The garbage is what a writer left that was killed while it made a layer: its file without a trace of its use."""
    orphan = "0e9f9a1c-0000-4000-8000-000000000000"
    (store / "layers" / (orphan + ".seg")).write_bytes(b"x" * 2048)
    with sqlite3.connect(store / "metadata.sqlite") as db:
        db.execute(
            "INSERT INTO layer (id, database, parent, state, epoch, length, created_ms)"
            " SELECT ?, id, NULL, 0, 0, 0, 0 FROM database WHERE name = 'tour'",
            (orphan,),
        )
    there = layers(store)
    told = answer(store, "gc", "--dry-run")
    assert told["dry_run"] and [g["layer"] for g in told["layers"]] == [orphan] and told["bytes"] == 2048
    assert layers(store) == there
    assert "would remove 1 layer, 2.0 KiB" in run(store, "gc", "--dry-run")
    assert "removed 1 layer, 2.0 KiB" in run(store, "gc")
    assert layers(store) == [n for n in there if not n.startswith(orphan)]
    assert "removed 0 layers" in run(store, "gc")


def test_verify_finds_a_damaged_byte(store):
    assert "0 damaged" in run(store, "storage", "verify")
    path = max((store / "layers").glob("*.seg"), key=lambda p: p.stat().st_size)
    data = bytearray(path.read_bytes())
    data[200] ^= 4
    path.write_bytes(data)
    done = services.cli("storage", "verify", "--json", "--data-dir", store)
    assert done.returncode == 1
    (found,) = json.loads(done.stdout)["damaged"]
    assert found["layer"] == path.stem and "at byte" in found["problem"] and path.stem in done.stderr


def test_long_work_tells_its_progress_on_a_terminal_only(store):
    ours, theirs = pty.openpty()
    env = services.server_env({"OPENDUCK_DATA_DIR": str(store)})
    done = subprocess.run(
        [services.BINARY, "storage", "verify"], stdout=subprocess.PIPE, stderr=theirs, env=env, check=True, timeout=60
    )
    os.close(theirs)
    text = os.read(ours, 65536).decode()
    os.close(ours)
    assert "\r\x1b[K1 layer, " in text and text.endswith("\r\x1b[K") and b"\r" not in done.stdout
    assert services.cli("storage", "verify", "--data-dir", store).stderr == ""


def test_a_copy_is_a_store(store, tmp_path_factory):
    snapshot = run(store, "snapshot", "seal", "tour").strip()
    copy = tmp_path_factory.mktemp("backup")
    subprocess.run(["cp", "-al", store / "layers", copy / "layers"], check=True)
    with sqlite3.connect(store / "metadata.sqlite") as source, sqlite3.connect(copy / "metadata.sqlite") as target:
        source.backup(target)
    subprocess.run(["cp", "-aln", "%s/." % (store / "layers"), copy / "layers"], check=True)
    run(store, "snapshot", "drop", snapshot)
    run(store, "storage", "compact", "--whole")
    assert answer(copy, "storage", "verify")["damaged"] == []
    assert [s["snapshot"] for s in answer(copy, "snapshot", "list")] == [snapshot]
    assert answer(copy, "snapshot", "show", snapshot)["files"] == [{"name": "greeting", "size": 12}]


def test_what_is_wrong_is_said(store, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    for args, code, text in (
        (["snapshot"], 2, "needs an argument"),
        (["snapshot", "sael", "tour"], 2, "seal, list, show, drop, clone"),
        (["snapshot", "seal"], 2, "DATABASE"),
        (["snapshot", "clone", "x"], 2, "SNAPSHOT and the name"),
        (["snapshot", "drop", "x"], 2, "UUID"),
        (["snapshot", "seal", "nobody"], 1, "no database 'nobody'"),
        (["snapshot", "list", "nobody"], 1, "no database 'nobody'"),
        (["storage", "stats"], 2, "verify, compact, tier, status"),
        (["storage", "verify", "tour"], 2, "whole store"),
        (["storage", "status", "--whole"], 2, "compact"),
        (["storage", "status", "nobody"], 1, "no database 'nobody'"),
        (["storage", "compact", "nobody"], 1, "no database 'nobody'"),
        (["gc", "--blob-url", "ftp://there", "--data-dir", store], 1, "'ftp://there' is no place for layers"),
        (["gc", "--data-dir", other], 1, "there is no store in '%s'" % other),
        (["gc", "--data-dir", other / "nothere"], 1, "there is no store"),
    ):
        assert text in run(store, *args, code=code), args
    assert list(other.iterdir()) == [], "a look makes no store"
    assert "there is no store in '%s/.openduck/data'" % other in run("", "gc", code=1, HOME=str(other))
    assert "no home directory" in run("", "gc", code=2, HOME="")

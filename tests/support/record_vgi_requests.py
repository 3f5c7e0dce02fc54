"""Records what clients ask of a VGI worker, as tests/fuzz/corpus/vgi_requests: each request alone, and whole sessions.

.deps/venv/bin/python tests/support/record_vgi_requests.py      (a release build is there)
"""

import hashlib
import pathlib
import subprocess
import sys
import tempfile

import pyarrow as pa

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]
import services  # noqa: E402
import vgi_worker  # noqa: E402

OUT = HERE.parent / "fuzz" / "corpus" / "vgi_requests"
WORKER = services.BUILD / "programs" / "vgi_numbers"
CLIENT = services.BUILD / "programs" / "vgi_client"
END = b"\xff\xff\xff\xff\0\0\0\0"
ASKED = [
    ["attach", "hot"],
    ["tables", "hot", "main"],
    ["functions", "hot", "main"],
    ["branches", "hot", "main", "moving"],
    ["scan", "hot", "main", "numbers", "3"],
    ["filter", "hot", "main", "numbers", "3", "1", "2"],
]


def requests(recorded):
    """Streams, one after another; an init is followed by its input."""
    source, parts, start = pa.BufferReader(recorded), [], 0
    while start < len(recorded):
        end = start
        while recorded[end : end + 8] != END:
            source.seek(end)
            pa.ipc.read_message(source)
            end = source.tell()
        end += 8
        if parts and parts[-1][1]:
            parts[-1] = (parts[-1][0] + recorded[start:end], False)
        else:
            # The method, in the batch's own metadata: a text with its length before it.
            parts.append((recorded[start:end], b"\4\0\0\0init\0" in recorded[start:end]))
        start = end
    return [part for part, _ in parts]


def filters(part):
    """The filters of an init."""
    try:
        outer = pa.ipc.open_stream(part).read_next_batch().to_pylist()[0]
        asked = pa.ipc.open_stream(outer["request"]).read_next_batch().to_pylist()[0]
        return asked.get("pushdown_filters")
    except (pa.ArrowInvalid, IndexError, KeyError):
        return None


def main():
    kept = set()
    with tempfile.TemporaryDirectory() as folder:
        sessions = []
        for i, words in enumerate(ASKED):
            path = pathlib.Path(folder) / ("own%d" % i)
            subprocess.run([CLIENT, "tee %s | %s" % (path, WORKER), *words], check=True, stdout=subprocess.DEVNULL)
            sessions.append(path.read_bytes())
        for generation in vgi_worker.GENERATIONS:
            path = pathlib.Path(folder) / generation
            wrapper = pathlib.Path(folder) / ("run" + generation)
            wrapper.write_text("#!/bin/sh\ntee -a %s | %s\n" % (path, WORKER))
            wrapper.chmod(0o755)
            python = vgi_worker.arguments(generation)[0]
            command = [python, HERE / "vgi_sdk_client.py", generation, wrapper, "hot", "main", "numbers"]
            subprocess.run(command, check=True, env=vgi_worker.environment(generation), stdout=subprocess.DEVNULL)
            sessions.append(path.read_bytes())
    for session in sessions:
        parts = requests(session)
        kept.update(parts)
        kept.update(f for f in map(filters, parts) if f)
    kept.add(sessions[4])
    OUT.mkdir(exist_ok=True)
    for part in kept:
        (OUT / hashlib.sha256(part).hexdigest()[:16]).write_bytes(part)


if __name__ == "__main__":
    main()

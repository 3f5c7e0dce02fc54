"""Records what VGI workers answer, as tests/fuzz/corpus/vgi_answers: a byte for the question, then the answer.

usage: record_vgi.py PROGRAM-FOLDER   (that holds vgi_client)
"""

import io
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]

import vgi_worker  # noqa: E402
from pyarrow import ipc  # noqa: E402

OUT = HERE.parent / "fuzz" / "corpus" / "vgi_answers"
# The client's command, and what its answers are after the probe and the attach.
RECORDED = {
    "companion": [
        (["schemas", "companion"], [(2, "schemas")]),
        (["tables", "companion", "data"], [(3, "tables")]),
        (["branches", "companion", "data", "hot_cold"], [(7, "branches")]),
    ],
    "worker": [
        (["views", "example", "main"], [(4, "views")]),
        (["macros", "example", "main"], [(5, "scalar_macros"), (5, "table_macros")]),
        (["functions", "projection_repro", "main"], [(6, "scalars"), (6, "aggregates"), (6, "tables_of_functions")]),
        (["branches", "example", "data", "multi_branch_heterogeneous"], [(7, "function_branches")]),
        (["table", "writable", "main", "events"], [(3, "table")]),
        (
            ["scan", "example", "main", "sequence", "20"],
            [(8, "bind"), (9, "cardinality"), (9, "init"), (9, "rows")],
        ),
    ],
}
LARGEST = 65536
# What its authors wrote for people (comments, errors, lines in tracebacks): the letters are masked, the length stays.
TEXT_OF_ERROR = re.compile(
    rb'("(?:traceback|exception_message|code|line|file|function|filename|text|name)": ")((?:[^"\\]|\\.)*)'
)
PROSE = re.compile(rb"[\x20-\x7e]{12,}")
KEPT = re.compile(rb"vgi_rpc|SELECT |GREATEST|\S*$|.*\b(id|n|ts) (<|>=|>|<=) ")  # keys, SQL, single words, filters


def mask(text):
    return re.sub(rb"(?<!\\)[A-Za-z]", b"x", text)


def without_prose(stream):
    if b'"exception_type"' in stream:
        stream = TEXT_OF_ERROR.sub(lambda m: m[1] + mask(m[2]), stream)
    return PROSE.sub(lambda m: m[0] if b'"exception_type"' in m[0] or KEPT.match(m[0]) else mask(m[0]), stream)


def streams(data):
    """Each whole stream, and whether it tells an error."""
    source = io.BytesIO(data)
    while source.tell() < len(data):
        start, error = source.tell(), False
        with ipc.open_stream(source) as reader:
            while True:
                try:
                    _, metadata = reader.read_next_batch_with_custom_metadata()
                except StopIteration:
                    break
                error = error or (metadata is not None and b"vgi_rpc.error_kind" in dict(metadata))
        yield data[start : source.tell()], error


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for generation in vgi_worker.GENERATIONS:
        for module, commands in RECORDED.items():
            extra = {"VGI_TEST_COMPANION_TARGET": "ducklake:sqlite:/nowhere/lake.sqlite"}
            command = vgi_worker.command(generation, module, extra).removeprefix("exec ")
            for arguments, answers in commands:
                with tempfile.NamedTemporaryFile() as kept:
                    client = [str(pathlib.Path(sys.argv[1]) / "vgi_client"), f"{command} | tee {kept.name}"]
                    subprocess.run(client + arguments, check=False, stdout=subprocess.DEVNULL)
                    found = [stream for stream, error in streams(pathlib.Path(kept.name).read_bytes()) if not error]
                for (question, name), stream in zip([(0, "catalogs"), (1, "attached"), *answers], found):
                    if len(stream) <= LARGEST:
                        (OUT / f"{generation}-{module}-{name}").write_bytes(bytes([question]) + without_prose(stream))


if __name__ == "__main__":
    main()

"""A VGI worker (generation 2.2, on stdin and stdout) that answers well until its fault: the first argument names it."""

import os
import signal
import sys
import time

import pyarrow as pa
from pyarrow import ipc

FAULT = sys.argv[1]
READ, WRITE = sys.stdin.buffer, sys.stdout.buffer
ROWS = pa.schema([pa.field("n", pa.int64())])
END = b"\xff\xff\xff\xff\0\0\0\0"


def stream(schema, batches=(), end=True):
    """The bytes of a stream; `batches`: (batch, metadata)."""
    sink = pa.BufferOutputStream()
    writer = ipc.new_stream(sink, schema)
    for batch, metadata in batches:
        writer.write_batch(batch, custom_metadata=metadata)
    writer.close()
    data = sink.getvalue().to_pybytes()
    return data if end else data[: -len(END)]


def batch_of(schema, row):
    return pa.RecordBatch.from_arrays([pa.array([row.get(f.name)], f.type) for f in schema], schema=schema)


def record(**columns):
    """A record, as the value of an answer. Values that have no type of their own come as (value, type)."""
    typed = {k: v if isinstance(v, tuple) else (v, pa.scalar(v).type) for k, v in columns.items()}
    schema = pa.schema([pa.field(k, t) for k, (_, t) in typed.items()])
    return stream(schema, [(batch_of(schema, {k: v for k, (v, _) in typed.items()}), None)])


def told(value, times=1):
    schema = pa.schema([pa.field("result", pa.binary())])
    return stream(schema, [(batch_of(schema, {"result": value}), None)] * times)


def word(schema, level, text, **more):
    """A batch of no rows that says something."""
    none = pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
    return none, {"vgi_rpc.log_level": level, "vgi_rpc.log_message": text, **more}


def rows(first, count):
    return pa.RecordBatch.from_arrays([pa.array(range(first, first + count), pa.int64())], schema=ROWS)


def say(data):
    WRITE.write(data)
    WRITE.flush()


def fail(text, **more):
    return stream(pa.schema([]), [word(pa.schema([]), "EXCEPTION", text, **more)])


def stall():
    while True:
        time.sleep(60)


def bind():
    secrets = ["s3"] if FAULT == "asks_for_secrets" else []
    return record(
        output_schema=ROWS.serialize().to_pybytes(),
        opaque_data=b"x",
        lookup_secret_types=(secrets, pa.list_(pa.string())),
        lookup_scopes=(["s3://b"] * len(secrets), pa.list_(pa.string())),
        lookup_names=([None] * len(secrets), pa.list_(pa.string())),
    )


def next_batches(tick):
    """The pieces of the output stream that answer a tick: bytes to write, and whether it is the end."""
    schema = ROWS if FAULT != "other_columns" else pa.schema([pa.field("n", pa.string())])
    if FAULT == "other_columns":
        return stream(schema, [(batch_of(schema, {"n": "x"}), None)]), True
    whole = stream(ROWS, [(rows(0, 10), None), (rows(10, 10), None)])
    head = stream(ROWS, end=False)
    first = stream(ROWS, [(rows(0, 10), None)], end=False)
    if tick == 0:
        return first, False
    if FAULT == "breaks_in_scan":
        say(whole[len(first) : -len(END) - 20])
        sys.exit(0)
    if FAULT == "ends_without_end":
        sys.exit(0)
    if FAULT == "killed_in_scan":
        os.kill(os.getpid(), signal.SIGKILL)
    if FAULT == "stalls_in_scan":
        stall()
    if FAULT == "fails_in_scan":
        return stream(ROWS, [word(ROWS, "EXCEPTION", "ValueError: in the middle")])[len(head) :], True
    if FAULT == "talks" and tick == 1:
        return stream(ROWS, [word(ROWS, "WARN", "nearly done"), (rows(10, 10), None)], end=False)[len(head) :], False
    if tick == 1:
        return whole[len(first) : -len(END)], False
    return END, True


def scan():
    if FAULT == "fails_in_init":
        say(fail("ValueError: no such rows"))
    elif FAULT == "two_headers":
        header = pa.schema([pa.field("execution_id", pa.binary()), pa.field("max_workers", pa.int64())])
        say(stream(header, [(batch_of(header, {"execution_id": b"e", "max_workers": 1}), None)] * 2))
    elif FAULT == "no_header":
        say(stream(pa.schema([])))
    else:
        say(record(execution_id=b"e", opaque_data=b"o", max_workers=1))
    with ipc.open_stream(READ) as ticks:
        tick, ended = 0, FAULT == "fails_in_init"
        while True:
            try:
                _, metadata = ticks.read_next_batch_with_custom_metadata()
            except StopIteration:
                return
            if ended:
                continue
            cancelled = metadata is not None and b"vgi_rpc.cancel" in dict(metadata)
            data, ended = (END, True) if cancelled else next_batches(tick)
            tick += 1
            say(data)


def answer(method):
    if FAULT == "log":
        print("a line on stderr", file=sys.stderr, flush=True)
    if FAULT == "method_missing" and method == "catalog_table_scan_branches_get":
        return fail("no such method", **{"vgi_rpc.error_kind": "method_not_implemented"})
    if method in ("catalog_catalogs", "catalog_schemas"):
        return told(record(items=([], pa.list_(pa.binary()))))
    if method == "catalog_attach":
        return told(record(attach_opaque_data=b"a", default_schema=""), times=2 if FAULT == "answers_twice" else 1)
    if method == "bind":
        return told(bind())
    if method == "table_function_cardinality":
        return fail("no such method", **{"vgi_rpc.error_kind": "method_not_implemented"})
    if method == "catalog_table_scan_function_get":
        return told(record(function_name="f", arguments=b"", required_extensions=([], pa.list_(pa.string()))))
    if method == "catalog_table_scan_branches_get":
        return told(record(branches=([], pa.list_(pa.binary())), required_extensions=([], pa.list_(pa.string()))))
    return stream(pa.schema([]), [(pa.RecordBatch.from_arrays([], schema=pa.schema([])), None)])


def spoiled(data):
    """The answer to the attach, with the fault."""
    if FAULT == "garbage":
        return b"Hello, I am no worker at all.\n" * 10
    if FAULT == "cut":
        say(data[: len(data) // 2])
        print("I am going down", file=sys.stderr, flush=True)
        sys.exit(3)
    if FAULT == "no_end":
        say(data[: -len(END)])
        sys.exit(0)
    if FAULT == "stalls":
        stall()
    if FAULT == "huge_head":
        return b"\xff\xff\xff\xff\xff\xff\xff\x7f"
    if FAULT == "elsewhere":
        schema = pa.schema([pa.field("result", pa.binary())])
        none = pa.RecordBatch.from_arrays([pa.array([], pa.binary())], schema=schema)
        return stream(schema, [(none, {"vgi_rpc.location": "https://elsewhere"})])
    if FAULT == "more_bytes":
        return data + b"more"
    return data


def main():
    while True:
        try:
            with ipc.open_stream(READ) as reader:
                _, metadata = reader.read_next_batch_with_custom_metadata()
                for _ in reader:
                    pass
        except (pa.ArrowInvalid, StopIteration):
            return
        method = dict(metadata)[b"vgi_rpc.method"].decode()
        if method == "init":
            scan()
        else:
            data = answer(method)
            say(spoiled(data) if method == "catalog_attach" else data)


main()

"""A VGI worker (protocol 2.2, over stdin and stdout) that serves what a JSON file says, to test its client.

    python vgi_spec_worker.py SPEC.json

SPEC: {"catalog": NAME, "companions": [AttachCatalogInfo...], "calls": FILE,
       "transactions": BOOL,
       "tables": {NAME: {"columns": {NAME: TYPE}, "branches": [BRANCH...], "required_extensions": [NAME...],
                         "statistics": STATISTICS, "defaults": {NAME: SQL}, "insert": FUNCTION}},
       "functions": {NAME: {"columns": {NAME: TYPE}, "rows": [[...]...], "die_after": BATCHES,
                            "projects": BOOL, "filters": "apply" | "refuse" | "ignore",
                            "statistics": STATISTICS, "cardinality": ROWS}}}
STATISTICS is {COLUMN: [MIN, MAX, DISTINCT]}; a table's are told with it.
A function with "inserts" takes rows, and notes them as calls of the method "insert"; its "fault" is what it does
instead: "fails", "dies", "ends" or "denies" (a count below 0), "late" (it fails when all rows are in).
A function with "takes" ({NAME: TYPE}) has those columns of rows as its parameters, and gives them back under the names
and types of its "columns"; functions of one "name" are overloads, told apart by what they take; "per_call" is how many
rows it takes at once. Its "fault" is as of a scalar one, or "types" (others than it was bound with) or "fails".
A function with "aggregate" sums its one column; its "fault" is what it does instead: "fails" or "dies" when rows come,
"late" (it fails when results are asked for), "short" (a result too few), "types" (results of another type), "columns"
(two of them) or "nameless" (no id for what it keeps).
A function with "scalar" is one of a column that it gives back; its "fault" is what it does instead: "short" (a row too
few), "ends" or "dies".
BRANCH: {"function": NAME} or {"source": [CATALOG, SCHEMA, TABLE]} or {"format": NAME, "locations": [...]}, with
"filter", "arguments" (a list of positional ones), "options" (of the format) and "writable". "settings" and
"secret_types" (NAME: {KEY: TYPE}) are declared at attach; a function with "secret" asks for one of that type. TYPE
is Arrow's name of it ("int64"). Each method that is called is a line of FILE, a JSON object, with what an init says
of filters, columns and limits. A function with "apply" says that it applies filters exactly (of comparisons with
constants); one with "refuse" has no engine for them.
"""

import io
import json
import operator
import os
import sys

import pyarrow as pa
from pyarrow import ipc

EMPTY = pa.schema([])
TEXTS = pa.list_(pa.string())
BLOBS = pa.list_(pa.binary())
PAIRS = pa.map_(pa.string(), pa.string())
TYPES = {"timestamp[us]": pa.timestamp("us"), "string": pa.string(), "date": pa.date32()}


def stream(batch, metadata=None):
    out = io.BytesIO()
    with ipc.new_stream(out, batch.schema) as writer:
        writer.write_batch(batch, custom_metadata=metadata)
    return out.getvalue()


def named(values):
    """A stream of one row of VALUES; None: of none."""
    arrays = [pa.array([value]) for value in values.values()]
    return stream(pa.RecordBatch.from_arrays(arrays, names=list(values))) if values else None


def record(**columns):
    """A stream of one row: NAME=(TYPE, VALUE)."""
    arrays = [pa.array([value], type=kind) for kind, value in columns.values()]
    return stream(pa.RecordBatch.from_arrays(arrays, names=list(columns)))


def statistics_of(columns, told):
    """A row for each column; the bounds are of its type, as members of a union."""
    fields = [schema_of(columns).field(name) for name in told]
    codes = pa.array(range(len(fields)), pa.int8())

    def bound(at):
        kinds = [
            pa.array([v[at] if i == k else None for k, v in enumerate(told.values())], f.type)
            for i, f in enumerate(fields)
        ]
        return pa.UnionArray.from_sparse(codes, kinds, [str(i) for i in range(len(fields))])

    arrays = {
        "column_name": pa.array(list(told)),
        "min": bound(0),
        "max": bound(1),
        "has_null": pa.array([False] * len(told)),
        "has_not_null": pa.array([True] * len(told)),
        "distinct_count": pa.array([v[2] for v in told.values()], pa.int64()),
    }
    return stream(pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays)))


def schema_of(columns):
    return pa.schema([(name, TYPES.get(kind) or pa.type_for_alias(kind)) for name, kind in columns.items()])


class NotImplementedByWorker(Exception):
    pass


class FilterDeserializationError(Exception):
    pass


def read_filters(document):
    """The predicates, and the values that they refer to."""
    if not document:
        return [], {}
    row = ipc.open_stream(document).read_next_batch().to_pylist()[0]
    return json.loads(row["filter_spec"])["predicates"], row


def holds(expression, row, values):
    assert expression["node"] == "comparison"
    left, right = row[expression["left"]["column_index"]], values["value_%d" % expression["right"]["value_ref"]]
    return getattr(operator, expression["op"])(left, right)


class Worker:
    def __init__(self, spec, source, sink):
        self.spec, self.source, self.sink = spec, source, sink
        self.kept, self.executions = {}, 0

    def run(self):
        while self.source.peek(1):
            request, metadata = self.read_request()
            method = metadata[b"vgi_rpc.method"].decode()
            if method not in ("init", "bind"):
                self.note(method)
            try:
                if method == "init":
                    self.init(request)
                else:
                    self.answer(getattr(self, method, self.unknown)(**request))
            except Exception as why:
                self.fail(why)
            self.sink.flush()

    def note(self, method, **more):
        with open(self.spec["calls"], "a") as out:
            out.write(json.dumps({"method": method, **more}) + "\n")

    def read_request(self):
        reader = ipc.open_stream(self.source)
        batch, metadata = reader.read_next_batch_with_custom_metadata()
        for _ in reader:
            pass
        return batch.to_pylist()[0] if batch.num_columns else {}, dict(metadata)

    def answer(self, result):
        if result is None:
            self.sink.write(stream(pa.RecordBatch.from_arrays([], schema=EMPTY)))
        else:
            field = pa.field("result", pa.binary(), nullable=False)
            self.sink.write(
                stream(pa.RecordBatch.from_arrays([pa.array([result], pa.binary())], schema=pa.schema([field])))
            )

    def fail(self, why):
        metadata = {"vgi_rpc.log_level": "EXCEPTION", "vgi_rpc.log_message": "%s: %s" % (type(why).__name__, why)}
        metadata["vgi_rpc.log_extra"] = json.dumps(
            {"exception_type": type(why).__name__, "exception_message": str(why)}
        )
        if isinstance(why, NotImplementedByWorker):
            metadata["vgi_rpc.error_kind"] = "method_not_implemented"
        self.sink.write(stream(pa.RecordBatch.from_arrays([], schema=EMPTY), metadata))

    def unknown(self, **_):
        raise NotImplementedByWorker("no such method")

    # ---- catalogs ----

    def items(self, records):
        return record(items=(BLOBS, records))

    def catalog_catalogs(self):
        return self.items(
            [record(name=(pa.string(), name)) for name in self.spec.get("catalogs", [self.spec["catalog"]])]
        )

    def catalog_attach(self, request):
        asked = ipc.open_stream(request).read_next_batch().to_pylist()[0]
        if asked["name"] != self.spec["catalog"]:
            raise ValueError("no catalog %r" % asked["name"])
        no = (pa.bool_(), False)
        return record(
            attach_opaque_data=(pa.binary(), b"attached"),
            supports_transactions=(pa.bool_(), self.spec.get("transactions", False)),
            supports_time_travel=no,
            catalog_version_frozen=(pa.bool_(), True),
            catalog_version=(pa.int64(), 1),
            attach_opaque_data_required=(pa.bool_(), True),
            default_schema=(pa.string(), "main"),
            attach_catalogs=(BLOBS, [self.companion(**c) for c in self.spec.get("companions", [])]),
            comment=(pa.string(), self.spec.get("comment")),
            tags=(PAIRS, []),
            settings=(BLOBS, [self.setting(*item) for item in self.spec.get("settings", {}).items()]),
            secret_types=(BLOBS, [self.secret_type(*item) for item in self.spec.get("secret_types", {}).items()]),
        )

    def setting(self, name, kind):
        text, blob = pa.string(), pa.binary()
        field = schema_of({name: kind}).serialize().to_pybytes()
        return record(name=(text, name), description=(text, ""), type=(blob, field), default_value=(blob, None))

    def secret_type(self, name, keys):
        fields = schema_of(keys).serialize().to_pybytes()
        return record(name=(pa.string(), name), description=(pa.string(), ""), parameters_schema=(pa.binary(), fields))

    def companion(self, alias, target, db_type="", options=None, hidden=False, required=True, secret_ref=""):
        text = pa.string()
        return record(
            alias=(text, alias),
            target=(text, target),
            db_type=(text, db_type),
            options=(PAIRS, list((options or {}).items())),
            hidden=(pa.bool_(), hidden),
            required=(pa.bool_(), required),
            secret_ref=(text, secret_ref),
        )

    def catalog_detach(self, attach_opaque_data):
        assert attach_opaque_data == b"attached"

    def catalog_schemas(self, **_):
        return self.items([record(path=(TEXTS, ["main"]), comment=(pa.string(), None), tags=(PAIRS, []))])

    def catalog_schema_contents_tables(self, path, **_):
        return self.items([self.table(name, table) for name, table in self.spec.get("tables", {}).items()])

    def catalog_transaction_begin(self, **_):
        return record(transaction_opaque_data=(pa.binary(), b"transaction"))

    def catalog_transaction_commit(self, transaction_opaque_data, **_):
        assert transaction_opaque_data == b"transaction"

    catalog_transaction_rollback = catalog_transaction_commit

    def catalog_table_insert_function_get(self, name, writable_branch_function_name, **_):
        self.note("insert_function", branch=writable_branch_function_name)
        return record(function_name=(pa.string(), self.spec["tables"][name]["insert"]), arguments=(pa.binary(), b""))

    def table(self, name, table):
        columns = schema_of(table["columns"])
        for column, sql in table.get("defaults", {}).items():
            at = columns.get_field_index(column)
            columns = columns.set(at, columns.field(at).with_metadata({"default": sql}))
        told = statistics_of(table["columns"], table["statistics"]) if "statistics" in table else None
        return record(
            name=(pa.string(), name),
            schema_path=(TEXTS, ["main"]),
            comment=(pa.string(), table.get("comment")),
            tags=(PAIRS, []),
            columns=(pa.binary(), columns.serialize().to_pybytes()),
            column_statistics=(pa.binary(), told),
            write_result_modes=(PAIRS, [("insert", "count")] if "insert" in table else []),
        )

    def catalog_schema_contents_functions(self, path, type, **_):
        functions = self.spec.get("functions", {}).items()
        kind = type.split("_")[0].lower()
        kinds = [(n, f, next((k for k in ("scalar", "aggregate") if f.get(k)), "table")) for n, f in functions]
        return self.items([self.function(n, f, k.upper()) for n, f, k in kinds if k == kind])

    def function(self, name, function, kind):
        parameters = schema_of(function.get("takes", {}) if kind == "TABLE" else function["columns"])
        return record(
            name=(pa.string(), function.get("name", name)),
            schema_path=(TEXTS, ["main"]),
            function_type=(pa.string(), kind),
            arguments=(pa.binary(), parameters.serialize().to_pybytes()),
            input_from_args=(pa.bool_(), "takes" in function),
            input_rows_per_call=(pa.int64(), function.get("per_call")),
            projection_pushdown=(pa.bool_(), function.get("projects", False)),
            filter_pushdown=(pa.bool_(), "filters" in function),
            filters_exactly_applied=(pa.bool_(), function.get("filters") in ("apply", "refuse")),
        )

    def catalog_table_scan_branches_get(self, name, **_):
        table = self.spec["tables"][name]
        return record(
            branches=(BLOBS, [self.branch(**b) for b in table["branches"]]),
            required_extensions=(TEXTS, table.get("required_extensions", [])),
        )

    def branch(
        self,
        function="",
        source=None,
        format=None,
        locations=None,
        options=None,
        filter=None,
        arguments=(),
        writable=False,
    ):
        text = pa.string()
        catalog, schema, table = source or (None, None, None)
        values = named({"arg_%d" % i: value for i, value in enumerate(arguments)})
        return record(
            function_name=(text, function),
            arguments=(pa.binary(), values or b""),
            branch_filter=(text, filter),
            writable=(pa.bool_(), writable),
            source_catalog=(text, catalog),
            source_schema_path=(TEXTS, [schema] if schema else None),
            source_table=(text, table),
            format_name=(text, format),
            format_locations=(TEXTS, locations),
            format_options=(pa.binary(), named(options or {})),
        )

    # ---- rows ----

    def bound_function(self, request):
        asked = ipc.open_stream(request).read_next_batch().to_pylist()[0]
        call = ipc.open_stream(asked["bind_call"]).read_next_batch().to_pylist()[0]
        return self.meant(call)

    def meant(self, call):
        """The function that `call`, a BindRequest, is of: overloads are told apart by what goes in."""
        name, given = call["function_name"], call.get("input_schema")
        named = [f for key, f in self.spec["functions"].items() if f.get("name", key) == name]
        if len(named) == 1:
            return named[0]
        given = ipc.read_schema(pa.py_buffer(given))
        return next(f for f in named if schema_of(f["takes"]).types == given.types)

    def table_function_cardinality(self, request):
        number = (pa.int64(), self.bound_function(request).get("cardinality"))
        return record(estimate=number, max=number)

    def table_function_statistics(self, request):
        function = self.bound_function(request)
        if "statistics" not in function:
            raise NotImplementedByWorker("no such method")
        return statistics_of(function["columns"], function["statistics"])

    def bind(self, request):
        asked = ipc.open_stream(request).read_next_batch().to_pylist()[0]
        function = self.meant(asked)
        columns = schema_of(function["columns"])
        secrets = ipc.open_stream(asked["secrets"]).read_next_batch().schema.names if asked["secrets"] else []
        self.note("bind", secrets=secrets, transaction=(asked.get("transaction_opaque_data") or b"").decode())
        asks = [function["secret"]] if "secret" in function and not asked["resolved_secrets_provided"] else []
        none = (TEXTS, [None] * len(asks))
        return record(
            output_schema=(pa.binary(), columns.serialize().to_pybytes()),
            opaque_data=(pa.binary(), asked["function_name"].encode()),
            lookup_secret_types=(TEXTS, asks),
            lookup_scopes=none,
            lookup_names=none,
        )

    # ---- aggregate functions ----

    def aggregate(self, request):
        """The function, and what is asked of it."""
        asked = ipc.open_stream(request).read_next_batch().to_pylist()[0]
        function = self.spec["functions"][asked["function_name"]]
        return function, asked, self.kept.setdefault(asked.get("execution_id"), {})

    def aggregate_bind(self, request):
        function, _, _ = self.aggregate(request)
        columns = schema_of(function["columns"])
        if function.get("fault") == "columns":
            columns = columns.append(pa.field("more", pa.int64()))
        self.executions += 1
        execution = b"" if function.get("fault") == "nameless" else b"execution %d" % self.executions
        return record(
            output_schema=(pa.binary(), columns.serialize().to_pybytes()), execution_id=(pa.binary(), execution)
        )

    def aggregate_update(self, request):
        function, asked, sums = self.aggregate(request)
        if function.get("fault") == "fails":
            raise ValueError("no room for rows")
        if function.get("fault") == "dies":
            print("the worker's last words", file=sys.stderr, flush=True)
            os._exit(3)
        batch = ipc.open_stream(asked["input_batch"]).read_next_batch()
        assert batch.schema.names[0] == "__vgi_group_id"
        for group, value in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            sums[group] = sums.get(group, 0) + (value or 0)
        return record()

    def aggregate_combine(self, request):
        _, asked, sums = self.aggregate(request)
        for pair in ipc.open_stream(asked["merge_batch"]).read_next_batch().to_pylist():
            into = pair["target_group_id"]
            sums[into] = sums.get(into, 0) + sums[pair["source_group_id"]]
        return record()

    def aggregate_finalize(self, request):
        function, asked, sums = self.aggregate(request)
        if function.get("fault") == "late":
            raise ValueError("no room for results")
        groups = ipc.open_stream(asked["group_ids_batch"]).read_next_batch().to_pylist()
        kind = pa.string() if function.get("fault") == "types" else schema_of(function["columns"]).types[0]
        results = pa.array([sums.get(row["group_id"]) for row in groups]).cast(kind)
        results = results.slice(1 if function.get("fault") == "short" else 0)
        return record(result_batch=(pa.binary(), stream(pa.RecordBatch.from_arrays([results], names=["result"]))))

    def aggregate_destructor(self, request):
        _, asked, _ = self.aggregate(request)
        del self.kept[asked["execution_id"]]
        return record()

    # ---- table functions ----

    def init(self, request):
        asked = ipc.open_stream(request["request"]).read_next_batch().to_pylist()[0]
        call = ipc.open_stream(asked["bind_call"]).read_next_batch().to_pylist()[0]
        function = self.meant(call)
        columns, rows = schema_of(function["columns"]), function.get("rows", [])
        filters = read_filters(asked.get("pushdown_filters"))
        wanted = asked.get("projection_ids")
        told = {"filters": [p["expression"] for p in filters[0]], "columns": wanted, "limit": asked.get("row_limit")}
        self.note("init", **told)
        if filters[0] and function["filters"] == "refuse":
            self.fail(FilterDeserializationError("no engine"))
            self.sink.flush()
            for _ in ipc.open_stream(self.source):
                pass
            return
        if filters[0] and function["filters"] == "apply":
            rows = [row for row in rows if all(holds(p["expression"], row, filters[1]) for p in filters[0])]
        if wanted is not None:
            columns, rows = pa.schema([columns[i] for i in wanted]), [[row[i] for i in wanted] for row in rows]
        header = {
            "execution_id": (pa.binary(), b"0" * 16),
            "opaque_data": (pa.binary(), None),
            "max_workers": (pa.int64(), 1),
        }
        self.sink.write(record(**header))
        self.sink.flush()
        if "inserts" in function:
            self.insert(columns, function.get("fault"))
            return
        if function.get("scalar") or "takes" in function:
            self.exchange(columns, function.get("fault"))
            return
        ticks = ipc.open_stream(self.source)
        sent = 0
        with ipc.new_stream(self.sink, columns) as out:
            while True:
                try:
                    _, metadata = ticks.read_next_batch_with_custom_metadata()
                except StopIteration:
                    return
                part = rows[sent * 2048 : (sent + 1) * 2048]
                if not part or (metadata and b"vgi_rpc.cancel" in dict(metadata)):
                    break
                if sent == function.get("die_after"):
                    print("the worker's last words", file=sys.stderr, flush=True)
                    os._exit(3)
                arrays = [pa.array([row[i] for row in part]).cast(field.type) for i, field in enumerate(columns)]
                out.write_batch(pa.RecordBatch.from_arrays(arrays, schema=columns))
                self.sink.flush()
                sent += 1
        self.sink.flush()
        for _ in ticks:
            pass

    def exchange(self, columns, fault):
        given = ipc.open_stream(self.source)
        if fault == "types":
            columns = pa.schema([field.with_type(pa.int8()) for field in columns])
        with ipc.new_stream(self.sink, columns) as out:
            for batch in given:
                if fault == "dies":
                    print("the worker's last words", file=sys.stderr, flush=True)
                    os._exit(3)
                if fault in ("ends", "fails"):
                    break
                self.note("exchange", rows=batch.num_rows)
                made = batch.cast(columns.with_metadata(None), safe=False) if fault == "types" else batch
                out.write_batch(made.rename_columns(columns.names).slice(1 if fault == "short" else 0))
                self.sink.flush()
            if fault == "fails":
                self.fail_within(out, columns)
        self.sink.flush()
        for _ in given:
            pass

    def insert(self, columns, fault):
        given = ipc.open_stream(self.source)
        with ipc.new_stream(self.sink, columns) as out:
            for batch in given:
                if fault == "dies":
                    print("the worker's last words", file=sys.stderr, flush=True)
                    os._exit(3)
                if fault in ("fails", "ends"):
                    break
                self.note("insert", rows=[list(row.values()) for row in batch.to_pylist()], names=batch.schema.names)
                taken = -1 if fault == "denies" else batch.num_rows
                out.write_batch(pa.RecordBatch.from_arrays([pa.array([taken], pa.int64())], schema=columns))
                self.sink.flush()
            if fault in ("fails", "late"):
                self.fail_within(out, columns)
        self.sink.flush()
        for _ in given:
            pass

    @staticmethod
    def fail_within(out, columns):
        none = pa.RecordBatch.from_arrays([pa.array([], f.type) for f in columns], schema=columns)
        words = {"vgi_rpc.log_level": "EXCEPTION", "vgi_rpc.log_message": "ValueError: no room for rows"}
        out.write_batch(none, custom_metadata=words)


def main():
    with open(sys.argv[1]) as spec:
        Worker(json.load(spec), os.fdopen(0, "rb"), os.fdopen(1, "wb")).run()


if __name__ == "__main__":
    main()

"""What the public SDK's own client is told by a worker, as JSON.

    python3.13 vgi_sdk_client.py GENERATION (WORKER COMMAND | http://...) CATALOG SCHEMA TABLE [FUNCTIONS]

GENERATION: "2.2" or "1.3", whose SDK is in PYTHONPATH. FUNCTIONS is the schema of upper_case, echo,
substream_partial_sum and sum_all_columns, which are then called, too.
"""

import json
import sys

import pyarrow as pa
from vgi.catalog.catalog_interface import AttachCatalogInfo, SchemaObjectType

from vgi.client import Client


def schema_names(schemas):
    return [s.path[-1] if hasattr(s, "path") else s.name for s in schemas]


def schema_of(info):
    columns = info.columns
    schema = columns if isinstance(columns, pa.Schema) else pa.ipc.read_schema(pa.py_buffer(columns))
    return {field.name: str(field.type) for field in schema}


def last_ten(told):
    """Of the first column, a number that counts the rows: the ten with the largest; and none that is among three."""
    from vgi.filter_v2_builder import build_filter_batch, serialize_filter_batch, value_payload

    column = {"node": "column_ref", "column_index": 0, "column_name": told["columns"][0]}
    at_least = {"node": "comparison", "op": "ge", "left": column, "right": {"node": "literal", "value_ref": 0}}
    among = {"node": "in", "expression": column, "set": {"kind": "literal", "value_ref": 1}, "negated": True}
    predicate = {"revision": 0, "mode": "required", "source": "query"}
    document = {"encoding": "vgi.filters.v2", "semantics": "vgi.duckdb.standard.v1", "kind": "snapshot"}
    document["predicates"] = [
        {"id": "a", "expression": at_least, **predicate},
        {"id": "b", "expression": among, **predicate},
    ]
    first = told["rows"] - 10
    values = [value_payload(0, first, pa.int64()), value_payload(1, [first, first + 1, 7], pa.list_(pa.int64()))]
    return serialize_filter_batch(build_filter_batch(document, values))


def called(client, name):
    """What functions make of rows: of values, of batches, of all that went in, and of what was kept."""
    words = [pa.RecordBatch.from_pydict({"value": ["ab", None]}), pa.RecordBatch.from_pydict({"value": ["c"]})]
    numbers = [pa.RecordBatch.from_pydict({"n": list(range(i, i + 3))}) for i in (0, 10)]

    def rows(method, function, batches):
        answers = method(function_name=function, **name, input=iter(batches))
        return [next(iter(row.values())) for batch in answers for row in batch.to_pylist()]

    return {
        "upper_case": rows(client.scalar_function, "upper_case", words),
        "echo": rows(client.table_in_out_function, "echo", numbers),
        "substream_partial_sum": rows(client.table_in_out_function, "substream_partial_sum", numbers),
        "sum_all_columns": rows(client.table_buffering_function, "sum_all_columns", numbers),
    }


def main():
    generation, where, catalog, schema, table = sys.argv[1:6]
    newer = generation == "2.2"
    client = Client.from_http(where) if where.startswith("http") else Client(where)
    told = {}
    with client:
        told["catalogs"] = [c.name for c in client.catalogs()]
        attached = client.catalog_attach(name=catalog, options={}, data_version_spec=None, implementation_version=None)
        companions = [AttachCatalogInfo.deserialize_from_bytes(c) for c in attached.attach_catalogs]
        told["companions"] = [[c.alias, c.target, dict(c.options), c.required] for c in companions]
        told["default_schema"] = attached.default_schema
        opaque = {"attach_opaque_data": attached.attach_opaque_data}
        told["schemas"] = schema_names(client.schemas(**opaque))
        path = {"path": [schema]} if newer else {"name": schema}
        tables = client.schema_contents(**opaque, **path, type=SchemaObjectType.TABLE)
        told["tables"] = {t.name: schema_of(t) for t in tables}
        functions = client.schema_contents(**opaque, **path, type=SchemaObjectType.TABLE_FUNCTION)
        told["functions"] = {f.name: [bool(f.projection_pushdown), bool(f.filter_pushdown)] for f in functions}
        told["views"] = len(client.schema_contents(**opaque, **path, type=SchemaObjectType.VIEW))
        name = {"schema_path": [schema]} if newer else {"schema_name": schema}
        told["found"] = client.table_get(**opaque, **name, name=table).name
        told["missing"] = client.table_get(**opaque, **name, name="nothing") is None
        if newer:
            read = client.table_scan_branches_get(**opaque, **name, name=table, at_unit=None, at_value=None)
            told["branches"] = [[b.function_name, b.source_table, b.branch_filter] for b in read.branches]
        read = client.table_scan_function_get(**opaque, **name, name=table, at_unit=None, at_value=None)
        function = {"function_name": read.function_name, **name}
        batches = list(client.table_function(**function))
        told["rows"] = sum(batch.num_rows for batch in batches)
        told["columns"] = batches[0].schema.names
        told["first"] = [str(v) for v in batches[0].slice(0, 1).to_pylist()[0].values()]
        narrow = list(client.table_function(**function, projection_ids=[1, 0]))
        told["narrow"] = [narrow[0].schema.names, sum(batch.num_rows for batch in narrow)]
        if newer:
            told["filtered"] = sum(
                b.num_rows for b in client.table_function(**function, pushdown_filters=last_ten(told))
            )
        try:
            list(client.table_function(**{**function, "function_name": "nothing"}))
        except Exception as why:
            told["error"] = str(why)
        for functions in sys.argv[6:]:
            told["called"] = called(client, {"schema_path": [functions]} if newer else {"schema_name": functions})
        told["again"] = sum(batch.num_rows for batch in client.table_function(**function))
        client.catalog_detach(**opaque)
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()

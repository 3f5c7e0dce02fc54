"""Iceberg tables on this disk, made with pyiceberg: what the tests of iceberg branches read."""

import pathlib
import shutil

from pyiceberg.catalog.sql import SqlCatalog


class Warehouse:
    """Tables in FOLDER, by name."""

    def __init__(self, folder):
        self.catalog = SqlCatalog("local", uri="sqlite:///%s" % (folder / "catalog.db"), warehouse="file://%s" % folder)
        self.catalog.create_namespace("lake")

    def create(self, name, *parts, delete=None):
        """A table of the rows of PARTS, Arrow tables, each a snapshot; those that fit DELETE are deleted."""
        table = self.catalog.create_table("lake." + name, schema=parts[0].schema)
        for part in parts:
            table.append(part)
        if delete:
            table.delete(delete)
        return IcebergTable(table)


class IcebergTable:
    def __init__(self, table):
        self.snapshots = [s.snapshot_id for s in table.snapshots()]
        self.metadata = pathlib.Path(table.metadata_location.removeprefix("file://"))
        self.folder = self.metadata.parent.parent

    def name_version(self):
        """Says which of its metadata is the last, as who only knows the folder has to be told."""
        shutil.copy(self.metadata, self.metadata.with_name("v1.metadata.json"))
        (self.metadata.parent / "version-hint.text").write_text("1")
        return self

#!/usr/bin/env python3
"""Write the C tables of src/query/about from a FileDescriptorSet: its files, and the names in each.

usage: embed_protos.py DESCRIPTOR_SET OUT.c     (protoc --descriptor_set_out)
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

# Numbers of descriptor.proto's fields.
SET_FILE = 1
FILE_NAME, FILE_PACKAGE, FILE_MESSAGE, FILE_ENUM, FILE_SERVICE = 1, 2, 4, 5, 6
NAME = 1
MESSAGE_FIELD, MESSAGE_NESTED, MESSAGE_ENUM, MESSAGE_ONEOF = 2, 3, 4, 8
ENUM_VALUE = 2
SERVICE_METHOD = 2


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message that have bytes."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            _, at = varint(data, at)
        elif tag & 7 == 2:
            size, at = varint(data, at)
            yield tag >> 3, data[at : at + size]
            at += size
        else:
            at += {1: 8, 5: 4}[tag & 7]


def all_of(data: bytes, number: int) -> list[bytes]:
    return [value for field, value in fields(data) if field == number]


def name_of(data: bytes) -> str:
    return all_of(data, NAME)[0].decode()


def names_of_enum(enum: bytes, scope: str) -> Iterator[str]:
    yield scope + name_of(enum)
    for value in all_of(enum, ENUM_VALUE):
        yield scope + name_of(value)  # values are their enum's siblings


def names_of_message(message: bytes, scope: str) -> Iterator[str]:
    own = scope + name_of(message)
    yield own
    for part in all_of(message, MESSAGE_FIELD) + all_of(message, MESSAGE_ONEOF):
        yield own + "." + name_of(part)
    for nested in all_of(message, MESSAGE_NESTED):
        yield from names_of_message(nested, own + ".")
    for enum in all_of(message, MESSAGE_ENUM):
        yield from names_of_enum(enum, own + ".")


def scope_of(file: bytes) -> str:
    return "".join(p.decode() + "." for p in all_of(file, FILE_PACKAGE))


def services_of(file: bytes) -> list[str]:
    return [scope_of(file) + name_of(s) for s in all_of(file, FILE_SERVICE)]


def names_of_file(file: bytes) -> Iterator[str]:
    scope = scope_of(file)
    for message in all_of(file, FILE_MESSAGE):
        yield from names_of_message(message, scope)
    for enum in all_of(file, FILE_ENUM):
        yield from names_of_enum(enum, scope)
    for service in all_of(file, FILE_SERVICE):
        yield scope + name_of(service)
        for method in all_of(service, SERVICE_METHOD):
            yield scope + name_of(service) + "." + name_of(method)


def main(argv: list[str]) -> int:
    if len(argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    files = all_of(Path(argv[0]).read_bytes(), SET_FILE)
    lines = ["/* Made by scripts/embed_protos.py. */", '#include "query/about/about_internal.h"', ""]
    for i, file in enumerate(files):
        lines.append(f"static const uint8_t file_{i}[] = {{")
        lines += ["    " + ", ".join(map(str, file[at : at + 20])) + "," for at in range(0, len(file), 20)]
        lines.append("};")
    tables = {
        "about_file about_file": [f'{{"{name_of(f)}", file_{i}, sizeof file_{i}}}' for i, f in enumerate(files)],
        "about_symbol about_symbol": [f'{{"{n}", {i}}}' for i, f in enumerate(files) for n in names_of_file(f)],
        "char *const about_service": [f'"{s}"' for f in files for s in services_of(f)],
    }
    for table, rows in tables.items():
        lines += [f"const {table}s[] = {{", *[f"    {row}," for row in rows], "};"]
        lines.append(f"const size_t {table.split()[-1].lstrip('*')}_count = {len(rows)};")
    Path(argv[1]).write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python3
"""Append DuckDB's 512-byte metadata footer to a shared library, which makes it loadable.

Eight fields of 32 bytes, read by DuckDB from the last to the first: magic ("4"), platform, DuckDB's
version, the extension's version, ABI type, and three that are unused. Then 256 bytes for a signature,
zero here, so the host must set allow_unsigned_extensions.
"""

import argparse
import os
import platform


def field(text: str) -> bytes:
    raw = text.encode()
    if len(raw) > 32:
        raise SystemExit(f"extension_footer: '{text}' is longer than 32 bytes")
    return raw.ljust(32, b"\0")


def footer(duckdb: str, version: str, target: str) -> bytes:
    fields = ["", "", "", "CPP", version, duckdb, target, "4"]
    return b"".join(field(f) for f in fields) + bytes(256)


def main() -> None:
    machines = {"x86_64": "linux_amd64", "aarch64": "linux_arm64"}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library")
    parser.add_argument("out")
    parser.add_argument("--duckdb", required=True, help="DuckDB's version, such as v1.5.5")
    parser.add_argument("--version", required=True, help="the extension's version")
    parser.add_argument("--platform", default=machines.get(platform.machine(), "unknown"))
    args = parser.parse_args()
    with open(args.library, "rb") as f:
        data = f.read()
    temporary = args.out + ".tmp"
    with open(temporary, "wb") as f:
        f.write(data + footer(args.duckdb, args.version, args.platform))
    os.replace(temporary, args.out)


if __name__ == "__main__":
    main()

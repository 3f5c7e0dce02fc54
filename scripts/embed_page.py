#!/usr/bin/env python3
"""Write the files of the console's page as a C table (src/query/console/page.h).

usage: embed_page.py OUT.c FILE...
"""

from __future__ import annotations

import sys
from pathlib import Path

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def main(argv: list[str]) -> int:
    if len(argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    lines = ["/* Made by scripts/embed_page.py. */", '#include "query/console/page.h"', ""]
    rows = []
    for i, path in enumerate(sorted(map(Path, argv[1:]))):
        data = path.read_bytes()
        lines.append(f"static const uint8_t file_{i}[] = {{")
        lines += ["    " + ", ".join(map(str, data[at : at + 20])) + "," for at in range(0, len(data), 20)]
        lines.append("};")
        url = "/" if path.name == "index.html" else "/" + path.name
        rows.append(f'    {{"{url}", "{TYPES[path.suffix]}", file_{i}, sizeof file_{i}}},')
    lines += [f'_Static_assert(PAGE_FILES == {len(rows)}, "page.h tells another number");']
    lines += ["const page_file page_files[] = {", *rows, "};"]
    Path(argv[0]).write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

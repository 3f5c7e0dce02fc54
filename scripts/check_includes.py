#!/usr/bin/env python3
"""Check who includes whom.

The house rules (docs and CMakeLists.txt say the same):
  door      a room is seen by its door: src/<wing>/<room>.h of a wing, any header of a floor room
            (base, http, telemetry, arrow) that is not called *_internal.h
  deps      a room sees the doors of the rooms that its od_room line in CMakeLists.txt names, no others
  upward    base <- http, telemetry, arrow <- query | storage | vgi <- ext, fuse, cli
  sideways  no wing sees another; query/worker alone may include storage/store.h
  outside   one outside library, one room; its types never show in a door
  root      our own headers are included by their path from src/ (or ext/, tests/), the storage library's from include/
  first     a .c file includes its own header first
  cpp       C++ lives in ext/ only

usage: check_includes.py [--self-test] [ROOT]
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

FLOOR = ("base", "http", "telemetry", "arrow")
WINGS = ("query", "storage", "vgi")
DOORS = ("cli", "fuse")
STORAGE_DOOR = "storage/register.hpp"  # what the rest of ext/ sees of ext/storage

# Outside libraries: a pattern of the header's name, and the folders that may include it.
OUTSIDE = [
    (r"nghttp2/", ["src/query/rpc"]),
    (r"openssl/", ["src/query/rpc"]),
    (r"protobuf-c/|.*\.pb-c\.h$", ["src/query/wire"]),
    (r"nanoarrow|flatcc/", ["src/arrow"]),
    (r"duckdb\.h$", ["src/query/engine", "ext"]),
    (r"duckdb\.hpp$|duckdb/|utf8proc_wrapper\.hpp$", ["ext"]),
    (r"libpq|postgres|sqlite3", ["src/storage/meta"]),
    (r"xxhash", ["src/storage/segment"]),
    (r"curl/|jansson", ["src/http"]),
    (r"zlib|zstd", ["src/vgi/worker"]),
    (r"microhttpd", ["src/query/gateway"]),
    (r"fuse", ["fuse"]),
    (r"cmocka", []),
]

# What is neither ours nor an outside library: the C library and the kernel.
SYSTEM = re.compile(
    r"(assert|complex|ctype|errno|fenv|float|inttypes|iso646|limits|locale|math|setjmp|signal|stdalign|stdarg"
    r"|stdatomic|stdbool|stddef|stdint|stdio|stdlib|stdnoreturn|string|tgmath|threads|time|uchar|wchar|wctype"
    r"|aio|dirent|dlfcn|endian|execinfo|fcntl|fnmatch|fts|ftw|getopt|glob|grp|ifaddrs|libgen|malloc|netdb|poll"
    r"|pthread|pwd|sched|search|semaphore|spawn|stdio_ext|strings|sysexits|syslog|termios|unistd|utime|xlocale)\.h$"
    r"|(sys|netinet|arpa|net|linux|asm|bits|sanitizer|valgrind)/|[a-z_]*intrin\.h$|cpuid\.h$|arm_neon\.h$"
)

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
ROOM = re.compile(r"^\s*od_room\(\s*(\w+)\s+DIR\s+([\w/]+)([^)]*)\)", re.MULTILINE)


class Breach(NamedTuple):
    file: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: [{self.rule}] {self.text}"


class Include(NamedTuple):
    line: int
    name: str
    quoted: bool


def read_rooms(root: Path) -> dict[str, set[str]]:
    """Each room's folder under src/, with the folders of the rooms that it may see."""
    text = re.sub(r"\$<[^>]*>", "", (root / "CMakeLists.txt").read_text())
    found = ROOM.findall(text)
    folder = {name: path for name, path, _ in found}
    rooms = {}
    for _, path, rest in found:
        match = re.search(r"\bDEPS\b(.*?)(?:\bLIBS\b|$)", rest, re.DOTALL)
        names = match.group(1).split() if match else []
        rooms[path] = {folder[n] for n in names if n in folder}
    return rooms


def includes_of(path: Path) -> list[Include]:
    found = []
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            found.append(Include(number, match.group(1) or match.group(2), match.group(1) is not None))
    return found


def wing_of(room: str) -> str | None:
    top = room.split("/", 1)[0]
    return top if top in WINGS else None


class Checker:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.rooms = read_rooms(root)
        self.breaches: list[Breach] = []
        self.file = ""

    def fail(self, line: int, rule: str, text: str) -> None:
        self.breaches.append(Breach(self.file, line, rule, text))

    def room_of(self, path: str) -> tuple[str | None, bool]:
        """The room (folder under src/) that a path under src/ belongs to, and whether it is its door."""
        if not path.startswith(FLOOR + WINGS):
            return None, False
        parts = path.split("/")
        if parts[0] in FLOOR:
            return parts[0], path.endswith((".h", ".def")) and not path.endswith("_internal.h")
        if len(parts) == 2:
            stem = Path(parts[1]).stem
            # A room may have a second door, for a second noun: query/attach_uri.h is query/client/attach_uri.c's.
            home = next((self.root / "src" / parts[0]).glob(f"*/{stem}.c"), None)
            own = (self.root / "src" / parts[0] / stem).is_dir()
            return f"{parts[0]}/{stem if own or home is None else home.parent.name}", parts[1].endswith(".h")
        return f"{parts[0]}/{parts[1]}", False

    def run(self) -> list[Breach]:
        for folder in ("src", "ext", *DOORS):
            for path in sorted((self.root / folder).rglob("*")):
                if path.suffix in (".c", ".h", ".cpp", ".hpp", ".cc") and path.is_file():
                    self.check(path)
        return self.breaches

    def check(self, path: Path) -> None:
        self.file = path.relative_to(self.root).as_posix()
        found = includes_of(path)
        if not self.file.startswith("ext/") and path.suffix not in (".c", ".h"):
            self.fail(1, "cpp", "C++ lives in ext/ only")
        if self.file.startswith("src/") and path.suffix == ".c":
            self.check_place(path, found)
        for include in found:
            self.check_include(include)

    def check_place(self, path: Path, found: list[Include]) -> None:
        room, _ = self.room_of(self.file[4:])
        if room not in self.rooms:
            self.fail(1, "deps", "this file belongs to no room: add an od_room line to CMakeLists.txt")
        own = path.with_suffix(".h")
        if own.exists():
            name = own.relative_to(self.root / "src").as_posix()
            if not found or found[0].name != name:
                self.fail(found[0].line if found else 1, "first", f'"{name}" is included first')

    def check_include(self, include: Include) -> None:
        for pattern, allowed in OUTSIDE:
            if re.match(pattern, include.name) and not (self.root / "src" / include.name).exists():
                self.check_outside(include, allowed)
                return
        if not include.quoted:
            if not SYSTEM.match(include.name) and not self.file.startswith("ext/"):
                self.fail(include.line, "outside", f"<{include.name}> is not a known system header: add its library")
            return
        if (self.root / "src" / include.name).exists():
            self.check_own(include)
        elif self.file.startswith("ext/") and (self.root / "ext" / include.name).exists():
            self.check_ext(include)
        elif (self.root / "include" / include.name).exists():
            if not self.file.startswith(
                ("src/storage/store/", "src/storage/store.h", "src/vgi/worker/", "ext/", *DOORS)
            ):
                self.fail(include.line, "door", f'"{include.name}" is the storage\'s door: for ext, fuse and cli')
        elif not (self.file.startswith(DOORS) and (self.root / include.name).exists()):
            self.fail(include.line, "root", f'"{include.name}" is not found from the source root')

    def check_outside(self, include: Include, allowed: list[str]) -> None:
        if not any(self.file.startswith(folder + "/") for folder in allowed):
            where = " or ".join(allowed) or "tests/"
            self.fail(include.line, "outside", f"<{include.name}> is seen by {where} only")
        elif self.file.startswith("src/"):
            _, door = self.room_of(self.file[4:])
            if door:
                self.fail(include.line, "outside", f"<{include.name}> shows in a door; move it to *_internal.h")

    def check_ext(self, include: Include) -> None:
        mine, theirs = self.file.split("/")[1], include.name.split("/")[0]
        if theirs not in (mine, "common") and include.name != STORAGE_DOOR:
            self.fail(include.line, "sideways", f"ext/{mine} does not see ext/{theirs}")

    def check_own(self, include: Include) -> None:
        theirs, door = self.room_of(include.name)
        if theirs is None:
            self.fail(include.line, "root", f'"{include.name}" lies in no room')
            return
        if not self.file.startswith("src/"):
            if not door:
                self.fail(include.line, "door", f'"{include.name}" is inside src/{theirs}: use its door')
            return
        mine, mine_is_door = self.room_of(self.file[4:])
        if mine == theirs:
            if mine_is_door and not door:
                self.fail(include.line, "door", f'"{include.name}" is inside the room: a door does not show it')
        elif mine in FLOOR and (theirs not in FLOOR or mine == "base"):
            self.fail(include.line, "upward", f"src/{mine} lies below src/{theirs}")
        elif wing_of(mine or "") and wing_of(theirs) and wing_of(mine or "") != wing_of(theirs):
            if (mine, include.name) != ("query/worker", "storage/store.h"):
                self.fail(include.line, "sideways", f"wing {wing_of(mine or '')} does not see wing {wing_of(theirs)}")
        elif not door:
            self.fail(include.line, "door", f'"{include.name}" is inside src/{theirs}: use its door')
        elif mine in self.rooms and theirs not in self.rooms[mine]:
            self.fail(include.line, "deps", f"od_room of src/{mine} does not name src/{theirs}")


CMAKE = """
od_room(base DIR base)
od_room(arrow DIR arrow DEPS base LIBS od_nanoarrow)
od_room(query_rpc DIR query/rpc DEPS base LIBS $<TARGET_NAME_IF_EXISTS:x> od_nghttp2)
od_room(query_client DIR query/client DEPS query_rpc base)
od_room(query_worker DIR query/worker DEPS query_rpc base storage_store)
od_room(storage_store DIR storage/store DEPS base)
"""

# file, its text, the rule that it breaks (or none)
CASES = [
    ("src/base/buf.c", '#include "base/buf.h"\n#include <string.h>\n', None),
    ("src/base/late.c", '#include <string.h>\n#include "base/late.h"\n', "first"),
    ("src/base/up.c", '#include "arrow/ipc.h"\n', "upward"),
    ("src/base/wing.c", '#include "query/rpc.h"\n', "upward"),
    ("src/arrow/ipc.c", '#include "arrow/ipc.h"\n#include "nanoarrow_ipc.c"\n#include "base/buf.h"\n', None),
    ("src/arrow/door.h", '#include "nanoarrow/nanoarrow.h"\n', "outside"),
    ("src/arrow/x_internal.h", '#include "nanoarrow/nanoarrow.h"\n', None),
    ("src/query/rpc/h2.c", "#include <nghttp2/nghttp2.h>\n#include <sys/socket.h>\n", None),
    ("src/query/rpc/h3.c", "#include <curl/curl.h>\n", "outside"),
    ("src/query/rpc/h4.c", "#include <zlib.h>\n", "outside"),
    ("src/query/client/a.c", '#include "query/rpc.h"\n#include "query/client.h"\n', None),
    ("src/query/client/b.c", '#include "query/rpc/own.h"\n', "door"),
    ("src/query/client/c.c", '#include "query/worker.h"\n', "deps"),
    ("src/query/client/d.c", '#include "storage/store.h"\n', "sideways"),
    ("src/query/client/e.c", '#include "arrow/ipc.h"\n', "deps"),
    ("src/query/client/f.c", '#include "h2.h"\n', "root"),
    ("src/query/worker/a.c", '#include "storage/store.h"\n', None),
    ("src/query/client.h", '#include "query/client/own.h"\n', "door"),
    ("src/query/client/g.c", '#include "query/client/own.h"\n', None),
    ("src/query/nowhere/a.c", "#include <stdio.h>\n", "deps"),
    ("src/query/rpc/x.cpp", "", "cpp"),
    ("ext/openduck/scan.cpp", '#include "query/client.h"\n#include "duckdb.hpp"\n#include <vector>\n', None),
    ("ext/openduck/deep.cpp", '#include "query/client/own.h"\n', "door"),
    ("ext/openduck/side.cpp", '#include "vgi/catalog.hpp"\n', "sideways"),
    ("ext/vgi/catalog.hpp", '#include "common/throw.hpp"\n', None),
    ("ext/openduck/extension.cpp", '#include "storage/register.hpp"\n', None),
    ("ext/openduck/inner.cpp", '#include "storage/volume.hpp"\n', "sideways"),
    ("src/query/client/h.c", '#include "openduck/storage.h"\n', "door"),
    ("src/storage/store/a.c", '#include "openduck/storage.h"\n', None),
    ("src/storage/store/b.c", "#include <sqlite3.h>\n", "outside"),
    ("cli/snapshot.c", '#include "openduck/storage.h"\n', None),
    ("cli/main.c", '#include "query/worker.h"\n', None),
    ("cli/serve.c", '#include "query/rpc/own.h"\n', "door"),
    ("cli/db.c", "#include <duckdb.h>\n", "outside"),
]
EMPTY = [
    "src/base/buf.h",
    "src/base/late.h",
    "src/arrow/ipc.h",
    "src/query/rpc.h",
    "src/query/rpc/own.h",
    "src/query/worker.h",
    "src/query/client/own.h",
    "src/storage/store.h",
    "include/openduck/storage.h",
    "ext/common/throw.hpp",
    "ext/storage/register.hpp",
    "ext/storage/volume.hpp",
]


def self_test() -> int:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "CMakeLists.txt").write_text(CMAKE)
        for path, text in [(p, "") for p in EMPTY] + [(p, t) for p, t, _ in CASES]:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        got: dict[str, set[str]] = {}
        for breach in Checker(root).run():
            got.setdefault(breach.file, set()).add(breach.rule)
    failed = 0
    for path, _, rule in CASES:
        want = {rule} if rule else set()
        if got.get(path, set()) != want:
            failed += 1
            print(f"self-test: {path}: want {sorted(want)}, got {sorted(got.get(path, set()))}", file=sys.stderr)
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return failed != 0


def main(argv: list[str]) -> int:
    if "--self-test" in argv:
        return self_test()
    root = Path(argv[0]) if argv else Path(__file__).resolve().parent.parent
    breaches = Checker(root).run()
    for breach in breaches:
        print(breach, file=sys.stderr)
    return bool(breaches)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

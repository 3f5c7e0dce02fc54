#!/bin/bash
# Runs a command with an S3 server of its own. usage: with_s3.sh COMMAND...
# OPENDUCK_TEST_S3 is its address and OPENDUCK_TEST_BUCKET the URL of a bucket; the key is openduck, its secret openduck-secret.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
server=$root/.deps/bin/versitygw
[ -x "$server" ] || { echo "with_s3.sh: no $server: run scripts/deps.sh" >&2; exit 1; }
dir=$(mktemp -d /tmp/openduck-s3-XXXXXX)
pid=
stop() {
    [ -z "$pid" ] || { kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null; } || true
    rm -rf "$dir"
}
trap stop EXIT
trap 'exit 143' TERM INT

answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

mkdir -p "$dir/data/test" "$dir/attributes"
for ((try = 0; try < 10; try++)); do
    port=$((20000 + RANDOM % 12000))
    answers "$port" && continue
    ROOT_ACCESS_KEY=openduck ROOT_SECRET_KEY=openduck-secret "$server" --port "127.0.0.1:$port" --quiet \
        posix --sidecar "$dir/attributes" "$dir/data" >"$dir/log" 2>&1 &
    pid=$!
    for ((i = 0; i < 600; i++)); do
        answers "$port" && break 2
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
done
{ answers "$port" && kill -0 "$pid"; } || { cat "$dir/log" >&2; exit 1; }
export OPENDUCK_TEST_S3=http://127.0.0.1:$port OPENDUCK_TEST_BUCKET=s3://test
status=0
"$@" || status=$?
[ "$status" = 0 ] || tail -20 "$dir/log" >&2
exit "$status"

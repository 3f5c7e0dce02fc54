#!/bin/bash
# A worker and a gateway before it, for the benchmark. usage: stack.sh DATABASE PORT; ends both on SIGTERM.
set -euo pipefail
openduck=$(cd "$(dirname "$0")/.." && pwd)/build/release/bin/openduck
out=$(mktemp)
"$openduck" worker --log error --db "db=$1" --listen 127.0.0.1:0 >"$out" &
worker=$!
gateway=
trap 'kill -TERM $worker $gateway 2>/dev/null; wait; rm -f "$out"; exit 0' TERM INT
until url=$(sed -n 's/^ready //p' "$out") && [ -n "$url" ]; do
    kill -0 "$worker"
    sleep 0.05
done
"$openduck" gateway --log error --workers "$url" --listen "127.0.0.1:$2" >/dev/null &
gateway=$!
wait "$gateway" "$worker"

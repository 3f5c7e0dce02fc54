#!/bin/bash
# Runs programs with a PostgreSQL of their own. usage: with_postgres.sh PROGRAM...
# OPENDUCK_TEST_POSTGRES is its URL; psql finds it, too. It goes when the last program has ended or the first has failed.
set -euo pipefail
programs=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)
dir=$(mktemp -d /tmp/openduck-pg-XXXXXX)
pid=
stop() {
    [ -z "$pid" ] || { kill -QUIT "$pid" 2>/dev/null && wait "$pid" 2>/dev/null; } || true
    rm -rf "$dir"
}
trap stop EXIT
trap 'exit 143' TERM INT

as=()
if [ "$(id -u)" = 0 ]; then # it refuses to be run by root
    chown postgres "$dir"
    as=(setpriv --reuid=postgres --regid=postgres --clear-groups)
fi
cd "$dir"
"${as[@]}" "$programs/initdb" -D "$dir/data" -A trust -U openduck -N >initdb.log 2>&1 || { cat initdb.log >&2; exit 1; }
"${as[@]}" "$programs/postgres" -D "$dir/data" -c listen_addresses= -c fsync=off -k "$dir" >server.log 2>&1 &
pid=$!
export PGHOST=$dir PGUSER=openduck PGDATABASE=postgres PATH=$programs:$PATH
for ((i = 0; i < 600; i++)); do
    pg_isready -q && break
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
done
pg_isready -q || { cat server.log >&2; exit 1; }
export OPENDUCK_TEST_POSTGRES="host=$dir user=openduck dbname=postgres"
cd - >/dev/null
for program in "$@"; do
    "$program" || { echo "failed: $program" >&2; tail -40 "$dir/server.log" >&2; exit 1; }
done

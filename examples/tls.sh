#!/bin/bash
# A gateway and a worker that speak TLS only, each with a certificate of one CA, and clients that check them.
# usage: examples/tls.sh      environment: PRESET
set -euo pipefail
cd "$(dirname "$0")/.."
openduck=$PWD/build/${PRESET:-release}/bin/openduck
dir=$(mktemp -d)
pids=()
stop() {
    trap - EXIT INT TERM
    for pid in "${pids[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
    for pid in "${pids[@]}"; do wait "$pid" || true; done
    rm -rf "$dir"
}
trap stop EXIT
trap 'exit 0' INT TERM

# certificate NAME ALTERNATIVES: NAME.pem and NAME.key, for servers and clients alike.
certificate() {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$dir/$1.key" -out "$dir/$1.csr" -subj "/CN=$1"
    printf '%s\n' "subjectAltName=$2" >"$dir/$1.ext"
    openssl x509 -req -in "$dir/$1.csr" -CA "$dir/ca.pem" -CAkey "$dir/ca.key" -days 30 -extfile "$dir/$1.ext" -out "$dir/$1.pem"
}
{
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$dir/ca.key" -out "$dir/ca.pem" \
        -days 30 -subj '/CN=example CA'
    certificate server DNS:localhost,IP:127.0.0.1
    certificate ada DNS:ada.example
} 2>"$dir/openssl.log" || { cat "$dir/openssl.log" >&2; exit 1; }

OPENDUCK_TOKEN=$(head -c 18 /dev/urandom | base64)
export OPENDUCK_TOKEN

# start NAME ARGS...: starts a server on a free port; its address is in $url. Both ask whoever connects for a certificate, and show
# each other their own.
start() {
    local name=$1
    shift
    : >"$dir/$name.out" # there before it is looked at
    setsid "$openduck" "$@" --listen 127.0.0.1:0 --tls-cert "$dir/server.pem" --tls-key "$dir/server.key" \
        --tls-client-ca "$dir/ca.pem" --tls-ca "$dir/ca.pem" >"$dir/$name.out" 2>"$dir/$name.log" &
    pids+=($!)
    url=
    for _ in $(seq 200); do
        url=$(sed -n 's/^ready //p' "$dir/$name.out")
        [ -z "$url" ] || break
        sleep 0.05
    done
    [ -n "$url" ] || { cat "$dir/$name.log" >&2; exit 1; }
    echo "$name: $url"
}

start worker worker --db "sales=$dir/sales.duckdb"
start gateway gateway --workers "$url"
export OPENDUCK_ENDPOINT=$url OPENDUCK_TLS_CA=$dir/ca.pem

echo "-- with a certificate of the CA"
"$openduck" query --tls-cert "$dir/ada.pem" --tls-key "$dir/ada.key" --db sales "SELECT 'encrypted' AS answer"
echo "-- without one"
"$openduck" query --db sales 'SELECT 1' 2>&1 || true
echo "-- with another CA than the server's"
OPENDUCK_TLS_CA=$dir/ada.pem "$openduck" query --db sales 'SELECT 1' 2>&1 || true
echo "-- without TLS"
"$openduck" query --endpoint "${url/https:/http:}" --db sales 'SELECT 1' 2>&1 || true

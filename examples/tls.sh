#!/bin/bash
# A gateway and a worker that speak TLS only, each with a certificate of one CA, and clients that check them.
# usage: examples/tls.sh      environment: PRESET
set -euo pipefail
cd "$(dirname "$0")/.."
. examples/servers.bash

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

# Both ask whoever connects for a certificate, and show each other their own.
tls=(--tls-cert "$dir/server.pem" --tls-key "$dir/server.key" --tls-client-ca "$dir/ca.pem" --tls-ca "$dir/ca.pem")
start worker worker "${tls[@]}" --db "sales=$dir/sales.duckdb"
start gateway gateway "${tls[@]}" --workers "$url"
export OPENDUCK_ENDPOINT=$url OPENDUCK_TLS_CA=$dir/ca.pem

echo "-- with a certificate of the CA"
"$openduck" query --tls-cert "$dir/ada.pem" --tls-key "$dir/ada.key" --db sales "SELECT 'encrypted' AS answer"
echo "-- without one"
"$openduck" query --db sales 'SELECT 1' 2>&1 || true
echo "-- with another CA than the server's"
OPENDUCK_TLS_CA=$dir/ada.pem "$openduck" query --db sales 'SELECT 1' 2>&1 || true
echo "-- without TLS"
"$openduck" query --endpoint "${url/https:/http:}" --db sales 'SELECT 1' 2>&1 || true

# For examples that start servers of their own; sourced in the project's root. $openduck is the program; $dir a folder that goes
# at the end, with all that was started.
# shellcheck shell=bash
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

# start NAME ARGS...: starts a server on a free port; its address is in $url.
start() {
    local name=$1
    shift
    : >"$dir/$name.out" # there before it is looked at
    setsid "$openduck" "$@" --listen 127.0.0.1:0 >"$dir/$name.out" 2>"$dir/$name.log" &
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

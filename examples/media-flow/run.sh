#!/bin/sh
# A flow with a fan-out and a join, from a file.
# Runs with one command, from anywhere, and leaves nothing behind:  examples/media-flow/run.sh
set -eu
here=$(cd "$(dirname "$0")" && pwd)
flowfabric=${FLOWFABRIC:-$here/../../run}
data=$(mktemp -d)
worker='' server=''
leave() {
    kill $worker $server 2>/dev/null || true
    wait
    rm -rf "$data"
}
trap leave EXIT
trap 'exit 130' INT TERM

"$flowfabric" serve --json --listen 127.0.0.1:0 --store "$data/store" --log error >"$data/server" &
server=$!
until [ -s "$data/server" ]; do kill -0 $server; sleep 0.05; done
FLOWFABRIC_URL=$(sed 's/.*"url":"\([^"]*\)".*/\1/' "$data/server")
export FLOWFABRIC_URL

"$flowfabric" worker run --kind split --kind encode --kind poster --kind join --kind report \
    -- "$here/worker.sh" 2>/dev/null &
worker=$!
flow=$("$flowfabric" flow submit "$here/graph.yaml")
"$flowfabric" flow show "$flow" --wait | sed "s/$flow/…/"
printf '\njoin: %s\n' "$("$flowfabric" flow result "$flow" join)"

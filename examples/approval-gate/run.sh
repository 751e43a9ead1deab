#!/bin/sh
# An approval gate: a worker asks before it deploys, and a person decides by a signed link.
# Runs with one command, from anywhere, and leaves nothing behind:  examples/approval-gate/run.sh
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

"$here/worker.sh" &
worker=$!
id=$("$flowfabric" submit deploy --input 'release 7')

# The link goes to ann alone: whoever has it decides as her.
until link=$("$flowfabric" links "$id" --for ann --json 2>/dev/null); do
    kill -0 $worker
    sleep 0.05
done
"$here/approver.sh" "$(printf '%s' "$link" | sed 's/.*"url":"\([^"]*\)".*/\1/')"
"$flowfabric" result "$id" --wait

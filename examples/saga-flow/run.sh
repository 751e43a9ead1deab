#!/bin/sh
# A saga: a flow that gives back what was booked when one of its steps fails.
# Runs with one command, from anywhere, and leaves nothing behind:  examples/saga-flow/run.sh
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

"$flowfabric" worker run --kind book --kind cancel --kind tell -- "$here/worker.sh" 2>/dev/null &
worker=$!
flow=$("$flowfabric" flow submit "$here/graph.yaml")
# 3: the flow ended, but was not completed. What was booked is given back all the same.
code=0
"$flowfabric" flow show "$flow" --wait >"$data/shown" 2>/dev/null || code=$?
[ $code = 3 ]
sed "s/$flow/…/" "$data/shown"
printf '\n'
for task in cancel-hotel cancel-flight apologise; do
    printf '%s: %s\n' $task "$("$flowfabric" flow result "$flow" $task)"
done

#!/bin/sh
# A server on an embedded store, a worker that is a shell script, and four executions.
# Runs with one command, from anywhere, and leaves nothing behind:  examples/shell-worker/run.sh
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

"$flowfabric" worker run --quiet --kind greet --concurrency 2 -- "$here/worker.sh" 2>/dev/null &
worker=$!

# One execution per line. A failed one is told of on standard error and makes the exit code 3.
printf '%s\n' Ada 'shy Grace' nobody Linus |
    "$flowfabric" submit greet --lines --wait \
        --policy '{"retry_policy":{"max_retries":1}}' 2>"$data/errors" || [ $? -eq 3 ]
sed -n 's/.*failed (transient): /1 of 4 failed: /p' "$data/errors"

#!/bin/sh
# The work of every task of the pipeline. What others pass is a file for each input.
set -eu
case $FLOWFABRIC_KIND in
    split) printf '%s in two parts' "$(cat)" ;;
    encode) printf 'encoded(%s)' "$(cat)" ;;
    poster) echo 'there is no camera here' >&2; exit 1 ;;
    join) printf '%s + %s' "$(cat "$FLOWFABRIC_INPUTS/left")" "$(cat "$FLOWFABRIC_INPUTS/right")" ;;
    report) printf 'done' ;;
esac

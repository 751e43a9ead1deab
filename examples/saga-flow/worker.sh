#!/bin/sh
# The work of every task of the trip. There is never a car, and the hotel's line is busy at first.
set -eu
what=$(cat)
case $FLOWFABRIC_KIND/$what/$FLOWFABRIC_ATTEMPT in
    book/'a car'/*) echo 'there is no car' >&2; exit 1 ;;
    cancel/'the hotel'/1) echo 'the line is busy' >&2; exit 1 ;;
    book/*) printf '%s is booked' "$what" ;;
    cancel/*) printf '%s is given back' "$what" ;;
    tell/*) printf 'mail: %s' "$what" ;;
esac

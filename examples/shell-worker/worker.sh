#!/bin/sh
# One execution: the payload is standard input, the result is standard output, and a non-zero exit
# is a failure with standard error as its reason.
set -eu
name=$(cat)
case $name in
    nobody)
        echo "there is nobody to greet" >&2
        exit 1
        ;;
    shy*)
        # Failures are tried again as the submitter's policy says.
        [ "$FLOWFABRIC_ATTEMPT" -gt 1 ] || { echo "too shy to answer" >&2; exit 1; }
        ;;
esac
echo "hello, $name (attempt $FLOWFABRIC_ATTEMPT)"

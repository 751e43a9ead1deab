#!/bin/sh
# What a person does in a browser: opens the link, reads the question, and sends the page's form.
set -eu
page=$(curl -fsS -H 'Accept: text/html' "$1")
printf '%s\n' "$page" | sed -n 's/.*<h1[^>]*>\([^<]*\)<.*/ann is asked: \1/p'
curl -fsS -H 'Accept: text/html' -d choice=approved "$1" |
    sed -n 's/.*<bdi>ann<\/bdi>: <strong><bdi>\([^<]*\)<.*/ann decides: \1/p'

#!/bin/sh
# Measures builds: build.sh [noop|edit|cold ...] (all of them by default); UNITS=500 ROUNDS=41 KPACK=out/bin/kpack.
set -eu
here=$(dirname "$0")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$here/build_corpus.py" "$folder" "${UNITS:-500}"
[ $# -gt 0 ] || set -- noop edit cold
for what; do
    python3 "$here/build.py" "$what" "$folder"
done

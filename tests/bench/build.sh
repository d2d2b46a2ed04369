#!/bin/sh
# Measures builds: build.sh [noop|edit|cold|heavy|images|workers|threads ...] (all of them by default).
# UNITS=500 small units and HEAVY=24 heavy ones; ROUNDS=41 PASSES=3; KPACK=out/bin/kpack; DIRECT: direct.c, compiled.
set -eu
here=$(dirname "$0")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$here/build_corpus.py" "$folder" "${UNITS:-500}" "${HEAVY:-24}"
[ $# -gt 0 ] || set -- noop edit cold heavy images workers threads
if [ -z "${DIRECT:-}" ]; then
    DIRECT=$folder/direct
    "${CC:-gcc}" -std=c11 -D_GNU_SOURCE -O2 -o "$DIRECT" "$here/direct.c" -ldl -lpthread
fi
export DIRECT
for what; do
    python3 "$here/build.py" "$what" "$folder"
done

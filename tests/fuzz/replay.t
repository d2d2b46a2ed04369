#!/bin/sh
# Feeds the fuzz targets' corpora to them, under ASan + UBSan where that build is there.
set -eu
cd "$(dirname "$0")/../.."
number=0
failed=0
for corpus in tests/fuzz/corpus/*; do
    number=$((number + 1))
    name=${corpus##*/}
    binary=out/san/fuzz/replay_$name
    [ -x "$binary" ] || binary=out/fuzz/replay_$name
    if [ ! -x "$binary" ]; then
        echo "not ok $number - no $binary: run make SAN=1 unit"
        failed=1
    elif said=$("$binary" "$corpus"); then
        echo "ok $number - ${said##* - }"
    else
        echo "not ok $number - $corpus"
        failed=1
    fi
done
echo "1..$number"
exit "$failed"

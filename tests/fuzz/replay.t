#!/bin/sh
# Feeds the fuzz targets' corpora to them, as built and under ASan + UBSan.
set -eu
cd "$(dirname "$0")/../.."
number=0
failed=0
for build in ${KPACK_TEST_OUT:-out out/san}; do
    for corpus in tests/fuzz/corpus/*; do
        number=$((number + 1))
        binary=$build/fuzz/replay_${corpus##*/}
        if [ ! -x "$binary" ]; then
            echo "not ok $number - no $binary: run make unit and make SAN=1 unit"
            failed=1
        elif said=$("$binary" "$corpus"); then
            echo "ok $number - $build: ${said##* - }"
        else
            echo "not ok $number - $build: $corpus"
            failed=1
        fi
    done
done
echo "1..$number"
exit "$failed"

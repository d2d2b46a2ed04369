#!/bin/sh
# Feeds the fuzz targets' corpora to them, under ASan + UBSan where that build is there.
set -eu
cd "$(dirname "$0")/../.."
for binary in out/san/fuzz/replay_image out/fuzz/replay_image; do
    if [ -x "$binary" ]; then exec "$binary" tests/fuzz/corpus/image; fi
done
echo "1..1"
echo "not ok 1 - no replay_image: run make SAN=1 unit"
exit 1

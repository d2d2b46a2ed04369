#!/bin/sh
# The GDN kernels' sources, compiled for the host and run there: needs no GPU and no CUDA.
set -eu
out=out/tests/gdn_emulated
mkdir -p out/tests
if ! command -v g++ >/dev/null; then
    echo "1..0 # SKIP no g++"
    exit 0
fi
g++ -std=c++17 -O2 -ffp-contract=off -w -Isrc -Itests/kernels -Ikernels/common \
    -Ikernels/gb10/common -Ikernels/hopper/common -o "$out" tests/kernels/gdn_emulated.cpp
"$out"

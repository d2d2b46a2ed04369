#!/bin/sh
# Runs what 'make gpu-load' made, on a machine with the CUDA driver: checks, then one table. Images of the
# same modules, packed otherwise and put beside the others as hopper-WHAT.kpk or corpus-WHAT.kpk, are rows too.
cd "$(dirname "$0")" || exit 2
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
tar -xf peers.tar -C "$work" && cp ./*.kpk "$work" || exit 2
status=0
./loader corpus.kpk fix.kpk hopper.kpk gb10.kpk || status=1
echo
CUDA_MODULE_LOADING=EAGER ./loader corpus.kpk fix.kpk hopper.kpk gb10.kpk || status=1
echo
./open "$work/hopper.kpk" > "$work/open" || status=1
./open "$work/corpus.kpk" | grep -e corpus -e 'first use' >> "$work/open" || status=1
for image in "$work"/hopper*.kpk "$work"/corpus*.kpk; do
    name=$(basename "$image" .kpk)
    rounds=31
    [ "${name%%-*}" = corpus ] && rounds=9
    ./load "$image" "$work/peers/${name%%-*}" $rounds > "$work/load-$name" || status=1
done
grep '^first use of .* alone,.* at ' "$work/open"
grep ' cubin ' "$work/load-hopper"
echo
grep -v '^first use of .* alone,.* at ' "$work/open"
for log in "$work"/load-*; do
    echo "$(basename "$log"):"
    grep -v -e ' cubin ' -e NVIDIA "$log"
done
[ $status -eq 0 ] && echo "PASS all" || echo "FAIL: see above"
exit $status

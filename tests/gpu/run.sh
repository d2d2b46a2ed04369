#!/bin/sh
# Runs what 'make gpu-load' made, on a machine with the CUDA driver: checks, then one table. All that was said is in
# $OUT/load.txt (OUT: /tmp). Stops after LIMIT (45) seconds with what there is. Images of the same modules, packed
# otherwise and put beside the others as hopper-WHAT.kpk or corpus-WHAT.kpk, are rows too.
cd "$(dirname "$0")" || exit 2
log=${OUT:-/tmp}/load.txt
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
tar -xf peers.tar -C "$work" && cp ./*.kpk "$work" || exit 2
end=$(($(date +%s) + ${LIMIT:-45}))
status=0
: > "$log"

step() {
    left=$((end - $(date +%s)))
    echo "== $*" | sed "s|$work/||g" >> "$log"
    if [ $left -le 0 ]; then
        echo "FAIL no time left for $*" | sed "s|$work/||g" >> "$log"
        status=1
    else
        timeout $left "$@" >> "$log" 2>&1 || { echo "FAIL status $? of $*" | sed "s|$work/||g" >> "$log"; status=1; }
    fi
}

step ./loader corpus.kpk fix.kpk hopper.kpk gb10.kpk
step ./load "$work/hopper.kpk" "$work/peers/hopper" 31
step ./load "$work/corpus.kpk" "$work/peers/corpus" 9
step ./open "$work/hopper.kpk"
step env CUDA_MODULE_LOADING=EAGER ./loader corpus.kpk fix.kpk hopper.kpk gb10.kpk
for image in "$work"/hopper-*.kpk "$work"/corpus-*.kpk; do
    name=$(basename "$image" .kpk)
    [ -e "$image" ] && step ./load "$image" "$work/peers/${name%%-*}" 9
done
step ./open "$work/corpus.kpk"

grep -e '^PASS' -e '^FAIL' "$log" | cut -c1-230
echo
grep -v -e '^PASS' -e '^FAIL' -e '^$' -e ' cubin ' -e ' alone, .* at ' "$log"
[ $status -eq 0 ] && echo "PASS all of load" || echo "FAIL load: see above"
exit $status

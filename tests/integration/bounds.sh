#!/bin/bash
# bounds.sh - recordings of stock perf, held to what native promises of any (tests/differential/bounds.h): those that are
# kept in tests/data/x86-64, and those that FILES names, each of 10,000 samples at least:
#   make check-bounds FILES="a.data b.data"      perf record --call-graph dwarf,65528; on the machine that recorded them
. "$(dirname "$0")/lib"
DIFF=$O/tests/differential/diff-engines
DATA=tests/data/x86-64
[ "$(uname -m)" = x86_64 ] || {
	echo "libunwind unwinds the host's stacks only, and the recordings are x86-64's"
	exit 77
}

# The recorded programs were in /tmp/recorded: that path gets our folder's name, which is as long.
FOLDER=$(mktemp -d /tmp/p.XXXXXX) && cp $DATA/work "$FOLDER" || exit 1
trap 'rm -rf "$FOLDER"; cleanup' EXIT
bounds() { "$DIFF" -c 3 -n 10000000 "$@"; }
# broken WHAT OPTIONS... : some bound is not kept, that one among them.
broken() {
	local what=$1
	shift
	bounds "$@" >"$TMP/broken.out" 2>&1
	[ $? = 1 ] && grep -q "$what .* NOT KEPT" "$TMP/broken.out" && return 0
	cat "$TMP/broken.out"
	return 1
}

# kept FILE : of 10,000 samples.
kept() {
	bounds --bounds --least 10000 --load "$1" >"$TMP/kept.out" 2>&1
	local status=$?
	tee -a "$O/bounds.txt" <"$TMP/kept.out"
	return $status
}

for name in dwarf pipe; do
	sed "s#/tmp/recorded/#$FOLDER/#g" "$DATA/$name.data" >"$TMP/$name.data"
	check "$name" bounds --bounds --load "$TMP/$name.data"
done
# bench-unwind on the same: every key of its line is there, and is a number that can be one.
bench_keys() {
	"$O/tests/bench/bench-unwind" --json --rounds 1 "$1" >"$TMP/bench.json" && "$PYTHON" - "$TMP/bench.json" "$1" "$2" <<'PY'
import json, math, sys
text = open(sys.argv[1]).read()
line = json.loads(text)
assert text.count("\n") == 1 and line.pop("file") == sys.argv[2], text
assert line["samples"] == int(sys.argv[3]) and line["frames_per_sample"] >= 2, line
assert set(line["engines"]) == {"native", "libunwind", "libdw"}, line
assert set(line["agreement"]) == {"libunwind", "libdw"}, line
engine = {"ns_frame_streamed", "ns_frame_cached", "cold_ms", "whole", "cache_bytes"}
against = {"whole_only_native", "whole_only_other", "native_further_frames"}
for name, figures in line["engines"].items():
    assert set(figures) == engine, (name, figures)
    assert min(figures["ns_frame_streamed"], figures["ns_frame_cached"], figures["cold_ms"]) > 0, (name, figures)
    assert 0 <= figures["whole"] <= 1 and figures["cache_bytes"] > 0, (name, figures)
for name in ("libunwind", "libdw"):
    assert set(line["against_" + name]) == against, line
    assert 0 <= line["agreement"][name] <= 1, line
assert 0 <= line["native_reused"] <= 1, line

def numbers(value):
    for v in value.values() if isinstance(value, dict) else [value]:
        if isinstance(v, dict):
            yield from numbers(v)
        else:
            yield v
for number in numbers(line):
    assert type(number) in (int, float) and math.isfinite(number) and number >= 0, (number, line)
PY
}
check bench-keys bench_keys "$TMP/dwarf.data" 23
check bench-keys-pipe bench_keys "$TMP/pipe.data" 21
# That each bound can be broken: too few samples; an engine that has nothing to go by (the kernel's chains were
# not recorded); a program that is not there.
check least broken samples --bounds --least 24 --load "$TMP/dwarf.data"
for what in 'FAILED, at most' 'WHOLE, as many' 'only libunwind' 'only libdw'; do
	check "broken-by-fp-${what// /-}" broken "$what" --bounds=fp --load "$TMP/dwarf.data"
done
rm "$FOLDER/work"
check no-program broken 'FAILED, at most' --bounds --load "$TMP/dwarf.data"

# The figures of each stay in $O/bounds.txt.
: >"$O/bounds.txt"
for file in ${FILES:-}; do
	check "${file##*/}" kept "$file"
done

#!/bin/bash
# flight.sh - record --flight-recorder: the latest samples stay in memory; SIGUSR2 writes them to a file of their own while the
# recording goes on, its end writes the trace.
. "$(dirname "$0")/lib"
need_perf

# samples FILE : how many it has; its report and statistics find nothing wrong.
samples() {
	"$PERFWIND" stats "$1" >"$TMP/stats" || { cat "$TMP/stats"; return 1; }
	"$PERFWIND" report "$1" 2>&1 | sed -n 's/^Samples *\([0-9,]*\) over.*(of a flight recorder: the latest).*/\1/p' | tr -d ,
}
more_than() { [ "$(samples "$1")" -gt "$2" ] || { "$PERFWIND" report "$1" | head -n 12; return 1; }; }
has_name() { "$PERFWIND" report "$1" | grep -q 'burn.*recursion'; }
snapshots() { [ "$(grep -c 'snapshot: [0-9,]* samples' "$TMP/$1.err")" = "$2" ] || { cat "$TMP/$1.err"; return 1; }; }

"$PROGRAMS/recursion" 100 >/dev/null &
target=$!
started $target
"$PERFWIND" record --flight-recorder 1M -e cpu-clock -F 4000 -o "$TMP/one.pftrace" -p $target 2>"$TMP/one.err" &
recorder=$!
started $recorder
used_more() { used $target "$1"; }
before=$(cpu_ms $target)
wait_for used_more $((before + 1000))
check no-file-before [ ! -e "$TMP/one.pftrace" ]
# Two requests at once are one snapshot.
kill -STOP $recorder
kill -USR2 $recorder
kill -USR2 $recorder
kill -CONT $recorder
check first-snapshot wait_for snapshots one 1
check first-samples more_than "$TMP/one-1.pftrace" 100
check first-names has_name "$TMP/one-1.pftrace"
check mode [ "$(stat -c %a "$TMP/one-1.pftrace")" = 600 ]
wait_for used_more $((before + 2500))
kill -USR2 $recorder
check second-snapshot wait_for snapshots one 2
check second-has-more more_than "$TMP/one-2.pftrace" "$(samples "$TMP/one-1.pftrace")"
# Names that are taken are passed over, and a link is not followed.
for i in 3 4 5; do ln -s /nowhere "$TMP/one-$i.pftrace"; done
kill -USR2 $recorder
check links-are-passed-over wait_for snapshots one 3
check links-stay [ -L "$TMP/one-3.pftrace" ]
check number-six more_than "$TMP/one-6.pftrace" 100
kill -TERM $recorder
wait $recorder
check status [ $? = 0 ]
check end-samples more_than "$TMP/one.pftrace" "$(samples "$TMP/one-2.pftrace")"
check end-names has_name "$TMP/one.pftrace"

# More than the memory holds: the latest, whole, in a file of at most that size.
"$PERFWIND" record --json --plain --flight-recorder 1M -e page-faults -c 1 -o "$TMP/full.pftrace" -- \
	"$PYTHON" -c 'import mmap
for i in range(40):
    m = mmap.mmap(-1, 1 << 22)
    for j in range(0, 1 << 22, 4096): m[j] = sum(range(2000)) & 1
    m.close()' >"$TMP/full.json" 2>"$TMP/full.err"
check full-status [ $? = 0 ]
kept=$("$PERFWIND" report "$TMP/full.pftrace" 2>/dev/null | sed -n 's/^Samples *\([0-9,]*\) over.*/\1/p' | tr -d ,)
check full-samples [ "$kept" -gt 1000 ]
check full-is-bounded [ "$(stat -c %s "$TMP/full.pftrace")" -le $((1 << 20)) ]
check full-overwrote json full 'v["lost"]["unwritten"] > 1000 and v["samples"] > 1000'

refuses() { ! "$PERFWIND" record "$@" -- true >"$TMP/refused" 2>&1 && grep -q 'flight-recorder' "$TMP/refused"; }
check refuses-standard-output refuses --flight-recorder 4M -o -
check refuses-a-size refuses --flight-recorder 4K
check refuses-max-size refuses --flight-recorder 4M --max-size 4M
kill $target

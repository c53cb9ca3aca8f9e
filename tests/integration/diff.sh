#!/bin/bash
# diff.sh - two builds of one program, one function of it 20 % slower: diff names that function, and no other; runs of the same
# build have no significant change.
#
# The work is fixed and the functions take turns each millisecond, so a busy machine slows all functions alike, and main() itself
# has next to no samples; without the kernel's functions, which a busy machine calls more often.
. "$(dirname "$0")/lib"
need_perf

run() { "$PERFWIND" record -q --no-daemon --user-only -F 19999 -o "$TMP/$1.pftrace" -- "${3:-$PROGRAMS}/$2" "${4:-1400}"; }
for n in 1 2 3; do
	check run-$n run same-$n builds
done
check run-slower run slower builds-slower

# named A B STATUS EXPECTED : the functions with a significant change, in diff's order; above 3 % of all, it is a failure.
# A neighbour's load changes what interrupts hit: main() from 0.15 to 0.21 % at a load of 9.
named() {
	local status
	"$PERFWIND" diff --json --fail-above 3 "$TMP/$1.pftrace" "$TMP/$2.pftrace" >"$TMP/diff.json"
	status=$?
	"$PYTHON" -c '
import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
names = [row["function"] for row in rows if row["significant"] and abs(row["change_percent"]) > 0.5]
print(names, rows)
sys.exit(names != sys.argv[2].split())' "$TMP/diff.json" "$4" && [ $status = "$3" ] && return 0
	"$PERFWIND" diff --all "$TMP/$1.pftrace" "$TMP/$2.pftrace"
	return 1
}
check slower-first-and-alone named same-1 slower 3 convert
check slower-again named same-2 slower 3 convert
check equal named same-1 same-2 0 ""
check equal-again named same-2 same-3 0 ""
# Eight times the rounds (neighbours of a virtual machine make its CPUs more than twice as slow within seconds): all functions alike,
# which the median hides.  A line prints the growth of the whole, and the recipe for CI finds it.
# The second program has another name: each module, process and path is in both traces.
whole() {
	run few builds "$PROGRAMS" 350 && run more builds-more "$TMP" 2800 || return 1
	"$PERFWIND" diff --fail-above 5% "$TMP/few.pftrace" "$TMP/more.pftrace" >"$TMP/diff.txt"
	grep -q "^all of B is .* more than all of A" "$TMP/diff.txt" || { cat "$TMP/diff.txt"; return 1; }
	"$PERFWIND" diff --normalise total --fail-above 5% "$TMP/few.pftrace" "$TMP/more.pftrace"
	[ $? = 3 ]
}
cp "$PROGRAMS/builds" "$TMP/builds-more"
other_name() {
	"$PERFWIND" diff --json --all --by "$1" "$TMP/same-1.pftrace" "$TMP/more.pftrace" >"$TMP/diff.json" 2>"$TMP/diff.err"
	grep -q "builds-more of .* is compared with builds of " "$TMP/diff.err" || return 1
	"$PYTHON" -c '
import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
both = sum(row["b"] for row in rows if row["a"])
sys.exit(both < 0.9 * sum(row["b"] for row in rows))' "$TMP/diff.json"
}
check whole whole
for by in tree module process; do
	check other-name-$by other_name $by
done
# The CPU time of a run and the waits of another have one unit.
other_event() {
	"$PERFWIND" record -q --off-cpu -o "$TMP/waits.pftrace" -- sleep 0.2
	"$PERFWIND" diff "$TMP/same-1.pftrace" "$TMP/waits.pftrace" >/dev/null 2>"$TMP/diff.err"
	grep -q "counts cpu-clock:u, .*/waits.pftrace counts off-cpu: --event chooses" "$TMP/diff.err" && return 0
	cat "$TMP/diff.err"
	return 1
}
check other-event other_event

#!/bin/bash
# idle.sh - while the target sleeps, no thread of perfwind and no helper process wakes up; when it runs again, it is recorded.
# --max-cpu: the rate goes down, samples are left out, and their weight is not.
. "$(dirname "$0")/lib"
need_perf
# Python reads the clock in the kernel where there is no fast clock; an ordinary user does not see that part.
seen=0.85
is_root || seen=0.3

cat >"$TMP/pauses.py" <<'PY'
import os, signal, time
def burn(*_):
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
signal.signal(signal.SIGUSR1, burn)
print("ready", os.getpid(), flush=True)
while True:
    signal.pause()
PY
# switches PID : of all threads of it and its helper processes, since they started.
switches() {
	local pid
	for pid in "$1" $(cat /proc/"$1"/task/*/children 2>/dev/null); do
		[ "$pid" = "$target" ] || cat /proc/"$pid"/task/*/status
	done 2>/dev/null | awk '/ctxt_switches:/ { n += $2 } END { print n }'
}
# sleeps PID : for two seconds in a row, within 30 s.
sleeps() {
	local before i
	for ((i = 0; i < 15; i++)); do
		before=$(switches "$1")
		sleep 2
		[ "$(switches "$1")" = "$before" ] && return 0
	done
	echo "it still wakes up: $before switches, then $(switches "$1")"
	return 1
}
# burns PID : 0.3 s of CPU time.
burns() {
	local before
	before=$(cpu_ms "$1")
	kill -USR1 "$1"
	wait_for used "$1" $((before + 280))
}
# idle NAME OPTIONS... : of pauses.py, which runs, or is the command.
idle() {
	local name=$1 recorder target
	shift
	record_in_background "$name" "$@"
	recorder=$!
	wait_for grep -q ready "$TMP/pauses.out" "$TMP/$name.json"
	target=$(sed -n 's/^ready //p' "$TMP/pauses.out" "$TMP/$name.json")
	started "$target"
	burns "$target"
	check "$name-sleeps" sleeps $recorder
	burns "$target"
	check "$name-sleeps-again" sleeps $recorder
	kill -9 "$target"
	check "$name-sees-the-end" wait_for gone $recorder
	wait $recorder
	check "$name-consistent" consistent "$name"
	check "$name-accounted" json "$name" "v['samples'] > 100 and v['cpu_accounted'] >= $seen"
}
"$PYTHON" "$TMP/pauses.py" >"$TMP/pauses.out" &
idle pid -p $!
: >"$TMP/pauses.out"
idle command -- "$PYTHON" "$TMP/pauses.py"

"$PROGRAMS/recursion" 60 &
target=$!
started $target
record_in_background budget -F 3000 --max-cpu 0.05% -p $target
recorder=$!
record_in_background lowered -v -F 3000 --max-cpu 0.05% -p $target
lowered=$!
wait_for used $target $(($(cpu_ms $target) + 2000))
check budget-lowers-rate wait_for grep -qE "^perfwind: (187|46|11) samples a second on each CPU" "$TMP/lowered.err"
kill -INT $recorder $lowered
wait $recorder $lowered
check lowered-keeps-weight json lowered '0.97 <= v["cpu_accounted"] <= 1.03'
kill $target
check budget-thins json budget 'v["skipped"]["thinned"] > v["samples"] > 0'
check budget-keeps-weight json budget '0.97 <= v["cpu_accounted"] <= 1.03'
check budget-noted steps_kept budget 'samples are taken less often or left out, to use at most 0.05 %'
check budget-consistent consistent budget
# Of 10 s of CPU time the sum of the weights is within 1 %.
record ten -F 4000 --max-cpu 0.3% -- "$PROGRAMS/recursion" 10
check ten-saves json ten 'v["samples"] < 30000'
check ten-keeps-weight json ten '0.99 <= v["cpu_accounted"] <= 1.01'

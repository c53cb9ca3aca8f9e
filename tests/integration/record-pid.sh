#!/bin/bash
# record-pid.sh - attaching to what runs already: threads and their names, late threads, children, exit.
. "$(dirname "$0")/lib"
need_perf

"$PROGRAMS/threads" 600 &
target=$!
started $target
wait_for used $target 50
record threads -p $target -d 1.2
check threads-status [ $? = 0 ]
check threads-consistent consistent threads
for n in 0 1 2 3; do
	check "threads-worker-$n" has threads "^worker-$n;.*thread_main;thread_work;burn "
done
check threads-whole json threads 'v["stacks"]["whole"] >= 0.99 * total and total > 20'
check threads-accounted json threads '0.85 <= v["cpu_accounted"] <= 1.1'
"$PERFWIND" report --by thread "$TMP/threads.pftrace" >"$TMP/threads.report"
check threads-report grep -q worker-2 "$TMP/threads.report"
# One event a thread and CPU is what -p takes; where descriptors do not allow that, whole CPUs and a filter.
if is_root; then
	"$PROGRAMS/threads" 60 40 &
	many=$!
	started $many
	wait_for used $many 50
	(ulimit -n 64 && record many -p $many -d 1.5)
	check many-status [ $? = 0 ]
	# (A daemon that is asked has descriptors of its own.)
	[ -n "${RECORDS_BY_UNIT:-}" ] || check many-reported-once [ "$(grep -c 'whole CPUs are sampled' "$TMP/many.err")" = 1 ]
	[ -n "${RECORDS_BY_UNIT:-}" ] || check many-kept steps_kept many 'whole CPUs are sampled, and samples of other processes are skipped'
	check many-consistent consistent many
	check many-names has many '^worker-[0-9]+;.*thread_main;thread_work;burn '
	check many-nothing-else share_at_least many 100 '^(worker-[0-9]+|threads);'
	kill $many
else
	skip many "whole CPUs need root"
fi
# The tables that tests/tools/perfwind-gdb.py prints.
if is_root && command -v gdb >/dev/null && [ -z "${RUNS_AS:-}" ]; then
	record_in_background tables -p $target
	recorder=$!
	wait_for test -s "$TMP/tables.pftrace"
	wait_for used $target $(($(cpu_ms $target) + 200))
	# gdb may stop main between two counts.
	for try in 1 2 3; do
		timeout 60 gdb -q -batch -x tests/tools/perfwind-gdb.py -p "$recorder" -ex pw-session -ex pw-memory -ex pw-account </dev/null >"$TMP/tables" 2>&1
		grep -q ': holds$' "$TMP/tables" && grep -q 'callstacks [1-9]' "$TMP/tables" && break
	done
	check tables-session grep -q '^received .*: holds$' "$TMP/tables"
	check tables-memory grep -q '^mappings .*; callstacks [1-9][0-9]* bytes$' "$TMP/tables"
	kill -INT $recorder
	wait $recorder
	check tables-recorder-lives [ $? = 0 ]
elif [ -z "${RUNS_AS:-}" ]; then # once is enough
	skip tables "gdb as root is needed"
fi
kill $target

# The target's end ends the recording, and its last moments are in it.
"$PROGRAMS/recursion" 1.5 &
started $!
record ends -p $!
check ends-with-target json ends 'v["duration_s"] < 20 and v["samples"] > 0'
check ends-consistent consistent ends
check ends-names has ends 'main;recurse_even;recurse_odd;'
# ... also when it is killed.
"$PROGRAMS/threads" 60 &
target=$!
started $target
record_in_background killed -p $target
recorder=$!
wait_for used $target 100
kill -9 $target
check ends-when-killed wait_for gone $recorder
wait $recorder
check ends-when-killed-status [ $? = 0 ]
check ends-when-killed-consistent consistent killed

# Several at once: it ends with the last.
"$PROGRAMS/recursion" 1 &
first=$!
"$PROGRAMS/qsort" 2 &
started "$first $!"
record two -p "$first,$!"
check two-first has two '^recursion;.*main;recurse_even;'
check two-second has two '^qsort;.*main;sort_numbers;.*compare_numbers'
check two-consistent consistent two

# Threads and children that start while we attach or afterwards.
cat >"$TMP/spawner.py" <<'PY'
import os, subprocess, sys, threading, time
def spinning(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(i * i for i in range(1000))
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
t = threading.Thread(target=spinning, args=(0.5,))
t.start()
subprocess.run([sys.argv[1], "1"])
t.join()
PY
"$PYTHON" "$TMP/spawner.py" "$PROGRAMS/qsort" "$TMP/children.pftrace" &
started $!
record children -p $! --children
check children-followed has children '^qsort;.*main;sort_numbers;'
check children-parent has children '^python3?[^;]*;.*start_thread;.*(_PyEval_EvalFrameDefault| \[python)'
check children-consistent consistent children
"$PYTHON" "$TMP/spawner.py" "$PROGRAMS/qsort" "$TMP/nochildren.pftrace" &
started $!
record nochildren -p $!
check children-left-out hasnt nochildren '^qsort;'
check late-thread has nochildren '^python3?[^;]*;.*start_thread;.*(_PyEval_EvalFrameDefault| \[python)'
check nochildren-consistent consistent nochildren

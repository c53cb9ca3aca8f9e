#!/bin/bash
# record-pid.sh - attaching to what runs already: threads and their names, late threads, children, exit.
. "$(dirname "$0")/lib"
need_perf

"$PROGRAMS/threads" 6 &
started $!
sleep 0.3
record threads -p $! -d 1.5
check threads-status [ $? = 0 ]
check threads-equation json threads 'v["samples"] == total and v["samples"] > 500'
for n in 0 1 2 3; do
	check "threads-worker-$n" has threads "^worker-$n;.*thread_main;thread_work;burn "
done
check threads-whole json threads 'v["stacks"]["whole"] >= 0.99 * total'
check threads-accounted json threads '0.85 <= v["cpu_accounted"] <= 1.1'
check threads-by-thread sh -c "$PERFWIND report --by thread $TMP/threads.pftrace | grep -q worker-2"

# The target's end ends the recording.
"$PROGRAMS/recursion" 1 &
started $!
record ends -p $!
check ends-with-target json ends 'v["duration_s"] < 5 and v["samples"] > 0'

# Threads and children that start while we attach or afterwards.
cat >"$TMP/spawner.py" <<'PY'
import subprocess, threading, time, sys
def spinning(seconds):
    end = time.time() + seconds
    while time.time() < end:
        sum(i * i for i in range(1000))
time.sleep(0.7)
t = threading.Thread(target=spinning, args=(1.5,))
t.start()
subprocess.run([sys.argv[1], "1"])
t.join()
PY
python3 "$TMP/spawner.py" "$PROGRAMS/qsort" &
started $!
sleep 0.3
record children -p $! --children
check children-followed has children '^qsort;'
python3 "$TMP/spawner.py" "$PROGRAMS/qsort" &
started $!
sleep 0.3
record nochildren -p $!
check children-left-out hasnt nochildren '^qsort;'
check late-thread json nochildren 'v["samples"] > 300'

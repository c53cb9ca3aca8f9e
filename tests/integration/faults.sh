#!/bin/bash
# faults.sh - a recording under limits and interruptions: perfwind stopped by SIGSTOP, few open files, a rate that the kernel
# lowers, a /proc that hides processes, many threads and processes, little memory.  (CPUs that go offline and clock steps: make check-faults.)
. "$(dirname "$0")/lib"
need_perf

# While perfwind is stopped its rings fill: what is missing is what the kernel counted.
record_in_background stopped -F 4000 --no-inline -- "$PROGRAMS/crowd" 1.5
pid=$!
wait_for test -s "$TMP/stopped.pftrace"
kill -STOP $pid
sleep 1
kill -CONT $pid
wait $pid
check stopped-ends [ $? = 0 ]
check stopped-nothing-uncounted json stopped '1.47 <= (total + v["lost"]["samples"]) / 4000 <= 1.56'

if [ "$(id -u)" = 0 ]; then
	few() { (ulimit -n 64 && record few -a -d 1); }
	check few-files few
	check few-files-samples json few 'total > 0'
fi

# while_busy NAME PID OPTIONS... : records until PID has used 0.3 s more of CPU time.
while_busy() {
	local name=$1 busy=$2
	shift 2
	record_in_background "$name" "$@"
	local recorder=$!
	wait_for test -s "$TMP/$name.pftrace"
	wait_for used "$busy" $(($(cpu_ms "$busy") + 300))
	kill -INT $recorder
	wait $recorder
}
"$PROGRAMS/crowd" 60 20000 >"$TMP/crowd.out" 2>/dev/null &
crowd=$!
started $crowd
if wait_for grep -q ready "$TMP/crowd.out"; then
	check threads while_busy threads $crowd -p $crowd
	check threads-stacks has threads 'main;crowd_work;burn'
	check threads-whole json threads 'v["stacks"]["whole"] > 0.99 * total'
else
	skip threads "20,000 threads cannot be started here"
fi
kill $crowd

# 2,000 processes that sleep next to one that works; processes that are started all the time.
cat >"$TMP/processes.py" <<'PY'
import os, signal, sys, time
children = []
for _ in range(2000):
    pid = os.fork()
    if pid == 0:
        signal.pause()
    children.append(pid)
print("ready", flush=True)
sys.stdin.read()
for pid in children:
    os.kill(pid, signal.SIGKILL)
PY
"$PYTHON" "$TMP/processes.py" < <(sleep 30) >"$TMP/processes.out" 2>/dev/null &
processes=$!
started $processes
"$PROGRAMS/crowd" 30 >/dev/null &
busy=$!
started $busy
if wait_for grep -q ready "$TMP/processes.out"; then
	check processes while_busy processes $busy -p $processes,$busy
	check processes-stacks has processes 'main;crowd_work;burn'
	check processes-whole json processes 'v["stacks"]["whole"] > 0.99 * total'
else
	skip processes "2,000 processes cannot be started here"
fi
kill -9 $(cat /proc/$processes/task/*/children)
kill -9 $processes $busy
cat >"$TMP/storm.sh" <<'SH'
for ((i = 0; i < 600; i++)); do /bin/true; (:); done
SH
check storm record storm -F 4000 -- bash "$TMP/storm.sh"
check storm-whole json storm 'total > 100 and v["stacks"]["whole"] > 0.97 * total'

# A library is loaded and unloaded all the time, by a process that does little else.
cat >"$TMP/dlopen.py" <<'PY'
import _ctypes, sys, time
n = 0
while time.process_time() < 1:
    _ctypes.dlclose(_ctypes.dlopen(sys.argv[1], 2))
    n += 1
print(n)
PY
library=$("$PYTHON" -c 'import _ctypes, os; print(os.path.dirname(_ctypes.__file__) + "/" + next(f for f in sorted(os.listdir(os.path.dirname(_ctypes.__file__))) if f.startswith("_lzma") or f.startswith("_bz2")))')
check dlopen-storm record dlopen --no-inline -- "$PYTHON" "$TMP/dlopen.py" "$library"
check dlopen-storm-is-one [ "$(head -n 1 "$TMP/dlopen.json")" -gt 100 ]
check dlopen-storm-whole json dlopen 'total > 300 and v["stacks"]["whole"] > 0.97 * total'

rate=/proc/sys/kernel/perf_event_max_sample_rate
if [ -w $rate ] && [ "$(id -u)" = 0 ]; then
	before=$(cat $rate)
	restore() { echo "$before" >$rate; cleanup; }
	trap restore EXIT
	record_in_background lowered -F 4000 --no-inline -- "$PROGRAMS/crowd" 1
	pid=$!
	wait_for test -s "$TMP/lowered.pftrace"
	echo 500 >$rate
	wait $pid
	check lowered-ends [ $? = 0 ]
	echo "$before" >$rate
	trap cleanup EXIT
	check lowered-is-reported json lowered 'v["lost"]["throttled_s"] > 0 or total + v["lost"]["samples"] >= 3900'
else
	skip lowered "$rate can be changed by root only"
fi

# A memory cgroup: a recording fits, or refuses with what it needs.  Never is a process killed.
memory_cgroup() {
	local folder
	for folder in $(awk '$3 == "cgroup" && $4 ~ /(^|,)memory(,|$)/ || $3 == "cgroup2" { print $2 }' /proc/mounts); do
		mkdir "$folder/perfwind-memory.$$" 2>/dev/null || continue
		[ -e "$folder/perfwind-memory.$$/memory.limit_in_bytes" ] || [ -e "$folder/perfwind-memory.$$/memory.max" ] && echo "$folder/perfwind-memory.$$" && return 0
		rmdir "$folder/perfwind-memory.$$"
	done
	return 1
}
# in_memory MIB NAME OPTIONS... : record with so much of it.
in_memory() {
	local limit=$memory/memory.max
	[ -e "$limit" ] || limit=$memory/memory.limit_in_bytes
	echo "$1M" >"$limit"
	shift
	(echo "$BASHPID" >"$memory/cgroup.procs" && record "$@")
}
if [ "$(id -u)" = 0 ] && memory=$(memory_cgroup); then
	trap 'wait_for rmdir "$memory"; cleanup' EXIT
	check memory-command in_memory 60 memory-command -- "$PROGRAMS/crowd" 1
	check memory-command-whole json memory-command 'total > 500 and v["stacks"]["whole"] > 0.99 * total'
	"$PROGRAMS/crowd" 60 &
	started $!
	check memory-machine in_memory 140 memory-machine -a -d 5
	check memory-machine-stacks has memory-machine 'main;crowd_work;burn'
	status=0
	in_memory 60 memory-refused -a -d 5 || status=$?
	check memory-refused [ $status = 1 ]
	check memory-refused-reason grep -q 'the memory cgroup has [0-9]* MiB left, this recording needs 128 (hint: raise memory.max' "$TMP/memory-refused.err"
	wait_for rmdir "$memory"
	trap cleanup EXIT
else
	skip memory "no memory cgroup can be made here"
fi

# An ordinary user with a /proc that shows own processes only.
hidden() {
	chmod 777 "$TMP"
	unshare -m sh -c 'mount -t proc -o hidepid=2 proc /proc && exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"' sh \
		"$PERFWIND" record --json -o "$TMP/hidden.pftrace" -- "$PROGRAMS/crowd" 0.3 >"$TMP/hidden.json" 2>"$TMP/hidden.err"
}
if [ "$(id -u)" = 0 ] && unshare -m mount -t proc -o hidepid=2 proc /proc 2>/dev/null; then
	check hidden hidden
	check hidden-stacks has hidden 'main;crowd_work;burn'
else
	skip hidden "no mount of /proc here"
fi

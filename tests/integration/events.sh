#!/bin/bash
# events.sh - counters, tracepoints with a filter, uprobes, periods, followers, clocks, user and kernel halves.
. "$(dirname "$0")/lib"
need_perf

record period -e cpu-clock -c 2000000 -- "$PROGRAMS/recursion" 1
check period-count json period '300 <= v["samples"] <= 700'
record faults -e page-faults -c 1 -- python3 -c 'b = bytearray(40 << 20)'
check faults-samples json faults 'v["samples"] > 1000 and v["cpu_accounted"] is None'
record followers -e cpu-clock,page-faults,context-switches -- "$PROGRAMS/recursion" 1
check followers json followers 'v["samples"] > 300'
for clock in monotonic monotonic_raw boottime realtime; do
	record "clock-$clock" -e cpu-clock --clock $clock -- "$PROGRAMS/recursion" 0.5
	check "clock-$clock" has "clock-$clock" 'main;recurse_even'
done
# Half in the kernel: --user-only sees about half of the time, and says so.
cat >"$TMP/half.py" <<'PY'
import os, time
fd = os.open("/dev/zero", os.O_RDONLY)
def user(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        sum(range(2000))
def kernel(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        os.read(fd, 8 << 20)
for _ in range(30):
    user(0.05)
    kernel(0.05)
PY
record half --user-only -- python3 "$TMP/half.py"
check user-only-half json half '0.3 <= v["cpu_accounted"] <= 0.7'
check user-only-no-kernel hasnt half '_\[k\]'

if [ "$(id -u)" = 0 ]; then
	record whole -- python3 "$TMP/half.py"
	check both-halves json whole '0.85 <= v["cpu_accounted"] <= 1.1'
	check kernel-named has whole '(read|zero|clear|copy)[a-z_]*_\[k\]'
	record kernel --kernel-only -- python3 "$TMP/half.py"
	check kernel-only json kernel '0.3 <= v["cpu_accounted"] <= 0.7'
	check kernel-only-no-user hasnt kernel ';main;'
	if [ -r /sys/kernel/tracing/events/sched/sched_switch/id ]; then
		record switch -e sched:sched_switch -c 1 -- sh -c 'for i in 1 2 3 4 5; do sleep 0.02; done'
		check tracepoint json switch 'v["samples"] >= 5'
		check tracepoint-stack has switch '(__schedule|schedule)_\[k\]'
		record filtered -e sched:sched_switch --filter 'prev_comm == "no-such-name"' -c 1 -- sleep 0.1
		check tracepoint-filter json filtered 'v["samples"] == 0'
		record badfilter -e sched:sched_switch --filter 'no_such_field == 1' -c 1 -- sleep 0.1
		check tracepoint-bad-filter [ $? = 1 ]
	else
		skip tracepoint "tracefs cannot be read"
	fi
	if [ -d /sys/bus/event_source/devices/uprobe ]; then
		record uprobe -e "uprobe:$PROGRAMS/qsort:burn" -c 1 -- "$PROGRAMS/qsort" 0.3
		check uprobe json uprobe 'v["samples"] > 10'
		check uprobe-stack has uprobe 'main;.*burn '
	else
		skip uprobe "this kernel has no uprobe PMU"
	fi
else
	skip kernel-half "needs root"
fi

#!/bin/bash
# faults-alone.sh - what disturbs the whole machine: a CPU goes offline and comes back during a recording, the kernel throttles
# sampling, the clock is set.
# `make check-faults`, as root, on a machine without other users.
. "$(dirname "$0")/integration/lib"
need_perf
[ "$(id -u)" = 0 ] || { echo "needs root"; exit 77; }

cpu=$(ls -d /sys/devices/system/cpu/cpu[0-9]*/online 2>/dev/null | tail -n 1)
number=$(echo "$cpu" | sed 's/.*cpu\([0-9]*\).online/\1/')
if [ -n "$cpu" ] && echo 0 >"$cpu" 2>/dev/null; then
	echo 1 >"$cpu"
	restore() { echo 1 >"$cpu"; cleanup; }
	trap restore EXIT
	"$PROGRAMS/crowd" 30 &
	started $!
	record_in_background offline -a -d 7
	pid=$!
	sleep 1
	echo 0 >"$cpu"
	sleep 1
	echo 1 >"$cpu"
	taskset -c "$number" "$PROGRAMS/recursion" 10 &
	started $!
	wait $pid
	check offline-ends [ $? = 0 ]
	# The kernel takes the events of this CPU away: they are opened again.
	check offline-is-reported grep -q "CPU $number was offline for a while" "$TMP/offline.err"
	back() { "$PERFWIND" export --to folded -C "$number" -o - "$TMP/offline.pftrace" | grep -c '^recursion;'; }
	check offline-back [ "$(back)" -ge 1 ]
	trap cleanup EXIT
else
	skip offline "no CPU can be taken offline here"
fi

# The kernel holds sampling back: perf_cpu_time_max_percent is a limit, and perf_event_max_sample_rate what the kernel lowers at
# that limit by itself (where interrupts are NMIs; else by this script).  Time without samples is reported, and in no weight.
rate=/proc/sys/kernel/perf_event_max_sample_rate percent=/proc/sys/kernel/perf_cpu_time_max_percent
before=$(cat $rate) before_percent=$(cat $percent)
limits() { echo "$1" >$percent && echo "$2" >$rate; }
restore() { limits "$before_percent" "$before"; cleanup; }
if limits 1 "$before" 2>/dev/null; then
	trap restore EXIT
	# (3 s of CPU time)
	record_in_background throttled -F 4000 --no-inline -- "$PROGRAMS/crowd" 3
	pid=$!
	sleep 1
	limits 1 1000
	sleep 1
	limits "$before_percent" "$before"
	wait $pid
	check throttled-ends [ $? = 0 ]
	trap cleanup EXIT
	check throttled-reported grep -q 'throttled for [0-9.]* s: the kernel allows fewer samples (hint: a lower -F)' "$TMP/throttled.err"
	check throttled-whole json throttled 'v["stacks"]["whole"] > 0.99 * total and v["lost"]["samples"] == 0'
	check throttled-weights json throttled \
		'v["lost"]["throttled_s"] > 0.2 and v["cpu_accounted"] < 0.95 and 0.95 <= v["cpu_accounted"] + v["lost"]["throttled_s"] / 3 and v["lost"]["throttled_s"] < 1.8'
	# Afterwards the rate is the requested one.
	record after -F 4000 --no-inline -- "$PROGRAMS/crowd" 0.5
	check throttled-over json after 'v["lost"]["throttled_s"] == 0 and v["cpu_accounted"] > 0.9'
else
	skip throttled "$percent cannot be set here"
fi

# Samples have a clock that is not set.
step() {
	"$PYTHON" - <<'PY'
import time
for seconds in (3600, -3600):
    time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_REALTIME) + seconds)
    time.sleep(0.5)
PY
}
if "$PYTHON" -c 'import time; time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_REALTIME))' 2>/dev/null; then
	record_in_background clock -- "$PROGRAMS/crowd" 2
	pid=$!
	wait_for test -s "$TMP/clock.pftrace"
	step
	wait $pid
	check clock-ends [ $? = 0 ]
	check clock-whole json clock 'v["stacks"]["whole"] > 0.99 * total and v["duration_s"] < 60 and v["cpu_accounted"] > 0.9'
else
	skip clock "the clock cannot be set here"
fi

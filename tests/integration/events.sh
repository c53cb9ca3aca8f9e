#!/bin/bash
# events.sh - counters, tracepoints with a filter, uprobes, periods, followers, clocks, user and kernel halves.
. "$(dirname "$0")/lib"
need_perf

# tracefs is not mounted everywhere: then a mount namespace of our own has it.
if [ "$(id -u)" = 0 ] && [ ! -e /sys/kernel/tracing/events ] && [ -z "${IN_NAMESPACE:-}" ] &&
	unshare -m sh -c 'mount -t tracefs none /sys/kernel/tracing' 2>/dev/null; then
	cleanup
	IN_NAMESPACE=1 exec unshare -m sh -c 'mount -t tracefs none /sys/kernel/tracing && exec "$@"' sh "$INTEGRATION/events.sh"
fi

# One sample each 2 ms: the samples stand for the CPU time used, whatever the machine was busy with.
record period -e cpu-clock -c 2000000 -- "$PROGRAMS/recursion" 1
check period-accounted json period '0.85 <= v["cpu_accounted"] <= 1.1'
check period-consistent consistent period
check period-names has period 'main;recurse_even;'
# 40 MB in pages of 4 KiB: one fault each, if pages are not huge.
cat >"$TMP/faults.py" <<'PY'
import mmap
m = mmap.mmap(-1, 40 << 20)
m.madvise(mmap.MADV_NOHUGEPAGE)
for at in range(0, 40 << 20, 4096):
    m[at] = 1
PY
record faults -e page-faults -c 1 -- "$PYTHON" "$TMP/faults.py"
case ,${PERFWIND_WITHOUT:-}, in
*,all,* | *,format-lost,*)
	# LOST records report only losses before another record that found room: the sum is a lower bound.
	check faults-there json faults 'v["samples"] > 0 and v["cpu_accounted"] is None'
	check faults-lost-not-all-known grep -qE 'lost     (at least|none known)' "$TMP/faults.err" ;;
*)
	check faults-all-there json faults \
		'v["samples"] + sum(v["skipped"].values()) + v["lost"]["samples"] >= 10240 and v["cpu_accounted"] is None' ;;
esac
check faults-consistent consistent faults
check faults-names has faults '^python3?[^;]*;.*(_PyEval_EvalFrameDefault| \[python)'
record followers -e cpu-clock,page-faults,context-switches -- "$PROGRAMS/recursion" 0.6
check followers-consistent consistent followers
check followers-names has followers 'main;recurse_even;'
# Before Linux 6.13 inherited events could not be counted: a step down, reported once and kept.
PERFWIND_WITHOUT=inherit-read record alone -e cpu-clock,page-faults -- "$PROGRAMS/recursion" 0.4
check alone-reported-and-kept steps_kept alone '^the events after the first are left out: .*Linux 6.13'
check alone-consistent consistent alone
# Their names and a count of each at every sample stand in the packets (field 50: compressed ones).
cat >"$TMP/packets.py" <<'PY'
import sys, zlib
def fields(data):
    at = 0
    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]; at += 1
            value |= (byte & 127) << shift; shift += 7
            if byte < 128: return value
    while at < len(data):
        tag = varint()
        size = varint()
        if tag & 7 == 2:
            yield tag >> 3, data[at:at + size]
            at += size
        elif tag & 7:
            raise ValueError(tag)
def packets(data):
    for number, packet in fields(data):
        inner = [zlib.decompress(value) for n, value in fields(packet) if n == 50]
        yield from packets(inner[0]) if inner else [packet]
everything = b"".join(packets(open(sys.argv[1], "rb").read()))
sys.exit(not all(name.encode() in everything for name in sys.argv[2:]))
PY
if grep -q 'the events after the first are left out' "$TMP/followers.err"; then
	ok followers-left-out-is-reported # of a process, before Linux 6.13; of the machine all kernels count them
	is_root && record followers -a -d 0.5 -e cpu-clock,page-faults,context-switches
fi
if is_root || ! grep -q 'are left out' "$TMP/followers.err"; then
	check followers-in-the-trace "$PYTHON" "$TMP/packets.py" "$TMP/followers.pftrace" cpu-clock page-faults context-switches
fi
for clock in monotonic monotonic_raw boottime realtime; do
	record "clock-$clock" -e cpu-clock --clock $clock -- "$PROGRAMS/recursion" 0.3
	check "clock-$clock" has "clock-$clock" 'main;recurse_even'
	check "clock-$clock-consistent" consistent "clock-$clock"
done

# Half in the kernel: --user-only sees about half of the time, and reports it.
cat >"$TMP/half.py" <<'PY'
import os, time
fd = os.open("/dev/zero", os.O_RDONLY)
buffer = memoryview(bytearray(4 << 20))
def user(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(2000))
def kernel(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        os.readv(fd, [buffer])
for _ in range(20):
    user(0.03)
    kernel(0.03)
PY
record half --user-only -- "$PYTHON" "$TMP/half.py"
check user-only-half json half '0.35 <= v["cpu_accounted"] <= 0.65'
check user-only-no-kernel hasnt half '_\[k\]'
check user-only-consistent consistent half
check user-only-reported grep -q 'in the kernel, which was not sampled' "$TMP/half.err"

if ! is_root; then
	skip kernel-half "needs root"
	exit 0
fi
record whole -- "$PYTHON" "$TMP/half.py"
check both-halves json whole '0.85 <= v["cpu_accounted"] <= 1.1'
check kernel-named has whole '(_PyEval_EvalFrameDefault|kernel \[python\]);.*(read|zero|clear)[a-z_]*_\[k\]'
check both-consistent consistent whole
record kernel --kernel-only -- "$PYTHON" "$TMP/half.py"
check kernel-only json kernel '0.35 <= v["cpu_accounted"] <= 0.65'
check kernel-only-no-user hasnt kernel '_PyEval|;[^;]*[^]] [0-9]+$'
check kernel-only-consistent consistent kernel

if [ -r /sys/kernel/tracing/events/sched/sched_switch/id ]; then
	record switch -e sched:sched_switch -c 1 -- sh -c 'for i in 1 2 3 4 5; do sleep 0.02; done'
	check tracepoint json switch 'v["samples"] >= 5 and v["cpu_accounted"] is None'
	check tracepoint-stack has switch '^sleep;.*nanosleep.*;(__schedule|schedule)_\[k\]'
	check tracepoint-consistent consistent switch
	record filtered -e sched:sched_switch --filter 'prev_comm == "sleep"' -c 1 -- sh -c 'for i in 1 2 3; do sleep 0.02; done'
	check tracepoint-filter-lets-through has filtered '^sleep;'
	check tracepoint-filter-keeps-out hasnt filtered '^sh;'
	check tracepoint-filter-consistent consistent filtered
	record nothing -e sched:sched_switch --filter 'prev_comm == "no-such-name"' -c 1 -- sleep 0.1
	check tracepoint-filter-none json nothing 'v["samples"] == 0'
	check tracepoint-filter-none-consistent consistent nothing
	record badfilter -e sched:sched_switch --filter 'no_such_field == 1' -c 1 -- sleep 0.1
	check tracepoint-bad-filter [ $? = 1 ]
	check tracepoint-bad-filter-reported grep -q 'no_such_field' "$TMP/badfilter.err"
	record all-switches -a -e sched:sched_switch -d 0.5
	check tracepoint-all has all-switches '(__schedule|schedule)_\[k\] '
	check tracepoint-all-consistent consistent all-switches
else
	skip tracepoint "tracefs cannot be read"
fi
if [ -d /sys/bus/event_source/devices/uprobe ]; then
	record uprobe -e "uprobe:$PROGRAMS/recursion:burn" -c 1 -- "$PROGRAMS/recursion" 0.3
	check uprobe json uprobe 'v["samples"] > 10 and v["stacks"]["whole"] >= 0.99 * total'
	# Every sample stands at the function's first instruction, 60 calls deep.
	check uprobe-stack share_at_least uprobe 100 'main;(recurse_even;recurse_odd;){20,}.*burn$'
	check uprobe-consistent consistent uprobe
else
	skip uprobe "this kernel has no uprobe PMU"
fi

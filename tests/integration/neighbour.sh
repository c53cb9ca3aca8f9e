#!/bin/bash
# neighbour.sh - stock perf records while each kind of session runs, and ends as it does alone.  (An event that requests
# build ids of the kernel marks records of events that did not: perf 6.1 aborts on these.  perf/probe.c)
. "$(dirname "$0")/lib"
need_perf
command -v perf >/dev/null || { echo "perf is not installed"; exit 77; }
scope=$([ "$(id -u)" = 0 ] && echo -a)

# Programs that start during its recording: a mapping record each.
perf_records() {
	perf record -q $scope -e cpu-clock -F 99 -o "$TMP/$1.perf" -- sh -c 'for i in 1 2 3 4 5 6 7 8; do /bin/true; sleep 0.02; done' \
		>"$TMP/$1.perf.err" 2>&1 && perf report --stdio -i "$TMP/$1.perf" >"$TMP/$1.report" 2>>"$TMP/$1.perf.err"
}

# next_to NAME COMMAND... : with this session.
next_to() {
	local name=$1
	shift
	"$@" >"$TMP/$name.out" 2>&1 &
	local pid=$!
	started $pid
	wait_for events_of $pid
	check "$name" perf_records "$name"
	kill $pid 2>/dev/null
	wait $pid
}
events_of() {
	ls -l "/proc/$1/fd" 2>/dev/null | grep -q 'anon_inode:\[perf_event\]'
}

perf_records alone || { echo "perf record fails without perfwind: $(tail -n 1 "$TMP/alone.perf.err")"; exit 77; }
if [ -n "$scope" ]; then
	next_to record-all "$PERFWIND" record -a -o "$TMP/all.pftrace"
	next_to top "$PERFWIND" top -a
	next_to off-cpu "$PERFWIND" record --off-cpu -a -o "$TMP/off-cpu.pftrace"
	next_to flight "$PERFWIND" record --flight-recorder 32M -a -o "$TMP/flight.pftrace"
	next_to wall "$PERFWIND" record --wall -a -o "$TMP/wall.pftrace"
fi
"$PROGRAMS/recursion" 60 >/dev/null &
target=$!
started $target
next_to record-pid "$PERFWIND" record -p $target -o "$TMP/pid.pftrace"
next_to record-command "$PERFWIND" record -o "$TMP/command.pftrace" -- sh -c 'while :; do /bin/true; done'
cat >"$TMP/config" <<'END'
buffers { size_kb: 4096 }
data_sources { config { name: "linux.perf" perf_event_config { timebase { frequency: 99 } callstack_sampling {} } } }
duration_ms: 60000
END
[ -z "$scope" ] || next_to trace "$PERFWIND" trace -c "$TMP/config" -o "$TMP/trace.pftrace"
next_to max-cpu "$PERFWIND" record -F 3000 --max-cpu 0.05% -p $target -o "$TMP/max-cpu.pftrace"

# The daemon's events: those of its recordings.
if [ -n "$scope" ]; then
	"$PERFWIND" daemon -s "@perfwind-neighbour-$$" --control-socket "$TMP/control" --hook-socket "@perfwind-hook-$$" >"$TMP/daemon.out" 2>&1 &
	daemon=$!
	started $daemon
	wait_for test -S "$TMP/control"
	"$PERFWIND" record --daemon --control-socket "$TMP/control" -a -o "$TMP/daemon.pftrace" >"$TMP/asked.out" 2>&1 &
	asked=$!
	started $asked
	check daemon-records wait_for events_of $daemon
	check daemon perf_records daemon
	kill $asked $daemon
	wait $asked $daemon
fi

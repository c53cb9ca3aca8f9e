#!/bin/bash
# neighbour.sh - stock perf records while each kind of session runs, and ends as it does alone.  (An event that requests
# build ids of the kernel marks records of events that did not: perf 6.1 aborts on these.  perf/attr.c)
. "$(dirname "$0")/lib"
need_perf
command -v perf >/dev/null || { echo "perf is not installed"; exit 77; }
scope=$([ "$(id -u)" = 0 ] && echo -a)

# Programs that start during its recording: a mapping record each.  The kernel serves events that were opened later first, so the
# session is opened before perf's events and (later) after them; the programs then wait for a file.
some_programs='until [ -e "$0" ]; do sleep 0.02; done; for i in 1 2 3 4 5 6 7 8; do /bin/true; sleep 0.02; done'
perf_record() { perf record -q $scope -e cpu-clock -F 99 -o "$TMP/$1.perf" -- sh -c "$some_programs" "$2" >"$TMP/$1.perf.err" 2>&1; }
perf_report() { perf report --stdio -i "$TMP/$1.perf" >"$TMP/$1.report" 2>>"$TMP/$1.perf.err" || { cat "$TMP/$1.perf.err"; false; }; }
perf_records_once() { perf_record "$1" / && perf_report "$1"; }
# A session that breaks perf breaks each of its recordings; a stranger that requests build ids (`perf record --buildid-mmap`) does
# so for a while.
perf_records() { perf_records_once "$1" || { sleep 3; perf_records_once "$1"; } || { sleep 3; perf_records_once "$1"; }; }

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
	check "$name-later" later "$name" "$@"
}
# later NAME COMMAND... : the session starts while perf records.
later_once() {
	local name=$1-later perf pid status
	shift
	rm -f "$TMP/$name.go"
	perf_record "$name" "$TMP/$name.go" &
	perf=$!
	started $perf
	wait_for events_of $perf
	"$@" >"$TMP/$name.out" 2>&1 &
	pid=$!
	started $pid
	wait_for events_of $pid
	: >"$TMP/$name.go"
	wait $perf
	status=$?
	kill $pid 2>/dev/null
	wait $pid
	[ $status = 0 ] && perf_report "$name"
}
later() { later_once "$@" || { sleep 3; later_once "$@"; } || { sleep 3; later_once "$@"; }; }
# The process, or a child of it where it is a function's shell.
events_of() {
	local pid
	for pid in "$1" $(pgrep -P "$1"); do
		ls -l "/proc/$pid/fd" 2>/dev/null | grep -q 'anon_inode:\[perf_event\]' && return
	done
	false
}

perf_records alone || { echo "perf record fails without perfwind: $(tail -n 1 "$TMP/alone.perf.err")"; exit 77; }
if [ -n "$scope" ]; then
	next_to record-all "$PERFWIND" record -a -o "$TMP/all.pftrace"
	next_to top "$PERFWIND" top -a
	next_to off-cpu "$PERFWIND" record --off-cpu -a -o "$TMP/off-cpu.pftrace"
	next_to flight "$PERFWIND" record --flight-recorder 32M -a -o "$TMP/flight.pftrace"
	next_to wall "$PERFWIND" record --wall -a -o "$TMP/wall.pftrace"
fi
# perfwind itself is recorded, its start included: perf's events are inherited by the process that looks for kernel facilities.
records_perfwind_once() {
	perf record -q -e cpu-clock -F 99 -o "$TMP/$1.perf" -- "$PERFWIND" record -q -o "$TMP/$1.pftrace" -- /bin/true >"$TMP/$1.perf.err" 2>&1 &&
		perf_report "$1"
}
records_perfwind() { records_perfwind_once "$1" || { sleep 3; records_perfwind_once "$1"; } || { sleep 3; records_perfwind_once "$1"; }; }
check perf-records-perfwind records_perfwind perfwind
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

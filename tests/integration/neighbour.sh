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
	check "$name-has-events" wait_for events_of $pid
	check "$name" perf_records "$name"
	kill $pid 2>/dev/null
	wait $pid
	check "$name-later" later "$name" "$@"
}
# later NAME COMMAND... : the session starts while perf records.
later_once() {
	local name=$1-later perf pid status opened
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
	opened=$?
	: >"$TMP/$name.go"
	wait $perf
	status=$?
	kill $pid 2>/dev/null
	wait $pid
	[ $opened = 0 ] || { cat "$TMP/$name.out"; return 1; }
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
	next_to armed "$PERFWIND" record --flight-recorder 32M --armed -a -o "$TMP/armed.pftrace"
	next_to marks "$PERFWIND" record --marks -a -o "$TMP/marks.pftrace"
	next_to stat "$PERFWIND" stat -a
	printf '%s\n' '[watch]' 'record = -a' '[rule none]' 'when = load' 'above = 1000000' >"$TMP/rules"
	next_to watch "$PERFWIND" watch -c "$TMP/rules" -d "$TMP/episodes"
fi
# perfwind itself is recorded, its start included: perf's events are inherited by the process that looks for kernel facilities.
records_perfwind_once() {
	perf record -q -e cpu-clock -F 99 -o "$TMP/$1.perf" -- "$PERFWIND" record -q -o "$TMP/$1.pftrace" -- /bin/true >"$TMP/$1.perf.err" 2>&1 &&
		perf_report "$1"
}
records_perfwind() { records_perfwind_once "$1" || { sleep 3; records_perfwind_once "$1"; } || { sleep 3; records_perfwind_once "$1"; }; }
check perf-records-perfwind records_perfwind perfwind
"$PROGRAMS/recursion" 600 >/dev/null &
target=$!
started $target
next_to record-pid "$PERFWIND" record -p $target -o "$TMP/pid.pftrace"
next_to record-command "$PERFWIND" record -o "$TMP/command.pftrace" -- sh -c 'while :; do /bin/true; done'
cat >"$TMP/config" <<'END'
buffers { size_kb: 4096 }
data_sources { config { name: "linux.perf" perf_event_config { timebase { frequency: 99 } callstack_sampling {} } } }
duration_ms: 60000
END
if [ -n "$scope" ]; then
	next_to trace "$PERFWIND" trace -c "$TMP/config" -o "$TMP/trace.pftrace"
	sed 's/^duration_ms.*//' "$TMP/config" >"$TMP/triggered"
	echo 'trigger_config { trigger_mode: STOP_TRACING trigger_timeout_ms: 60000 triggers { name: "never" stop_delay_ms: 1 } }' >>"$TMP/triggered"
	next_to trigger "$PERFWIND" trace -c "$TMP/triggered" -o "$TMP/triggered.pftrace"
fi
next_to perf-data "$PERFWIND" record --perf-data "$TMP/raw.data" -p $target -o "$TMP/raw.pftrace"
"$PERFWIND" run --hook-socket "@perfwind-opted-in-$$" -- "$PROGRAMS/recursion" 600 >/dev/null 2>&1 &
opted_in=$!
started $opted_in
next_to opted-in "$PERFWIND" record --hook-socket "@perfwind-opted-in-$$" -p $opted_in -o "$TMP/opted-in.pftrace"
next_to max-cpu "$PERFWIND" record -F 3000 --max-cpu 0.05% -p $target -o "$TMP/max-cpu.pftrace"

# A tracing service with one data source, for a minute (fake_traced.py).
service() {
	exec "$PYTHON" -c 'if True:
		import sys
		sys.path.insert(0, sys.argv[1])
		sys.dont_write_bytecode = True
		import fake_traced as fake
		service = fake.Service(sys.argv[2])
		service.accept(60)
		service.begin().setup_tracing()
		config = fake.source_config(fake.perf_config(99))
		service.setup(1, config)
		service.start(1, config)
		service.idle(60)' "$INTEGRATION" "$1" 2>"$TMP/service.err"
}
# The daemon's events: those of its recordings, and of its data sources.
if [ -n "$scope" ]; then
	echo 'traced-users = *' >"$TMP/daemon.conf"
	"$PERFWIND" daemon -s "@perfwind-neighbour-$$" --config "$TMP/daemon.conf" --control-socket "$TMP/control" --hook-socket "@perfwind-hook-$$" >"$TMP/daemon.out" 2>&1 &
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
	service "@perfwind-neighbour-$$" &
	service=$!
	started $service
	"$PERFWIND" daemon -s "@perfwind-neighbour-$$" --config "$TMP/daemon.conf" --control-socket "$TMP/control" --hook-socket "@perfwind-hook-$$" >"$TMP/producer.out" 2>&1 &
	daemon=$!
	started $daemon
	check producer-records wait_for events_of $daemon
	check producer perf_records producer
	check producer-still-records events_of $daemon
	kill $service $daemon
	wait $service $daemon
fi

#!/bin/bash
# trace-processor.sh - each kind of trace in Perfetto's own reader: no error, no loss, and the slices, counters and samples that it
# must have.  Runs where TRACE_PROCESSOR names trace_processor_shell, PERFETTO_BIN a folder with it, or the path has it: it is
# built elsewhere and is not part of this repository.
. "$(dirname "$0")/lib"
READER=${TRACE_PROCESSOR:-${PERFETTO_BIN:+$PERFETTO_BIN/trace_processor_shell}}
READER=${READER:-$(command -v trace_processor_shell)}
[ -n "$READER" ] && [ -x "$READER" ] || { unable trace-processor "trace_processor_shell is not here (TRACE_PROCESSOR=FILE names it)"; exit 0; }
need_perf

# ask FILE QUERY : the rows, without the head.
ask() { "$READER" -Q "$2" "$1" 2>"$TMP/reader.err" | tail -n +2; }
# answers FILE QUERY EXPECTED
answers() {
	local got
	got=$(ask "$1" "$2")
	[ "$got" = "$3" ] && return 0
	printf 'answered:\n%s\n' "$got"
	tail -n 5 "$TMP/reader.err"
	return 1
}
# flawless NAME FILE : the reader knows of no error and no loss, and has read something.  A busy machine loses samples, which is
# counted in the trace.
flawless() {
	check "$1-no-errors" answers "$2" "select name, idx, severity, value from stats where severity in ('error', 'data_loss') and value > 0
		and name not in ('perf_cpu_lost_records', 'perf_samples_skipped', 'perf_samples_skipped_dataloss')" ""
	check "$1-read" answers "$2" "select (select count(*) from perf_sample) + (select count(*) from slice) + (select count(*) from sched) > 0" 1
}
# sampled NAME FUNCTION : no errors, and samples with this function.
sampled() {
	flawless "$1" "$TMP/$1.pftrace"
	check "$1-samples" answers "$TMP/$1.pftrace" "select count(*) > 5 from perf_sample where callsite_id is not null" 1
	check "$1-names" answers "$TMP/$1.pftrace" "select count(*) > 0 from stack_profile_frame where name = '$2'" 1
}

mkdir "$TMP/user"
USER_RUNS=()
if [ "$(id -u)" = 0 ]; then
	chmod 777 "$TMP/user" && chmod 711 "$TMP"
	cp "$PERFWIND" "$O/libperfwind-marks.so" "$PROGRAMS"/{marking,marks-cxx,marks-functions} "$TMP/user/"
	USER_RUNS=(setpriv --reuid 65534 --regid 65534 --clear-groups env HOME="$TMP/user")
else
	ln -s "$PERFWIND" "$O/libperfwind-marks.so" "$PROGRAMS"/{marking,marks-cxx,marks-functions} "$TMP/user/"
fi
cat >"$TMP/user/marks.py" <<-'END'
	import os, time
	fd = os.open("/sys/kernel/tracing/trace_marker", os.O_WRONLY)
	os.write(fd, b"B|%d|python" % os.getpid())
	end = time.monotonic() + 0.5
	while time.monotonic() < end:
	    sum(range(100000))
	os.write(fd, b"C|%d|python counter|7" % os.getpid())
	os.write(fd, b"E|%d" % os.getpid())
END
# marked NAME COMMAND... : by an ordinary user without tracefs.
marked() {
	local name=$1
	shift
	(cd "$TMP/user" && "${USER_RUNS[@]}" ./perfwind record --no-daemon --marks -F 4000 -o "$name.pftrace" -- "$@" >"$name.out" 2>&1) || { cat "$TMP/user/$name.out"; return 1; }
}
# Samples of the thread while the slice is open on its track.
inside() {
	echo "select count(*) > 0 from slice s join thread_track t on s.track_id = t.id join perf_sample p on p.utid = t.utid
		where s.name = '$1' and p.ts between s.ts and s.ts + s.dur"
}
counter() { echo "select value from counter c join process_counter_track t on c.track_id = t.id where t.name = '$1' order by ts limit 1"; }
# has_marks NAME SLICE COUNTER VALUE
has_marks() {
	local file=$TMP/user/$1.pftrace
	flawless "$1" "$file"
	check "$1-samples-in-slice" answers "$file" "$(inside "$2")" 1
	[ -z "${3:-}" ] || check "$1-counter" answers "$file" "$(counter "$3")" "$4"
	check "$1-whole" answers "$file" "select count(*) from slice where dur < 0" 0
}
check c-record marked c ./marking
has_marks c inner queue -3.000000
check cxx-record marked cxx ./marks-cxx
flawless cxx "$TMP/user/cxx.pftrace"
check cxx-slices answers "$TMP/user/cxx.pftrace" "select count(*) from slice join thread_track t on track_id = t.id where slice.name in ('by a stream', 'left by an exception') and dur >= 0" 2
check python-record marked python "$PYTHON" marks.py
has_marks python python "python counter" 7.000000
check functions-record marked functions ./marks-functions
has_marks functions main

# The text of the kernel's tracer, with switches of a recording of waits.
waiting() { (cd "$TMP/user" && "${USER_RUNS[@]}" ./perfwind record --no-daemon --marks --wall -o wall.pftrace -- ./marking all >wall.out 2>&1 &&
	./perfwind export --to systrace -o wall.systrace wall.pftrace); }
check systrace-record waiting
flawless wall "$TMP/user/wall.pftrace"
flawless systrace "$TMP/user/wall.systrace"
check systrace-slices answers "$TMP/user/wall.systrace" "select count(*) from slice where name in ('outer', 'inner', 'by write')" 3
check systrace-counter answers "$TMP/user/wall.systrace" "$(counter queue)" -3.000000
check systrace-sched answers "$TMP/user/wall.systrace" "select count(*) > 0 from sched join thread using (utid) where thread.name = 'marking'" 1

"$PROGRAMS/recursion" 300 &
target=$!
started $target
record plain -p $target -d 1
sampled plain recurse_even
record two -p $target -d 1 -e cpu-clock -e page-faults
sampled two recurse_even
# Later files may have names of frames that only earlier files have (docs/perfetto.md).
record switched -p $target -d 1 --switch-output=500ms
flawless switched-1 "$TMP/switched-1.pftrace"
record recorder --flight-recorder 1M -F 4000 --collect tasks,system -p $target -d 2
sampled recorder recurse_even

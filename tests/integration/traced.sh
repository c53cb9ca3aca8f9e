#!/bin/bash
# traced.sh - `perfwind daemon` under Perfetto's own service, consumer and reader.
# Runs where PERFETTO_BIN names a folder with traced and perfetto (and trace_processor_shell, for what a reader reports);
# they are built elsewhere and are not part of this repository.  Without it only the judge of the traces is tested.
. "$(dirname "$0")/lib"
export PYTHONDONTWRITEBYTECODE=1
check stock-trace-lossless "$PYTHON" "$INTEGRATION/service_stats.py" tests/data/stock-50hz.pftrace
[ -n "${PERFETTO_BIN:-}" ] || exit 0
need_perf
export PERFETTO_PRODUCER_SOCK_NAME=$TMP/producer PERFETTO_CONSUMER_SOCK_NAME=$TMP/consumer
: >"$TMP/none.conf"

start_service() {
	rm -f "$TMP/producer"
	"$PERFETTO_BIN/traced" >>"$TMP/traced.log" 2>&1 &
	traced=$!
	started $traced
	# The unit's user is none of ours.
	[ -z "${UNIT_DAEMON:-}" ] || { wait_for test -S "$TMP/producer" && chmod 666 "$TMP/producer"; }
}
# registered : the service knows our data source.
registered() { "$PERFETTO_BIN/perfetto" --query 2>/dev/null | grep -q '^linux.perf .*traced_perf'; }
# consume NAME : runs the config on standard input into NAME.pftrace.
consume() { "$PERFETTO_BIN/perfetto" --txt -c - -o "$TMP/$1.pftrace" >"$TMP/$1.log" 2>&1; }
# config PID HZ [MORE] : callstacks of one process.
config() {
	cat <<EOF
duration_ms: 2500
data_source_stop_timeout_ms: 8000
buffers { size_kb: 65536 }
data_sources { config { name: "linux.perf" perf_event_config {
  timebase { frequency: $2 } callstack_sampling { kernel_frames: true scope { target_pid: $1 } } } } }
data_sources { config { name: "perfetto.metatrace" } }
${3:-}
EOF
}
# lossless NAME : the service's own statistics know of no loss, no violation, no refused packet.
lossless() { "$PYTHON" "$INTEGRATION/service_stats.py" "$TMP/$1.pftrace"; }
# reader NAME QUERY EXPECTED : what trace_processor answers.
reader() {
	local got
	got=$("$PERFETTO_BIN/trace_processor_shell" -Q "$2" "$TMP/$1.pftrace" 2>/dev/null | tail -n +2)
	[ "$got" = "$3" ] && return 0
	printf 'answered:\n%s\n' "$got"
	return 1
}
# read_well NAME : stacks with names, nothing lost; the same by trace_processor, where it is.
read_well() {
	check "$1-lossless" lossless "$1"
	check "$1-stacks" has "$1" '^recursion;.*main;recurse_even;recurse_odd;'
	check "$1-whole" share_at_least "$1" 95 '^recursion;_start;|^recursion;.*__libc_start'
	[ -x "$PERFETTO_BIN/trace_processor_shell" ] || return
	check "$1-reader-no-errors" reader "$1" \
		"select name, idx, value from stats where severity in ('error', 'data_loss') and value > 0" ""
	check "$1-reader-samples" reader "$1" \
		"select count(*) > 20 from perf_sample where callsite_id is not null" 1
	check "$1-reader-names" reader "$1" \
		"select count(*) > 0 from perf_sample s join thread using (utid) join process using (upid)
		 where callsite_id is not null and process.name like '%recursion%'" 1
	check "$1-reader-frames" reader "$1" \
		"select count(*) > 0 from stack_profile_frame where name = 'recurse_even'" 1
}

"$PROGRAMS/recursion" 300 &
target=$!
started $target
printf '%s\n' "direct = yes" "traced-users = *" "traced-kernel = yes" >"$TMP/none.conf"
# Before its service; by the unit in systemd-unit.sh.
${UNIT_DAEMON:-"$PERFWIND" daemon} --config "$TMP/none.conf" 2>"$TMP/daemon.err" &
daemon=$!
started $daemon
start_service
check registered wait_for registered

config $target 999 | consume plain
read_well plain
config $target 4000 'flush_period_ms: 500
incremental_state_config { clear_period_ms: 500 }' | consume fast
read_well fast
config $target 999 'write_into_file: true
file_write_period_ms: 500' | consume into-file
read_well into-file
config $target 999 'producers { producer_name: "perfetto.traced_perf" shm_size_kb: 64 page_size_kb: 16 }' | consume small
read_well small
# The other implementation of the service's buffer.
config $target 999 | sed 's/size_kb: 65536/& experimental_mode: TRACE_BUFFER_V2/' | consume second-buffer
read_well second-buffer

# Sessions side by side.
for i in 1 2 3; do config $target $((i * 300)) | consume side-$i & done
wait_for grep -q 'Wrote' "$TMP/side-1.log"
wait_for grep -q 'Wrote' "$TMP/side-2.log"
wait_for grep -q 'Wrote' "$TMP/side-3.log"
for i in 1 2 3; do read_well side-$i; done

# A service that is killed during a trace, and another one.
config $target 999 | consume killed &
wait_for grep -q 'Connected' "$TMP/killed.log"
kill -9 $traced
wait $traced 2>/dev/null # bash reports it otherwise
start_service
check registered-again wait_for registered
config $target 999 | consume again
read_well again

# A config that is refused ends well, and the log names the field.
config $target 999 | sed 's/timebase {/ring_buffer_pages: 7 &/' | consume refused
check refused-in-log grep -q 'ring_buffer_pages' "$TMP/daemon.err"
check nothing-refused bash -c "! grep 'the filter refuses' '$TMP/daemon.err'"
check refused-no-timeout bash -c "! grep -qi 'timeout' '$TMP/refused.log'"

kill $daemon
wait $daemon
check status [ $? = 0 ]
check traced-printed-nothing bash -c "! grep -iE 'abi|violation|malformed|timeout|error' '$TMP/traced.log'"

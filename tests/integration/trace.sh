#!/bin/bash
# trace.sh - `perfwind trace`: Perfetto trace configs run without a tracing service, and what `perfwind losses` prints of their traces.
. "$(dirname "$0")/lib"
DATA=$PWD/tests/data

# refuse NAME STATUS LINE ARGUMENTS... : fails with STATUS, and this line is what it prints (behind "perfwind: ").
refuse() {
	local name=$1 status=$2 line=$3 got
	shift 3
	timeout 20 "$PERFWIND" trace "$@" >"$TMP/out" 2>"$TMP/err"
	got=$?
	if [ $got = "$status" ] && grep -qxF -- "perfwind: $line" "$TMP/err" && ! [ -e refused.pftrace ]; then
		ok "$name"
	else
		cat "$TMP/err"
		not_ok "$name" "status $got, or not the line: $line"
	fi
}
# refuse_config NAME LINE TEXT
refuse_config() {
	printf '%s' "$3" >bad.cfg
	refuse "$1" 1 "$2" -c bad.cfg -o refused.pftrace
}
# trace NAME [OPTIONS] <CONFIG : into $TMP/NAME.pftrace, messages into NAME.err.
trace() {
	local name=$1
	shift
	"$PERFWIND" trace -c - -o "$TMP/$name.pftrace" "$@" >"$TMP/$name.out" 2>"$TMP/$name.err"
}
# stat_of NAME STATISTIC [INDEX] : its value in the whole table; nothing where the row does not exist.
stat_of() {
	"$PERFWIND" losses --all "$TMP/$1.pftrace" |
		awk -v n="$2" -v i="${3:-}" '$1 == n && (i == "" || $2 == i) { print $NF }'
}
positive() { [ "${1:-0}" -gt 0 ] || { echo "got '$1'"; return 1; }; }
# no_loss NAME : losses reports it, by its words and its status.
no_loss() { "$PERFWIND" losses "$TMP/$1.pftrace" >"$TMP/stats" && grep -qx 'no data was lost' "$TMP/stats" || { cat "$TMP/stats"; return 1; }; }

# A process of a neighbour may be gone, or on a busy machine not be looked into in time.
none_but_skipped() { no_loss "$1" || ! grep '^[a-z]' "$TMP/stats" | grep -qvE '^(name|perf_samples_skipped) '; }

cd "$TMP" || exit 1

# ---- what is refused, with the exact line (nothing is opened for these)
refuse no-config 2 'trace needs a config: -c FILE, or -c - for standard input'
refuse no-such-config 1 'none.cfg: No such file or directory' -c none.cfg
refuse folder-config 1 "$TMP: Is a directory" -c "$TMP"
refuse_config typo "bad.cfg:1:1: unknown field 'durration_ms' in TraceConfig; did you mean duration_ms?" 'durration_ms: 1'
refuse_config typo-deep "bad.cfg:3:3: unknown field 'freqency' in Timebase; did you mean frequency?" \
	'data_sources { config { perf_event_config {
  timebase {
  freqency: 5 } } } }'
refuse_config typo-foreign "bad.cfg:1:25: unknown field 'ftrace_confg' in DataSourceConfig; did you mean ftrace_config?" \
	'data_sources { config { ftrace_confg { } } }'
refuse_config number "bad.cfg:1:14: 4294967296 does not fit duration_ms: 4294967295 is the most" 'duration_ms: 4294967296'
refuse_config enum "bad.cfg:1:24: unknown value 'RING' of fill_policy; did you mean RING_BUFFER?" 'buffers { fill_policy: RING }'
refuse_config brace "bad.cfg:2:1: found the end of the file, but the '{' of line 1 is still open" 'buffers {
'
refuse_config no-buffers 'buffers: there are 0, and 1 to 128 are needed' 'data_sources { config { name: "linux.perf" } }'
refuse_config no-target 'data_sources[0].config.target_buffer: 1: the config has 1 (counted from 0)' \
	'buffers { size_kb: 4 } data_sources { config { name: "linux.perf" target_buffer: 1 } }'
refuse_config deferred 'deferred_start: it needs a unique_session_name, by which it is started' \
	'buffers { size_kb: 4 } data_sources { config { name: "linux.perf" } } deferred_start: true'
refuse_config triggers 'trigger_config.trigger_timeout_ms: the wait for a trigger needs an end' \
	'buffers { size_kb: 4 } trigger_config { trigger_mode: STOP_TRACING }'
refuse_config foreign-only 'data_sources: none is a linux.perf for this machine, so there is nothing to record' \
	'buffers { size_kb: 4 } data_sources { config { name: "linux.ftrace" } }'
refuse_config ring-pages 'data_sources[0].config.perf_event_config.ring_buffer_pages: 7 is not a power of two' \
	'buffers { size_kb: 4 } data_sources { config { name: "linux.perf" perf_event_config { ring_buffer_pages: 7 } } }'
refuse_config polled-stacks 'data_sources[0].config.perf_event_config.timebase.poll_period_ms: polled counts have no stacks: remove callstack_sampling' \
	'buffers { size_kb: 4 } data_sources { config { name: "linux.perf" perf_event_config { timebase { poll_period_ms: 9 } callstack_sampling { } } } }'
refuse_config installed-by 'data_sources[0].config.perf_event_config.target_installed_by: installers of programs are known on Android only' \
	'buffers { size_kb: 4 } data_sources { config { name: "linux.perf" perf_event_config { target_installed_by: "x" } } }'
printf '\030' >bad.bin
refuse cut-binary 1 'bad.bin: byte 0, in TraceConfig: duration_ms is cut short' -c bad.bin -o refused.pftrace
printf '\030\001' >bad.bin
refuse binary-as-text 1 "bad.bin:1:1: the name of a field is wanted here, not '?'" -c bad.bin --txt -o refused.pftrace
head -c 5000000 /dev/zero | tr '\0' ' ' >large.cfg
refuse large 1 'large.cfg: File too large' -c large.cfg -o refused.pftrace

# ---- the stock traces
check losses-clean "$PERFWIND" losses "$DATA/stock-50hz.pftrace"
"$PERFWIND" losses "$DATA/stock-1000hz-lossy.pftrace" >lossy
check losses-loss-status [ $? = 1 ]
check losses-loss-row grep -qE '^perf_cpu_lost_records +0 data_loss +2506$' lossy
check losses-loss-hint grep -q 'hint: record -m with more pages, .* a larger perf_event_config.ring_buffer_pages' lossy
check losses-json "$PYTHON" -c '
import json, subprocess, sys
rows = json.loads(subprocess.run([sys.argv[1], "losses", "--json", sys.argv[2]], stdout=subprocess.PIPE).stdout)
assert [(r["name"], r["index"], r["severity"], r["value"]) for r in rows] == [
    ("perf_cpu_lost_records", 0, "data_loss", 2506), ("perf_cpu_lost_records", 1, "data_loss", 83)], rows
assert all(r["meaning"] and r["hint"] for r in rows)' "$PERFWIND" "$DATA/stock-1000hz-lossy.pftrace"
head -c 20000 "$DATA/stock-50hz.pftrace" >cut.pftrace
"$PERFWIND" losses cut.pftrace >cut.out
check losses-cut [ $? = 1 ]
check losses-cut-reported grep -q 'the file is cut behind byte' cut.out
"$PERFWIND" losses lossy >/dev/null 2>&1
check losses-no-trace [ $? = 2 ]

need_perf
is_root || { skip trace-sessions "CPU-wide events need root"; exit 0; }

# ---- a whole run, as text and in binary form
"$PROGRAMS/recursion" 60 >/dev/null 2>&1 &
work=$!
started $work
cat >whole.cfg <<CFG
# as people write them
buffers: { size_kb: 8192 fill_policy: RING_BUFFER }
data_sources: {
  config {
    name: "linux.perf"
    perf_event_config {
      timebase { counter: SW_CPU_CLOCK, frequency: 200; timestamp_clock: PERF_CLOCK_MONOTONIC }
      callstack_sampling { scope { target_pid: [$work] } kernel_frames: true }
    }
  }
}
data_sources: { config { name: "linux.ftrace" ftrace_config { ftrace_events: "sched/sched_switch" atrace_apps: "*" } } }
duration_ms: 1500
CFG
trace whole <whole.cfg
check whole-status [ $? = 0 ]
check whole-left-out grep -q 'data source linux.ftrace is left out: only linux.perf is here' whole.err
check whole-stacks has whole '^recursion;.*main.*;'
check whole-scope hasnt whole '^(bash|perfwind);.*;'
check whole-no-loss no_loss whole
check whole-buffer [ "$(stat_of whole traced_buf_buffer_size 0)" = 8388608 ]
# two data sources that count different things: a report and an export are of one data source, and name the other
trace two <<CFG
buffers { size_kb: 8192 }
data_sources { config { name: "linux.perf" perf_event_config { timebase { counter: SW_PAGE_FAULTS period: 1 } callstack_sampling { } } } }
data_sources { config { name: "linux.perf" perf_event_config { timebase { frequency: 200 }
  callstack_sampling { scope { target_pid: $work } } } } }
duration_ms: 1000
CFG
"$PERFWIND" report -n 1 two.pftrace >two.time 2>&1
"$PERFWIND" report -n 1 -e page-faults two.pftrace >two.faults 2>&1
check two-default-is-time grep -qE '^Event +cpu-clock; not shown \(--event NAME\): page-faults \([0-9,]+ samples\)$' two.time
check two-other-by-name grep -qE '^Event +page-faults; not shown \(--event NAME\): cpu-clock \([0-9,]+ samples\)$' two.faults
check two-work has two '^recursion;.*main.*;'
"$PERFWIND" export --to folded -o - two.pftrace 2>two.err >two.folded
check two-only-one hasnt two '^bash;.*main.*;'
check two-export-reports grep -q '^perfwind: export: of cpu-clock; [0-9]* samples of page-faults are left out (--event page-faults takes them)$' two.err
"$PERFWIND" export --to folded -e instructions -o - two.pftrace >/dev/null 2>two.err
# in the order of their first packets
check two-no-such-event grep -qxE 'perfwind: export: the trace has no event instructions; it has: (page-faults cpu-clock|cpu-clock page-faults)' two.err
# what the file contains as the config is a config: the same again, in binary form
"$PYTHON" - whole.pftrace whole.bin <<'PY'
import sys
data = open(sys.argv[1], "rb").read()
def varint(at):
    value = shift = 0
    while True:
        byte = data[at]; at += 1
        value |= (byte & 127) << shift; shift += 7
        if byte < 128: return value, at
def fields(at, end):
    while at < end:
        tag, at = varint(at)
        if tag & 7 == 0: _, at = varint(at)
        elif tag & 7 == 1: at += 8
        elif tag & 7 == 5: at += 4
        else:
            size, at = varint(at)
            yield tag >> 3, at, at + size
            at += size
for _, at, end in fields(0, len(data)):
    for number, start, stop in fields(at, end):
        if number == 33:
            open(sys.argv[2], "wb").write(data[start:stop]); sys.exit(0)
sys.exit("no config in the trace")
PY
check whole-config-kept test -s whole.bin
"$PERFWIND" trace -c whole.bin -o "$TMP/binary.pftrace" 2>binary.err
check binary-status [ $? = 0 ]
check binary-stacks has binary '^recursion;.*main.*;'
# the file that was there is kept
echo old >kept.pftrace
trace kept <<<'buffers { size_kb: 64 } data_sources { config { name: "linux.perf" } } duration_ms: 10'
check kept-old [ "$(cat kept.pftrace.old)" = old ]

# ---- the system trace, with a shorter duration and write period
sed 's/duration_ms: 10000/duration_ms: 1500/; s/file_write_period_ms: 2500/file_write_period_ms: 300/' "$DATA/system-trace.pbtxt" >system.cfg
trace system --txt <system.cfg
check system-status [ $? = 0 ]
check system-stacks has system '^recursion;.*main.*;'
check system-no-loss none_but_skipped system
check system-flushed positive "$(stat_of system traced_flushes_succeeded)"

# ---- buffers: a ring is overwritten and can still be read; one that discards takes its first packets
POLLED='data_sources { config { name: "linux.perf" perf_event_config { timebase { poll_period_ms: 10 counter: SW_PAGE_FAULTS } followers { counter: SW_CONTEXT_SWITCHES } } } }'
trace ring <<<"buffers { size_kb: 4 } $POLLED $POLLED duration_ms: 1500"
check ring-status [ $? = 0 ]
check ring-overwritten positive "$(stat_of ring traced_buf_chunks_overwritten 0)"
check ring-reported grep -q 'packets overwritten in a RING_BUFFER' ring.err
check ring-stats sh -c "'$PERFWIND' losses ring.pftrace | grep -qx 'overwritten, as configured (RING_BUFFER): the oldest [0-9]* [a-zA-Z]*'"
check ring-stats-no-loss no_loss ring
check ring-sequences [ "$(stat_of ring traced_buf_incremental_sequences_dropped 0)" = 0 ]
check ring-readable "$PERFWIND" report ring.pftrace
trace discard <<<"buffers { size_kb: 4 fill_policy: DISCARD name: 'b' } $POLLED $POLLED duration_ms: 1500"
check discard-status [ $? = 0 ]
check discard-counted positive "$(stat_of discard traced_buf_chunks_discarded 0)"
check discard-none-overwritten [ "$(stat_of discard traced_buf_chunks_overwritten 0)" = 0 ]
# a buffer smaller than a packet of stacks: what does not fit is lost, and reported
trace tiny <<CFG
buffers { size_kb: 1 }
data_sources { config { name: "linux.perf" perf_event_config { timebase { frequency: 100 } callstack_sampling { kernel_frames: true } } } }
duration_ms: 1000
CFG
check tiny-status [ $? = 0 ]
check tiny-readable "$PERFWIND" report tiny.pftrace
check tiny-reported grep -qE 'overwritten|did not take' tiny.err

# ---- into a file: whole at any moment; its size is kept; a full disk ends it
"$PERFWIND" trace -c - -o "$TMP/streamed.pftrace" 2>streamed.err <<CFG &
buffers { size_kb: 4096 }
data_sources { config { name: "linux.perf" perf_event_config { timebase { frequency: 200 } callstack_sampling { scope { target_pid: $work } } } } }
write_into_file: true
file_write_period_ms: 200
incremental_state_config { clear_period_ms: 300 }
CFG
tracer=$!
started $tracer
# a file without its end mark; of one that is written only at the end no bound is known
cut_off() {
	"$PERFWIND" losses "$1.pftrace" >stats
	[ $? = 1 ] && grep -qE "^ +ended without its end mark: $2\$" stats || { cat stats; return 1; }
}
seen() { folded streamed | grep -q '^recursion;'; }
check streamed-while-it-runs wait_for seen
cp streamed.pftrace running.pftrace
check streamed-has-no-end-yet cut_off running 'up to about 0\.3 s may be missing .*'
kill -INT $tracer
wait $tracer
check streamed-interrupted [ $? = 0 ]
check streamed-no-loss no_loss streamed
trace limited <<<"buffers { size_kb: 256 } $POLLED $POLLED write_into_file: true file_write_period_ms: 100 max_file_size_bytes: 9000"
check limited-status [ $? = 0 ]
check limited-size [ "$(stat -c %s limited.pftrace)" -le 9000 ]
check limited-reported grep -q 'full: max_file_size_bytes' limited.err
# It ended as the config asks: complete, and reported as full.
check limited-no-loss no_loss limited
check limited-full grep -qx 'full, as the config asks: the file ended at max_file_size_bytes' stats
check limited-full-reported sh -c "'$PERFWIND' report limited.pftrace | grep -qE '^End +full: max_file_size_bytes was reached$'"
check limited-stats positive "$(stat_of limited traced_buf_chunks_written 0)"
trace squeezed <<<"buffers { size_kb: 256 } $POLLED $POLLED write_into_file: true file_write_period_ms: 100 max_file_size_bytes: 9000 compression { deflate { } }"
check squeezed-size [ "$(stat -c %s squeezed.pftrace)" -le 9000 ]
check squeezed-readable "$PERFWIND" report squeezed.pftrace
check squeezed-no-loss no_loss squeezed
check squeezed-full grep -q '^full, as the config asks' stats
mkdir small
if unshare -m true 2>/dev/null; then
	unshare -m sh -c 'mount -t tmpfs -o size=64k none small && "$1" trace -c - -o small/full.pftrace 2>full.err; echo $? >full.status
		cp small/full.pftrace .' sh "$PERFWIND" <<<"buffers { size_kb: 1024 } $POLLED $POLLED $POLLED $POLLED write_into_file: true file_write_period_ms: 100"
	check full-disk-status [ "$(cat full.status)" = 1 ]
	check full-disk-reported grep -qx 'perfwind: writing the trace: No space left on device' full.err
	check full-disk-readable "$PERFWIND" report full.pftrace
	check full-disk-counts grep -qE "^[0-9,]+ samples in .*, [0-9,]+ in the file\$" full.err
	"$PERFWIND" losses full.pftrace >full.stats
	check full-disk-stats [ $? = 1 ]
	check full-disk-cut-off grep -qE 'ended without its end mark: up to about 0.2 s may be missing' full.stats
else
	skip full-disk "needs a mount namespace"
fi

# what is written at the end alone
head -c $(($(stat -c %s whole.pftrace) - 5)) whole.pftrace >short.pftrace
check at-the-end-cut-off cut_off short 'how much is missing is not known'
# ---- every field at its extremes: it runs, or the field is named
extreme() {
	cat <<CFG
buffers { size_kb: 64 fill_policy: UNSPECIFIED name: "$(printf 'n%.0s' {1..3000})" }
data_sources { config { name: "linux.perf" trace_duration_ms: 4294967295 stop_timeout_ms: 4294967295 tracing_session_id: 18446744073709551615
  target_buffer_name: "" buffer_exhausted_policy: BUFFER_EXHAUSTED_STALL_THEN_ABORT
  perf_event_config {
    timebase { frequency: $1 name: "$(printf 'n%.0s' {1..127})" timestamp_clock: PERF_CLOCK_REALTIME modifiers: [1, 2, 3, 0] }
    followers { } followers { counter: SW_DUMMY } followers { } followers { } followers { } followers { } followers { }
    callstack_sampling { kernel_frames: true user_frames: $2 scope {
      target_pid: [-2147483648, 2147483647, $work] target_cmdline: "$(printf '*a%.0s' {1..200})b" exclude_pid: [-1, 0]
      exclude_cmdline: "[" additional_cmdline_count: 4294967295 process_shard_count: $3 } }
    ring_buffer_pages: 2147483648 ring_buffer_read_period_ms: 4294967295 remote_descriptor_timeout_ms: 4294967295
    unwind_state_clear_period_ms: 4294967295 max_daemon_memory_kb: 4294967295 max_enqueued_footprint_kb: 18446744073709551615
    target_cpu: [0, 4294967295] ignore_open_failure: true sampling_frequency: 4294967295
  } } }
duration_ms: 300 flush_period_ms: 1 flush_timeout_ms: 4294967295 data_source_stop_timeout_ms: 4294967295
file_write_period_ms: 4294967295 max_file_size_bytes: 18446744073709551615 write_into_file: true
incremental_state_config { clear_period_ms: 1 } builtin_data_sources { snapshot_interval_ms: 1 } write_flush_mode: WRITE_FLUSH_DISABLED
CFG
}
for mode in 0 1 2 3 4; do
	extreme 100 $mode 4294967295 | trace extreme
	check extreme-$mode [ $? = 0 ]
	check extreme-$mode-readable "$PERFWIND" report extreme.pftrace
done
extreme 18446744073709551615 2 1 | trace extreme
check extreme-rate [ $? = 1 ]
check extreme-rate-reported grep -q '^perfwind: data_sources\[0\]: ' extreme.err

# ---- in the background, under a name
trace_pid=$("$PERFWIND" trace --background -c - -o "$TMP/named.pftrace" 2>named.err <<CFG
buffers { size_kb: 4096 }
data_sources { config { name: "linux.perf" perf_event_config { timebase { frequency: 200 } callstack_sampling { scope { target_pid: $work } } } } }
unique_session_name: "perfwind test $$"
CFG
)
check background-status [ $? = 0 ]
started "$trace_pid"
check background-runs kill -0 "$trace_pid"
before=$(cpu_ms $work)
wait_for used $work $((before + 300))
refuse name-twice 1 "unique_session_name: a session called 'perfwind test $$' is running" \
	-c - -o refused.pftrace <<<"buffers { size_kb: 64 } $POLLED unique_session_name: 'perfwind test $$'"
check stop-by-name "$PERFWIND" trace --stop "perfwind test $$"
# its parent is init now, which may let it lie for a while
ended() { gone "$1" || grep -q '^State:.*Z' "/proc/$1/status"; }
check stopped-has-ended ended "$trace_pid"
check stopped-is-whole has named '^recursion;.*main.*;'
check stopped-no-loss none_but_skipped named
refuse stop-nobody 1 "no trace session of yours is called 'perfwind test $$'" --stop "perfwind test $$"
refuse background-config 1 "standard input:1:1: unknown field 'x' in TraceConfig" --background -c - <<<'x: 1'
refuse background-fails 1 'data_sources[0].config.perf_event_config.ring_buffer_pages: 7 is not a power of two' --background -c - -o refused.pftrace \
	<<<'buffers { size_kb: 4 } data_sources { config { name: "linux.perf" perf_event_config { ring_buffer_pages: 7 } } }'

# ---- ends: interrupted at once, twice; the processes it profiles go on
"$PERFWIND" trace -c whole.cfg -o "$TMP/early.pftrace" 2>early.err &
tracer=$!
started $tracer
runs early
kill -TERM $tracer
wait $tracer
check early-status [ $? = 0 ]
check early-readable "$PERFWIND" report early.pftrace
check others-go-on kill -0 $work

#!/bin/bash
# thread.sh - ThreadSanitizer over what has threads: record -a, two recordings of a daemon at once, top, a flight recorder,
# import, and some unit programs.  `make check-thread`
# Not looked at: helper processes, as each has one thread; programs that perfwind starts.
. "$(dirname "$0")/integration/lib"
need_perf
nm -D "$PERFWIND" | grep -q __tsan_init || { echo "$PERFWIND is built without ThreadSanitizer: make check-thread"; exit 77; }
scope=$([ "$(id -u)" = 0 ] && echo -a)

# no_report NAME STATUS : ended by itself, and no thread's access was reported.
no_report() {
	grep -A 60 'ThreadSanitizer' "$TMP/$1.err" && return 1
	survived "$1" "$2"
}
# runs_clean NAME COMMAND... : without a report
runs_clean() {
	local name=$1
	shift
	"$@" >"$TMP/$name.out" 2>"$TMP/$name.err"
	no_report "$name" $?
}
# recorded NAME : the trace can be read, and has samples.
recorded() { [ -n "$(folded "$1")" ] || { cat "$TMP/$1.err"; return 1; }; }
# record_clean NAME OPTIONS...
record_clean() {
	local name=$1
	shift
	check "$name" runs_clean "$name" "$PERFWIND" record -o "$TMP/$name.pftrace" "$@"
	check "$name-samples" recorded "$name"
}

# Unit programs of which a report alone is a failure.
reports_nothing() {
	CMOCKA_MESSAGE_OUTPUT=TAP "$1" >"$TMP/unit.out" 2>&1
	[ $? -lt 124 ] && ! grep -A 60 -E 'ThreadSanitizer|exception' "$TMP/unit.out" && grep -qE '^(# )?(not )?ok ' "$TMP/unit.out"
}
for program in ${THREAD_REPORTS:-}; do
	check "$(basename "$program")-reports" reports_nothing "$program"
done

# Processes that come and go, and names to look up: work for each thread.
sh -c 'while :; do /bin/true; done' &
started $!
"$PROGRAMS/recursion" 600 >/dev/null &
target=$!
started $target
"$PROGRAMS/crowd" 600 >/dev/null &
started $!

record_clean machine --no-daemon ${scope:--p $target} -F 499 -d 15
record_clean marks --no-daemon --marks -F 499 -- "$PROGRAMS/marking"
if [ -n "$scope" ]; then
	record_clean off-cpu --no-daemon --off-cpu -a -d 5

	"$PERFWIND" daemon -s "@perfwind-thread-$$" --control-socket "$TMP/control" --hook-socket "@perfwind-thread-hook-$$" \
		>"$TMP/daemon.out" 2>"$TMP/daemon.err" &
	daemon=$!
	started $daemon
	wait_for test -S "$TMP/control"
	ask() { "$PERFWIND" record --daemon --control-socket "$TMP/control" -d 10 "$@"; }
	ask -a -o "$TMP/first.pftrace" >"$TMP/first.out" 2>"$TMP/first.err" &
	first=$!
	started $first
	wait_for test -s "$TMP/first.pftrace"
	second() { runs_clean second ask -F 999 -p $target -o "$TMP/second.pftrace"; }
	slow() { grep -q 'does not answer' "$TMP/second.err"; } # in 20 s, on a busy machine
	second_or_again() { for _ in 1 2 3; do second || return 1; slow || return 0; done; false; }
	check second second_or_again
	check second-samples recorded second
	wait $first
	check first no_report first $?
	check first-samples recorded first
	kill $daemon
	wait $daemon
	check daemon no_report daemon $?
fi

"$PERFWIND" top ${scope:--p $target} --no-daemon -d 1 >"$TMP/top.out" 2>"$TMP/top.err" </dev/null &
top=$!
started $top
wait_for grep -q . "$TMP/top.out"
sleep 5
kill -INT $top
wait $top
check top no_report top $?

"$PERFWIND" record --no-daemon --flight-recorder 8M ${scope:--p $target} -o "$TMP/flight.pftrace" >"$TMP/flight.out" 2>"$TMP/flight.err" &
flight=$!
started $flight
has_events() { ls -l /proc/$flight/fd | grep -q 'anon_inode:\[perf_event\]'; }
wait_for has_events # it can be asked
kill -USR2 $flight
check flight-snapshot wait_for test -s "$TMP/flight-1.pftrace"
kill -INT $flight
wait $flight
check flight no_report flight $?

for file in tests/data/x86-64/*.data; do
	name=import-$(basename "$file" .data)
	check "$name" runs_clean "$name" "$PERFWIND" import "$file" -o "$TMP/$name.pftrace"
done
if command -v perf >/dev/null; then
	perf record -q -F 499 --call-graph dwarf,16384 $scope -o "$TMP/perf.data" -- sleep 3 >/dev/null 2>&1
	check import runs_clean import "$PERFWIND" import "$TMP/perf.data" -o "$TMP/import.pftrace"
	check import-samples recorded import
else
	skip import "perf is not installed"
fi

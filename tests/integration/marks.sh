#!/bin/bash
# marks.sh - marks of programs without tracefs, as an ordinary user where this is root: C, C++, Python, functions; a program that
# runs already; a program that writes anything into its ring.
. "$(dirname "$0")/lib"

mkdir "$TMP/user"
ROOT_PROGRAMS=$(realpath "$PROGRAMS")
USER_RUNS=()
if [ "$(id -u)" = 0 ]; then
	chmod 777 "$TMP/user" && chmod 711 "$TMP"
	cp "$PERFWIND" "$O/libperfwind-marks.so" "$PROGRAMS"/{marking,marks-cxx,marks-functions} "$TMP/user/"
	PERFWIND=$TMP/user/perfwind PROGRAMS=$TMP/user O=$TMP/user
	USER_RUNS=(setpriv --reuid 65534 --regid 65534 --clear-groups env HOME="$TMP/user")
fi
as_user() { "${USER_RUNS[@]}" "$@"; }
cd "$TMP/user" || exit 1
export PERFWIND
# record NAME COMMAND... : with marks, into NAME.pftrace; its events in NAME.events.
record() {
	local name=$1
	shift
	as_user "$PERFWIND" record --no-daemon --marks -o "$name.pftrace" "$@" >"$name.out" 2>"$name.err" || { cat "$name.err"; return 1; }
	"$PYTHON" "$INTEGRATION/marks_events.py" "$name.pftrace" >"$name.events"
}
# has NAME LINE... : exactly these lines are among the events.
has() {
	local name=$1 line
	shift
	for line; do grep -qxF -e "$line" "$name.events" || { echo "no '$line' in:"; head -n 40 "$name.events"; return 1; }; done
}
whole() { has "$1" "open 0" "alone 0"; }
count() { [ "$(grep -cxF -e "$2" "$1.events")" = "$3" ] || { grep -cxF -e "$2" "$1.events"; return 1; }; }

check c-program record c -- "$PROGRAMS/marking"
check c-slices has c "outer mark" "outer/by write mark" "outer/inner mark" "request mark"
check c-text has c "!outer/by write/by writev" "!outer/by write/by fdopen" "!outer/by fopen" "!outer/free text" "!outer/moment"
check c-counters has c "=by dprintf 42" "=queue -3"
check c-whole whole c
check other-file-is-left-alone test "$(grep -c 'not a mark' c.events)" = 0
check atrace-enabled-tags grep -qx 'tags 3fffffffffffffff' c.out
categories() { as_user "$PERFWIND" record --no-daemon --marks --mark-categories 0x1 -o k.pftrace -- "$PROGRAMS/marking" >k.out 2>&1 &&
	"$PYTHON" "$INTEGRATION/marks_events.py" k.pftrace >k.events && has k "outer mark" "open 0" && ! grep -q inner k.events && grep -qx 'tags 1' k.out; }
check categories categories
not_recorded() { LD_PRELOAD=$O/libperfwind-marks.so "$PROGRAMS/marking" >/dev/null 2>&1; }
if [ -e /sys/kernel/tracing/trace_marker ]; then skip not-recorded "tracefs is mounted"; else check not-recorded eval '! not_recorded'; fi

answered() { PERFWIND_MARKS_ANSWER=1 LD_PRELOAD=$O/libperfwind-marks.so "$PROGRAMS/marking" >a.out && grep -qx 'tags 0' a.out; }
check answered-beforehand answered

check cxx-program record cxx -- "$PROGRAMS/marks-cxx"
check cxx-slices has cxx "by a stream mark" "by a stream/left by an exception mark" "!by a stream/caught" "open 0" "alone 0"

cat >"$TMP/user/marks.py" <<-'END'
	import os
	fd = os.open("/sys/kernel/tracing/trace_marker", os.O_WRONLY)
	os.write(fd, b"B|%d|python" % os.getpid())
	sum(range(1000000))
	os.write(fd, b"E|%d" % os.getpid())
	with open("/sys/kernel/tracing/trace_marker", "w") as f:
	    f.write("C|%d|python counter|7\n" % os.getpid())
END
check python-program record py -- "$PYTHON" marks.py
check python-slices has py "python mark" "=python counter 7" "open 0" "alone 0"

check forks record fork -- "$PROGRAMS/marking" fork
check fork-slices has fork "before fork mark" "in child mark" "after exec mark" "open 0" "alone 0"
check threads record threads -- "$PROGRAMS/marking" threads
check each-thread count threads "in thread mark" 400
check signals record signal -- "$PROGRAMS/marking" signal
each_signal() { [ "handled $(grep -cE '(^|/)handler mark$' signal.events)" = "$(cat signal.out)" ]; }
check each-signal each_signal

check functions record f -- "$PROGRAMS/marks-functions"
check functions-left-by-an-exception has f "main/catcher/throw1 function-left" \
	"main/catcher/throw1/throw2/throw3/throw4/throw5 function-left" "main/catcher/throw1/throw2/throw3/throw4/throw5/spin function"
check functions-left-by-longjmp has f "main/jumper/jump1/jump2 function-left" "main/jumper/spin function"
check function-on-signal-stack has f "main/signaller/on_signal/spin function" "main/signaller/spin function"
check functions-of-coroutines has f "main/swapper/coroutine/spin function" "main/swapper function"
check functions-of-threads grep -qE '(^|/)in_thread function' f.events
check functions-of-children has f "in_child function"
check functions-around-exec has f "main function-ended" "main/after_exec function"
check long-names grep -qE '/a_function_with_a_name.*_anywhere/spin function$' f.events
check functions-whole whole f
short() { as_user "$PERFWIND" record --no-daemon --marks --min-duration 5ms -o s.pftrace -- "$PROGRAMS/marks-functions" >s.err 2>&1 &&
	"$PYTHON" "$INTEGRATION/marks_events.py" s.pftrace >s.events && has s "main function-ended" "main/spin function" && ! grep -q throw1 s.events; }
check min-duration short

# Not by as_user: these commands become the program, a function is a process of its own.
"${USER_RUNS[@]}" env LD_PRELOAD="$O/libperfwind-marks.so" "$PROGRAMS/marking" loop &
started $!
wait_for grep -q loop "/proc/$!/cmdline"
wait_for grep -q perfwind-marks "/proc/$!/maps"
check attach record attach -p $! -d 0.5
check attach-slices has attach "cat0 mark" "cat0/cat1 mark"
check attach-again record again -p $! -d 0.5 --mark-categories 2
again() { has again "cat1 mark" && ! grep -q cat0 again.events; }
check switched again
# A program that loads the library while all processes are recorded, of another user than root.
later() {
	"$PERFWIND" record --no-daemon -a --marks -F 9 -o later.pftrace -- \
		"${USER_RUNS[@]}" env LD_PRELOAD="$O/libperfwind-marks.so" timeout 2 "$PROGRAMS/marking" loop >later.out 2>&1
	"$PYTHON" "$INTEGRATION/marks_events.py" later.pftrace >later.events && has later "cat0 mark" "cat0/cat1 mark" || { cat later.out; return 1; }
}
if [ "$(id -u)" = 0 ]; then check loaded-later later; else skip loaded-later "recording all processes needs root"; fi
sleep 60 &
started $!
not_loaded() { "$PERFWIND" record --no-daemon --marks -p "$!" -d 0.2 -o n.pftrace 2>&1 | grep -q "process $! has not loaded libperfwind-marks.so"; }
check not-loaded not_loaded
wrong() { "$PERFWIND" record --marks "$@" -- true 2>&1 | grep -q -e "$1"; }
check wrong-categories wrong --mark-categories x
check wrong-duration wrong --min-duration 10

check flood record flood -- "$PROGRAMS/marking" flood
flood() {
	local lost
	lost=$(sed -n 's/.* \([0-9]*\) marks are lost.*/\1/p' flood.err)
	[ $((${lost:-0} + $(grep -cxF '!flood' flood.events))) = 1200000 ] || { cat flood.err; return 1; }
}
check each-loss-is-counted flood
cat >"$TMP/user/both.sh" <<-END
	"$PROGRAMS/marking" hostile &
	for i in 1 2 3 4 5; do "$PROGRAMS/marking"; done
	wait
END
check hostile record hostile -- sh both.sh
check hostile-forged grep -q '200 marks name a thread of another process' hostile.err
check hostile-others count hostile "outer/inner mark" 5
check hostile-whole whole hostile

# The real trace_marker, of a program without the library: in a mount namespace of its own.
cat >"$TMP/user/tracefs.sh" <<-'END'
	mount -t tracefs nodev /sys/kernel/tracing || exit 77
	[ -e /sys/kernel/tracing/options/copy_trace_marker ] || exit 77
	sh -c 'while :; do echo "B|$$|from shell"; echo "B|1|forged"; i=0; while [ $i -lt 5000 ]; do i=$((i+1)); done; echo "E|$$"; echo "E|$$"
		echo "C|$$|turns|$i"; done >/sys/kernel/tracing/trace_marker' &
	shell=$!
	mkdir /sys/kernel/tracing/instances/perfwind-2147483647 "/sys/kernel/tracing/instances/perfwind-$shell"
	"$PERFWIND" record --no-daemon --marks -p $shell -d 0.5 -o real.pftrace >real.err 2>&1
	echo "recorded $?"
	[ -e /sys/kernel/tracing/instances/perfwind-2147483647 ] || echo "stale removed"
	[ ! -e "/sys/kernel/tracing/instances/perfwind-$shell" ] || echo "other kept"
	rmdir "/sys/kernel/tracing/instances/perfwind-$shell"
	"$PERFWIND" record --no-daemon --marks -p $shell -o killed.pftrace >/dev/null 2>&1 &
	recorder=$!
	until [ -e "/sys/kernel/tracing/instances/perfwind-$recorder" ] || ! kill -0 $recorder; do sleep 0.02; done
	kill -9 $recorder $shell
	for i in $(seq 500); do [ -e "/sys/kernel/tracing/instances/perfwind-$recorder" ] || break; sleep 0.02; done
	[ -e "/sys/kernel/tracing/instances/perfwind-$recorder" ] || echo "removed"
END
is_root && real=$(unshare -m sh "$TMP/user/tracefs.sh" 2>&1)
status=$?
if ! is_root; then
	skip trace-marker "needs root and a mount namespace"
elif [ $status = 77 ]; then
	skip trace-marker "tracefs cannot be mounted here, or has no copy_trace_marker"
else
	check trace-marker grep -qx "recorded 0" <<<"$real"
	"$PYTHON" "$INTEGRATION/marks_events.py" real.pftrace >real.events
	check trace-marker-slices has real "from shell/forged mark" "=turns 5000" "open 0" "alone 0"
	check trace-marker-forged grep -q 'marks name another process' real.err
	check instance-is-removed grep -qx "removed" <<<"$real"
	check stale-instance-is-removed grep -qx "stale removed" <<<"$real"
	check instance-of-another-is-kept grep -qx "other kept" <<<"$real"
	during() { "$PERFWIND" report --during forged -n 3 real.pftrace >during.out && grep -q '^Only  *during forged' during.out &&
		"$PERFWIND" report --by mark --json real.pftrace | "$PYTHON" -c 'import json, sys; assert {r["mark"] for r in json.load(sys.stdin)["rows"]} == {"from shell", "forged"}'; }
	check report-during during
	check systrace eval '"$PERFWIND" export --to systrace -o - real.pftrace | grep -qE "^ *[^ ]*-[0-9]+ +\( *[0-9]+\) \[[0-9]{3}\] \.\.\.1 +[0-9]+\.[0-9]{6}: tracing_mark_write: B\|[0-9]+\|from shell$"'
fi

# Static probes need root and uprobes.
usdt() { local name=$1; shift; "$PERFWIND" record --no-daemon -e "usdt:$name" -o usdt.pftrace -- "$ROOT_PROGRAMS/usdt" 200 >usdt.out 2>usdt.err || { cat usdt.err; return 1; }; "$PYTHON" "$INTEGRATION/marks_events.py" usdt.pftrace >usdt.events; }
listed() { "$PERFWIND" list --names "usdt:$ROOT_PROGRAMS/usdt" >usdt.list && grep -qx "usdt:$ROOT_PROGRAMS/usdt:test:watched" usdt.list && [ "$(wc -l <usdt.list)" = 2 ]; }
check usdt-list listed
if [ "$(id -u)" != 0 ] || [ ! -e /sys/bus/event_source/devices/uprobe ]; then
	skip usdt "it needs root and CONFIG_UPROBE_EVENTS"
else
	check usdt usdt test:tick
	ticks() { [ "$(grep -cx '!test:tick' usdt.events)" = "$(cut -d' ' -f1 usdt.out)" ] && grep -qx '[0-9]* 0' usdt.out; }
	check usdt-marks ticks
	check usdt-semaphore usdt test:watched
	watched() { [ "$(grep -cx '!test:watched' usdt.events)" -gt 0 ] && ! grep -qx '[0-9]* 0' usdt.out; }
	check usdt-watched watched
	check usdt-unknown eval '"$PERFWIND" record --no-daemon -e "usdt:$ROOT_PROGRAMS/usdt:test:wached" -o n.pftrace -- true 2>&1 | grep -q "has no probe test:wached; did you mean watched?"'
fi

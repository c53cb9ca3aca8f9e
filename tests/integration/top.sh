#!/bin/bash
# top.sh - `perfwind top`: names known from the source on top of each table, every way it ends, memory that stays.
. "$(dirname "$0")/lib"
need_perf

# top NAME OPTIONS... : what it prints into NAME.out, messages into NAME.err; its status.
top() {
	local name=$1
	shift
	timeout -k 5 60 "$PERFWIND" top "$@" >"$TMP/$name.out" 2>"$TMP/$name.err"
}
# first NAME REGEX : the first row of every table with samples matches, and there is a table with samples.
first() {
	awk -v want="$2" '/^[0-9,]+ samples? in / { n = 0; next }
		/^ *[0-9.]+ / && n++ == 0 { tables++; if ($0 !~ want) { print; bad = 1 } }
		END { if (!tables) print "no table"; exit bad || !tables }' "$TMP/$1.out" && return 0
	cat "$TMP/$1.out" "$TMP/$1.err"
	return 1
}
tables() { grep -cE '^[0-9,]+ samples? in [0-9.]+ s \(' "$TMP/$1.out"; }

"$PROGRAMS/threads" 120 &
target=$!
started $target
wait_for used $target 20

top once --once -i 1 -p $target
check once-status [ $? = 0 ]
check once-one-table [ "$(tables once)" = 1 ]
check once-first first once ' burn +threads$'
check once-callers grep -qE ' 100\.00 .* thread_main +threads$' "$TMP/once.out"
check once-plain sh -c "! grep -q '$(printf '\033')' '$TMP/once.out'"

top by-thread --once -i 1 -b thread -p $target
check by-thread sh -c "grep -q ' worker-2  *threads' '$TMP/by-thread.out'"
if is_root; then
	top all --once -i 1 -b pid -n 0 -a
	check all-process grep -qE " $target +threads$" "$TMP/all.out"
else
	skip all-process "the whole machine needs root"
fi

# Several intervals of a command: each a table of its own, with names in each; the command's end and status are ours.
top command -i 0.4 -n 5 -- "$PROGRAMS/recursion" 2
check command-status [ $? = 0 ]
ends_on() { [ "$(tail -n 1 "$TMP/$1.out" | sed -E 's/[0-9]+([.,][0-9]+)*/N/g')" = "$2" ] || { tail -n 3 "$TMP/$1.out"; return 1; }; }
check command-whole-run ends_on command "whole run: N samples in N s"
check command-tables [ "$(tables command)" -ge 3 ]
check command-first first command ' burn +recursion$'
check command-rows sh -c "! awk '/samples? in/ { n = 0 } /%/ { n = 0; next } /^ *[0-9.]+ .*[a-z]/ { n++ } n > 6 { exit 1 }' '$TMP/command.out' | grep ."
top status -i 0.2 -- sh -c 'exit 7'
check command-own-status [ $? = 7 ]
top absent -- no-such-command-here
check command-absent [ $? = 127 ]

# Ends: Ctrl-C, the target's, the reader's.
"$PERFWIND" top -i 0.3 -p $target >"$TMP/interrupt.out" 2>"$TMP/interrupt.err" &
top=$!
started $top
wait_for grep -q 'samples in' "$TMP/interrupt.out"
kill -INT $top
wait $top
check interrupt-status [ $? = 0 ]
check interrupt-first first interrupt ' burn +threads$'
"$PROGRAMS/recursion" 4 &
ending=$!
started $ending
top ends -i 0.3 -p $ending
check ends-with-target [ $? = 0 ]
check ends-first first ends ' burn +recursion$'
"$PERFWIND" top -i 0.1 -p $target 2>"$TMP/pipe.err" | head -n 1 >"$TMP/pipe.out"
check reader-gone [ "${PIPESTATUS[0]}" = 1 ]
check reader-gone-printed-nothing sh -c "! grep '^perfwind: top' '$TMP/pipe.err'"

# A terminal: each table replaces the one before and fits.
if command -v script >/dev/null; then
	script -qec "stty rows 12 cols 60; TERM=xterm '$PERFWIND' top -i 0.3 -- '$PROGRAMS/recursion' 1 2>'$TMP/terminal.err'" /dev/null \
		</dev/null 2>&1 | tr -d '\r' >"$TMP/terminal.out"
	fits() {
		"$PYTHON" - "$TMP/terminal.out" <<'PY'
import re, sys
text, _, whole_run = open(sys.argv[1]).read().partition("\nall intervals:\n")
screens = text.split("\033[H\033[2J")[1:]
assert max(map(len, whole_run.split("\n"))) <= 60 and whole_run.split("\n")[-2].startswith("whole run: "), whole_run
for screen in screens:
    lines = re.sub("\033\\[[0-9;]*m", "", screen).rstrip("\n").split("\n")
    assert len(lines) <= 11 and max(map(len, lines)) <= 60, lines
assert len(screens) >= 2 and "\033[1mburn" in screens[0], screens
PY
	}
	check terminal-fits fits
else
	skip terminal-fits "script(1) is not there"
fi

# Keys, Ctrl-Z, its size, and how every end leaves it.
if "$PYTHON" -c 'import pty, os; os.close(pty.openpty()[0])' 2>/dev/null; then
	"$PYTHON" "$INTEGRATION/top_keys.py" "$PERFWIND" $target
else
	skip terminal-keys "no pseudo-terminal can be made"
fi

# Memory: an interval's, however many there were.
"$PERFWIND" top -i 0.05 -n 3 -F 4000 -p $target >"$TMP/long.out" 2>"$TMP/long.err" &
top=$!
started $top
rss_kb() { awk '/^RssAnon:/ { print $2 }' "/proc/$top/status"; }
shown() { [ "$(tables long)" -ge "$1" ]; }
wait_for shown 30
early=$(rss_kb)
wait_for shown 150
late=$(rss_kb)
kill -INT $top
wait $top
check memory-stays [ $((late - early)) -lt 4096 ]
check memory-first first long ' burn +threads$'
kill $target

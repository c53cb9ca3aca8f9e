#!/bin/bash
# perf-data.sh - `record --perf-data`: stock perf reads the raw records, and prints the same samples and names.
. "$(dirname "$0")/lib"
need_perf
PERF=$(command -v perf) || { echo "skip perf-data: perf (linux-perf) is not installed"; exit 77; }
"$PERF" --version >/dev/null 2>&1 || { echo "skip perf-data: $PERF does not run on this kernel"; exit 77; }

# scripted NAME : perf script's samples, as many as the trace has
scripted() {
	local printed
	printed=$("$PERF" script -i "$TMP/$1.data" -F event 2>/dev/null | grep -c 'cpu-clock')
	json "$1" "v['samples'] == $printed and $printed > 100"
}
# unwound NAME REGEX : perf unwinds the recorded stacks to these names, innermost first
unwound() {
	"$PERF" script -i "$TMP/$1.data" -F ip,sym 2>"$TMP/$1.script" | awk 'NF == 0 { print stack; stack = ""; next } { stack = stack $2 ";" }' >"$TMP/$1.stacks"
	grep -qE -- "$2" "$TMP/$1.stacks" && return 0
	sort "$TMP/$1.stacks" | uniq -c | sort -nr | head -n 5
	cat "$TMP/$1.script"
	return 1
}
# by_thread NAME : samples of each thread
by_thread() { folded "$1" | awk '{ sub(/;.*/, "", $1); n[$1] += $NF } END { for (t in n) print t, n[t] }' | sort; }
# imported NAME : perfwind's own import of it has the same samples, all with their mappings.  (The recording may lack
# inlined calls, for which little time is left at its end.)
imported() {
	"$PERFWIND" import -q -o "$TMP/again.pftrace" "$TMP/$1.data" && diff <(by_thread "$1") <(by_thread again) &&
		hasnt again '\[unknown\]|\[failed'
}

record command -e cpu-clock --stack-bytes 16384 --perf-data "$TMP/command.data" -- "$PROGRAMS/recursion" 1.5
check command-status test $? = 0
check command-consistent consistent command
check command-script scripted command
check command-unwound unwound command '^burn;(recurse_odd;recurse_even;){20,}main;'
check command-report eval '"$PERF" report -i "$TMP/command.data" --stdio -g none 2>/dev/null | grep -qE "%.*recursion.*burn"'
check command-imported imported command
check command-line eval '"$PERF" report --header-only -i "$TMP/command.data" 2>/dev/null | grep -q "^# cmdline : .*perfwind record .*--stack-bytes 16384 .*/recursion 1.5 "'
check clock eval '"$PERF" report --header-only -i "$TMP/command.data" 2>/dev/null | grep -q "^# clockid frequency: [1-9]"'

description=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
check cpu-description [ "$("$PERF" report --header-only -i "$TMP/command.data" 2>/dev/null | sed -n 's/^# cpudesc : //p')" = "$description" ]

# Threads that were there before: their names and mappings are written too.
"$PROGRAMS/threads" 60 &
target=$!
started $target
wait_for used $target 200
record pid -e cpu-clock --stack-bytes 16384 -d 1.5 --perf-data "$TMP/pid.data" -p $target
check pid-script scripted pid
check pid-names eval '"$PERF" script -i "$TMP/pid.data" -F comm 2>/dev/null | grep -q worker-2'
check pid-unwound unwound pid '^burn;thread_work;thread_main;'
check pid-imported imported pid
kill $target

# What was there is kept; what cannot be written is reported, and the trace is whole all the same.
record again -e cpu-clock --perf-data "$TMP/command.data" -- "$PROGRAMS/recursion" 0.3
check old-one-kept test -s "$TMP/command.data.old"
record nowhere --perf-data "$TMP/no/such/folder" -- true
check nowhere-status test $? = 1
check nowhere-reported grep -q 'no/such/folder: No such file' "$TMP/nowhere.err"
record followers -e cpu-clock,page-faults --perf-data "$TMP/followers.data" -- true
check followers-refused grep -q 'perf-data takes one event' "$TMP/followers.err"

# A command that cannot start leaves what was there before.
printf '#!/no/such/interpreter\n' >"$TMP/no-interpreter"
chmod +x "$TMP/no-interpreter"
record not-run --perf-data "$TMP/not-run.data" -- "$TMP/no-interpreter"
check not-run-no-file test ! -e "$TMP/not-run.data"
cp "$TMP/command.data" "$TMP/not-run.data"
record not-run --perf-data "$TMP/not-run.data" -- "$TMP/no-interpreter"
check not-run-earlier cmp "$TMP/command.data" "$TMP/not-run.data"

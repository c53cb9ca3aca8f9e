#!/bin/bash
# from-perf.sh - command lines as users of perf type them: each does what perf does, or prints the nearest way.
. "$(dirname "$0")/lib"
need_perf
cd "$TMP" || exit 1
IN=() # what a command runs in
p() { timeout 60 "${IN[@]}" "$PERFWIND" "$@" 2>&1; }
# prints NAME STATUS REGEX ARGUMENTS... : the exit status, and a line of the output.
prints() {
	local name=$1 status=$2 regex=$3 out got
	shift 3
	out=$(p "$@")
	got=$?
	[ $got = "$status" ] && grep -qE -- "$regex" <<<"$out" && ok "$name" && return
	tail -n 20 <<<"$out" | cut -c 1-300 | sed 's/^/    /'
	not_ok "$name" "status $got, not $status, or not: $regex"
}

# verdict NAME STATUS REGEX ARGUMENTS... : the same, of a recording: and each line that is not in lines of the verdict, or
# a limit of the machine, is one that REGEX matches.
verdict() {
	local name=$1 status=$2 regex=$3 out got rest
	shift 3
	out=$(p "$@")
	got=$?
	rest=$(grep -vE -- "$regex" <<<"$out" | grep -vE '^[0-9,]+ samples? in [0-9.]+ s \(.*\)$|^  (seen|idle|stacks|waits|lost|cost|also|script|deep|short|late|thinned) +[0-9a-z].*|^  (file|symbols|       ) +[^ ].*' |
		grep -vE '^perfwind: (no hardware cycle counter here |limited here: |user code only|rings of [0-9]+ KiB a CPU instead of |.* addresses have no inlined calls).*|^  +hint: .*')
	[ $got = "$status" ] && grep -qE -- "$regex" <<<"$out" && [ -z "$rest" ] && ok "$name" && return
	tail -n 20 <<<"$out" | cut -c 1-300 | sed 's/^/    /'
	not_ok "$name" "status $got, not $status, or not: $regex, or another line: $rest"
}

# exact NAME STATUS ARGUMENTS... <TEXT : the whole output; each number in it is N.
exact() {
	local name=$1 status=$2 got
	shift 2
	sed 's/^> //' >want
	p "$@" >output
	got=$?
	sed -E 's/[0-9]+([.,][0-9]+)*/N/g' output >got
	[ $got = "$status" ] && diff want got >differs && ok "$name" && return
	sed 's/^/    /' differs
	not_ok "$name" "status $got, not $status, or another output"
}

# The options that a command line of perf record has.
verdict record 0 'samples? in' record -g --call-graph dwarf -F 499 -e cycles:P -o perf.pftrace -- "$PROGRAMS/recursion" 1
check names has perf 'main;recurse_even;'
verdict call-graph-fp 0 'samples? in' record --call-graph fp -F 499 -e cpu-clock:u -o fp.pftrace -- "$PROGRAMS/recursion-fp" 0.3
verdict call-graph-lbr 0 '^perfwind: record: --call-graph lbr: branch records are not used; stacks are copied and unwound$' record --call-graph lbr -o lbr.pftrace -- true
exact call-graph-wrong 2 record --call-graph frames -- true <<<"perfwind: record: --call-graph frames: it is one of dwarf, dwarf,BYTES, fp, lbr"
verdict cpus 0 'samples? in' record -C 0 -o c.pftrace -- true
exact cpus-wrong 2 record -C x -- true <<<"perfwind: --cpu takes a list like N-N: 'x' is not one"
verdict pages 0 'samples? in' record -m 128 -o m.pftrace -- true
verdict frequency-max 0 '\((cycles|cpu-clock)[^,]*, [0-9]+ Hz\)' record -F max -o f.pftrace -- true
verdict group 0 'samples? in .* \(cpu-clock' record -e '{cpu-clock:u,page-faults:u}' -o group.pftrace -- true
verdict precise 0 'samples? in .* \(cpu-clock' record -e cpu-clock:P -o p.pftrace -- true
verdict cycles-fall-back 0 'samples? in .* \((cycles|cpu-clock)' record -e cycles -o cycles.pftrace -- true
verdict units 0 'samples? in 0\.' record -d 0.2s -o units.pftrace -- sleep 10
verdict units-wrong 2 '^perfwind: record: --duration 1week: it is not a time like 500ms, 1.5s or 10min' record -d 1week -- true
verdict each-fault 0 '\(page-faults:u, one each 1\)' record -e page-faults:u -o faults.pftrace -- true
verdict filter-of-which 1 '^perfwind: --filter needs a tracepoint; page-faults:u is not one$' record -e page-faults:u --filter 'x == 1' -- true
verdict wakers-alone 2 '^perfwind: --wakers is for --off-cpu and --wall$' record --wakers -- true
exact two-perf-data 2 record -e cs -e faults --perf-data x -- true <<<"perfwind: --perf-data takes one sampled event: give -e once, or -e cs,faults, which counts the second at each sample of the first"
exact two-flight 2 record -e cs -e faults --flight-recorder 4M -- true <<<"perfwind: --flight-recorder keeps one sampled event: give -e once and run a second recorder for faults, or -e cs,faults, which counts the second at each sample of the first"
verdict daemon-has-none 2 '^perfwind: --off-cpu works without a daemon only' record --daemon --off-cpu -- true
# Two profiles in one trace.
verdict two-events 0 '^  also +[0-9,]+ samples? of page-faults' record -F 499 -e cpu-clock:u -e page-faults:u -o two.pftrace -- "$PYTHON" -c '
x = bytearray(1 << 24); sum(i * i for i in range(1000000))'
prints two-first 0 '^Event +cpu-clock(:u)?; not shown .*: page-faults' report two.pftrace
prints two-second 0 '^Event +page-faults(:u)?; not shown .*: cpu-clock' report --event page-faults two.pftrace
! is_root || prints two-no-loss 0 'no data was lost' losses two.pftrace
verdict two-wrong 1 'unknown event' record -e cpu-clock -e no-such-event -o none.pftrace -- true
verdict switch-output 0 'snapshot: [0-9,]+ samples, .*switch-[0-9]+.pftrace$|; [0-9,]+ more are in the files before it$' record --switch-output=200ms -F 4000 -o switch.pftrace -- "$PROGRAMS/recursion" 1
prints switch-output-more 0 'burn' report switch-2.pftrace
prints switch-output-rest 0 'Samples +[0-9]' report switch.pftrace
verdict switch-output-size 2 'max-size SIZE' record --switch-output=100M -- true
# On a terminal a message stands on a line of its own, not behind the progress.
clears() {
	"$PYTHON" - "$PERFWIND" "$PROGRAMS/recursion" "$TMP/live.pftrace" <<'PY' >"$TMP/live.out"
import os, pty, sys
out = b""
def read(fd):
    global out
    data = os.read(fd, 4096)
    out += data
    return data
pty.spawn([sys.argv[1], "record", "--switch-output=700ms", "-o", sys.argv[3], sys.argv[2], "2"], read, lambda fd: b"")
at = out.find(b" samples  ")
parts = out[at:].split(b"perfwind: ")
wrong = [p[-40:] for p in parts[:-1] if not p.endswith((b"\n", b"\x1b[K"))]
if at < 0 or len(parts) < 2 or wrong:
    sys.exit(f"progress at {at}, {len(parts) - 1} messages behind it, not on a line of their own: {wrong}")
PY
}
check progress-cleared clears
prints top-g 0 '^ *self %' top -g --call-graph dwarf -K -d 0.5 --once -- "$PROGRAMS/recursion" 2
prints top-cpus 2 'record -a -C LIST' top -C 0 -a
verdict note 0 'record: --stat: threads are always recorded apart' record -s -o s.pftrace -- true
verdict max-size 0 'samples? in' record --max-size 4K -F 4999 -o max.pftrace -- "$PROGRAMS/recursion" 30
verdict delay 0 'samples? in' record -D 300 -o delay.pftrace -- "$PROGRAMS/recursion" 1
verdict delay-too-long 1 'exited before --delay' record -D 60000 -o none.pftrace -- true
exact empty-list-whole 2 record -p "" <<<"perfwind: -p: no process matches (the list is empty)"
verdict slept 0 'hint: record --off-cpu shows what they wait for' record -o slept.pftrace -- sleep 2
verdict empty-list 2 'no process matches' record -p "$(pgrep -x no-such-program)"

# Next to -p and -a a command is the stop-watch, and not recorded.
"$PROGRAMS/recursion" 240 &
target=$!
started $target
verdict stop-watch 0 'samples? in' record -p " $target
" -o watch.pftrace -- "$PYTHON" -c 'import time; end = time.time() + 0.5
while time.time() < end: pass'
check stop-watch-target has watch 'main;recurse_even;'
check stop-watch-not-recorded eval '! has watch "^python"'
verdict stop-watch-status 7 'samples? in' record -p $target -o watch.pftrace -- sh -c 'exit 7'
"$PROGRAMS/threads" 240 &
threads=$!
started $threads
wait_for eval '[ "$(ls /proc/$threads/task | wc -l)" -ge 3 ]'
one=$(ls /proc/$threads/task | tail -n 1)
verdict thread 0 'samples? in' record -t $one -d 0.5 -o thread.pftrace
prints thread-alone 0 "^ *100\.00 .*\b$one\b" report --by thread thread.pftrace
kill $threads
verdict no-cgroup 2 '^perfwind: record: -G no/such: no cgroup of this name is in /sys/fs/cgroup, ' record -G no/such -d 0.1
verdict cgroup-outside 2 "^perfwind: record: -G \.\.: .* may lead out of the root of the cgroups, .*; hint: " record -G .. -d 0.1
verdict no-thread 2 'there is no thread with this id' record -t 4194304 -d 0.1
if is_root; then
	prints machine 0 'samples? in' record -a -g -o all.pftrace -- sleep 0.3
	# Of one cgroup.
	if folder=$(cgroup_folder); then
		group=$folder/perfwind-perf.$$
		mkdir "$group"
		"$PROGRAMS/recursion" 60 &
		inside=$!
		started $inside
		echo $inside >"$group/cgroup.procs"
		path=$(sed -n 's/^.*:\(.*perfwind-perf.*\)$/\1/p' /proc/$inside/cgroup)
		verdict cgroup 0 '[0-9] skipped \(not-in-scope' record -G "$path" -o cgroup.pftrace -- sleep 0.5
		check cgroup-alone [ "$(p report --by cgroup cgroup.pftrace | sed '1,/^ *%/d' | awk '{ print $1, $NF }')" = "100.00 $path" ]
		prints cgroup-stat 0 "^  $path +[0-9.]+ ms +task-clock " stat -G "$path" -e task-clock -d 0.3
		exact cgroup-stat-csv 0 stat -G "$path" --csv -e task-clock -d 0.3 <<<"${path%.*}.N,msec,task-clock,N,CPUs utilized"
		kill $inside
		wait $inside 2>/dev/null
		wait_for rmdir "$group"
	else
		skip cgroup "no hierarchy of cgroups can be written to here"
	fi
	# Of this user's processes alone.
	verdict user 0 'not-in-scope' record -u nobody -o user.pftrace -- sleep 0.3
	check user-scope eval '! has user "^recursion"'
fi

# Counts.  The machine may have no hardware counters: then their row has the reason.
prints stat 0 '^ +[0-9.]+ ms +task-clock(:u)? .* CPUs utilized' stat -- true
prints stat-status 7 ' elapsed$' stat -- sh -c 'exit 7'
prints stat-hardware 0 '^ +([0-9,]+ +cycles:u|not supported +cycles:u .*not supported on this machine)' stat -e cycles:u -- true
prints stat-group 0 '^ +[0-9,]+ +minor-faults' stat -e '{page-faults:u,minor-faults:u}:S,task-clock:u' -- true
prints stat-command-name 0 '^ +true-[0-9]+ +[0-9.]+ ms +task-clock' stat --by process -e task-clock -- true
prints stat-repeat 0 'mean of 3 runs' stat -r 3 -- true
prints stat-interval 0 '^ +0\.[0-9]+ +[0-9.]+ ms +task-clock' stat -I 100 -e task-clock:u -- "$PROGRAMS/recursion" 0.3
prints stat-pid 0 '^ +[0-9.]+ ms +task-clock' stat -e task-clock:u -d 0.3 -p $target
prints stat-thread 0 "recursion-$target +[0-9.]+ ms" stat -e task-clock:u -d 0.3 --by thread -t $target
prints stat-stop-watch 3 ' task-clock' stat -e task-clock:u -p $target -- sh -c 'exit 3'
prints stat-events 2 'unknown event' stat -e no-such-event -- true
prints stat-no-target 2 'needs a target' stat -e cs
prints stats 2 'perfwind losses' stats perf.pftrace
check stat-json "$PYTHON" -c '
import json, subprocess, sys
out = subprocess.run([sys.argv[1], "stat", "--json", "-e", "task-clock:u,page-faults:u,cycles:u", "--", "true"], stdout=subprocess.PIPE, check=True).stdout
clock, faults, cycles = json.loads(out)["rows"][0]["counts"]
assert clock["state"] == faults["state"] == "counted" and clock["value"] > 0 and faults["value"] > 0, out
assert cycles["state"] in ("counted", "not supported"), out
' "$PERFWIND"
# With -I an object a line, between the lines of the command; with -o alone.
check stat-json-intervals "$PYTHON" -c '
import json, subprocess, sys
stat = [sys.argv[1], "stat", "--json", "-I", "100", "-e", "task-clock:u"]
command = ["--", "sh", "-c", "echo a; sleep 0.25; echo b; sleep 0.1"]
def objects(lines):
    rows = [json.loads(line) for line in lines]
    ends = [row["time_s"] for row in rows]
    assert len(rows) >= 2 and ends == sorted(ends), rows
    assert abs(sum(row["elapsed_s"] for row in rows) - ends[-1]) < 0.001, rows
    assert all(row["rows"][0]["counts"][0]["event"].startswith("task-clock") for row in rows), rows
lines = subprocess.run(stat + command, stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
assert [line for line in lines if line[0] != "{"] == ["a", "b"], lines
assert lines[-1][0] == "{", lines
objects(line for line in lines if line[0] == "{")
out = subprocess.run(stat + ["-o", "counts.json"] + command, stdout=subprocess.PIPE, check=True, text=True).stdout
assert out == "a\nb\n", out
objects(open("counts.json"))
' "$PERFWIND"
if is_root; then
	prints stat-all 0 '^ *CPU0 +[0-9.]+ ms +cpu-clock' stat -a -A -e cpu-clock -- sleep 0.2
	prints stat-cgroup 2 'there is no cgroup of this name' stat -G no-such-cgroup -d 0.1
	prints stat-processes 0 "recursion-$target +[0-9.]+ ms" stat -a --by process -e task-clock -d 0.3
fi
exact stat-csv 0 stat --csv -e page-faults:u,minor-faults:u -- true <<<"N,,page-faults:u,N,,
N,,minor-faults:u,N,,"
# The fields of perf itself, of a count that is the same each time.
fields() { "$@" -x, -e cycles,dummy -- true 2>&1 | sed 's/^[0-9]*,/N,/; s/,[0-9]*,100/,NS,100/'; }
if is_root && command -v perf >/dev/null; then # perf marks an event without a counter with :u for other users
	check stat-fields diff <(fields perf stat) <(fields "$PERFWIND" stat)
fi
kill $target

# Reports.
prints sort 0 '^perfwind: report: --sort comm,dso,symbol: rows are of one kind: --by function$' report --sort comm,dso,symbol perf.pftrace
prints sort-comm 0 'process' report --sort comm perf.pftrace
prints no-children 0 '^ +self %' report --no-children perf.pftrace
prints report-cgroups 1 '^perfwind: report: the trace has no cgroup perf.pftrace(; it has:| \(no cgroups)' report --cgroup perf.pftrace perf.pftrace
prints report 0 '^ +self %' report --stdio --no-children -i perf.pftrace
prints report-tree 0 'samples  call$' report -g perf.pftrace
prints report-callers 0 'called by' report --callers burn perf.pftrace
prints report-callees 0 'recurse_odd' report --callees main --max-depth 3 -i perf.pftrace
prints report-time 0 'Only +0.100 to 0.200 s' report --time 100ms-200ms perf.pftrace
prints report-cgroup 1 'the trace has no cgroup perf.pftrace' report --cgroup perf.pftrace perf.pftrace
check report-json "$PYTHON" -c '
import json, subprocess, sys
doc = json.loads(subprocess.check_output([sys.argv[1], "report", "--json", "perf.pftrace"]))
rows = doc["rows"]
assert sum(row["self"] for row in rows) == doc["weight"]
assert sum(row["self_samples"] for row in rows) == doc["samples"]
assert any(row["function"] == "burn" for row in rows)
' "$PERFWIND"
prints export-default 1 'perfwind.pftrace: No such file' export --to html
prints export-suffix 0 'wrote suffix.html$' export -o suffix.html perf.pftrace
prints export-formats 2 'pprof +[a-z]' export --to svg
prints script 0 'burn \(.*/recursion\)' script -n 5 perf.pftrace
# Two runs of one program, which runs for a time and not for an amount of work: no change, and status 0.
"$PERFWIND" record -q -F 499 -o again.pftrace -- "$PROGRAMS/recursion" 1
prints diff 0 'no significant change' diff --normalise share --fail-above 5% perf.pftrace again.pftrace
"$PERFWIND" record -q -F 499 -o other.pftrace -- "$PYTHON" -c 'sum(i * i for i in range(3000000))'
prints diff-other 3 '^ *\+[0-9.]+ .* new  burn' diff --normalise total --fail-above 5% other.pftrace perf.pftrace
prints diff-tree 3 '^ *\+[0-9.]+ .* new  .*;burn$' diff --by tree --html diff.html --normalise total --fail-above 5% other.pftrace perf.pftrace
check diff-page "$PYTHON" -c '
import json, sys
page = open("diff.html", encoding="utf-8").read()
data = json.loads(page.split("id=\"data\">")[1].split("</script>")[0])
for w in data["wa"], data["wb"]:
    below = [0] * len(w)
    for i, up in enumerate(data["up"]):
        assert up < i
        if up >= 0:
            below[up] += w[i]
    assert all(b <= own for b, own in zip(below, w))
assert "burn" in data["names"]
'
prints list 0 '^  page-faults +software' list
prints list-none 1 "no event has 'no-such-event'" list no-such-event

# Tracepoints, in a mount namespace with tracefs where it is not mounted.
[ -e /sys/kernel/tracing/events ] || IN=(unshare -m sh -c 'mount -t tracefs none /sys/kernel/tracing && exec "$@"' sh)
format=/sys/kernel/tracing/events/sched/sched_switch/format
if "${IN[@]}" cat $format >format 2>/dev/null; then
	check list-fields diff <(echo "  sched:sched_switch                               tracepoint"; sed -n 's/^\tfield:\([^;]*\);.*/      \1/p' format) <(p list sched:sched_switch | grep -v '^perfwind: list: this machine has no')
	# Each occurrence, and not 999 a second: so many calls are made, and few by the start of the interpreter.
	"${IN[@]}" "$PERFWIND" record -e syscalls:sys_enter_getppid --json -o each.pftrace -- "$PYTHON" -c '
import os, time
for i in range(2279):
    os.getppid()
    if i % 64 == 0: time.sleep(0.01)' >each.json 2>each.err
	check tracepoint-each json each '2279 <= v["samples"] + v["lost"]["samples"] <= 2289'
	check tracepoint-each-printed grep -qE '^[0-9,]+ samples in .* \(syscalls:sys_enter_getppid, one each 1\)$' each.err
else
	skip tracepoint "tracefs cannot be read"
fi
IN=()

# Commands that perfwind lacks.
for command in buildid-cache data evlist ftrace inject kallsyms kmem kwork probe sched test timechart version; do
	prints "no-$command" 2 "^perfwind: no command $command: .*perf(wind|etto)|^perfwind: no command $command: .*trace" $command
done
exact no-config 2 config <<<"perfwind: no command config: there is none: options are given on the command line"
exact no-mem 2 mem <<<"perfwind: no command mem: there is none: data addresses are not recorded; use perf mem"
exact no-c2c 2 c2c <<<"perfwind: no command cNc: there is none: data addresses are not recorded; use perf cNc"
exact no-lock 2 lock <<<"perfwind: no command lock: \`perfwind record --off-cpu\` records where threads wait, and how long"
exact no-archive 2 archive <<<"perfwind: no command archive: a trace has its names in it: copy the .pftrace file alone"
exact no-bench 2 bench <<<"perfwind: no command bench: there is none: profile a benchmark with \`perfwind record -- COMMAND\`"
prints no-kvm 2 '^perfwind: no command kvm: there is none for guests' kvm
exact no-such-command 2 nosuch <<<"perfwind: unknown command nosuch (see \`perfwind --help\`)"

# Completion: values, subcommands, the command behind --.
completes() {
	# $1: regex of what is offered for the words behind it
	local regex=$1
	shift
	bash -c 'PATH=$(dirname "$1"):$PATH; eval "$(perfwind generate bash)"; shift; COMP_WORDS=(perfwind "$@"); COMP_CWORD=$#
		COMP_LINE="perfwind $*" COMP_POINT=${#COMP_LINE}; _perfwind; printf "%s\n" "${COMPREPLY[@]}"' bash "$PERFWIND" "$@" 2>&1 | grep -qxE -- "$regex"
}
check complete-command completes annotate ann
check complete-subcommand completes delete episodes d
check complete-option completes --wakers record --wa
check complete-choice completes libdw record --unwinder lib
check complete-event completes page-faults record -e page-f
check complete-format completes folded export --to fo
check complete-pid completes "$$( .*)?" record -p $$
check complete-exec completes sleep record -- slee
for shell in bash zsh fish; do
	if command -v $shell >/dev/null && "$PYTHON" -c 'import pty, os; os.close(pty.openpty()[0])' 2>/dev/null; then
		mkdir $shell
		"$PYTHON" "$INTEGRATION/completes.py" $shell "$OWN_PERFWIND" "$TMP/$shell"
	else
		skip complete-$shell "no $shell, or no pseudo-terminal"
	fi
done
man() {
	"$PERFWIND" generate man . && [ "$(grep -L "^.SH EXIT STATUS" perfwind*.1; grep -L "^.SH EXAMPLES" perfwind*.1)" = "" ] &&
		grep -q "^.SH EVENTS" perfwind-record.1 && for page in "" -record -top -annotate -import -symbolize -daemon -watch; do
		grep -q "^.SH FILES" perfwind$page.1 && grep -q "^.SH ENVIRONMENT" perfwind$page.1 || return 1
	done
}
check man-sections man

# A file of perf itself: imported when it is read.
if command -v perf >/dev/null && perf record -e cpu-clock -g -o perf.data -- "$PROGRAMS/recursion-fp" 0.3 >/dev/null 2>&1; then
	prints import-report 0 'perf.data: imported' report perf.data
	prints import-names 0 'burn' report perf.data
	prints import-hint 1 'perf.data is there' report
	# Without frame pointers callchains end early: how to record instead.
	perf record -e cpu-clock -g -o short.data -- "$PROGRAMS/recursion" 0.3 >/dev/null 2>&1
	prints import-short 0 'most callchains end after a few frames: .* hint: perf record --call-graph dwarf$' report short.data
	# Lines and instructions of one recording, by perf and by perfwind.  perf leaves out what is below 0.5 %.
	perf record -q -e cpu-clock -o lines.data -- "$PROGRAMS/hot-lines" 1 >/dev/null 2>&1
	prints import-no-stacks 0 'the recording has no stacks, .* hint: perf record --call-graph dwarf$' report lines.data
	perf annotate --stdio -l -i lines.data work >lines.perf 2>/dev/null
	"$PERFWIND" annotate --json work lines.data >lines.json
	check annotate-agrees "$PYTHON" "$INTEGRATION/annotate_agrees.py" lines.perf lines.json
	prints annotate 0 '^ +[0-9.]+  hot-lines.c:10 .*return x % 1000003' annotate -i lines.data -s work
	prints annotate-call 0 '^ +[0-9.]+ +[0-9.]+  hot-lines.c:20 .*sum \+= mix' annotate -i lines.data -s work
	prints annotate-inlined 0 '^[0-9,]+ samples of cpu-clock(:u)? .* in the function itself' annotate mix lines.data
	prints annotate-function 2 'annotate needs a function' annotate
	prints annotate-none 1 "no function|no stack has a function 'wrok'; did you mean work" annotate wrok lines.data
	# The program is gone; a copy of it is elsewhere.
	mkdir -p "away/$TMP" && cp "$PROGRAMS/hot-lines" gone && perf record -q -e cpu-clock -B -N -o gone.data -- ./gone 0.5 >/dev/null 2>&1
	"$PERFWIND" import -o gone.pftrace gone.data >/dev/null 2>&1
	mv gone "away/$TMP/gone"
	prints annotate-gone 0 'no file with the module.s build id was found' annotate --buildid-dir . work gone.pftrace
	prints annotate-symfs 0 '^ +[0-9.]+ +[0-9a-f]+  ' annotate --buildid-dir . --symfs away work gone.pftrace
else
	skip import "no perf that records here"
fi

#!/bin/bash
# shutdown.sh - how a recording ends: the file after kill -9, Ctrl-C once and twice, SIGTERM; a full disk and other
# failures, which its command outlives.
. "$(dirname "$0")/lib"
need_perf

# kill -9 while it records: readable up to the last whole packet, and at most the last second is missing.
"$PROGRAMS/recursion" 120 &
target=$!
started $target
record_in_background killed -p $target
recorder=$!
wait_for used $target 2500 # several seconds, as a packet holds one: two thirds of the file are some whole ones
before=$(cpu_ms $target)
sleep 1.2 # what was used before is older than a second now
kill -9 $recorder
wait $recorder 2>/dev/null
kill $target
check killed-readable has killed '^recursion;.*main;(recurse_even;recurse_odd;){20,}.*burn '
# One sample a millisecond of CPU time; what was used before the recording began is not in it (50 ms and the start).
check killed-lacks-one-second-at-most [ "$(folded killed | awk '{n += $NF} END {print n}')" -ge $((before * 8 / 10 - 300)) ]
"$PERFWIND" report "$TMP/killed.pftrace" >"$TMP/killed.report" 2>&1
check killed-report grep -q burn "$TMP/killed.report"
# The report has a line about the missing end and the time that may be missing; so have the statistics and an export.
END='ended without its end mark: up to about 1\.[38] s may be missing \(more if the file was cut or damaged later\)'
# cut_off NAME : every command that reads it reports the missing end.
cut_off() {
	local status
	"$PERFWIND" report "$TMP/$1.pftrace" >"$TMP/cut_off" 2>&1 || return 1
	grep -qE "^End +$END\$" "$TMP/cut_off" && grep -qE '^Lost .*the file is not whole' "$TMP/cut_off" || { head -n 12 "$TMP/cut_off"; return 1; }
	"$PERFWIND" losses "$TMP/$1.pftrace" >"$TMP/cut_off"
	status=$?
	[ $status = 1 ] && grep -qE "^ +$END\$" "$TMP/cut_off" && ! grep -q 'no data was lost' "$TMP/cut_off" || { cat "$TMP/cut_off"; return 1; }
	"$PERFWIND" losses --json "$TMP/$1.pftrace" | grep -qE "\"perfwind_end_missing\".*\"value\": 1, \"meaning\": \"$END\"" || return 1
	"$PERFWIND" export --to html -o "$TMP/cut_off.html" "$TMP/$1.pftrace" 2>"$TMP/cut_off"
	grep -qE "^perfwind: export: .*: $END\$" "$TMP/cut_off" && grep -qE "\[\"End\",\"$END\",1\]" "$TMP/cut_off.html" || { cat "$TMP/cut_off"; return 1; }
}
# ended NAME : the file has its end mark, and lacks nothing but samples of what was not looked into in time, as on a busy machine.
ended() {
	"$PERFWIND" report "$TMP/$1.pftrace" >"$TMP/ended" 2>&1
	grep -qE '^End |not whole' "$TMP/ended" && { cat "$TMP/ended"; return 1; }
	"$PERFWIND" losses "$TMP/$1.pftrace" >"$TMP/losses" || ! grep '^[a-z]' "$TMP/losses" | grep -vE '^(name|perf_samples_skipped) '
}
check killed-cut-off cut_off killed
# A file that ends within a packet is read up to it, and reported.
size=$(stat -c %s "$TMP/killed.pftrace")
head -c $((size * 2 / 3 + 1)) "$TMP/killed.pftrace" >"$TMP/cut.pftrace"
"$PERFWIND" report "$TMP/cut.pftrace" >"$TMP/cut.report" 2>&1
check cut-file-readable grep -q burn "$TMP/cut.report"
check cut-file-has-place grep -qE '^File +damaged or cut off at byte [0-9]+; what stands before it is shown$' "$TMP/cut.report"
# Of its first bytes nothing can be shown, which is an error.
head -c 40 "$TMP/killed.pftrace" >"$TMP/head.pftrace"
for command in report 'export --to folded -o -'; do
	"$PERFWIND" $command "$TMP/head.pftrace" >"$TMP/head.out" 2>"$TMP/head.err"
	check "nothing-left-${command%% *}" [ $? = 1 ]
	check "nothing-left-${command%% *}-reported" grep -qE "^perfwind: ${command%% *}: .*head.pftrace is damaged or cut off, and no sample is left in it$" "$TMP/head.err"
done

# Ctrl-C: a whole file and the verdict.
"$PROGRAMS/threads" 120 &
target=$!
started $target
for signal in INT TERM; do
	record_in_background $signal -p $target
	recorder=$!
	wait_for used $target "$(($(cpu_ms $target) + 300))"
	kill -$signal $recorder
	wait $recorder
	check $signal-status [ $? = 0 ]
	check $signal-consistent consistent $signal
	check $signal-ended ended $signal
	check $signal-names has $signal '^worker-1;.*thread_main;thread_work;burn '
done
# A second one before the first has ended: at once, and the file is good up to where it was written.
record_in_background second -p $target
recorder=$!
wait_for used $target "$(($(cpu_ms $target) + 200))"
sleep 1.3 # the file is written once a second
kill -STOP $recorder # so that both arrive together
kill -INT $recorder
kill -TERM $recorder
kill -CONT $recorder
wait $recorder
check second-status [ $? -gt 128 ]
check second-readable has second 'thread_main;thread_work;burn '
check second-cut-off cut_off second
kill $target

# A command that does not end at Ctrl-C is waited for; a second Ctrl-C does not.
cat >"$TMP/persistent.sh" <<'SH'
trap '' INT
echo $$ >"$1.new" && mv "$1.new" "$1"
while :; do :; done
SH
record_in_background persistent -- bash "$TMP/persistent.sh" "$TMP/persistent.pid"
recorder=$!
wait_for test -s "$TMP/persistent.pid"
command=$(cat "$TMP/persistent.pid")
started $command
wait_for used $command 200
kill -INT $recorder
check persistent-reported wait_for grep -q 'goes on' "$TMP/persistent.err"
check persistent-waited-for kill -0 $recorder
(kill -INT $recorder) # from another process: not the first request once more
check persistent-second wait_for gone $recorder
wait $recorder
check persistent-status [ $? = 130 ]
check persistent-runs-on kill -0 $command
check persistent-file has persistent '^bash;'
kill -9 $command
# SIGTERM, which reaches perfwind alone, ends the command too.
record_in_background terminated -- bash "$TMP/persistent.sh" "$TMP/terminated.pid"
recorder=$!
wait_for test -s "$TMP/terminated.pid"
command=$(cat "$TMP/terminated.pid")
started $command
wait_for used $command 200
kill -TERM $recorder
wait $recorder
check terminated-status [ $? = 0 ]
check terminated-command-ended gone $command
check terminated-consistent consistent terminated

# Output that fails while recording: the verdict has the size and the samples of the file, not all that were taken.
cat >"$TMP/fill.py" <<'PY'
import json, time
end = time.time() + 120
while time.time() < end:
    json.dumps([{"n": i, "s": str(i) * (i % 50)} for i in range(20000)], indent=2)
PY
# counts_the_file NAME : as many bytes and samples as are there, fewer than were sampled.
counts_the_file() {
	local there
	there=$(folded "$1" | awk '{n += $NF} END {print n + 0}')
	json "$1" "v['bytes'] == $(stat -c %s "$TMP/$1.pftrace") and v['samples'] == $there and not v['complete']" || return 1
	json "$1" "v['samples'] + v['lost']['unwritten'] == total and v['lost']['unwritten'] > 0" || return 1
	grep -qE '^[0-9,]+ samples? in .*; [0-9,]+ more are not in the file$' "$TMP/$1.err" &&
		grep -qE '^  file .*, cut off: it has no end mark$' "$TMP/$1.err" || { cat "$TMP/$1.err"; return 1; }
}
"$PYTHON" "$TMP/fill.py" &
target=$!
started $target
larger_than() { [ "$(stat -c %s "$2")" -gt "$1" ]; }
if command -v prlimit >/dev/null; then
	for form in deflated plain; do
		record_in_background limit-$form -F 4000 $([ $form = deflated ] || echo --plain) -p $target
		recorder=$!
		# What the file has now and a little more: like a full disk, and anyone may do it.  The first compressed packet,
		# of up to a second's samples, must be whole: a file without one sample has no report.
		wait_for larger_than 20000 "$TMP/limit-$form.pftrace"
		prlimit --fsize=$(($(stat -c %s "$TMP/limit-$form.pftrace") + 50000)) --pid $recorder
		wait $recorder
		check limit-$form-status [ $? = 1 ]
		check limit-$form-reported grep -q 'File too large' "$TMP/limit-$form.err"
		check limit-$form-counts counts_the_file limit-$form
		check limit-$form-cut-off cut_off limit-$form
	done
else
	skip limit "needs prlimit"
fi
# A pipe with a reader that goes away.
"$PERFWIND" record -F 4000 -o - -p $target 2>"$TMP/pipe.err" | head -c 30000 >"$TMP/pipe.pftrace"
check pipe-status [ "${PIPESTATUS[0]}" = 1 ]
check pipe-reported grep -qE 'Broken pipe' "$TMP/pipe.err"
check pipe-not-complete grep -qE '^  file .*, cut off: it has no end mark$' "$TMP/pipe.err"
"$PERFWIND" losses "$TMP/pipe.pftrace" >"$TMP/pipe.stats"
check pipe-stats [ $? = 1 ]
check pipe-cut-off grep -qE "^ +$END\$" "$TMP/pipe.stats"
kill $target

# A recording that fails: its command does not notice, is waited for, and its exit status is ours; 1 if that is 0.
cat >"$TMP/steady.py" <<'PY'
import json, os, sys
name, status = sys.argv[1:]
open(name + ".new", "w").write(str(os.getpid()))
os.rename(name + ".new", name + ".pid")
while not os.path.exists(name + ".stop"):
    json.dumps([{"n": i, "s": str(i) * (i % 50)} for i in range(2000)], indent=2)
open(name + ".ended", "w")
sys.exit(int(status))
PY
steady() { echo "$PYTHON" "$TMP/steady.py" "$TMP/$1" "$2"; } # NAME STATUS : the command
# outlives NAME RECORDER STATUS REGEX [END] : the recording has ended for this reason, the command has not.
outlives() {
	check $1-reported wait_for grep -qE "^perfwind: the recording has ended early: .*$4; .* goes on" "$TMP/$1.err"
	wait_for test -s "$TMP/$1.pid"
	check $1-goes-on kill -0 "$(cat "$TMP/$1.pid")"
	check $1-waited-for kill -0 $2
	touch "$TMP/$1.stop"
	wait $2
	check $1-status [ $? = $3 ]
	check $1-ended-by-itself [ -e "$TMP/$1.ended" ]
	tail -n 1 "$TMP/$1.err" >"$TMP/$1.last"
	check $1-reported-at-the-end grep -qE "^perfwind: .*$4${5:-}\$" "$TMP/$1.last"
}

# More than the first second writes: on a loaded machine the whole of it is one block, which would not fit.
(ulimit -f 80 && exec "$PERFWIND" record -F 4000 -o "$TMP/limited.pftrace" -- $(steady limited 0)) 2>"$TMP/limited.err" &
recorder=$!
started $recorder
outlives limited $recorder 1 'File too large'
check limited-readable has limited '^python3?[^;]*;.*(_PyEval_EvalFrameDefault| \[python)'

mkfifo "$TMP/pipe"
"$PERFWIND" record -F 4000 -o "$TMP/pipe" -- $(steady closed 7) 2>"$TMP/closed.err" &
recorder=$!
started $recorder
timeout 20 head -c 10 "$TMP/pipe" >/dev/null
outlives closed $recorder 7 'Broken pipe' ': the program that reads it has ended'

"$PERFWIND" top -i 0.1 -- $(steady unshown 7) >/dev/full 2>"$TMP/unshown.err" &
recorder=$!
started $recorder
check unshown-reported wait_for grep -q '^perfwind: top: No space left on device' "$TMP/unshown.err"
wait_for test -s "$TMP/unshown.pid"
check unshown-goes-on kill -0 "$(cat "$TMP/unshown.pid")"
touch "$TMP/unshown.stop"
wait $recorder
check unshown-status [ $? = 7 ]

# perfwind itself is killed: the same.
record_in_background alone -- $(steady alone 0)
recorder=$!
wait_for test -s "$TMP/alone.pid"
kill -9 $recorder
wait $recorder 2>/dev/null
check alone-goes-on kill -0 "$(cat "$TMP/alone.pid")"
touch "$TMP/alone.stop"
check alone-ended-by-itself wait_for test -e "$TMP/alone.ended"

# SIGTERM ends the command after a failure too.
(ulimit -f 20 && exec "$PERFWIND" record -F 4000 -o "$TMP/bounded.pftrace" -- $(steady bounded 0)) 2>"$TMP/bounded.err" &
recorder=$!
started $recorder
check bounded-reported wait_for grep -q 'ended early' "$TMP/bounded.err"
kill -TERM $recorder
wait $recorder
check bounded-status [ $? = 1 ]
check bounded-command-ended gone "$(cat "$TMP/bounded.pid")"

if is_root && unshare -m true 2>/dev/null; then
	# A full disk: what was written stays readable.
	mkdir "$TMP/small"
	unshare -m sh -c 'mount -t tmpfs -o size=256k none "$1/small" || exit 99
		to=$1 perfwind=$2
		shift 2
		"$perfwind" record --json -F 4000 -o "$to/small/full.pftrace" -- "$@" >"$to/full.json"
		status=$?
		cp "$to/small/full.pftrace" "$to/"
		exit $status' sh "$TMP" "$PERFWIND" $(steady full 7) 2>"$TMP/full.err" &
	recorder=$!
	started $recorder
	outlives full $recorder 7 'No space left on device' '; hint: -o FILE on another disk'
	check full-disk-readable has full '^python3?[^;]*;.*(_PyEval_EvalFrameDefault| \[python)'
	check full-disk-counts counts_the_file full
	check full-disk-cut-off cut_off full
	check full-disk-filled [ "$(stat -c %s "$TMP/full.pftrace")" -gt 60000 ]
else
	skip full-disk "needs root and a mount namespace"
fi

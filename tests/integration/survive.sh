#!/bin/bash
# survive.sh - how a recording ends: the file after kill -9, Ctrl-C once and twice, SIGTERM, a full disk.
. "$(dirname "$0")/lib"
need_perf

# kill -9 in the midst: readable up to the last whole packet, and at most the last second is missing.
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
	"$PERFWIND" stats "$TMP/$1.pftrace" >"$TMP/cut_off"
	status=$?
	[ $status = 1 ] && grep -qE "^ +$END\$" "$TMP/cut_off" && ! grep -q 'no data was lost' "$TMP/cut_off" || { cat "$TMP/cut_off"; return 1; }
	"$PERFWIND" stats --json "$TMP/$1.pftrace" | grep -qE "\"perfwind_end_missing\".*\"value\": 1, \"meaning\": \"$END\"" || return 1
	"$PERFWIND" export --to html -o "$TMP/cut_off.html" "$TMP/$1.pftrace" 2>"$TMP/cut_off"
	grep -qE "^perfwind: export: .*: $END\$" "$TMP/cut_off" && grep -qE "\[\"End\",\"$END\",1\]" "$TMP/cut_off.html" || { cat "$TMP/cut_off"; return 1; }
}
# ended NAME : none of them does.
ended() {
	"$PERFWIND" report "$TMP/$1.pftrace" >"$TMP/ended" 2>&1
	grep -qE '^End |not whole' "$TMP/ended" && { cat "$TMP/ended"; return 1; }
	"$PERFWIND" stats "$TMP/$1.pftrace"
}
check killed-cut-off cut_off killed
# A file that ends within a packet is read up to it, and says so.
size=$(stat -c %s "$TMP/killed.pftrace")
head -c $((size * 2 / 3 + 1)) "$TMP/killed.pftrace" >"$TMP/cut.pftrace"
"$PERFWIND" report "$TMP/cut.pftrace" >"$TMP/cut.report" 2>&1
check cut-file-readable grep -q burn "$TMP/cut.report"
check cut-file-says-where grep -qE '^File +damaged or cut off at byte [0-9]+; what stands before it is shown$' "$TMP/cut.report"
# Of its first bytes nothing can be shown, which is an error.
head -c 40 "$TMP/killed.pftrace" >"$TMP/head.pftrace"
for command in report 'export --to folded -o -'; do
	"$PERFWIND" $command "$TMP/head.pftrace" >"$TMP/head.out" 2>"$TMP/head.err"
	check "nothing-left-${command%% *}" [ $? = 1 ]
	check "nothing-left-${command%% *}-said" grep -qE "^perfwind: ${command%% *}: .*head.pftrace is damaged or cut off, and no sample is left in it$" "$TMP/head.err"
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
# A second one while the first is on its way: at once, and the file is good up to where it was written.
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
cat >"$TMP/stubborn.sh" <<'SH'
trap '' INT
echo $$ >"$1.new" && mv "$1.new" "$1"
while :; do :; done
SH
record_in_background stubborn -- bash "$TMP/stubborn.sh" "$TMP/stubborn.pid"
recorder=$!
wait_for test -s "$TMP/stubborn.pid"
command=$(cat "$TMP/stubborn.pid")
started $command
wait_for used $command 200
kill -INT $recorder
check stubborn-told wait_for grep -q 'goes on' "$TMP/stubborn.err"
check stubborn-waited-for kill -0 $recorder
kill -INT $recorder
check stubborn-second wait_for gone $recorder
wait $recorder
check stubborn-status [ $? = 130 ]
check stubborn-lives-on kill -0 $command
check stubborn-file has stubborn '^bash;'
kill -9 $command
# SIGTERM, which reaches perfwind alone, ends the command too.
record_in_background told -- bash "$TMP/stubborn.sh" "$TMP/told.pid"
recorder=$!
wait_for test -s "$TMP/told.pid"
command=$(cat "$TMP/told.pid")
started $command
wait_for used $command 200
kill -TERM $recorder
wait $recorder
check told-status [ $? = 0 ]
check told-command-ended gone $command
check told-consistent consistent told

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
if command -v prlimit >/dev/null; then
	"$PYTHON" "$TMP/fill.py" &
	target=$!
	started $target
	for form in deflated plain; do
		record_in_background limit-$form -F 4000 $([ $form = deflated ] || echo --plain) -p $target
		recorder=$!
		# What the file has now and a little more: like a full disk, and anyone may do it.
		prlimit --fsize=$(($(stat -c %s "$TMP/limit-$form.pftrace") + 50000)) --pid $recorder
		wait $recorder
		check limit-$form-status [ $? = 1 ]
		check limit-$form-said grep -q 'File too large' "$TMP/limit-$form.err"
		check limit-$form-counts counts_the_file limit-$form
		check limit-$form-cut-off cut_off limit-$form
	done
	kill $target
else
	skip limit "needs prlimit"
fi
# A pipe whose reader goes away.
"$PERFWIND" record -F 4000 -o - -- "$PYTHON" "$TMP/fill.py" 2>"$TMP/pipe.err" | head -c 30000 >"$TMP/pipe.pftrace"
check pipe-status [ "${PIPESTATUS[0]}" = 1 ]
check pipe-said grep -qE 'Broken pipe' "$TMP/pipe.err"
check pipe-not-complete grep -qE '^  file .*, cut off: it has no end mark$' "$TMP/pipe.err"
"$PERFWIND" stats "$TMP/pipe.pftrace" >"$TMP/pipe.stats"
check pipe-stats [ $? = 1 ]
check pipe-cut-off grep -qE "^ +$END\$" "$TMP/pipe.stats"

if is_root && unshare -m true 2>/dev/null; then
	# A full disk: what was written stays readable, the status is not 0, and the command is ended.
	mkdir "$TMP/small"
	unshare -m sh -c 'mount -t tmpfs -o size=256k none "$1/small" &&
		"$2" record --json -F 4000 -o "$1/small/full.pftrace" -- "$3" "$1/fill.py" 2>"$1/full.err" >"$1/full.json"; echo $? >"$1/full.status"
		cp "$1/small/full.pftrace" "$1/"' sh "$TMP" "$PERFWIND" "$PYTHON"
	check full-disk-status [ "$(cat "$TMP/full.status")" = 1 ]
	check full-disk-said grep -q 'No space left' "$TMP/full.err"
	check full-disk-readable has full '^python3?[^;]*;.*_PyEval_EvalFrameDefault'
	check full-disk-counts counts_the_file full
	check full-disk-cut-off cut_off full
	check full-disk-filled [ "$(stat -c %s "$TMP/full.pftrace")" -gt 60000 ]
else
	skip full-disk "needs root and a mount namespace"
fi

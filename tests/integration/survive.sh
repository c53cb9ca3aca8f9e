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
# A file that ends within a packet is read up to it, and says so.
size=$(stat -c %s "$TMP/killed.pftrace")
head -c $((size * 2 / 3 + 1)) "$TMP/killed.pftrace" >"$TMP/cut.pftrace"
"$PERFWIND" report "$TMP/cut.pftrace" >"$TMP/cut.report" 2>&1
check cut-file-readable grep -q burn "$TMP/cut.report"

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

if is_root && unshare -m true 2>/dev/null; then
	# A full disk: what was written stays readable, the status is not 0, and the command is ended.
	cat >"$TMP/fill.py" <<'PY'
import json, time
end = time.time() + 120
while time.time() < end:
    json.dumps([{"n": i, "s": str(i) * (i % 50)} for i in range(20000)], indent=2)
PY
	mkdir "$TMP/small"
	unshare -m sh -c 'mount -t tmpfs -o size=256k none "$1/small" &&
		"$2" record -F 4000 -o "$1/small/full.pftrace" -- "$3" "$1/fill.py" 2>"$1/full.err"; echo $? >"$1/full.status"
		cp "$1/small/full.pftrace" "$1/"' sh "$TMP" "$PERFWIND" "$PYTHON"
	check full-disk-status [ "$(cat "$TMP/full.status")" = 1 ]
	check full-disk-said grep -q 'No space left' "$TMP/full.err"
	check full-disk-readable has full '^python3?[^;]*;.*_PyEval_EvalFrameDefault'
	check full-disk-filled [ "$(stat -c %s "$TMP/full.pftrace")" -gt 60000 ]
else
	skip full-disk "needs root and a mount namespace"
fi

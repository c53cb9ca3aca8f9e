#!/bin/bash
# survive.sh - the file after kill -9, after Ctrl-C, on a full disk; targets that change under our feet.
. "$(dirname "$0")/lib"
need_perf

# kill -9 in the middle: readable up to the last whole packet.
"$PERFWIND" record -q -o "$TMP/killed.pftrace" -- "$PROGRAMS/recursion" 10 &
perfwind=$!
started $perfwind
sleep 3
kill -9 $perfwind
wait $perfwind 2>/dev/null
for pid in $(pgrep -P 1 -x recursion 2>/dev/null); do
	[ "$(readlink "/proc/$pid/exe" 2>/dev/null)" = "$PROGRAMS/recursion" ] && kill "$pid"
done
check killed-readable has killed '^recursion;.*main;recurse_even;recurse_odd;'
check killed-samples [ "$(folded killed | awk '{n += $NF} END {print n}')" -gt 1000 ]

# Ctrl-C: a whole file, the verdict, the command's fate told.
"$PERFWIND" record --json -o "$TMP/int.pftrace" -p $$ >"$TMP/int.json" 2>"$TMP/int.err" &
perfwind=$!
sleep 1
kill -INT $perfwind
wait $perfwind
check interrupted-status [ $? = 0 ]
check interrupted-verdict json int 'v["samples"] == total'

# A binary that is truncated and rewritten while it runs, is unwound and is symbolised.
cp "$PROGRAMS/recursion" "$TMP/victim"
"$TMP/victim" 4 &
started $!
victim=$!
sleep 0.2
(for _ in 1 2 3 4 5 6 7 8; do
	: >"$TMP/shadow"
	cp "$TMP/shadow" "$TMP/victim.new" && mv -f "$TMP/victim.new" "$TMP/victim"
	sleep 0.1
	cp "$PROGRAMS/qsort" "$TMP/victim.new" && mv -f "$TMP/victim.new" "$TMP/victim"
	sleep 0.1
done) &
record replaced -p $victim -d 2
check replaced-equation json replaced 'v["samples"] == total and v["samples"] > 500'
check replaced-names has replaced 'main;recurse_even;recurse_odd;'
check replaced-not-the-new-file hasnt replaced 'compare'

# A deleted binary.
cp "$PROGRAMS/recursion" "$TMP/deleted"
"$TMP/deleted" 3 &
started $!
sleep 0.1
rm "$TMP/deleted"
record deleted -p $! -d 1
check deleted-names has deleted 'main;recurse_even;recurse_odd;'
check deleted-whole json deleted 'v["stacks"]["whole"] >= 0.99 * total'

# Exec in the middle, and processes that live shorter than a tick.
record exec -- sh -c "exec $PROGRAMS/qsort 1"
check exec-name has exec '^qsort;.*main;'
record short -F 4000 -- sh -c 'i=0; while [ $i -lt 150 ]; do /bin/true; i=$((i + 1)); done'
check short-whole json short 'v["stacks"]["whole"] >= 0.95 * total'

if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
	# A full disk: what was written stays readable, the status is not 0.
	mkdir "$TMP/small"
	unshare -m sh -c "mount -t tmpfs -o size=64k none $TMP/small &&
		$PERFWIND record -F 4000 -o $TMP/small/full.pftrace -- python3 -c 'import json
for i in range(60): json.dumps(list(range(20000)))' >/dev/null 2>$TMP/full.err; echo \$? >$TMP/full.status
		cp $TMP/small/full.pftrace $TMP/full.pftrace"
	check full-disk-status [ "$(cat "$TMP/full.status")" != 0 ]
	check full-disk-said grep -q 'No space left' "$TMP/full.err"
	check full-disk-readable has full 'python3'
	# Another mount namespace and root: the file is found through the process.
	mkdir -p "$TMP/root/bin"
	cp "$PROGRAMS/recursion-static" "$TMP/root/bin/caged"
	chroot "$TMP/root" /bin/caged 3 &
	started $!
	sleep 0.2
	record caged -p $! -d 1
	check chroot-names has caged 'main;recurse_even;recurse_odd;'
else
	skip full-disk "needs root and a mount namespace"
	skip chroot "needs root"
fi

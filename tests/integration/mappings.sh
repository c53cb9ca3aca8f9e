#!/bin/bash
# mappings.sh - what is mapped changes under our feet: loaded and unloaded, moved, deleted, replaced, rewritten in place,
# in another root; and code that stands in no file.
. "$(dirname "$0")/lib"
need_perf

# Two plugins in turn at one address.
record reload -- "$PROGRAMS/reload" 1.2
check reload-met-at-one-address [ $? = 0 ]
check reload-first has reload 'main;run_plugin;run_first;plugin_work;plugin_inner;plugin_callback;burn '
check reload-second has reload 'main;run_plugin;run_second;second_work;second_inner;plugin_callback;burn '
check reload-not-mixed hasnt reload 'run_first;.*second_|run_second;.*plugin_(work|inner)'
check reload-whole json reload 'v["stacks"]["whole"] >= 0.99 * total'
check reload-consistent consistent reload

# Text that moves: no record reports it.
record mremap -- "$PROGRAMS/mremap" 1.2
check mremap-status [ $? = 0 ]
check mremap-home has mremap 'main;at_home;second_work;second_inner;plugin_callback;burn '
check mremap-elsewhere has mremap 'main;elsewhere;second_work;second_inner;plugin_callback;burn '
# On a busy machine the answer to "what is there now?" may come when the text has moved again: one stint is lost then.
check mremap-whole json mremap 'v["stacks"]["whole"] >= 0.8 * total'
check mremap-consistent consistent mremap

# A library that is truncated and rewritten in place while it is mapped, unwound and symbolised.  What is mapped
# loses its pages, so the programs may die of it; perfwind reads files and must not.
cp "$PROGRAMS/mremap" "$PROGRAMS/reload" "$PROGRAMS/plugin.so" "$PROGRAMS/plugin-second.so" "$TMP/"
rewrite() { # FILE: whole, empty, cut, of another kind, garbage, whole again
	: >"$1"
	head -c 5000 "$PROGRAMS/plugin.so" >"$1"
	cat "$PROGRAMS/qsort" >"$1"
	head -c 20000 /dev/urandom >"$1"
	cat "$PROGRAMS/$(basename "$1")" >"$1"
}
(while :; do rewrite "$TMP/plugin-second.so"; rewrite "$TMP/plugin.so"; sleep 0.02; done) &
rewriter=$!
started $rewriter
record rewritten -F 4000 -- sh -c "for i in 1 2 3 4 5 6 7 8; do '$TMP/mremap' 0.1; '$TMP/reload' 0.1; done; exit 5" 2>/dev/null
status=$?
kill $rewriter
check rewritten-status [ $status = 5 ]
check rewritten-survived survived rewritten $status
check rewritten-consistent consistent rewritten
# The same with a process that was attached to, at the moment when its modules are read.
cp "$PROGRAMS/plugin-second.so" "$TMP/"
"$TMP/mremap" 60 2>/dev/null &
target=$!
started $target
wait_for used $target 20
record_in_background attached -p $target
recorder=$!
rewrite "$TMP/plugin-second.so"
wait_for gone $target # of SIGBUS, most likely
kill $target 2>/dev/null
wait $recorder
check attached-survived survived attached $?
check attached-consistent consistent attached

# A program with a file that is replaced, again and again, by another: names are of the program that runs.
cp "$PROGRAMS/recursion" "$TMP/victim"
"$TMP/victim" 60 &
target=$!
started $target
wait_for used $target 20
(while :; do
	for other in /dev/null "$PROGRAMS/qsort"; do
		cp "$other" "$TMP/victim.new" && mv -f "$TMP/victim.new" "$TMP/victim"
		sleep 0.02
	done
done) &
rewriter=$!
started $rewriter
record replaced -p $target -d 1
kill $target $rewriter
check replaced-names has replaced '^victim;.*main;(recurse_even;recurse_odd;){20,}.*burn '
check replaced-whole json replaced 'v["stacks"]["whole"] >= 0.99 * total'
check replaced-not-the-new-file hasnt replaced 'compare_|sort_numbers'
check replaced-consistent consistent replaced

# A deleted program.
cp "$PROGRAMS/recursion" "$TMP/deleted"
"$TMP/deleted" 60 &
target=$!
started $target
wait_for used $target 20
rm "$TMP/deleted"
record deleted -p $target -d 1
kill $target
check deleted-names has deleted 'main;(recurse_even;recurse_odd;){20,}.*burn '
check deleted-whole json deleted 'v["stacks"]["whole"] >= 0.99 * total'
check deleted-consistent consistent deleted

# Text moved into anonymous memory, which no record reports and which has no file in maps: met from the start, and found so.
record remap -- "$PROGRAMS/remap" 1
"$PROGRAMS/remap" 60 &
target=$!
started $target
wait_for used $target 20
record remap-p -p $target -d 1
kill $target
for name in remap remap-p; do
	check $name-names has $name 'main;remapped_work;remapped_inner;burn '
	check $name-whole json $name 'v["stacks"]["whole"] >= 0.98 * total'
	check $name-consistent consistent $name
done
check remap-is-anonymous hasnt remap-p '\[anon\]|perf-[0-9]+.map'

# Code made at run time: named by its map, walked by frame pointer.
record jit -- "$PROGRAMS/jit" 1
check jit-names has jit 'main;call_jitted;jitted_function;jit_callback;burn '
check jit-whole json jit 'v["stacks"]["whole"] >= 0.98 * total'
check jit-consistent consistent jit
# A map that any user may have written names nothing, and that is reported: with the place and the hint, once.
(umask 0; exec "$PROGRAMS/jit" 60) &
open_jit=$!
started $open_jit
wait_for used $open_jit 20
record jit-open -p $open_jit -d 1
check jit-open-is-not-named hasnt jit-open jitted_function
check jit-open-is-reported steps_kept jit-open "^symbols of JIT code are missing: /tmp/perf-$open_jit.map is rejected, because other users can write it"
check jit-open-is-reported-once [ "$(grep -c 'is rejected, because other users' "$TMP/jit-open.err")" = 1 ]
kill $open_jit
rm -f "/tmp/perf-$open_jit.map"

if is_root; then
	# Another root: the file is found through the process.
	mkdir -p "$TMP/root/bin" "$TMP/elsewhere"
	cp "$PROGRAMS/recursion-static" "$TMP/root/bin/caged"
	chroot "$TMP/root" /bin/caged 60 &
	target=$!
	started $target
	wait_for used $target 20
	record caged -p $target -d 1
	kill $target
	check chroot-names has caged 'main;(recurse_even;recurse_odd;){20,}.*burn '
	check chroot-whole json caged 'v["stacks"]["whole"] >= 0.99 * total'
	check chroot-consistent consistent caged
	if unshare -m true 2>/dev/null; then
		# Another mount namespace, where the program lies on a mount that we do not have.  Its JIT twin has its
		# map in a /tmp of its own.
		for program in recursion jit; do
			unshare -m sh -c 'mount -t tmpfs none "$1" && cp "$2" "$1/inside" && cd "$1" &&
				mount -t tmpfs none /tmp && exec ./inside 60' sh "$TMP/elsewhere" "$PROGRAMS/$program" &
			target=$!
			started $target
			wait_for used $target 20
			record "namespace-$program" -p $target -d 1
			kill $target
			check "namespace-$program-consistent" consistent "namespace-$program"
			check "namespace-$program-whole" json "namespace-$program" 'v["stacks"]["whole"] >= 0.98 * total'
		done
		check namespace-names has namespace-recursion 'main;(recurse_even;recurse_odd;){20,}.*burn '
		check namespace-jit-names has namespace-jit 'main;call_jitted;jitted_function;jit_callback;burn '
	else
		skip namespace "a mount namespace is refused"
	fi
else
	skip chroot "needs root"
	skip namespace "needs root"
fi

#!/bin/bash
# processes.sh - changes of processes: fork, exec, exit during a recording, one pid for two incarnations, set-user-ID, names.
. "$(dirname "$0")/lib"
need_perf

record fork -- "$PROGRAMS/fork" 1.5
check fork-parent has fork '^fork;.*main;parent_work;burn '
check fork-child has fork '^fork;.*main;child_main;child_work;burn '
check fork-whole json fork 'v["stacks"]["whole"] >= 0.99 * total and total > 20'
# Without the kernel's part, of which fork() has much, on a busy machine.
seen=0.8
is_root || seen=0.5
check fork-accounted json fork "v['cpu_accounted'] >= $seen"
check fork-consistent consistent fork

# Exec during the recording: by the command itself, and by a process that was attached to.
cat >"$TMP/exec.py" <<'PY'
import os, sys, time
while len(sys.argv) > 2 and not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
end = time.process_time() + 0.4
while time.process_time() < end:
    sum(i * i for i in range(1000))
os.execv(sys.argv[1], [sys.argv[1], "0.8"])
PY
record exec -- "$PYTHON" "$TMP/exec.py" "$PROGRAMS/recursion"
"$PYTHON" "$TMP/exec.py" "$PROGRAMS/recursion" "$TMP/exec-p.pftrace" &
started $!
record exec-p -p $!
for name in exec exec-p; do
	check $name-before has $name '^python3?[^;]*;.*(_PyEval_EvalFrameDefault| \[python)'
	check $name-after has $name '^recursion;.*main;recurse_even;recurse_odd;'
	check $name-not-mixed hasnt $name '_PyEval.*recurse_|recurse_.*_PyEval|^recursion;.*_PyEval|^python.*recurse_'
	check $name-whole json $name 'v["stacks"]["whole"] >= 0.99 * total'
	check $name-consistent consistent $name
done

# Processes that live shorter than a tick.
record short -F 4000 -- sh -c 'i=0; while [ $i -lt 150 ]; do /bin/true; i=$((i + 1)); done'
check short-whole json short 'v["stacks"]["whole"] >= 0.95 * total'
check short-consistent consistent short
check short-name has short '^true;'

# A thread that changes its name: each sample goes by the name of its moment.
record rename -- "$PROGRAMS/rename" 1.2
check rename-early has rename '^early-name;.*thread_main;early_work;burn '
check rename-late has rename '^late-name;.*thread_main;late_work;burn '
check rename-not-before hasnt rename '^late-name;.*early_work'

if is_root && unshare -pf --mount-proc true 2>/dev/null; then
	# One pid, two incarnations after one another, in a pid namespace of our own: its last pid can be set.
	cat >"$TMP/twice.sh" <<'SH'
for program in "recursion 0.6" "qsort 0.6" "recursion 0.05" "qsort 0.05" "recursion 0.05" "qsort 0.05"; do
	echo 399 >/proc/sys/kernel/ns_last_pid || exit 1
	set -- $program
	"$PROGRAMS/$1" "$2" &
	[ $! = 400 ] || exit 1
	wait
done
SH
	export PROGRAMS
	# With own privileges: a daemon outside does not know these pids, and reports that.
	record_twice() { unshare -pf --mount-proc "$OWN_PERFWIND" record --json -o "$TMP/twice.pftrace" -- "$@" >"$TMP/twice.json" 2>"$TMP/twice.err"; }
	record_twice bash "$TMP/twice.sh"
	check pid-reuse-was-made [ $? = 0 ]
	check pid-reuse-first has twice 'main;recurse_even;recurse_odd;.*burn '
	check pid-reuse-second has twice 'main;sort_numbers;.*compare_numbers;compare_work '
	check pid-reuse-whole json twice 'v["stacks"]["whole"] >= 0.98 * total'
	check pid-reuse-names has twice '^recursion;.*main;recurse_even;'
	check pid-reuse-not-mixed hasnt twice '^qsort;.*recurse_|^recursion;.*compare_|recurse_.*compare_'
	check pid-reuse-consistent consistent twice
else
	skip pid-reuse "needs root and a pid namespace"
fi

# Set-user-ID: the kernel takes the events away from an exec that changes the user, and that is all that happens.
if is_root && command -v setpriv >/dev/null && id nobody >/dev/null 2>&1; then
	mkdir "$TMP/user"
	cp "$OWN_PERFWIND" "$PROGRAMS/recursion" "$TMP/user/"
	cp "$PROGRAMS/qsort" "$TMP/user/elevated"
	chown nobody "$TMP/user"
	chmod u+s "$TMP/user/elevated"
	as_nobody ./perfwind record --json -o setuid.pftrace -- sh -c './recursion 0.5; ./elevated 0.5; ./recursion 0.2' \
		>"$TMP/setuid.json" 2>"$TMP/setuid.err"
	check setuid-status [ $? = 0 ]
	cp "$TMP/user/setuid.pftrace" "$TMP/"
	check setuid-own has setuid '^recursion;.*main;recurse_even;'
	check setuid-consistent consistent setuid
	# The whole machine's events are not its own: root sees it.
	setpriv --reuid nobody --clear-groups --inh-caps=-all "$TMP/user/elevated" 60 &
	started $!
	wait_for used $! 20
	record elevated -a -d 1
	check setuid-seen-by-all has elevated '^elevated;.*main;sort_numbers;'
	check setuid-all-consistent consistent elevated
else
	skip setuid "needs root, setpriv and a user nobody"
fi

#!/bin/bash
# plain-user.sh - permissions: an ordinary user at perf_event_paranoid 2 records own programs, user code only, with a note;
# whatever is shut is reported in one line with its hint.
. "$(dirname "$0")/lib"
need_root
need_perf
id nobody >/dev/null 2>&1 || { echo "there is no user nobody"; exit 77; }
command -v setpriv >/dev/null || { echo "setpriv is not there"; exit 77; }

# The build folder may lie where an ordinary user cannot look.
mkdir "$TMP/user"
cp "$PERFWIND" "$PROGRAMS/recursion" "$PROGRAMS/threads" "$PROGRAMS/no-perf-events" "$TMP/user/"
chmod -R a+rX "$TMP"
chown nobody "$TMP/user"
# user_records NAME OPTIONS... : as record, by an ordinary user.  refused NAME REGEX: it must fail with one line that matches.
user_records() {
	local name=$1
	shift
	as_nobody ${LAUNCHER:-} ./perfwind record --json -o "$name.pftrace" "$@" >"$TMP/$name.json" 2>"$TMP/$name.err"
	local status=$?
	cp "$TMP/user/$name.pftrace" "$TMP/" 2>/dev/null
	return $status
}
refused() {
	local name=$1 regex=$2
	shift 2
	user_records "$name" "$@"
	local status=$?
	# What is printed before and is not an error: the missing counter, the kernel, the rings.
	grep -vE 'no hardware cycle counter|^perfwind: (kernel not permitted|rings of|limited here: )' "$TMP/$name.err" >"$TMP/$name.errors"
	[ $status = 1 ] && [ "$(wc -l <"$TMP/$name.errors")" = 1 ] && grep -qE -- "$regex" "$TMP/$name.errors" && return 0
	echo "status $status, and:"
	cat "$TMP/$name.err"
	return 1
}

paranoid=$(cat /proc/sys/kernel/perf_event_paranoid)
restore() { echo "$paranoid" >/proc/sys/kernel/perf_event_paranoid; }
trap 'restore; cleanup' EXIT

[ "$paranoid" = 2 ] || echo 2 >/proc/sys/kernel/perf_event_paranoid
user_records mine -- ./recursion 1
check user-status [ $? = 0 ]
check user-names has mine '^recursion;.*main;(recurse_even;recurse_odd;){20,}.*burn '
check user-whole json mine 'v["stacks"]["whole"] >= 0.99 * total'
check user-no-kernel hasnt mine '_\[k\]'
check user-consistent consistent mine
# The event is the first step down, where there is no counter.
timer=
"$PERFWIND" report "$TMP/mine.pftrace" | grep -q '^Note  *no hardware cycle counter' && timer='^no hardware cycle counter.*cpu-clock'
check user-steps-kept steps_kept mine '^kernel not permitted .*user code only; hint: sudo sysctl kernel.perf_event_paranoid=1' ${timer:+"$timer"}
# Its own running process, by -p.
setpriv --reuid nobody --clear-groups --inh-caps=-all --bounding-set=-all "$TMP/user/threads" 60 &
target=$!
started $target
wait_for used $target 20
user_records own-pid -p $target -d 0.7
check user-own-pid has own-pid '^worker-3;.*thread_main;thread_work;burn '
check user-own-pid-consistent consistent own-pid
# No descriptors for all threads, and whole CPUs are not this user's.
(ulimit -n 24 && refused few-files 'descriptors.*ulimit -Hn' -p $target -d 0.5) >"$TMP/few" 2>&1
check user-few-files [ $? = 0 ]
cat "$TMP/few" | sed 's/^/    /'
kill $target
check user-all refused all 'machine.*perf_event_paranoid = 2.*sysctl kernel.perf_event_paranoid=' -a -d 0.2
check user-others-process refused other 'process 1 may not be profiled' -p 1 -d 0.2
check user-tracepoint refused tracepoint 'perf_event_paranoid|tracefs|root' -e sched:sched_switch -- ./recursion 0.1
check user-kernel-only refused kernel-only 'perf_event_paranoid' --kernel-only -- ./recursion 0.1
check user-nothing-left-behind [ ! -e "$TMP/user/all.pftrace" ]

# A filter that refuses the system call, as container runtimes have it: EPERM; old ones and sandboxes: ENOSYS.
LAUNCHER="./no-perf-events 1"
check seccomp refused seccomp '(seccomp|container).*(--cap-add|seccomp=)' -- ./recursion 0.1
check seccomp-all refused seccomp-all '(seccomp|container).*(--cap-add|seccomp=)' -a -d 0.1
LAUNCHER="./no-perf-events 38"
check no-syscall refused no-syscall 'perf events|perf_event_open' -- ./recursion 0.1
LAUNCHER=
"$PROGRAMS/no-perf-events" 1 "$PERFWIND" record -o "$TMP/rooted.pftrace" -- true >"$TMP/rooted.out" 2>"$TMP/rooted.err"
check seccomp-root [ $? = 1 ]
check seccomp-root-reported grep -q seccomp "$TMP/rooted.err"
# A security module answers EACCES, to root as well: paranoid is not what is shut then.
"$PROGRAMS/no-perf-events" 13 "$PERFWIND" record -o "$TMP/lsm.pftrace" -- true >"$TMP/lsm.out" 2>"$TMP/lsm.err"
check denied-root [ $? = 1 ]
check denied-root-reported grep -qE 'security module|SELinux' "$TMP/lsm.err"

echo 3 >/proc/sys/kernel/perf_event_paranoid
user_records strict -- ./recursion 0.5
status=$?
# Kernels as they are released treat 3 as 2; kernels of Debian, Ubuntu and Android refuse.
if [ $status = 0 ]; then
	check paranoid-3 has strict 'main;recurse_even;'
else
	check paranoid-3 refused strict 'perf_event_paranoid = 3.*sysctl kernel.perf_event_paranoid=2' -- ./recursion 0.5
fi
# With the kernel opened to all, the user sees it.
echo -1 >/proc/sys/kernel/perf_event_paranoid
user_records open -a -d 0.5
check paranoid-open [ $? = 0 ]
check paranoid-open-consistent consistent open
restore

# Rings under a small budget: smaller, reported once with what remains.
(ulimit -l 64 && user_records small -- ./recursion 1)
check small-rings-names has small 'main;(recurse_even;recurse_odd;){20,}.*burn '
check small-rings-reported-once [ "$(grep -cE '^perfwind: limited here: .*no kernel frames.*small rings.*perfwind doctor' "$TMP/small.err")" = 1 ]
(ulimit -l 64 && user_records small-verbose -v -- ./recursion 0.5)
check small-rings-verbose [ "$(grep -cE '^perfwind: rings of .* KiB .* ms .*; hint: sudo sysctl' "$TMP/small-verbose.err")" = 1 ]
check small-rings-consistent consistent small
check small-rings-kept steps_kept small '^rings of .* KiB a CPU instead of .*locked memory' ${timer:+"$timer"}

#!/bin/bash
# plain-user.sh - an ordinary user at perf_event_paranoid 2: own programs work, user code only, and it is said; at 3
# or in a container one line says which gate is shut.
. "$(dirname "$0")/lib"
need_root
need_perf
id nobody >/dev/null 2>&1 || { echo "there is no user nobody"; exit 77; }
command -v setpriv >/dev/null || { echo "setpriv is not there"; exit 77; }

# The build folder may lie where nobody cannot look.
mkdir "$TMP/user"
cp "$PERFWIND" "$PROGRAMS/recursion" "$TMP/user/"
chmod -R a+rX "$TMP"
chown nobody "$TMP/user"
as_nobody() { (cd "$TMP/user" && setpriv --reuid nobody --clear-groups --inh-caps=-all --bounding-set=-all "$@"); }

paranoid=$(cat /proc/sys/kernel/perf_event_paranoid)
restore() { echo "$paranoid" >/proc/sys/kernel/perf_event_paranoid; }
trap 'restore; cleanup' EXIT

echo 2 >/proc/sys/kernel/perf_event_paranoid
as_nobody ./perfwind record --json -o mine.pftrace -- ./recursion 1 >"$TMP/mine.json" 2>"$TMP/mine.err"
check user-status [ $? = 0 ]
cp "$TMP/user/mine.pftrace" "$TMP/mine.pftrace"
check user-names has mine '^recursion;.*main;recurse_even;recurse_odd;'
check user-whole json mine 'v["stacks"]["whole"] >= 0.99 * total'
check user-told-of-kernel grep -qi 'kernel' "$TMP/mine.err"
check user-told-mend grep -q 'sysctl' "$TMP/mine.err"
as_nobody ./perfwind record -o all.pftrace -a -d 0.2 >"$TMP/all.out" 2>"$TMP/all.err"
check user-all-refused [ $? = 1 ]
check user-all-one-line [ "$(grep -c perf_event_paranoid "$TMP/all.err")" = 1 ]
as_nobody ./perfwind record -o other.pftrace -p 1 -d 0.2 >"$TMP/other.out" 2>"$TMP/other.err"
check user-other-refused [ $? = 1 ]

echo 3 >/proc/sys/kernel/perf_event_paranoid
if [ "$(cat /proc/sys/kernel/perf_event_paranoid)" = 3 ]; then
	as_nobody ./perfwind record -o no.pftrace -- ./recursion 0.5 >"$TMP/no.out" 2>"$TMP/no.err"
	status=$?
	# Stock kernels treat 3 as 2; Debian's and Ubuntu's refuse.
	check paranoid-3 sh -c "[ $status = 0 ] || { [ $status = 1 ] && grep -q perf_event_paranoid $TMP/no.err; }"
fi
restore

# Rings under a small budget: smaller, said once.
(ulimit -l 512; as_nobody ./perfwind record --json -o small.pftrace -- ./recursion 1) >"$TMP/small.json" 2>"$TMP/small.err"
check small-rings json small 'v["samples"] > 100'
check small-rings-said-once [ "$(grep -ciE 'ring|mlock' "$TMP/small.err")" = 1 ]

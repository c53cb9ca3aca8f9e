#!/bin/bash
# systemd-unit.sh - tests again with the daemon that systemd runs by our unit (systemd_unit.py): its user, its rights, its
# view of the machine, both lists of system calls.  First the daemon's own tests; then others, with recordings that are asked
# of it (asked/), with the right to read every program's memory where that is what they are about (direct/).  Two run at
# a time, the longest first.
#
# The budget of locked memory (LimitMEMLOCK) cannot be raised without CAP_SYS_RESOURCE.  Where that is missing the
# machine's own budget is raised instead, for that time: the daemon's rights stay as in the unit.  One run after
# the other; what the budget was stands in the lock's file meanwhile, for the next run if this one is killed.
if [ -z "${BOOTED:-}" ]; then
	budget=/proc/sys/kernel/perf_event_mlock_kb lock=/run/perfwind-test-budget raised=
	if [ "$(ulimit -H -l)" != unlimited ] && ! prlimit --memlock=1073741824:1073741824 true 2>/dev/null && [ -w $budget ]; then
		exec 8>>$lock
		flock 8
		[ -s $lock ] || cat $budget >$lock
		trap 'cat $lock >$budget; : >$lock' EXIT
		echo $((1 << 20)) >$budget
		raised="the unit's LimitMEMLOCK cannot be given here (no CAP_SYS_RESOURCE): kernel.perf_event_mlock_kb is raised"
	fi
	"$(dirname "$0")/with-systemd" env BOOTED=1 BUDGET="$raised" "tests/integration/$(basename "$0")" "$@" 8>&-
	exit
fi
. "$(dirname "$0")/lib"
need_perf
"${MAKE:-make}" -s --no-print-directory O="$O" PREFIX=/usr install >"$TMP/install.log" 2>&1 && systemd-sysusers &&
	systemctl daemon-reload
check unit-installs [ $? = 0 ]
[ -z "$BUDGET" ] || unable limit-memlock "$BUDGET"
export UNIT_DAEMON=$INTEGRATION/systemd_unit.py
export DAEMON_SESSIONS=${DAEMON_SESSIONS:-50}

# From its first instruction it calls nothing that the unit refuses: one that does would be killed here.
UNIT_REFUSED=kill "$UNIT_DAEMON" -s "$TMP/no-service" --control-socket "$TMP/first.sock" 2>"$TMP/first.log" &
started $!
first=$!
wait_for grep -q 'system calls are filtered' "$TMP/first.log"
"$PERFWIND" record -q --daemon --control-socket "$TMP/first.sock" -o "$TMP/first.pftrace" -- "$PROGRAMS/recursion" 0.3
check refused-nothing-names has first 'main;(recurse_even;recurse_odd;){20,}.*burn '
kill $first
wait $first
check refused-nothing [ $? = 0 ]

two_at_a_time unit/{daemon,control} ${PERFETTO_BIN:+unit/traced} unit/consent direct/{stall,unwinders,mappings,debug-files,containers} \
	asked/{record-pid,processes,languages,record-command,target-end,pid-reuse}

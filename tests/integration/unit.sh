#!/bin/bash
# unit.sh - tests again with the daemon that systemd runs as our unit says (unit_daemon.py): its user, its rights, its
# view of the machine, and both lists of system calls, where a call that is refused ends the daemon.  First the daemon's
# own tests; then others, whose recordings of processes and CPUs are asked of it.  Two run at a time.
if [ -z "${BOOTED:-}" ]; then
	exec "$(dirname "$0")/with-systemd" env BOOTED=1 "tests/integration/$(basename "$0")" "$@"
fi
. "$(dirname "$0")/lib"
need_perf
"${MAKE:-make}" -s --no-print-directory O="$O" PREFIX=/usr install >"$TMP/install.log" 2>&1 && systemd-sysusers &&
	systemctl daemon-reload
check unit-installs [ $? = 0 ]
export UNIT_DAEMON=$INTEGRATION/unit_daemon.py
export DAEMON_SESSIONS=${DAEMON_SESSIONS:-50}
two_at_a_time unit daemon control ${PERFETTO_BIN:+traced}
export RECORDS_BY_UNIT=1
two_at_a_time recorded containers stall record-pid processes

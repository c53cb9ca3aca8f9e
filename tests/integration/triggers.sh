#!/bin/bash
# triggers.sh - `perfwind trigger` and `perfwind trace --start`: sessions that begin or end by them, and files that are not made without.
. "$(dirname "$0")/lib"
need_perf
"$PERFWIND" record -q -a -d 0.01 -o "$TMP/probe.pftrace" >"$TMP/probe.err" 2>&1 || { tail -n 1 "$TMP/probe.err"; exit 77; }

trigger="triggers test $$"
config() { echo 'buffers { size_kb: 4096 } data_sources { config { name: "linux.perf" perf_event_config { timebase { counter: SW_PAGE_FAULTS
	poll_period_ms: 10 } } } }' "$*"; }
triggers() { echo "trigger_config { trigger_mode: $1 trigger_timeout_ms: $2 triggers { name: '$trigger' stop_delay_ms: 100 } }"; }
config "$(triggers START_TRACING 60000)" >"$TMP/start.cfg"
config "$(triggers STOP_TRACING 60000)" >"$TMP/stop.cfg"
config "$(triggers STOP_TRACING 100)" >"$TMP/none.cfg"
config "deferred_start: true unique_session_name: '$trigger' duration_ms: 100" >"$TMP/deferred.cfg"
echo "activate_triggers: '$trigger'" >"$TMP/activate.cfg"
whole() { "$PERFWIND" losses "$1" >"$TMP/losses" || { cat "$TMP/losses"; return 1; }; }
has_trigger() { "$PERFWIND" trace --dump "$1" | grep "trigger_name: \"$trigger\"" >/dev/null; }
fails() { ! "$@" >"$TMP/failed" 2>&1; }

check no-session fails "$PERFWIND" trigger "$trigger"
check no-session-reason grep -q 'no trace session of yours waits for triggers; hint: perfwind trace --background' "$TMP/failed"
for mode in start stop; do
	pid=$("$PERFWIND" trace --background -c "$TMP/$mode.cfg" -o "$TMP/$mode.pftrace")
	check $mode-other-name fails "$PERFWIND" trigger "other $trigger"
	check $mode-other-reason grep -q 'your trace sessions wait for other triggers; hint: ' "$TMP/failed"
	check $mode-no-file-before [ ! -e "$TMP/$mode.pftrace" ]
	if [ $mode = start ]; then
		check $mode-trigger "$PERFWIND" trigger "$trigger"
	else
		check $mode-activate "$PERFWIND" trace -c "$TMP/activate.cfg"
	fi
	check $mode-ends wait_for fails kill -0 "$pid"
	check $mode-whole whole "$TMP/$mode.pftrace"
	check $mode-has-trigger has_trigger "$TMP/$mode.pftrace"
done
check untriggered "$PERFWIND" trace -c "$TMP/none.cfg" -o "$TMP/none.pftrace"
check untriggered-no-file [ ! -e "$TMP/none.pftrace" ]

# CLONE_SNAPSHOT: a file for each trigger while the session goes on, and no other file.
config "$(triggers CLONE_SNAPSHOT 60000)" >"$TMP/clone.cfg"
pid=$("$PERFWIND" trace --background -c "$TMP/clone.cfg" -o "$TMP/clone.pftrace")
for i in 1 2; do
	check clone-trigger-$i "$PERFWIND" trigger "$trigger"
	check clone-whole-$i wait_for whole "$TMP/clone-$i.pftrace"
	check clone-has-trigger-$i has_trigger "$TMP/clone-$i.pftrace"
done
check clone-goes-on kill -INT "$pid"
check clone-ends wait_for fails kill -0 "$pid"
check clone-no-other-file [ ! -e "$TMP/clone.pftrace" ]

pid=$("$PERFWIND" trace --background -c "$TMP/deferred.cfg" -o "$TMP/deferred.pftrace")
check deferred-no-file [ ! -e "$TMP/deferred.pftrace" ]
check deferred-start "$PERFWIND" trace --start "$trigger"
check deferred-ends wait_for fails kill -0 "$pid"
check deferred-whole whole "$TMP/deferred.pftrace"
check start-no-session fails "$PERFWIND" trace --start "$trigger"

# The daemon records, the client hears the triggers.
if [ "$(id -u)" = 0 ]; then
	mkdir -m 777 "$TMP/user"
	chmod 711 "$TMP"
	"$PERFWIND" daemon --control-socket "$TMP/user/control" --hook-socket "$TMP/user/hook" --socket "$TMP/no-service" 2>"$TMP/daemon.err" &
	daemon=$!
	started $daemon
	cp "$PERFWIND" "$TMP"/*.cfg "$TMP/user/"
	# Samples of the user's own processes, in place of counters of CPUs.
	sed -i 's/counter: SW_PAGE_FAULTS/counter: SW_CPU_CLOCK frequency: 99/; s/poll_period_ms: 10 } }/} callstack_sampling {} }/' "$TMP/user/"*.cfg
	check daemon-ready wait_for [ -S "$TMP/user/control" ]
	as_user() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
	# asked MODE : a session of an ordinary user, by the daemon; runs until "accepted" is printed.
	asked() {
		setpriv --reuid 65534 --regid 65534 --clear-groups "$TMP/user/perfwind" trace --daemon --control-socket "$TMP/user/control" \
			-c "$TMP/user/$1.cfg" -o "$TMP/user/$1.pftrace" 2>"$TMP/asked.err" &
		session=$!
		started $session
		wait_for grep -q "perfwind-trigger/65534/$session$" /proc/net/unix || { cat "$TMP/asked.err"; return 1; }
	}
	for mode in start stop; do
		asked $mode
		check daemon-$mode [ $? = 0 ]
		check daemon-$mode-other-name fails as_user "$TMP/user/perfwind" trigger "other $trigger"
		check daemon-$mode-no-file-before [ ! -e "$TMP/user/$mode.pftrace" ]
		check daemon-$mode-trigger as_user "$TMP/user/perfwind" trigger "$trigger"
		wait $session
		check daemon-$mode-status [ $? = 0 ]
		check daemon-$mode-whole whole "$TMP/user/$mode.pftrace"
		check daemon-$mode-has-trigger has_trigger "$TMP/user/$mode.pftrace"
	done
	asked deferred
	check daemon-deferred [ $? = 0 ]
	check daemon-deferred-no-file [ ! -e "$TMP/user/deferred.pftrace" ]
	check daemon-deferred-start as_user "$TMP/user/perfwind" trace --start "$trigger"
	wait $session
	check daemon-deferred-status [ $? = 0 ]
	check daemon-deferred-whole whole "$TMP/user/deferred.pftrace"
	asked none
	wait $session
	check daemon-untriggered [ $? = 0 ]
	check daemon-untriggered-reported grep -q 'nothing was kept' "$TMP/asked.err"
	check daemon-untriggered-no-file [ ! -e "$TMP/user/none.pftrace" ]
	clones_refused() { fails as_user "$TMP/user/perfwind" trace --daemon --control-socket "$TMP/user/control" -c "$TMP/user/clone.cfg" -o "$TMP/user/x" && grep -q CLONE_SNAPSHOT "$TMP/failed"; }
	check daemon-no-clones clones_refused
	kill -TERM $daemon
	wait $daemon
	check daemon-status [ $? = 0 ]
fi

# A tracing service gets them too; its answer counts, as it does not report its sessions.
cat >"$TMP/service.py" <<-END
	import sys
	sys.path.insert(0, "$(cd "$(dirname "$0")" && pwd)")
	from fake_traced import Service
	service = Service("$TMP/traced")
	open("$TMP/service.ready", "w").close()
	service.accept()
	service.wait_closed()
	assert service.triggers == ["$trigger", "other"], service.triggers
	assert not service.violations, service.violations
END
"$PYTHON" "$TMP/service.py" &
service=$!
check service-ready wait_for [ -e "$TMP/service.ready" ]
check service-took env PERFETTO_PRODUCER_SOCK_NAME="$TMP/traced" "$PERFWIND" trigger "$trigger" other
wait $service
check service-judges [ $? = 0 ]
check service-gone fails env PERFETTO_PRODUCER_SOCK_NAME="$TMP/traced" "$PERFWIND" trigger "$trigger"

#!/bin/bash
# triggers.sh - `perfwind trigger` and `perfwind trace --start`: sessions that begin or end by them, and files that are not made without.
. "$(dirname "$0")/lib"
need_perf

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
for mode in start stop; do
	pid=$("$PERFWIND" trace --background -c "$TMP/$mode.cfg" -o "$TMP/$mode.pftrace")
	check $mode-other-name fails "$PERFWIND" trigger "other $trigger"
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

#!/bin/bash
# consent.sh - processes that may not be read give their maps and memory by consent: perfwind as a user without
# ptrace rights, programs of another user under `perfwind run`.
#
# CAP_PERFMON opens the maps of all processes since Linux 6.15, but not their memory; so the recordings that need
# consent for both are of whole CPUs at perf_event_paranoid -1, with no right but to send signals.
. "$(dirname "$0")/lib"
need_root
need_perf
command -v setpriv >/dev/null || { echo "setpriv is not there"; exit 77; }
. "$INTEGRATION/consent-lib"
if [ -n "${UNIT_DAEMON:-}" ]; then
	. "$INTEGRATION/consent-systemd-unit"
	exit
fi

# profile NAME CAPS OPTIONS... : as record.
profile() {
	local name=$1 caps=$2
	shift 2
	(as_profiler "$caps" ${LAUNCHER:-} "$U/perfwind" record --json --hook-socket "$SOCKET" -o "$U/$name.pftrace" "$@" \
		>"$TMP/$name.json" 2>"$TMP/$name.err")
	local status=$?
	cp "$U/$name.pftrace" "$TMP/" 2>/dev/null
	return $status
}
reported() { grep -qE -- "$2" "$TMP/$1.err" && return 0; cat "$TMP/$1.err"; return 1; }

paranoid=$(cat /proc/sys/kernel/perf_event_paranoid)
trap 'echo "$paranoid" >/proc/sys/kernel/perf_event_paranoid; cleanup' EXIT
echo -1 >/proc/sys/kernel/perf_event_paranoid

# ---- side by side: one that consents, one without the hook, one that refuses, one of our own
consenting "$U/recursion" 100
hooked=$PID
as_target "$U/plain" 100 & started $!; plain=$!
PERFWIND_HOOK_DENY=1 consenting "$U/denied" 100
denied=$PID
as_profiler "$FEW" "$U/own" 100 & started $!; own=$!
(as_target "$U/perfwind" run --hook-socket "$U/elsewhere.sock" -- "$U/mute" 100) & started $!; mute=$!
for pid in $hooked $plain $denied $own $mute; do wait_for used $pid 50; done
profile sides $FEW -v -a -d 2
check sides-status [ $? = 0 ]
check consent-names has sides '^recursion;_start;.*main;(recurse_even;recurse_odd;){20,}.*burn '
check consent-reported reported sides 'no permission to read process [0-9]+ .*: it and similar processes are asked for their consent; .*hook\.sock'
check plain-without-names hasnt sides '^plain;.*main;'
check denied-without-names hasnt sides '^denied;.*main;'
check refused-reported reported sides 'no permission to read process [0-9]+ .*, and it cannot be asked: the hook is not loaded in it, or disabled itself on a small alternate signal stack; .*perfwind run'
check own-read-directly has sides '^own;_start;.*main;(recurse_even;recurse_odd;){20,}.*burn '
check direct-not-asked bash -c "! grep -E 'process $own .*asked' '$TMP/sides.err'"
check sides-consistent consistent sides
# Processes that were asked and answered are counted, and those that answer elsewhere.
check sides-counted bash -c "'$PERFWIND' report '$TMP/sides.pftrace' | grep -E '^Consent ' | tee /dev/stderr |
	grep -qE ' [0-9]+ asked, [0-9]+ gave.*[0-9]+ did not answer'"
check sides-mute-reported reported sides 'did not answer within [0-9]+ ms; hint: its hook must reach the socket'
check socket-taken-away [ ! -e "$SOCKET" ]
check still-there kill -0 $hooked $plain $denied $own

# ---- with the rights of a daemon
profile daemonlike $SOME -v -p $hooked -d 1
check rights-names has daemonlike '^recursion;_start;.*main;(recurse_even;recurse_odd;){20,}.*burn '
check rights-whole json daemonlike 'total > 0 and v["stacks"]["whole"] >= 0.99 * total'
check rights-asked reported daemonlike "process $hooked .*asked"
# As before Linux 6.5.
LAUNCHER="env PERFWIND_WITHOUT=peer-pidfd,pidfd" profile without $FEW -a -d 1
check without-names has without '^recursion;_start;.*main;(recurse_even;recurse_odd;){20,}.*burn '
# Signals may not be sent.
profile no-kill +dac_read_search -a -d 1
check no-kill-reported reported no-kill 'it cannot be asked: no permission to send it a signal'
# A second one at the same socket reports it, and does not take it away.
as_profiler $FEW "$U/perfwind" record -q --hook-socket "$SOCKET" -o "$U/first.pftrace" -a -d 30 2>/dev/null &
first=$!
started $first
wait_for test -S "$SOCKET"
profile second $FEW -a -d 1
check second-reported reported second 'hook socket cannot be opened: .*another perfwind listens there'
check second-left-it test -S "$SOCKET"
kill $first
wait $first 2>/dev/null
kill $hooked $plain $denied $own $mute

# ---- by asking the daemon: the profiler's rights are its, the targets and the requester are one user without any
mkdir "$U/asker"
chown 60001 "$U/asker"
# asks NAME OPTIONS... : as record.
asks() {
	local name=$1
	shift
	(as_target "$U/perfwind" record --daemon --control-socket "$CONTROL" --json -o "$U/asker/$name.pftrace" "$@" \
		>"$TMP/$name.json" 2>"$TMP/$name.err")
	local status=$?
	cp "$U/asker/$name.pftrace" "$TMP/" 2>/dev/null
	return $status
}
consenting "$U/recursion" 300
hooked=$PID
as_target "$U/plain" 300 & started $!; plain=$!
for pid in $hooked $plain; do wait_for used $pid 50; done

# Without CAP_PERFMON the daemon can read no mappings without consent, nor open events on another user's process: only
# a requester that may record everything gets the events on CPUs that perf_event_paranoid allows it.
echo 'all-users = 60001' >"$U/settings"
starts_daemon +kill "$U/settings"
asks asked -a -d 1
check asked-status [ $? = 0 ]
check asked-names has asked "^recursion;$CHAIN"
check asked-plain-without-names hasnt asked '^plain;.*main;'
check asked-reported reported asked 'no permission to read process [0-9]+ .*: it and similar processes are asked for their consent; .*hook\.sock'
check asked-is-kept bash -c "'$PERFWIND' report '$TMP/asked.pftrace' | grep -q '^Note .*are asked for their consent'"
check asked-consistent consistent asked
cat >"$U/asker/config" <<END
buffers { size_kb: 4096 } duration_ms: 1000
data_sources { config { name: "linux.perf" target_buffer: 0 perf_event_config {
timebase { frequency: 999 counter: SW_CPU_CLOCK timestamp_clock: PERF_CLOCK_MONOTONIC }
callstack_sampling { scope { target_pid: $hooked } } } } }
END
(as_target "$U/perfwind" trace --daemon --control-socket "$CONTROL" -c "$U/asker/config" -o "$U/asker/traced.pftrace" \
	2>"$TMP/traced.err")
check traced-status [ $? = 0 ]
cp "$U/asker/traced.pftrace" "$TMP/"
check traced-names has traced "^recursion;$CHAIN"
ends_daemon
# With the right to open events the mappings may be; the memory behind a copied stack still takes consent.
echo 2 >/proc/sys/kernel/perf_event_paranoid
starts_daemon +perfmon,+kill
asks short -p $hooked -d 1 --stack-bytes 512
check asked-whole-by-memory json short 'total > 0 and v["stacks"]["whole"] >= 0.8 * total' # all behind the answer
check asked-memory-names has short "^recursion;$CHAIN"
asks short-plain -p $plain -d 1 --stack-bytes 512
check asked-plain-cut json short-plain 'total > 0 and v["stacks"]["whole"] <= 0.2 * total'
check asked-by-signal grep -q "process $hooked .*: asked" "$TMP/daemon.err"
check asked-filter-was-enough filter_was_enough
ends_daemon
# So do the functions of an interpreter.
consenting "$PYTHON" -c 'def python_leaf():
    for i in range(20000): i * i
while True: python_leaf()'
python=$PID
wait_for used $python 300
profile python +perfmon,+kill -p $python -d 2
check python-names has python ';python_leaf \[python\]'
check python-is-not-refused bash -c "! grep 'cannot be read' '$TMP/python.err'"
kill $python
echo -1 >/proc/sys/kernel/perf_event_paranoid
kill $hooked $plain

# ---- exec, threads, children
consenting sh -c "i=0; while [ \$i -lt 300000 ]; do i=\$((i + 1)); done; exec $U/recursion 100"
exec_pid=$PID
consenting "$U/threads" 100
threads=$PID
consenting "$U/fork" 100
fork=$PID
wait_for used $threads 20
as_profiler $FEW "$U/perfwind" record --json -v --hook-socket "$SOCKET" -o "$U/incarnations.pftrace" -a -d 100 \
	>"$TMP/incarnations.json" 2>"$TMP/incarnations.err" &
recorder=$!
started $recorder
replaced() { [ "$(cat /proc/$exec_pid/comm)" = recursion ]; }
wait_for replaced
wait_for used $exec_pid $(($(cpu_ms $exec_pid) + 300))
wait_for used $fork $(($(cpu_ms $fork) + 200))
kill -INT $recorder
wait $recorder
cp "$U/incarnations.pftrace" "$TMP/"
check exec-names has incarnations '^recursion;_start;.*main;(recurse_even;recurse_odd;){20,}.*burn '
check exec-asked-again bash -c "[ \$(grep -cE 'process $exec_pid .*: asked' '$TMP/incarnations.err') -ge 2 ]"
check threads-names has incarnations '^worker-3;.*thread_main;thread_work;burn '
check fork-names has incarnations '^fork.*;main;.*burn '
kill $exec_pid $threads $fork

# ---- a container: pids and /proc of its own, the socket at the same path
consenting true
wait $PID
if unshare --pid --fork --mount-proc true 2>/dev/null; then
	in_container sh -c "$U/inner 100; true" &
	started $!
	container=$!
	inner() { pgrep -U 60001 -x inner; }
	wait_for inner
	wait_for used "$(inner)" 50
	started "$(inner)"
	profile container $FEW -v -a -d 2
	check container-names has container '^inner;_start;.*main;(recurse_even;recurse_odd;){20,}.*burn '
	kill "$(inner)"
	wait $container 2>/dev/null
else
	skip container-names "no mount and pid namespace here (refused, or a chroot)"
fi

# ---- Go: the runtime has its own handler for the signal, by system calls
if command -v go >/dev/null; then
	if builds_go gowork work.go >"$TMP/go.log" 2>&1 && builds_go restless-go restless.go >"$TMP/go.log" 2>&1; then
		consenting "$U/gowork" 100
		gowork=$PID
		wait_for used $gowork 50
		profile go $FEW -v -a -d 2
		check go-asked reported go "process $gowork .*: asked"
		check go-runs-on kill -0 $gowork
		kill $gowork
	else
		skip go "it does not build: $(tail -n 1 "$TMP/go.log")"
	fi
else
	skip go "go is not there"
fi

# ---- no target dies of it: each kind of program that is never the same for long, also under a filter
as_profiler $FEW "$U/perfwind" record --json -v --hook-socket "$SOCKET" -o "$U/stress.pftrace" -a -d $((STRESS + 1)) \
	--consent-under-seccomp >"$TMP/stress.json" 2>"$TMP/stress.err" &
stress=$!
started $stress
wait_for test -s "$U/stress.pftrace"
becomes_restless $STRESS
for each in $RESTLESS; do
	wait ${each#*:}
	check ${each%:*}-runs-on [ $? = 0 ]
done
wait $stress
check stress-status [ $? = 0 ]
cp "$U/stress.pftrace" "$TMP/"
check stress-asked bash -c "[ \$(grep -c ': asked' '$TMP/stress.err') -ge 10 ]"
echo "stress: $(grep -c ': asked' "$TMP/stress.err") asked in $STRESS s"
check stress-names has stress "^recursion;$CHAIN"
check stress-consistent consistent stress
kill $CALM

# ---- nor of being asked all the time: by hundreds of requests a second, at any time of their run
cat >"$U/all" <<'SH'
#!/bin/sh
# all SECONDS PROGRAM... : side by side; the status is 0 when all of them are.
seconds=$1 status=0 pids=
shift
for program; do "$program" "$seconds" & pids="$pids $!"; done
for pid in $pids; do wait $pid || status=1; done
exit $status
SH
chmod 755 "$U/all"
kinds=
for each in $RESTLESS; do kinds="$kinds $U/${each%:*}"; done
cp "$INTEGRATION/hook_asker.py" "$U/"
(as_target "$PYTHON" "$U/hook_asker.py" "$U/perfwind" 200 "$U/all" $STRESS $kinds) 3>"$TMP/asked.json"
check asked-often-runs-on [ $? = 0 ]
echo "asked often: $(cat "$TMP/asked.json")"
asked_often() {
	"$PYTHON" -c 'import json, sys; v = json.load(open(sys.argv[1]))
sys.exit(bool(v["wrong"]) or v["answers"] <= 20 or v["processes"] <= 1)' "$TMP/asked.json" && return 0
	cat "$TMP/asked.json"
	return 1
}
check asked-often-answers asked_often

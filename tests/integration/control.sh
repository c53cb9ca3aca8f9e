#!/bin/bash
# control.sh - recordings that are asked for: a daemon that is not root, with the rights that the unit gives it and no
# others, and plain users who may have this and not that.
. "$(dirname "$0")/lib"
need_root
need_perf
for tool in setpriv "$PYTHON"; do command -v $tool >/dev/null || { echo "$tool is not there"; exit 77; }; done

# Users and groups by number: none of them need be known to the machine.
DAEMON=61001 ALICE=61002 BOB=61003 MEMBERS=61100
SOCKET=$TMP/run/control.sock
mkdir "$TMP/bin" "$TMP/run" "$TMP/alice" "$TMP/bob" "$TMP/root"
cp "$PERFWIND" "$PROGRAMS/recursion" "$PROGRAMS/threads" "$INTEGRATION/control_hostile.py" "$TMP/bin/"
chmod -R a+rX "$TMP"
chown $DAEMON "$TMP/run"; chown $ALICE "$TMP/alice"; chown $BOB "$TMP/bob"
PERFWIND=$TMP/bin/perfwind

# as USER[:GROUP] COMMAND... : without any right.
as() {
	local user=${1%:*} group=${1#*:}
	shift
	if [ "$group" = "$user" ]; then group=--clear-groups; else group="--groups=$group"; fi
	setpriv --reuid "$user" --regid "$user" "$group" --inh-caps=-all --bounding-set=-all "$@"
}
# starts_daemon RIGHTS SETTINGS... : as the unit does: a user of its own, ambient rights.
DAEMON_PID=
RIGHTS=perfmon,kill,dac_read_search,syslog
# Since Linux 6.15 PERFMON is enough to read the mappings of others; before it takes ptrace or the process's consent.
NEW_KERNEL=$([ "$(printf '6.15\n%s\n' "$(uname -r)" | sort -V | head -n 1)" = 6.15 ] && echo ,stacks)
[ -n "$NEW_KERNEL" ] && DIRECT= || DIRECT=,sys_ptrace
starts_daemon() {
	local rights="-all" right
	for right in ${1//,/ }; do rights="$rights,+$right"; done
	shift
	printf '%s\n' "$@" >"$TMP/conf"
	setpriv --reuid $DAEMON --regid $DAEMON --clear-groups --inh-caps="$rights" --ambient-caps="$rights" \
		--bounding-set="$rights" "$PERFWIND" daemon -v -s "@perfwind-control-$$" --config "$TMP/conf" \
		--control-socket "$SOCKET" 2>"$TMP/daemon.err" &
	DAEMON_PID=$!
	started $DAEMON_PID
	wait_for test -S "$SOCKET"
}
ends_daemon() {
	kill "$DAEMON_PID"
	wait "$DAEMON_PID"
	DAEMON_STATUS=$?
}
# asks USER NAME OPTIONS... : a recording by the daemon.
asks() {
	local user=$1 name=$2 folder=$TMP/alice
	shift 2
	[ "${user%:*}" = $BOB ] && folder=$TMP/bob
	[ "$user" = 0 ] && folder=$TMP/root
	(cd "$folder" && as "$user" "$PERFWIND" record --daemon --control-socket "$SOCKET" --json -o "$name.pftrace" \
		-d "${SECONDS_ASKED:-0.5}" "$@") >"$TMP/$name.json" 2>"$TMP/$name.err"
	local status=$?
	[ ! -f "$folder/$name.pftrace" ] || cp "$folder/$name.pftrace" "$TMP/"
	return $status
}
# denied USER NAME REGEX OPTIONS... : one line that says why, status 1, and no file.
denied() {
	local user=$1 name=$2 regex=$3
	shift 3
	asks "$user" "$name" "$@"
	local status=$?
	[ $status = 1 ] && [ "$(wc -l <"$TMP/$name.err")" = 1 ] && grep -qE -- "$regex" "$TMP/$name.err" &&
		[ ! -e "$TMP/$name.pftrace" ] && return 0
	echo "status $status, and:"
	cat "$TMP/$name.err"
	return 1
}

hasnt_line() { ! grep -E -- "$2" "$1"; }

# Targets: Alice's, Bob's, root's.
setpriv --reuid $ALICE --regid $ALICE --clear-groups "$TMP/bin/recursion" 600 & ALICES=$!
setpriv --reuid $BOB --regid $BOB --clear-groups "$TMP/bin/threads" 600 & BOBS=$!
"$TMP/bin/recursion" 600 & ROOTS=$!
started $ALICES; started $BOBS; started $ROOTS
wait_for used $ALICES 20

NAMED='^recursion;.*main;(recurse_even;recurse_odd;){20,}.*burn '
starts_daemon $RIGHTS$DIRECT ${DIRECT:+"direct = yes"} "all-groups = $MEMBERS"
asks $ALICE own -p $ALICES
check own-status [ $? = 0 ]
check own-names has own "$NAMED"
check own-whole json own 'v["stacks"]["whole"] >= 0.99 * total'
check own-user-code-only hasnt own '_\[k\]'
check own-consistent consistent own
check own-is-said grep -q "recorded by the perfwind daemon for user $ALICE" "$TMP/own.err"
check own-is-alices [ "$(stat -c %u "$TMP/alice/own.pftrace")" = $ALICE ]
check others-denied denied $ALICE others "process $BOBS is another user's \($BOB, you are $ALICE\)" -p $BOBS
check roots-denied denied $ALICE roots "process $ROOTS is another user's \(0," -p $ROOTS
check one-of-two-denied denied $ALICE two "process $BOBS is another" -p $ALICES,$BOBS
check kernel-denied denied $ALICE kernel 'kernel code is not for everyone' -p $ALICES --kernel-only
check probe-denied denied $ALICE uprobe 'probes are not placed for others' -p $ALICES -e uprobe:/bin/ls:main
check gone-denied denied $ALICE nobody 'no process 999999' -p 999999
# -a by anyone: their own.
asks $ALICE all -a
check all-own has all "$NAMED"
check all-own-only hasnt all '^threads'
check all-is-said grep -q "only this user's own processes, and user code only" "$TMP/all.err"
check all-left-out json all 'v["skipped"]["not-in-scope"] > 0'
check all-consistent consistent all
# A member of the group: all, and the kernel.
asks $BOB:$MEMBERS member -a
check member-all has member "$NAMED"
check member-kernel has member '_\[k\]'
check member-consistent consistent member
asks $BOB:$MEMBERS member-pid -p $ROOTS
check member-pid has member-pid "$NAMED"
asks 0 root -p $BOBS
check root-all has root '^worker-3;.*thread_main;thread_work;burn '
# A trace config: the file is the client's, the rules are the same.
traces() { # NAME PID BUFFER_KB
	cat >"$TMP/alice/$1.cfg" <<-END
		buffers { size_kb: $3 } duration_ms: 700
		data_sources { config { name: "linux.perf" target_buffer: 0 perf_event_config {
		timebase { frequency: 999 counter: SW_CPU_CLOCK timestamp_clock: PERF_CLOCK_MONOTONIC }
		callstack_sampling { scope { target_pid: $2 } } } } }
	END
	(cd "$TMP/alice" && as $ALICE "$PERFWIND" trace --daemon --control-socket "$SOCKET" -c "$1.cfg" -o "$1.pftrace") \
		>"$TMP/$1.err" 2>&1
	local status=$?
	[ ! -f "$TMP/alice/$1.pftrace" ] || cp "$TMP/alice/$1.pftrace" "$TMP/"
	return $status
}
traces traced $ALICES 4096
check trace-status [ $? = 0 ]
check trace-names has traced "$NAMED"
traces traced-other $BOBS 4096
folded traced-other >"$TMP/traced-other.folded"
check trace-of-others hasnt_line "$TMP/traced-other.folded" 'burn'
traces traced-huge $ALICES 4000000
check trace-memory-denied grep -q user-memory "$TMP/traced-huge.err"

# Its caller killed: the recording ends, nobody else's does.
SECONDS_ASKED=60 asks $ALICE killed -p $ALICES &
asking=$!
started $asking
wait_for test -s "$TMP/alice/killed.pftrace"
threads() { ls "/proc/$DAEMON_PID/task" | wc -l; }
asker=$(pgrep -P $asking -f perfwind | head -n 1)
[ -n "$asker" ] || asker=$(pgrep -P "$(pgrep -P $asking | head -n 1)" | head -n 1)
busy=$(threads)
kill -9 "$asker"
is_idle() { [ "$(threads)" -lt "$busy" ]; }
check killed-ends wait_for is_idle
asks $ALICE after-killed -p $ALICES
check killed-others-go-on has after-killed "$NAMED"
# Whatever a client sends: refused, and others are served.
check hostile as $ALICE "$PYTHON" "$TMP/bin/control_hostile.py" "$SOCKET"
asks $ALICE after-hostile -p $ALICES
check hostile-others-go-on has after-hostile "$NAMED"
check filter-was-enough hasnt_line "$TMP/daemon.err" 'the filter refuses'
check rights-are-told grep -q "rights: $RIGHTS$DIRECT; system calls are filtered" "$TMP/daemon.err"
ends_daemon
check daemon-ends [ $DAEMON_STATUS = 0 ]
check socket-is-taken-away [ ! -e "$SOCKET" ]

# Limits of one user; another's are not touched by them.
starts_daemon $RIGHTS$DIRECT ${DIRECT:+"direct = yes"} "all-groups = $MEMBERS" "user-recordings = 1" "user-rate = 2000"
check rate-denied denied $ALICE rate 'user-rate' -p $ALICES -F 2001
check period-denied denied $ALICE period 'user-rate' -p $ALICES -e cpu-clock -c 100000
SECONDS_ASKED=60 asks $ALICE long -p $ALICES &
started $!
wait_for test -s "$TMP/alice/long.pftrace"
check second-denied denied $ALICE second 'you have 1 recordings running' -p $ALICES
asks $BOB others-limit -p $BOBS
check others-limit-is-their-own has others-limit 'thread_work;burn '
asks 0 roots-limit -p $ROOTS -F 3000
check root-has-no-limit has roots-limit "$NAMED"
ends_daemon
check ends-while-recording [ $DAEMON_STATUS = 0 ]
# What was recorded until then is a trace.
cp "$TMP/alice/long.pftrace" "$TMP/"
check ends-with-a-trace has long "$NAMED"

# Nobody but root and members, when the settings say so.
starts_daemon $RIGHTS$DIRECT ${DIRECT:+"direct = yes"} "all-groups = $MEMBERS" "own-processes = no"
check settings-denied denied $ALICE nothing 'you may record nothing by asking' -p $ALICES
asks $ALICE:$MEMBERS settings-member -p $BOBS
check settings-member has settings-member 'thread_work;burn '
ends_daemon

# What works with each right missing: events, names of the kernel, stacks of a process that does not consent.
works() { # NAME: the words of what it had
	local had=
	asks 0 "$1" -p $ALICES && json "$1" 'v["samples"] > 0' >/dev/null && had=events
	has "$1" "$NAMED" >/dev/null && had="$had,stacks"
	asks 0 "$1-kernel" -a -e cpu-clock && has "$1-kernel" '(asm_|do_|sys|x64_)[a-z_0-9]*_\[k\]' >/dev/null && had="$had,kernel-names"
	echo "${had:-nothing}"
}
paranoid=$(cat /proc/sys/kernel/perf_event_paranoid)
while read -r missing rights direct expected; do
	starts_daemon "$rights" "direct = $direct"
	had=$(works "without-$missing")
	echo "    without $missing: $had"
	# Below 2 the kernel gives to everyone what is asked about here.
	if [ "$paranoid" -lt 2 ] || [ "$(cat /proc/sys/kernel/perf_event_paranoid)" != "$paranoid" ]; then
		skip "without-$missing" "perf_event_paranoid is less than 2, or changes"
		ends_daemon
		continue
	fi
	check "without-$missing" [ "$had" = "$expected" ]
	ends_daemon
done <<TABLE
none perfmon,kill,dac_read_search,syslog,sys_ptrace yes events,stacks,kernel-names
sys_ptrace perfmon,kill,dac_read_search,syslog no events$NEW_KERNEL,kernel-names
syslog perfmon,kill,dac_read_search,sys_ptrace yes events,stacks
dac_read_search perfmon,kill,syslog,sys_ptrace yes events,stacks,kernel-names
kill perfmon,dac_read_search,syslog,sys_ptrace yes events,stacks,kernel-names
perfmon kill,dac_read_search,syslog yes nothing
TABLE

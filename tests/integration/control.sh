#!/bin/bash
# control.sh - recordings that are asked for: a daemon that is not root, with the rights that the unit gives it and no
# others, and plain users that may have this and not that.
. "$(dirname "$0")/lib"
need_root
need_perf
for tool in setpriv "$PYTHON"; do command -v $tool >/dev/null || { echo "$tool is not there"; exit 77; }; done

# Users and groups by number: none of them need be known to the machine.  The daemon's is not that of daemon.sh, which may run
# at the same time: locked memory is one budget of a user.
DAEMON=61004 ALICE=61002 BOB=61003 MEMBERS=61100
SOCKET=$TMP/run/control.sock HOOK_SOCKET=$TMP/run/hook.sock
mkdir "$TMP/bin" "$TMP/run" "$TMP/alice" "$TMP/bob" "$TMP/root"
cp "$PERFWIND" "$O/libperfwind-hook.so" "$PROGRAMS/recursion" "$PROGRAMS/threads" "$INTEGRATION/control_hostile.py" \
	"$INTEGRATION/lingering.py" "$INTEGRATION/control_client.py" "$INTEGRATION/control_outputs.py" "$TMP/bin/"
cp "$PROGRAMS/recursion" "$TMP/bin/private"
cp "$INTEGRATION/control_large.py" "$INTEGRATION/control_requests.py" "$TMP/bin/"
chmod -R a+rX "$TMP"
chown $ALICE "$TMP/bin/private"; chmod 700 "$TMP/bin/private"
chown $DAEMON "$TMP/run"; chown $ALICE "$TMP/alice"; chown $BOB "$TMP/bob"
PERFWIND=$TMP/bin/perfwind

# as USER[:GROUP] COMMAND... : without any right.
as() {
	local user=${1%:*} group=${1#*:}
	shift
	if [ "$group" = "$user" ]; then group=--clear-groups; else group="--groups=$group"; fi
	setpriv --reuid "$user" --regid "$user" "$group" --inh-caps=-all --bounding-set=-all "$@"
}
# starts_daemon RIGHTS SETTINGS... : as the unit does: a user of its own, ambient rights.  Or by the unit (systemd-unit.sh).
DAEMON_STARTED= DAEMON_PID=
RIGHTS=perfmon,kill,dac_read_search,syslog
# Since Linux 6.15 PERFMON is enough to read the mappings of others; before it takes ptrace or the process's consent.
NEW_KERNEL=$([ "$(printf '6.15\n%s\n' "$(uname -r)" | sort -V | head -n 1)" = 6.15 ] && echo ,stacks)
[ -n "$NEW_KERNEL" ] && DIRECT= || DIRECT=,sys_ptrace
starts_daemon() {
	local rights="-all" right
	for right in ${1//,/ }; do rights="$rights,+$right"; done
	printf '%s\n' "${@:2}" >"$TMP/conf"
	: >"$TMP/daemon.err"
	local options=(-v -s "@perfwind-control-$$" --config "$TMP/conf" --control-socket "$SOCKET" --hook-socket "$HOOK_SOCKET")
	if by_unit; then
		UNIT_RIGHTS=$1 "$UNIT_DAEMON" "${options[@]}" 2>"$TMP/daemon.err" &
	else
		setpriv --reuid $DAEMON --regid $DAEMON --clear-groups --inh-caps="$rights" --ambient-caps="$rights" \
			--bounding-set="$rights" "$PERFWIND" daemon "${options[@]}" 2>"$TMP/daemon.err" &
	fi
	DAEMON_STARTED=$!
	started $DAEMON_STARTED
	wait_for grep -q 'system calls are' "$TMP/daemon.err"
	DAEMON_PID=$(daemon_pid $DAEMON_STARTED)
}
ends_daemon() {
	kill "$DAEMON_STARTED"
	wait "$DAEMON_STARTED"
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
# asker_of PID : perfwind, which a function in the background has started.
asker_of() {
	local pid=$1
	while [ -n "$pid" ] && [ "$(cat "/proc/$pid/comm")" != perfwind ]; do pid=$(pgrep -P "$pid" | head -n 1); done
	echo "$pid"
}
# asks_while PID NAME OPTIONS... : by root, until PID has used a quarter of a second of CPU time since it began.
asks_while() {
	local pid=$1 name=$2 asking
	shift
	SECONDS_ASKED=600 asks 0 "$@" &
	asking=$!
	started $asking
	begun_or_denied() { [ -s "$TMP/root/$name.pftrace" ] || gone $asking; }
	wait_for begun_or_denied
	if ! gone $asking; then
		wait_for used "$pid" $(($(cpu_ms "$pid") + 250))
		kill "$(asker_of $asking)"
	fi
	wait $asking
}
# denied USER NAME REGEX OPTIONS... : one line with the reason, status 1, and no file.
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

# kept NAME REGEX : a note of the trace.
kept() { "$PERFWIND" report "$TMP/$1.pftrace" | grep -qE "^Note  *$2"; }
hasnt_line() { ! grep -E -- "$2" "$1"; }

# Targets: Alice's, Bob's, root's.
setpriv --reuid $ALICE --regid $ALICE --clear-groups "$TMP/bin/recursion" 600 & ALICES=$!
setpriv --reuid $BOB --regid $BOB --clear-groups "$TMP/bin/threads" 600 & BOBS=$!
"$TMP/bin/recursion" 600 & ROOTS=$!
started $ALICES; started $BOBS; started $ROOTS
# And by Alice's uid what the kernel keeps from her: with a right of its own, and in another's group.
cp "$TMP/bin/recursion" "$TMP/bin/entitled"
setpriv --reuid $ALICE --regid $ALICE --clear-groups --inh-caps=-all,+net_admin --ambient-caps=-all,+net_admin \
	"$TMP/bin/entitled" 600 & ENTITLED=$!
setpriv --reuid $ALICE --regid 0 --clear-groups --inh-caps=-all --bounding-set=-all "$TMP/bin/entitled" 600 & GROUPED=$!
started $ENTITLED; started $GROUPED
wait_for used $ALICES 20
# while_run PIDS COMMAND... : most targets are stopped but for the recordings that show them: eight that compute make all else slow.
while_run() {
	local status
	kill -CONT $1
	"${@:2}"
	status=$?
	kill -STOP $1
	return $status
}
is_target() { [[ $(readlink "/proc/$1/exe") == "$TMP/bin/"* ]]; } # setpriv has become the program, with its rights
for pid in $BOBS $ROOTS $ENTITLED $GROUPED; do
	wait_for is_target $pid
done
kill -STOP $BOBS $ROOTS $ENTITLED $GROUPED

NAMED='^recursion;.*main;(recurse_even;recurse_odd;){20,}.*burn '
starts_daemon $RIGHTS$DIRECT ${DIRECT:+"direct = yes"} "all-groups = $MEMBERS"
asks $ALICE own -p $ALICES
check own-status [ $? = 0 ]
check own-names has own "$NAMED"
check own-whole json own 'v["stacks"]["whole"] >= 0.99 * total'
check own-user-code-only hasnt own '_\[k\]'
check own-consistent consistent own
check own-is-reported grep -q "recorded by the perfwind daemon for user $ALICE" "$TMP/own.err"
check own-is-alices [ "$(stat -c %u "$TMP/alice/own.pftrace")" = $ALICE ]
check others-denied denied $ALICE others "process $BOBS is another user's \($BOB, you are $ALICE\)" -p $BOBS
check roots-denied denied $ALICE roots "process $ROOTS is another user's \(0," -p $ROOTS
check right-denied denied $ALICE entitled "process $ENTITLED has capabilities or groups that you do not have" -p $ENTITLED
check group-denied denied $ALICE grouped "process $GROUPED has capabilities or groups that you do not have" -p $GROUPED
check one-of-two-denied denied $ALICE two "process $BOBS is another" -p $ALICES,$BOBS
check kernel-denied denied $ALICE kernel 'you may not record kernel code' -p $ALICES --kernel-only
check probe-denied denied $ALICE uprobe 'the daemon places no probes' -p $ALICES -e uprobe:/bin/ls:main
check gone-denied denied $ALICE nobody 'no process 999999' -p 999999
# -a by anyone: their own.
SECONDS_ASKED=1.5 while_run "$BOBS $ENTITLED" asks $ALICE all -a
check all-own has all "$NAMED"
check all-own-only hasnt all '^threads'
check all-but-rights hasnt all '^entitled'
check all-is-reported grep -q "only this user's own processes, and user code only" "$TMP/all.err"
# Others have no events: none of their samples is taken, not even to be left out.
check all-without-others json all 'not {"not-allowed", "not-in-scope"} & set(v["skipped"])'
check all-limit-is-kept kept all 'a process that is started outside of the recorded ones'
check all-consistent consistent all
# A process that begins later and outside of the recorded ones is found.
cp "$PROGRAMS/recursion" "$TMP/bin/later"
SECONDS_ASKED=600 asks $ALICE later -a &
asking=$!
started $asking
wait_for test -s "$TMP/alice/later.pftrace"
setpriv --reuid $ALICE --regid $ALICE --clear-groups "$TMP/bin/later" 600 & LATER=$!
started $LATER
later_is_seen() { cp "$TMP/alice/later.pftrace" "$TMP/later-so-far.pftrace" && folded later-so-far | grep -q '^later;'; }
check later-is-seen wait_for later_is_seen
kill "$(asker_of $asking)"
wait $asking
check later-consistent consistent later
kill $LATER
# A member of the group: all, and the kernel.
SECONDS_ASKED=1.5 while_run "$BOBS $ENTITLED" asks $BOB:$MEMBERS member -a
check member-all has member "$NAMED"
check member-rights has member '^entitled;'
check member-kernel has member '_\[k\]'
check member-consistent consistent member
while_run $ROOTS asks $BOB:$MEMBERS member-pid -p $ROOTS
check member-pid has member-pid "$NAMED"
while_run $BOBS asks 0 root -p $BOBS
check root-all has root '^worker-3;.*thread_main;thread_work;burn '
# A trace config: the file is the client's, the rules are the same.
traces() { # NAME PID BUFFER_KB
	cat >"$TMP/alice/$1.cfg" <<-END
		buffers { size_kb: $3 } duration_ms: 700
		data_sources { config { name: "linux.perf" target_buffer: 0 perf_event_config {
		timebase { frequency: 999 counter: SW_CPU_CLOCK timestamp_clock: PERF_CLOCK_MONOTONIC }
		callstack_sampling { scope { target_pid: $2 } } } } }
		data_sources { config { name: "linux.perf" target_buffer: 0 perf_event_config {
		timebase { frequency: 99 counter: SW_CPU_CLOCK timestamp_clock: PERF_CLOCK_MONOTONIC }
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
# What two data sources report is printed once, and is in the trace.
check trace-is-reported [ "$(grep -c "^perfwind: recorded by the perfwind daemon for user $ALICE: only this" "$TMP/traced.err")" = 1 ]
check trace-is-kept kept traced "recorded by the perfwind daemon for user $ALICE: only this user's own processes, and user"
while_run $BOBS traces traced-other $BOBS 4096
folded traced-other >"$TMP/traced-other.folded"
check trace-of-others hasnt_line "$TMP/traced-other.folded" 'burn'
check trace-of-others-reported grep -q 'none of the requested processes is yours and can be recorded' "$TMP/traced-other.err"
check trace-without-others hasnt_line "$TMP/traced.err" 'out of scope'
traces traced-huge $ALICES 4000000
check trace-memory-denied grep -q user-memory "$TMP/traced-huge.err"

# The live view: each interval can be read by itself.
tops() { # USER NAME OPTIONS...
	local user=$1 name=$2
	shift 2
	as "$user" timeout -k 5 60 "$PERFWIND" top --daemon --control-socket "$SOCKET" "$@" >"$TMP/$name.out" 2>"$TMP/$name.err"
}
# first NAME REGEX N : N tables with samples at least, and the first row of each matches.
first() {
	awk -v want="$2" -v least="$3" '/^[0-9,]+ samples? in / { n = 0; next }
		/^ *[0-9.]+ / && n++ == 0 { tables++; if ($0 !~ want) { print; bad = 1 } }
		END { print tables + 0, "tables"; exit bad || tables < least }' "$TMP/$1.out" && return 0
	cat "$TMP/$1.out" "$TMP/$1.err"
	return 1
}
tops $ALICE top-once --once -i 0.7 -p $ALICES
check top-status [ $? = 0 ]
check top-first first top-once ' burn +recursion$' 1
check top-callers grep -qE ' recurse_even +recursion$' "$TMP/top-once.out"
check top-is-reported grep -q "recorded by the perfwind daemon for user $ALICE" "$TMP/top-once.err"
# What the client does with it.
if ! by_unit; then
	"$PYTHON" "$INTEGRATION/top_keys.py" "$PERFWIND" $ALICES --daemon --control-socket "$SOCKET"
	tops $ALICE top-command -i 0.3 -n 5 -- "$TMP/bin/recursion" 2
	check top-command-status [ $? = 0 ]
	check top-command-tables first top-command ' burn +recursion$' 3
	tops $ALICE top-own-status -i 0.2 -- sh -c 'exit 7'
	check top-own-status [ $? = 7 ]
	tops $ALICE top-others --once -p $BOBS
	check top-others-denied [ $? = 1 ]
	check top-others-reported grep -q "process $BOBS is another user's" "$TMP/top-others.err"
	tops $ALICE top-rate --once -F 30000 -p $ALICES
	check top-rate-denied grep -q 'user-rate' "$TMP/top-rate.err"
	setpriv --reuid $ALICE --regid $ALICE --clear-groups "$PERFWIND" top --daemon --control-socket "$SOCKET" -i 0.3 -p $ALICES \
		>"$TMP/top-long.out" 2>"$TMP/top-long.err" &
	top=$!
	started $top
	wait_for first top-long burn 5
	kill -INT $top
	wait $top
	check top-interrupt-status [ $? = 0 ]
	check top-long-tables first top-long ' burn +recursion$' 5
fi

# The ladder: your own privileges first; the daemon where they do not suffice, or not for the kernel's half.
# steps USER NAME OPTIONS... : as asks, but asking is not asked for.
steps() {
	local user=$1 name=$2 folder=$TMP/alice
	shift 2
	[ "${user%:*}" = $BOB ] && folder=$TMP/bob
	(cd "$folder" && as "$user" "$PERFWIND" record --control-socket "$SOCKET" --json -o "$name.pftrace" "$@") \
		>"$TMP/$name.json" 2>"$TMP/$name.err"
	local status=$?
	[ ! -f "$folder/$name.pftrace" ] || cp "$folder/$name.pftrace" "$TMP/"
	return $status
}
if by_unit; then
	: # its answers are those of above
elif [ "$(cat /proc/sys/kernel/perf_event_paranoid)" = 2 ]; then
	timer=
	COPY="dd if=/dev/zero of=/dev/null bs=1 count=1500000"
	steps $BOB:$MEMBERS kernel-command -q -- $COPY
	check ladder-command-status [ $? = 0 ]
	check ladder-command-kernel has kernel-command '^dd;.*_\[k\]'
	check ladder-command-consistent consistent kernel-command
	steps $BOB:$MEMBERS kernel-reported -- sh -c "$COPY 2>/dev/null; exit 7"
	check ladder-command-own-status [ $? = 7 ]
	grep -q 'no hardware cycle counter' "$TMP/kernel-reported.err" && timer='^no hardware cycle counter.*cpu-clock'
	# The verdict's lines stand behind the messages.
	sed -i '/^perfwind: /!d' "$TMP/kernel-reported.err"
	check ladder-reported-and-kept steps_kept kernel-reported \
		"^recorded by the perfwind daemon for user $BOB .own privileges: kernel frames are not permitted.$" ${timer:+"$timer"}
	check ladder-kernel-children has kernel-reported '^dd;.*_\[k\]'
	while_run $BOBS steps $BOB:$MEMBERS kernel-pid -p $BOBS -d 0.5
	check ladder-pid-by-daemon grep -q "recorded by the perfwind daemon for user $BOB .own privileges" "$TMP/kernel-pid.err"
	# A user that gets no kernel from the daemon either: own privileges, user code only, one line.
	steps $ALICE own-command -- "$TMP/bin/recursion" 0.7
	check ladder-own-status [ $? = 0 ]
	check ladder-own-names has own-command "$NAMED"
	check ladder-own-reported steps_kept own-command '^kernel not permitted .*user code only' ${timer:+"$timer"}
	steps $BOB:$MEMBERS never-asked --no-daemon -- "$TMP/bin/recursion" 0.5
	check ladder-no-daemon steps_kept never-asked '^kernel not permitted .*user code only' ${timer:+"$timer"}
	steps $BOB:$MEMBERS user-asked --user-only -- "$TMP/bin/recursion" 0.5
	check ladder-user-only-is-own hasnt_line "$TMP/user-asked.err" 'daemon'
	# Requests that own privileges never allow.
	steps $ALICE refused-all -a -d 0.5
	check ladder-refused-names has refused-all "$NAMED"
	check ladder-refused-reported steps_kept refused-all \
		"^recorded by the perfwind daemon for user $ALICE: only .*own privileges: the whole machine may not be sampled" ${timer:+"$timer"}
	steps $ALICE refused-twice -p $BOBS -d 0.5
	check ladder-refused-twice grep -q "may not be profiled by this user.*the daemon.s answer: process $BOBS is another user's" \
		"$TMP/refused-twice.err"
	steps $BOB:$MEMBERS absent -- "$TMP/bin/absent"
	check ladder-absent [ $? = 127 ]
	tops=$(while_run $BOBS as $BOB:$MEMBERS timeout 60 "$PERFWIND" top --control-socket "$SOCKET" --once -i 1 -p $BOBS 2>&1)
	check ladder-top grep -q "recorded by the perfwind daemon for user $BOB .own privileges: kernel frames" <<<"$tops"
else
	skip ladder "perf_event_paranoid is not 2"
fi
# A command by the daemon, where that is asked for.
asks $ALICE command -- "$TMP/bin/recursion" 30
check command-terminated [ $? = 0 ]
check command-names has command "$NAMED"
check command-consistent consistent command

# What a process writes of itself is read as it could read it.  A perf map that leads to root's file, or is another user's,
# names nothing; its own does, also where no other user may read it.
runs_as_alice() { setpriv --reuid $ALICE --regid $ALICE --clear-groups "$@" & started $!; }
mkdir -m 700 "$TMP/sealed"
cp "$PROGRAMS/jit" "$TMP/bin/"
runs_as_alice "$TMP/bin/jit" 6000; JIT=$!
wait_for used $JIT 20
MAP=/tmp/perf-$JIT.map
trap 'rm -f "$MAP"; cleanup' EXIT
sed 's/jitted_function/of_roots_file/' "$MAP" >"$TMP/sealed/secret"
sed 's/jitted_function/of_bobs_file/' "$MAP" >"$TMP/bob/map"
chmod 600 "$TMP/sealed/secret"
asks $ALICE map-own -p $JIT
as $ALICE chmod 600 "$MAP"
asks $ALICE map-private -p $JIT
if shows_root_mount; then
	check map-own has map-own 'main;call_jitted;jitted_function;'
	check map-private has map-private 'main;call_jitted;jitted_function;'
else
	skip map-own "in a chroot on a folder that is not a mount point the place of another user's map cannot be verified"
fi
as $ALICE mv "$MAP" "$TMP/alice/map"
as $ALICE ln -s "$TMP/sealed/secret" "$MAP"
asks $ALICE map-link -p $JIT
check map-link-is-recorded has map-link 'main;call_jitted;'
check map-link-is-not-followed hasnt map-link 'of_roots_file'
(cd "$TMP/root" && "$PERFWIND" record -q -p $JIT -d 0.5 -o map-link-root.pftrace) && cp "$TMP/root/map-link-root.pftrace" "$TMP/"
check map-link-root-is-recorded has map-link-root 'main;call_jitted;'
check map-link-is-not-followed-by-root hasnt map-link-root 'of_roots_file'
rm "$MAP"
as $BOB cp "$TMP/bob/map" "$MAP"
asks $ALICE map-of-bob -p $JIT
check map-of-bob-is-not-read hasnt map-of-bob 'of_bobs_file'
if shows_root_mount; then # else no map is read, with another message
	check map-of-bob-is-reported kept map-of-bob "symbols of JIT code are missing: $MAP is rejected"
fi
rm "$MAP"
kill $JIT

# A process that becomes another user's during the recording is not shown: not by events that were there before, nor by events of
# whole CPUs.
cp "$PROGRAMS/qsort" "$TMP/bin/elevated"
chmod 4755 "$TMP/bin/elevated"
is_roots() { [ "$(awk '/^Uid:/ { print $3 }' "/proc/$1/status")" = 0 ]; }
elevated_runs() {
	runs_as_alice "$TMP/bin/elevated" 30
	wait_for is_roots $!
}
if by_unit; then
	: # the kernel's events, by the same rights
elif elevated_runs; then
	runs_as_alice sh -c "while :; do '$TMP/bin/recursion' 0.1; '$TMP/bin/elevated' 0.1; done"; LOOP=$!
	SECONDS_ASKED=2 asks $ALICE becomes -p $LOOP --children
	check becomes-own has becomes "$NAMED"
	check becomes-not-roots hasnt becomes '^elevated;|sort_numbers'
	SECONDS_ASKED=2 asks $ALICE becomes-all -a
	check becomes-all-own has becomes-all "$NAMED"
	check becomes-all-not-roots hasnt becomes-all '^elevated;|sort_numbers'
	SECONDS_ASKED=2 asks 0 becomes-root -a
	check becomes-seen-by-root has becomes-root '^elevated;.*sort_numbers'
	kill $LOOP
else
	skip becomes "set-user-ID programs are not run as such in $TMP"
fi

# All processes of the daemon, while it records and after it asked for consent: under the list, and with the rights that
# their work needs.  PERFMON, KILL, DAC_READ_SEARCH, SYSLOG are bits 38, 5, 2, 34; SYS_PTRACE is 19.
SECONDS_ASKED=20 asks $ALICE watched -p $ALICES &
asking=$!
started $asking
wait_for test -s "$TMP/alice/watched.pftrace"
wait_for pgrep -P "$DAEMON_PID" pw-files
guarded() { # NAME BITS... : each process of that name, and there is one
	local pid found= name=$1
	shift
	for pid in $DAEMON_PID $(pgrep -P "$DAEMON_PID"); do
		[ "$(cat "/proc/$pid/comm")" = "$name" ] || continue
		found=yes
		is_confined "$pid" "$@" || return 1
	done
	[ -n "$found" ] || { pgrep -aP "$DAEMON_PID"; return 1; }
}
DIRECT_BIT=${DIRECT:+19}
check guarded-main guarded perfwind 38 5 2 34 $DIRECT_BIT
check guarded-hook guarded pw-hook
check guarded-files guarded pw-files 38 2 $DIRECT_BIT
check guarded-parse guarded pw-parse
known_names() { ! pgrep -P "$DAEMON_PID" -l | grep -vE ' (pw-hook|pw-files|pw-parse|pw-memory|pw-close|pw-spare)$'; }
check guarded-all known_names
kill "$(asker_of $asking)"

# Its caller killed: the recording ends, no other one does.
SECONDS_ASKED=60 asks $ALICE killed -p $ALICES &
asking=$!
started $asking
wait_for test -s "$TMP/alice/killed.pftrace"
threads() { ls "/proc/$DAEMON_PID/task" | wc -l; }
asker=$(asker_of $asking)
busy=$(threads)
kill -9 "$asker"
is_idle() { [ "$(threads)" -lt "$busy" ]; }
check killed-ends wait_for is_idle
asks $ALICE after-killed -p $ALICES
check killed-others-go-on has after-killed "$NAMED"
# Whatever a client sends: refused, and others are served.
check hostile as $ALICE "$PYTHON" "$TMP/bin/control_hostile.py" "$SOCKET"
check hostile-requests as $ALICE "$PYTHON" "$TMP/bin/control_requests.py" "$SOCKET" "${PERFWIND_HOSTILE_REQUESTS:-200}" 1 $ALICES
asks $ALICE after-hostile -p $ALICES
check hostile-others-go-on has after-hostile "$NAMED"
# Descriptors that a client sends, and what it does to the socket of its packets.
check outputs as $ALICE "$PYTHON" "$TMP/bin/control_outputs.py" "$SOCKET" $ALICES
while_run $BOBS asks $BOB after-outputs -p $BOBS
check outputs-others-go-on has after-outputs 'thread_work;burn '
# Large requests: others are served meanwhile.
as $ALICE "$PYTHON" "$TMP/bin/control_large.py" "$SOCKET" &
large=$!
started $large
SECONDS_ASKED=1.5 while_run $BOBS asks $BOB large-meanwhile -p $BOBS
check large-meanwhile has large-meanwhile 'thread_work;burn '
wait $large
check large [ $? = 0 ]
check filter-was-enough hasnt_line "$TMP/daemon.err" 'the filter refuses'
check rights-are-reported grep -q "rights: $RIGHTS$DIRECT; system calls are filtered" "$TMP/daemon.err"
# During these requests too; by the unit its socket would have another daemon started for them at once.
flood=
if ! by_unit; then
	as $ALICE "$PYTHON" "$TMP/bin/control_large.py" "$SOCKET" flood >"$TMP/flood.out" &
	flood=$!
	started $flood
	wait_for grep -q floods "$TMP/flood.out"
fi
ends_daemon
check daemon-ends [ $DAEMON_STATUS = 0 ]
if [ -n "$flood" ]; then
	wait $flood
	check flood-ends [ $? = 0 ]
fi
check socket-is-taken-away [ ! -e "$SOCKET" ]

# Limits of one user; another's are not touched by them.
starts_daemon $RIGHTS$DIRECT ${DIRECT:+"direct = yes"} "all-groups = $MEMBERS" "user-recordings = 1" "user-rate = 2000"
check rate-denied denied $ALICE rate 'user-rate' -p $ALICES -F 2001
check period-denied denied $ALICE period 'user-rate' -p $ALICES -e cpu-clock -c 100000
SECONDS_ASKED=60 asks $ALICE long -p $ALICES &
started $!
wait_for test -s "$TMP/alice/long.pftrace"
check second-denied denied $ALICE second 'you have 1 recordings running' -p $ALICES
while_run $BOBS asks $BOB others-limit -p $BOBS
check others-limit-is-their-own has others-limit 'thread_work;burn '
while_run $ROOTS asks 0 roots-limit -p $ROOTS -F 3000
check root-has-no-limit has roots-limit "$NAMED"
ends_daemon
check ends-while-recording [ $DAEMON_STATUS = 0 ]
# What was recorded until then is a trace.
cp "$TMP/alice/long.pftrace" "$TMP/"
check ends-with-a-trace has long "$NAMED"

# The keys that no other daemon here has, in one that records.
starts_daemon $RIGHTS$DIRECT ${DIRECT:+"direct = yes"} "max-recordings = 1" "user-recordings = 1" "user-processes = 1" \
	"user-max-cpu = 1" "system-call-filter = no"
check keys-no-filter grep -q 'system calls are not filtered' "$TMP/daemon.err"
runs_as_alice "$TMP/bin/recursion" 600; SECOND=$!
check keys-processes denied $ALICE keys-processes 'user-processes' -p $ALICES,$SECOND
kill $SECOND
SECONDS_ASKED=600 asks $ALICE keys -p $ALICES -F 10000 &
asking=$!
started $asking
wait_for test -s "$TMP/alice/keys.pftrace"
check keys-max-recordings denied 0 keys-second '1 recordings are running .max-recordings.' -p $ALICES
at_most() { grep -q 'to use at most 1 % of a CPU' "$TMP/daemon.err"; }
check keys-max-cpu eval 'wait_for at_most || wait_for at_most || wait_for at_most'
kill "$(asker_of $asking)"
wait $asking
check keys-names has keys "$NAMED"
check keys-max-cpu-is-kept kept keys 'samples are taken less often or left out, to use at most 1 %'
ends_daemon

# Whole CPUs do not stand in where descriptors are too few: one thread's here.
EACH=$((2 * $(nproc --all) + 1))
starts_daemon $RIGHTS$DIRECT ${DIRECT:+"direct = yes"} "user-recordings = 1" "user-descriptors = $EACH"
while_run $BOBS asks $BOB threads -p $BOBS
check descriptors-denied [ $? = 1 ]
check descriptors-reported grep -qE '[0-9]+ threads on [0-9]+ CPUs need more descriptors .* .user-descriptors.; hint: name fewer' "$TMP/threads.err"
check descriptors-no-file [ ! -e "$TMP/threads.pftrace" ]
asks $ALICE few -a
check descriptors-left-out kept few '[0-9]+ of your [0-9]+ processes are not recorded: .* .user-descriptors.'
check descriptors-without-others json few 'not {"not-allowed", "not-in-scope"} & set(v["skipped"])'
ends_daemon

# The daemon killed: the client's command runs on, is waited for, and its exit status is ours.
cat >"$TMP/bin/steady.sh" <<'SH'
echo $$ >"$1.new" && mv "$1.new" "$1.pid"
while [ ! -e "$1.stop" ]; do :; done
exit 7
SH
starts_daemon $RIGHTS
SECONDS_ASKED=600 asks $ALICE orphaned -- sh "$TMP/bin/steady.sh" "$TMP/alice/steady" &
asking=$!
started $asking
wait_for test -s "$TMP/alice/steady.pid"
wait_for test -s "$TMP/alice/orphaned.pftrace"
kill -9 "$DAEMON_PID"
check orphaned-reported wait_for grep -qE '^perfwind: the recording has ended early: the daemon has exited; .*; sh goes on$' "$TMP/orphaned.err"
check orphaned-goes-on kill -0 "$(cat "$TMP/alice/steady.pid")"
touch "$TMP/alice/steady.stop"
wait $asking
check orphaned-status [ $? = 7 ]
ends_daemon
# A trace that cannot be made: the command is not even started.
starts_daemon $RIGHTS
as $ALICE "$PERFWIND" record --daemon --control-socket "$SOCKET" -o "$TMP/none/x" -- touch "$TMP/alice/started" 2>"$TMP/unmade.err"
check unmade-status [ $? = 1 ]
check unmade-reported grep -q "^perfwind: the trace cannot be written to $TMP/none/x" "$TMP/unmade.err"
check unmade-not-started [ ! -e "$TMP/alice/started" ]
ends_daemon

# Only root and members, when the settings restrict it.
starts_daemon $RIGHTS$DIRECT ${DIRECT:+"direct = yes"} "all-groups = $MEMBERS" "own-processes = no"
check settings-denied denied $ALICE nothing 'you may not record through the daemon' -p $ALICES
while_run $BOBS asks $ALICE:$MEMBERS settings-member -p $BOBS
check settings-member has settings-member 'thread_work;burn '
ends_daemon

# Started as root to become another user: its sockets lie in a folder that is root's.  They are gone with it, however it ends.
becomes() {
	: >"$TMP/become.err"
	"$PERFWIND" daemon -v --user nobody -s "@perfwind-control-$$" --control-socket "$TMP/root/control.sock" \
		--hook-socket "$TMP/root/hook.sock" 2>"$TMP/become.err" &
	DAEMON_STARTED=$!
	started $DAEMON_STARTED
	wait_for grep -q 'system calls are' "$TMP/become.err"
}
if ! by_unit; then
	chmod 755 "$TMP/root"
	no_sockets() { [ ! -e "$TMP/root/control.sock" ] && [ ! -e "$TMP/root/hook.sock" ]; }
	for time in first second killed; do
		becomes
		check become-$time-user [ "$(ps -o user= -p $DAEMON_STARTED)" = nobody ]
		check become-$time-reported hasnt_line "$TMP/become.err" 'no process can opt in|recordings on request: '
		SOCKET=$TMP/root/control.sock asks $ALICE become-$time -p $ALICES
		check become-$time-asked test -s "$TMP/become-$time.pftrace"
		check become-$time-sweeper is_confined "$(pgrep -P $DAEMON_STARTED -x pw-sockets)"
		if [ $time = killed ]; then
			kill -KILL $DAEMON_STARTED
			wait $DAEMON_STARTED 2>/dev/null
			check become-$time-sockets wait_for no_sockets
		else
			ends_daemon
			check become-$time-sockets no_sockets
		fi
	done
fi

# What works with each right missing: events; stacks of a process that does not consent, also of a program that only its
# owner may read; memory of one that consents (stacks that are longer than their copy); names of the kernel.
runs_as_alice "$TMP/bin/private" 6000; PRIVATE=$!
runs_as_alice "$TMP/bin/perfwind" run --hook-socket "$HOOK_SOCKET" -- "$TMP/bin/recursion" 6000; HOOKED=$!
wait_for used $PRIVATE 20
wait_for used $HOOKED 20
# One that ends is replaced by one that is confined as it was.  What comes is a piece of work for it: a process to read,
# stacks of one that consents that are longer than their copy.  The process is there until the walk through /proc has found it.
ends_new() { [ ! -f "$TMP/new" ] || { kill "$(cat "$TMP/new")"; rm "$TMP/new"; }; } # (a file: checks are subshells)
replaced() { # NAME PIDS : is there one of that name which is none of these?
	local pid
	if [ ! -f "$TMP/new" ] || used "$(cat "$TMP/new")" 2000; then
		ends_new
		rm -f "$TMP/bin/new"
		cp "$TMP/bin/recursion" "$TMP/bin/new" # a file that has not been parsed
		runs_as_alice "$TMP/bin/new" 6000
		echo $! >"$TMP/new"
	fi
	for pid in $(pgrep -P "$DAEMON_PID" -x "$1"); do
		case " $2 " in *" $pid "*) ;; *) return 0 ;; esac
	done
	return 1
}
starts_daemon $RIGHTS "all-groups = $MEMBERS"
SECONDS_ASKED=180 asks $ALICE renewed -a --stack-bytes 1024 &
asking=$!
started $asking
while read -r name bits; do
	check guarded-$name-is-there wait_for pgrep -P "$DAEMON_PID" -x $name
	killed=$(pgrep -P "$DAEMON_PID" -x $name | paste -sd ' ')
	[ -n "$killed" ] || continue
	kill -KILL $killed
	check guarded-$name-comes-again wait_for replaced $name "$killed"
	ends_new
	check guarded-$name-as-before guarded $name $bits
done <<TABLE
pw-files 38 2
pw-parse
pw-memory
TABLE
ends_daemon
wait $asking

kill -STOP $PRIVATE $HOOKED
works() { # NAME: the words of what it had
	local had=
	asks_while $ALICES "$1" -p $ALICES && json "$1" 'v["samples"] > 0' >/dev/null && had=events
	has "$1" "$NAMED" >/dev/null && had="$had,stacks"
	while_run $PRIVATE asks_while $PRIVATE "$1-private" -p $PRIVATE && has "$1-private" "${NAMED/recursion/private}" >/dev/null && had="$had,private"
	while_run $HOOKED asks_while $HOOKED "$1-asked" -p $HOOKED --stack-bytes 1024 &&
		json "$1-asked" 'v["stacks"]["whole"] > v["stacks"]["cut"]' >/dev/null && had="$had,memory"
	asks_while $ALICES "$1-kernel" -a -e cpu-clock && has "$1-kernel" '(asm_|do_|sys|x64_)[a-z_0-9]*_\[k\]' >/dev/null && had="$had,kernel-names"
	echo "${had:-nothing}"
}
paranoid=$(cat /proc/sys/kernel/perf_event_paranoid)
while read -r missing rights direct expected; do
	case $missing in none | sys_ptrace) ;; *) ! by_unit || continue ;; esac # those that the unit has, and all
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
none perfmon,kill,dac_read_search,syslog,sys_ptrace yes events,stacks,private,memory,kernel-names
sys_ptrace perfmon,kill,dac_read_search,syslog no events$NEW_KERNEL${NEW_KERNEL:+,private},memory,kernel-names
syslog perfmon,kill,dac_read_search no events$NEW_KERNEL${NEW_KERNEL:+,private},memory
dac_read_search perfmon,kill,syslog no events$NEW_KERNEL,memory,kernel-names
kill perfmon,dac_read_search,syslog no events$NEW_KERNEL${NEW_KERNEL:+,private},kernel-names
perfmon kill,dac_read_search,syslog yes nothing
TABLE

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
cp "$PERFWIND" "$PROGRAMS/recursion" "$PROGRAMS/threads" "$TMP/bin/"
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

# Targets: Alice's, Bob's, root's.
setpriv --reuid $ALICE --regid $ALICE --clear-groups "$TMP/bin/recursion" 600 & ALICES=$!
setpriv --reuid $BOB --regid $BOB --clear-groups "$TMP/bin/threads" 600 & BOBS=$!
"$TMP/bin/recursion" 600 & ROOTS=$!
started $ALICES; started $BOBS; started $ROOTS
wait_for used $ALICES 20

NAMED='^recursion;.*main;(recurse_even;recurse_odd;){20,}.*burn '
starts_daemon $RIGHTS,sys_ptrace "direct = yes" "all-groups = $MEMBERS"
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
ends_daemon
check daemon-ends [ $DAEMON_STATUS = 0 ]
check socket-is-taken-away [ ! -e "$SOCKET" ]

#!/bin/bash
# containers.sh - from the host into mount and pid namespaces, and from inside them.
. "$(dirname "$0")/lib"
need_root
need_perf
unshare -mpf --mount-proc true 2>/dev/null || { echo "mount and pid namespaces are refused"; exit 77; }

# A container of ours: its own pids, /proc, /tmp, and a mount that only it has, where its programs lie.
# The JIT's map is /tmp/perf-PID.map there, by the pid that it has there.
mkdir "$TMP/inside" "$TMP/shared"
cat >"$TMP/container" <<'SH'
mount -t tmpfs none "$1/inside" && cp "$2/jit" "$2/recursion" "$2/no-perf-events" "$3" "$1/inside" && mkdir "$1/inside/shared" &&
	mount --bind "$1/shared" "$1/inside/shared" && cd "$1/inside" && mount -t tmpfs none /tmp || exit 1
shift 3
exec "$@"
SH
in_container() { exec unshare -mpf --kill-child --mount-proc sh "$TMP/container" "$TMP" "$PROGRAMS" "$OWN_PERFWIND" "$@"; }
# child_named PID NAME : the descendant of that name, as the host counts.
child_named() {
	local pid
	for pid in $(ps -o pid= --ppid "$1"); do
		[ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$2" ] && echo "$pid" && return 0
		child_named "$pid" "$2" && return 0
	done
	return 1
}

in_container sh -c './jit 60 & ./recursion 60 & wait' &
container=$!
started $container
wait_for child_named $container jit
wait_for child_named $container recursion
jit=$(child_named $container jit)
recursion=$(child_named $container recursion)
wait_for used "$jit" 20
wait_for used "$recursion" 20
inner() { awk '/^NSpid:/ { print $NF }' "/proc/$1/status"; }
check host-pids-differ [ "$(inner "$jit")" != "$jit" ]
record host-jit -p "$jit" -d 1
check host-jit-names has host-jit 'main;call_jitted;jitted_function;jit_callback;burn '
check host-jit-whole json host-jit 'v["stacks"]["whole"] >= 0.98 * total > 20'
check host-jit-consistent consistent host-jit
# A map of the same name in the host's /tmp is another's, by the pid inside and by the host's: it names nothing, neither
# next to the container's own nor in its place.
planted=
trap 'rm -f $planted; cleanup' EXIT
for pid in "$(inner "$jit")" "$jit"; do
	[ ! -e "/tmp/perf-$pid.map" ] || continue
	sed 's/jitted_function/of_the_host/' "/proc/$jit/root/tmp/perf-$(inner "$jit").map" >"/tmp/perf-$pid.map"
	planted="$planted /tmp/perf-$pid.map"
done
check planted-maps grep -q of_the_host $planted /dev/null
record host-planted -p "$jit" -d 1
check host-planted-names has host-planted 'main;call_jitted;jitted_function;jit_callback;burn '
check host-planted-is-rejected hasnt host-planted of_the_host
mv "/proc/$jit/root/tmp/perf-$(inner "$jit").map" "/proc/$jit/root/tmp/taken-away"
record host-alone -p "$jit" -d 1
check host-alone-is-recorded has host-alone 'main;call_jitted;'
check host-alone-is-rejected hasnt host-alone 'of_the_host|jitted_function'
mv "/proc/$jit/root/tmp/taken-away" "/proc/$jit/root/tmp/perf-$(inner "$jit").map"
rm -f $planted
trap cleanup EXIT
# The machine: both, by the host's pids.
record host-all -a -d 1
check host-all-jit has host-all '^jit;.*call_jitted;jitted_function;jit_callback;burn '
check host-all-recursion has host-all '^recursion;.*main;(recurse_even;recurse_odd;){20,}.*burn '
"$PERFWIND" report --by pid "$TMP/host-all.pftrace" >"$TMP/host-all.report"
check host-all-pids grep -qE " $recursion +recursion$" "$TMP/host-all.report"
kill "$container"

# Which container: a cgroup of its own for each, one in the other, and their programs' names with them.
if folder=$(cgroup_folder); then
	outer=$folder/perfwind-test.$$
	# what a name may hold: all but a slash and a newline
	inner=$outer/$(printf 'in\033[31m ner:x')
	mkdir "$outer" "$inner"
	leave() {
		local pid
		for pid in $(cat "$inner/cgroup.procs" "$outer/cgroup.procs"); do echo "$pid" >"$folder/cgroup.procs"; done
		wait_for rmdir "$inner"
		wait_for rmdir "$outer"
	}
	trap 'leave; cleanup' EXIT
	sh -c 'echo $$ >"$0/cgroup.procs" && exec "$1" 60' "$outer" "$PROGRAMS/recursion" &
	started $!
	first=$!
	"$PROGRAMS/jit" 60 &
	started $!
	second=$!
	wait_for used $first 20
	wait_for used $second 20
	# before and while it is recorded: one was there, one moves in and becomes another program, which has short children
	record_in_background cgroups -a -d 3
	recording=$!
	sh -c 'echo $$ >"$0/cgroup.procs" && exec sh -c "for i in 1 2 3 4 5 6 7 8 9 10; do $1 0.05; done"' "$inner" "$PROGRAMS/qsort"
	wait $recording
	path=/perfwind-test.$$
	by_cgroup() { "$PERFWIND" report --by cgroup --limit 0 "$TMP/cgroups.pftrace" | sed '1,/^ *%/d'; }
	of_cgroup() { "$PERFWIND" report --by process --limit 0 --cgroup "$1" "$TMP/cgroups.pftrace" | sed '1,/^ *%/d' | awk '{ print $NF }' | sort -u | paste -sd ' '; }
	check cgroup-row sh -c 'grep -qxE " +[0-9.]+ +[0-9.]+ [a-z]+ +[0-9,]+  '"$path"'"' <<<"$(by_cgroup)"
	check cgroup-hostile-name grep -qF "$path/in?[31m ner:x" <<<"$(by_cgroup)"
	check cgroup-programs [ "$(of_cgroup "$path" | tr ' ' '\n' | grep -xE 'recursion|qsort|jit' | paste -sd ' ')" = "qsort recursion" ]
	check cgroup-below [ "$(of_cgroup "$path/$(basename "$inner")" | tr ' ' '\n' | grep -xE 'recursion|qsort|jit' | paste -sd ' ')" = qsort ]
	check cgroup-folded [ "$("$PERFWIND" export --to folded --cgroup "$path" -o - "$TMP/cgroups.pftrace" | cut -d ';' -f 1 | grep -xE 'recursion|jit' | sort -u)" = recursion ]
	check cgroup-pprof sh -c '"$1" export --to pprof -o - "$2" | gzip -dc | grep -aqF "$3"' sh "$PERFWIND" "$TMP/cgroups.pftrace" "$path"
	check cgroup-consistent consistent cgroups
	leave
	trap cleanup EXIT
	kill $first $second
else
	skip cgroup "no hierarchy of cgroups can be written to here"
fi

# From inside: a command, and a process by the pid that it has there.
(in_container sh -c './jit 60 & ./perfwind record --json -o "shared/own.pftrace" -d 1 -p $! >"shared/own.json" 2>"shared/own.err"
	./perfwind record --json -o "shared/command.pftrace" -- ./recursion 1 >"shared/command.json" 2>"shared/command.err"; kill $!')
cp "$TMP"/shared/* "$TMP/"
check inside-pid-names has own 'main;call_jitted;jitted_function;jit_callback;burn '
check inside-pid-consistent consistent own
check inside-command-names has command '^recursion;.*main;(recurse_even;recurse_odd;){20,}.*burn '
check inside-command-consistent consistent command

# A container with a filter that refuses perf_event_open: one line, with its hint, and no file.
(in_container ./no-perf-events 1 ./perfwind record -o shared/refused.pftrace -- ./recursion 0.1) >"$TMP/refused.out" 2>"$TMP/refused.err"
check inside-filter-status [ $? = 1 ]
check inside-filter-one-line [ "$(wc -l <"$TMP/refused.err")" = 1 ]
check inside-filter-hint grep -qE 'seccomp.*--cap-add PERFMON --security-opt seccomp=unconfined' "$TMP/refused.err"
check inside-filter-no-file [ ! -e "$TMP/shared/refused.pftrace" ]

[ -z "${RECORDS_BY_UNIT:-}" ] || exit 0 # from here on with the profiler's own privileges
# Root of a user namespace has no right over the machine: user code of its own programs, and that is reported.
paranoid=$(cat /proc/sys/kernel/perf_event_paranoid)
restore() { echo "$paranoid" >/proc/sys/kernel/perf_event_paranoid; }
trap 'restore; cleanup' EXIT
[ "$paranoid" = 2 ] || echo 2 >/proc/sys/kernel/perf_event_paranoid
mkdir "$TMP/user"
cp "$OWN_PERFWIND" "$PROGRAMS/recursion" "$TMP/user/"
chmod -R a+rX "$TMP"
chown nobody "$TMP/user"
if as_nobody unshare -Urpf --mount-proc true 2>/dev/null; then
	as_nobody unshare -Urpf --mount-proc ./perfwind record --json -o rootless.pftrace -- ./recursion 1 >"$TMP/rootless.json" 2>"$TMP/rootless.err"
	check rootless-status [ $? = 0 ]
	cp "$TMP/user/rootless.pftrace" "$TMP/"
	check rootless-names has rootless '^recursion;.*main;(recurse_even;recurse_odd;){20,}.*burn '
	check rootless-kept steps_kept rootless '^kernel not permitted .*user code only'
	check rootless-consistent consistent rootless
	# Nor has a process that gave up the capabilities that it had there.
	as_nobody unshare -Urpf --mount-proc setpriv --bounding-set=-all --inh-caps=-all --no-new-privs ./perfwind record --json -o bare.pftrace -- ./recursion 1 \
		>"$TMP/bare.json" 2>"$TMP/bare.err"
	check bare-status [ $? = 0 ]
	cp "$TMP/user/bare.pftrace" "$TMP/"
	check bare-names has bare '^recursion;.*main;(recurse_even;recurse_odd;){20,}.*burn '
	check bare-kept steps_kept bare '^kernel not permitted .*user code only'
else
	skip rootless "an ordinary user may make no user namespace"
fi

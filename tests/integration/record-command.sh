#!/bin/bash
# record-command.sh - a command's stacks carry the names its source gives them, and the figures add up.
. "$(dirname "$0")/lib"
need_perf

record recursion -- "$PROGRAMS/recursion" 1.5
check recursion-exit-status [ $? = 0 ]
check recursion-consistent consistent recursion
check recursion-chain has recursion '^recursion;.*main;(recurse_even;recurse_odd;){20,}.*burn '
check recursion-whole json recursion 'v["stacks"]["whole"] >= 0.995 * total and total > 100'
check recursion-accounted json recursion '0.9 <= v["cpu_accounted"] <= 1.05'
check recursion-nothing-lost json recursion 'v["lost"]["samples"] == 0 and v["lost"]["sideband"] == 0'
check recursion-nothing-skipped json recursion 'not set(v["skipped"]) - {"double"}'
check recursion-file-size json recursion "v['bytes'] == $(stat -c %s "$TMP/recursion.pftrace")"

# `annotate` and `report` state the same figures, inlined calls or not.
record inlined -- "$PROGRAMS/inlined-cxx" 1
check annotate-self "$PYTHON" "$INTEGRATION/annotate_self.py" "$PERFWIND" "$TMP/inlined.pftrace"

# Calls that libraries try, and helper processes refuse, are not lines in the kernel's log (seccomp, audit type 1326).
logged() { dmesg 2>/dev/null | grep -c "type=1326.*exe=\"$(realpath "$PERFWIND")\".*code=0x50000"; }
before=$(logged)
XDG_CACHE_HOME=$TMP/logged record logged -- "$PROGRAMS/recursion" 0.5
check kernel-log-quiet [ "$(logged)" = "$before" ]

# A real interpreter: its stacks are deep, and its names are known.
cat >"$TMP/work.py" <<'PY'
import json, re, time
end = time.perf_counter() + 2
while time.perf_counter() < end:
    text = json.dumps([{"name": "n%d" % i, "value": i * i} for i in range(500)])
    sorted(re.findall("[a-z]+|[0-9]+", text))
PY
record python -- "$PYTHON" "$TMP/work.py"
check python-consistent consistent python
check python-whole json python 'v["stacks"]["whole"] >= 0.995 * total'
check python-names has python '^python3?[^;]*;.*(_PyEval_EvalFrameDefault| \[python)'

# The command's own exit status, as perf record gives it.
record status -- sh -c 'exit 7'
check status-own [ $? = 7 ]
record status -- sh -c 'kill -TERM $$'
check status-signal [ $? = 143 ]
check status-signal-named grep -qx 'perfwind: sh: Terminated' "$TMP/status.err"
record status -- /no/such/command
check status-127 [ $? = 127 ]
touch "$TMP/not-executable"
record status -- "$TMP/not-executable"
check status-126 [ $? = 126 ]
# Of a command that cannot be run nothing is left, and an earlier trace stays.
printf '#!/no/such/interpreter\n' >"$TMP/no-interpreter"
chmod +x "$TMP/no-interpreter"
record not-run -- "$TMP/no-interpreter"
check interpreter-127 [ $? = 127 ]
check interpreter-named grep -q 'its interpreter /no/such/interpreter is not' "$TMP/not-run.err"
check interpreter-no-file [ ! -e "$TMP/not-run.pftrace" ]
echo earlier >"$TMP/not-run.pftrace"
record not-run -- "$TMP/no-interpreter"
check interpreter-earlier grep -q earlier "$TMP/not-run.pftrace"
check interpreter-no-old [ ! -e "$TMP/not-run.pftrace.old" ]
rm "$TMP/not-run.pftrace"
# Options end at the command: its own are not ours.
record own-options sh -c 'exit 3'
check status-without-dashes [ $? = 3 ]
# The command is terminated after -d, which is not a fault.
record duration -d 0.5 -- sleep 100
check duration-status [ $? = 0 ]
check duration-bound json duration '0.4 < v["duration_s"] < 20'

# Without names: what record writes here report reads here.
without_names() (
	cd "$TMP" && "$PERFWIND" record -q -- "$PROGRAMS/recursion" 0.2 && "$PERFWIND" report >named-by-nobody.txt &&
		"$PERFWIND" report perfwind.pftrace | diff named-by-nobody.txt - && grep -q burn named-by-nobody.txt
)
check file-without-names without_names

# An existing file is kept.
echo old >"$TMP/kept.pftrace"
record kept -- true
check old-file-kept grep -q old "$TMP/kept.pftrace.old"
# ... but not for a recording that cannot start.
echo precious >"$TMP/precious.pftrace"
record precious -e no-such-event -- true
check old-file-untouched grep -q precious "$TMP/precious.pftrace"
check old-file-not-moved [ ! -e "$TMP/precious.pftrace.old" ]
record precious -- /no/such/command
# Nothing ran: what is there may be replaced, but not lost.
check old-file-somewhere grep -q precious "$TMP/precious.pftrace" "$TMP/precious.pftrace.old"

# A trace is its owner's alone, and a link is an existing file too: nothing is made where it leads.
owners_alone() { [ "$(stat -c '%a %F' "$TMP/$1.pftrace")" = '600 regular file' ]; }
ln -s "$TMP/led-to" "$TMP/linked.pftrace"
(umask 0; record linked -- true)
check new-file-mode owners_alone linked
check link-not-followed [ ! -e "$TMP/led-to" ]
check link-kept [ -L "$TMP/linked.pftrace.old" ]
# Standard output by another name, which is a file here: not renamed, and written as it is.
"$PERFWIND" record -q -o /dev/stdout -- "$PROGRAMS/recursion" 0.3 >"$TMP/device.pftrace"
check to-dev-stdout has device 'main;recurse_even;recurse_odd;'
check dev-stdout-is-there [ -e /dev/stdout ]
# What the command prints is not among the data there.
not_among() { "$PERFWIND" record -q "$@" -- echo printed 2>"$TMP/aside.err" >"$TMP/aside.out" && grep -q '^printed$' "$TMP/aside.err" && ! grep -q '^printed$' "$TMP/aside.out"; }
check output-aside-of-trace not_among -o /dev/stdout

# With closed standard descriptors the command waits for its events as ever, and has them closed.
closed() { (exec <&- >&- 2>&-; exec "$PERFWIND" record -o "$TMP/closed.pftrace" "$@"); }
closed -- "$PROGRAMS/recursion" 0.3
check closed-status [ $? = 0 ]
check closed-recorded has closed 'main;recurse_even;recurse_odd;'
closed -- sh -c 'echo 2>/dev/null && exit 1; read -r x && exit 2; exit 7'
check closed-own-status [ $? = 7 ]

# A session keeps two filters of system calls, a helper process as many as docs/security.md states; the command has nothing of it.
# Root's keeps PERFMON, KILL, SYSLOG and IPC_LOCK at most, its unwinder nothing, and each helper process what its work needs.
# The command's stacks are deeper than their copies, so pw-memory is there too.
words='^(NoNewPrivs|Seccomp|Seccomp_filters|Cap[A-Z][a-z]*):'
grep -E "$words" /proc/self/status >"$TMP/unlisted"
"$OWN_PERFWIND" record -q --no-daemon --stack-bytes 1024 -o "$TMP/listed.pftrace" -- \
	sh -c "grep -E '$words' /proc/self/status >'$TMP/listed'; '$PROGRAMS/recursion' 1; exec sleep 100" &
session=$!
started $session
wait_for test -s "$TMP/listed"
filters() { awk '/^Seccomp_filters:/ { print $2 }' "$1"; }
is_listed() { [ "$(filters "/proc/$1/status")" = $(($(filters "$TMP/unlisted") + $2)) ]; }
# helpers_listed NAME... : there is a helper process of each name, and each that there is has its filters.
helpers_listed() {
	local pid name n_filters names=
	for pid in $(ps -o pid=,comm= --ppid $session | awk '$2 ~ /^pw-/ { print $1 }'); do
		name=$(cat "/proc/$pid/comm")
		case $name in
		pw-bpf) n_filters=1 ;; # made before the session has its two
		pw-spare) n_filters=2 ;; # the session's: its children load theirs
		pw-parse | pw-memory) n_filters=4 ;; # two of their own: RIGHTS_GIVEN, and the calls that libraries try
		*) n_filters=3 ;;
		esac
		is_listed "$pid" $n_filters || { echo "$name has $(filters "/proc/$pid/status") filters, not $n_filters more than this script"; return 1; }
		names="$names $name "
	done
	for name; do
		case $names in *" $name "*) ;; *) echo "no $name among:$names"; return 1 ;; esac
	done
}
check listed-session is_listed $session 2
# has_only SET PID CAPABILITY... : no other than these in CapEff, CapPrm or CapBnd; no_new_privs and a list of system calls.
has_only() {
	local set=$1 of=$2
	shift 2
	[ $((0x$(awk "/^$set:/ { print \$2 }" "/proc/$of/status") & ~0x$(bits "$@"))) = 0 ] &&
		[ "$(awk '/^(NoNewPrivs|Seccomp):/ { printf "%s ", $2 }' "/proc/$of/status")" = "1 2 " ] && return 0
	grep -E "$words|^Name" "/proc/$of/status"
	return 1
}
thread() { grep -lx "$1" /proc/$session/task/*/comm | sed 's,/comm,,; s,/proc/,,'; }
helper() { pgrep -P $session -x "$1"; }
# 38 PERFMON, 5 KILL, 34 SYSLOG, 14 IPC_LOCK; 2 DAC_READ_SEARCH, 19 SYS_PTRACE, 40 CHECKPOINT_RESTORE, 6 and 7 SETGID and SETUID, 23
# SYS_NICE; 1 DAC_OVERRIDE, 3 FOWNER: before the output was open.  39 BPF, 24 SYS_RESOURCE.
check listed-helpers wait_for helpers_listed pw-files pw-parse pw-memory pw-spare
# Samples wait for these: main's priority, which root's is raised, and a share of the CPUs of their own (autogroup).
for pid in $(helper pw-files) $(helper pw-memory); do
	check helper-priority [ "$(ps -o ni=,sid= $pid | xargs)" = "$(ps -o ni= $session | xargs) $pid" ]
done
if [ "$(id -u)" != 0 ] || ! setpriv --dump 2>/dev/null | grep '^Capability bounding set' | grep -q sys_ptrace; then
	skip capabilities "not root with SYS_PTRACE: the session keeps what its user has"
else
	CAPABILITY_40=40
	setpriv --dump | grep -q checkpoint_restore || CAPABILITY_40=21 # SYS_ADMIN in its place
	# each thread, and each helper process that there is; these three are there
	for name in "" $(for task in /proc/$session/task/*; do [ "${task##*/}" = $session ] || cat "$task/comm"; done) \
		$( (echo pw-files; echo pw-parse; echo pw-memory; ps -o comm= --ppid $session | grep '^pw-') | sort -u); do
		case $name in
		"") of=$session effective="38 5 34 14" permitted=$effective ;;
		pw-loader) of=$(thread $name) effective=5 permitted="5 38 2 19 $CAPABILITY_40 6 7 23" ;;
		pw-spare) of=$(helper $name) effective=5 permitted="5 38 2 19 $CAPABILITY_40 6 7 23" ;;
		pw-unwind) of=$(thread $name) effective= permitted= ;;
		pw-files) of=$(helper $name) effective="38 2 19 $CAPABILITY_40 6 7 23" permitted=$effective ;;
		pw-bpf) of=$(helper $name) effective="38 39 24" permitted=$effective ;;
		*) of=$(helper $name) effective= permitted= ;;
		esac
		for pid in $of; do
			check "capabilities-${name:-session}-effective" has_only CapEff $pid $effective
			check "capabilities-${name:-session}-permitted" has_only CapPrm $pid $permitted
			# pw-bpf is made before the bounding set is reduced; its list has no exec
			[ "$name" = pw-bpf ] ||
				check "capabilities-${name:-session}-bounding" has_only CapBnd $pid 38 5 34 14 2 19 $CAPABILITY_40 6 7 23 1 3
			case $name in "" | pw-loader | pw-unwind) ;; *) check "shares-little-$name" shares_a_window $pid ;; esac
		done
		check "capabilities-${name:-session}-is-there" [ -n "$of" ]
	done
	# A process that parses is of a user that no account has.
	for pid in $(helper pw-parse); do # more than one where requests were slow
		check parser-user grep -qP '^Uid:(\t2147483640){4}$' "/proc/$pid/status"
	done
fi
check listed-command diff "$TMP/unlisted" "$TMP/listed"
kill $session
wait $session

# No event requests build ids of the kernel (bit 34 of attr's flags), as these damage records of other profilers, and names are
# there all the same; --kernel-build-ids requests them.  (The records themselves prove nothing: all events share one header.)
asks_for_ids() {
	"$PYTHON" - "$TMP/$1.data" <<'PY'
import struct, sys
data = open(sys.argv[1], "rb").read()
entry, at, size = struct.unpack_from("<QQQ", data, 16)
print(sum(struct.unpack_from("<Q", data, where + 40)[0] >> 34 & 1 for where in range(at, at + size, entry)))
PY
}
record ids -e cpu-clock --kernel-build-ids --perf-data "$TMP/ids.data" -- "$PROGRAMS/recursion" 0.5
check build-ids-names has ids 'main;recurse_even;recurse_odd;'
if [ "$(asks_for_ids ids)" -gt 0 ]; then
	record no-ids -e cpu-clock --perf-data "$TMP/no-ids.data" -- "$PROGRAMS/recursion" 0.5
	check no-build-ids [ "$(asks_for_ids no-ids)" = 0 ]
	check no-build-ids-names has no-ids 'main;recurse_even;recurse_odd;'
else
	# Without the feature no event requests them either; only a kernel that has none leaves this untested.
	case ,${PERFWIND_WITHOUT:-}, in
	*,all,* | *,build-id,*) ;;
	*) skip no-build-ids "this kernel's records have no build ids (Linux 5.12)" ;;
	esac
fi

# -v lists the kernel facilities that are used, by the process that uses them.
"$OWN_PERFWIND" record -v -e cpu-clock -o "$TMP/verbose.pftrace" -- true 2>"$TMP/verbose.err"
check verbose-facilities [ "$(grep -c '^perfwind: kernel: ' "$TMP/verbose.err")" = 10 ]
check verbose-event grep -qE '^perfwind: event: cpu-clock, Hz 999, of threads on [0-9]+ CPUs; .*; clock monotonic$' "$TMP/verbose.err"
check verbose-stacks grep -qE '^perfwind: stacks: [0-9]+ registers and 65528 bytes of each; unwound by native$' "$TMP/verbose.err"

# -q prints nothing, --json nothing but the object; without both a person gets a verdict.
"$PERFWIND" record -q -o "$TMP/quiet.pftrace" -- true >"$TMP/quiet.out" 2>&1
check quiet [ ! -s "$TMP/quiet.out" ]
"$PERFWIND" record -o "$TMP/verdict.pftrace" -- true >"$TMP/verdict.out" 2>"$TMP/verdict.err"
check verdict-not-on-stdout [ ! -s "$TMP/verdict.out" ]
check verdict-reported grep -qE '^[0-9,]+ samples? in [0-9.]+ s' "$TMP/verdict.err"
(cd "$TMP" && "$PERFWIND" record -q -- true)
check default-file [ -s "$TMP/perfwind.pftrace" ]
"$PERFWIND" record -q -o - -- "$PROGRAMS/recursion" 0.5 >"$TMP/piped.pftrace"
check to-a-pipe has piped 'main;recurse_even;recurse_odd;'

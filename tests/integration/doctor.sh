#!/bin/bash
# doctor.sh - `perfwind doctor` against the machine: its status is that of a recording, in each state the machine can be put
# in; and the hint that it prints opens the gate.
. "$(dirname "$0")/lib"
need_root
id nobody >/dev/null 2>&1 || { echo "there is no user nobody"; exit 77; }
command -v setpriv >/dev/null || { echo "setpriv is not there"; exit 77; }

mkdir "$TMP/user"
cp "$PERFWIND" "$PROGRAMS/no-perf-events" "$TMP/user/"
chmod -R a+rX "$TMP"
chown nobody "$TMP/user"
unset DEBUGINFOD_URLS

SYSCTLS="perf_event_paranoid perf_event_mlock_kb perf_event_max_sample_rate kptr_restrict yama/ptrace_scope"
for name in $SYSCTLS; do
	[ -e /proc/sys/kernel/$name ] && cat /proc/sys/kernel/$name >"$TMP/was.${name##*/}"
done
restore() {
	for name in $SYSCTLS; do
		[ -e "$TMP/was.${name##*/}" ] && cat "$TMP/was.${name##*/}" >/proc/sys/kernel/$name
	done
}
trap 'restore; cleanup' EXIT
# put NAME VALUE : false where the kernel has it not, or takes it not.
put() { [ -e "/proc/sys/kernel/$1" ] && echo "$2" >"/proc/sys/kernel/$1"; } 2>/dev/null

SOCKET=$TMP/control.sock # mostly without a listener
as_root() { (cd "$TMP/user" && "$@"); }
# doctor NAME [COMMAND...] : JSON into NAME.json, by the user that the command makes it run as; sets STATUS.
doctor() {
	local name=$1
	shift
	"$@" ./perfwind doctor --control-socket "$SOCKET" --json >"$TMP/$name.json" 2>"$TMP/$name.err"
	STATUS=$?
}
# gate NAME GATE EXPRESSION : a Python expression over the gate `g`, the whole `v`.
gate() {
	"$PYTHON" - "$TMP/$1.json" "$2" "$3" <<'PY'
import json, sys
v = json.load(open(sys.argv[1]))
g = [g for g in v["gates"] if g["name"] == sys.argv[2]][0]
if not eval(sys.argv[3]):
    sys.exit("%s\nnot true: %s" % (g, sys.argv[3]))
PY
}
# The exit status, "works", and what a recording reports: one truth.
agrees() {
	local name=$1 record
	shift
	doctor "$name" "$@"
	"$@" ./perfwind record -q --no-daemon -o "$TMP/user/$name.pftrace" -- true >"$TMP/$name.record" 2>&1
	record=$?
	[ $STATUS -le 1 ] && [ $STATUS = $record ] && gate "$name" own-programs "v['works'] == (g['state'] == 'open') == ($STATUS == 0)" && return 0
	echo "doctor $STATUS, record $record"
	cat "$TMP/$name.record"
	return 1
}
# opens NAME GATE COMMAND... : the hint is one sysctl for root to type; with it the gate is open.
opens() {
	local name=$1 gate=$2 hint
	shift 2
	hint=$("$PYTHON" -c 'import json, sys; print([g["hint"] for g in json.load(open(sys.argv[1]))["gates"] if g["name"] == sys.argv[2]][0])' "$TMP/$name.json" "$gate")
	case $hint in "sudo sysctl kernel."*) ;; *) echo "no sysctl: $hint"; return 1 ;; esac
	for setting in ${hint#sudo sysctl }; do
		put "$(tr . / <<<"${setting#kernel.}" | cut -d = -f 1)" "${setting#*=}" || return 1
	done
	doctor "$name-opens" "$@"
	gate "$name-opens" "$gate" 'g["state"] == "open" and not g["hint"] and not g["cost"]'
}

check root-agrees agrees root as_root
check root-gates gate root kernel '[g["name"] for g in v["gates"]] == "own-programs kernel machine others hardware tracepoints kernel-names capabilities seccomp ptrace rings files rate facilities bpf daemon symbols debuginfod".split()'
check root-states gate root kernel 'all(g["state"] == "open" and not g["cost"] + g["hint"] or g["state"] in ("partly", "shut") and g["cost"] and g["hint"] for g in v["gates"])'
check root-one-line gate root kernel 'all("\n" not in g[k] and len(g[k]) < 240 for g in v["gates"] for k in ("what", "cost", "hint"))'
# The same as text.
as_root ./perfwind doctor >"$TMP/text"
check text-gates [ "$(grep -cE '^(open   |partly |shut   ) [a-z-]+ +[^ ]' "$TMP/text")" = 18 ]
check text-hints [ "$(grep -cE '^ {22}hint: ' "$TMP/text")" = "$(grep -cE '^(partly|shut)' "$TMP/text")" ]

put perf_event_paranoid 2
put kptr_restrict 0
check user-agrees agrees user as_nobody
check user-kernel-shut gate user kernel 'g["state"] == "shut" and "perf_event_paranoid = 2" in g["what"]'
check user-kernel-hint opens user kernel as_nobody
check user-names-by-paranoid gate user-opens kernel-names 'g["state"] == "open"'
put perf_event_paranoid 2
if in_pid_namespace; then
	skip user-machine-hint "processes outside of this pid namespace cannot be seen, whatever the settings"
else
	check user-machine-hint opens user machine as_nobody
fi
put perf_event_paranoid 2
check user-names-hint opens user kernel-names as_nobody
put kptr_restrict 2
put perf_event_paranoid 2
check user-names-2 agrees names as_nobody
check user-names-2-hint opens names kernel-names as_nobody
put kptr_restrict 2
doctor root-names as_root
check root-names-shut gate root-names kernel-names 'g["state"] == "shut" and "kptr_restrict = 2" in g["what"]'
check root-names-hint opens root-names kernel-names as_root
put perf_event_max_sample_rate 1000
doctor rate as_root
check rate-hint opens rate rate as_root
restore

# What is locked counts for all rings together.
put perf_event_paranoid 2
put perf_event_mlock_kb 516
small() { (ulimit -l 64 && as_nobody "$@"); }
check rings-agree agrees rings small
check rings-partly gate rings rings 'g["state"] == "partly" and "rings of 256 KiB a CPU instead of " in g["what"]'
# One target: a recording's note has the same.
target=$("$PERFWIND" report "$TMP/user/rings.pftrace" | grep -o 'a CPU instead of [0-9]* (')
check rings-target eval '[ -n "$target" ] && grep -qF "$target" "$TMP/rings.json"'
check rings-hint opens rings rings small
put perf_event_mlock_kb 0
none() { (ulimit -l 0 && as_nobody "$@"); }
check no-rings-agree agrees no-rings none
check no-rings-shut gate no-rings rings 'g["state"] == "shut"'
check no-rings-hint opens no-rings own-programs none
restore

# A kernel of Debian, Ubuntu or Android closes at 3 or 4, others do not: the recording knows.
for level in 3 4; do
	put perf_event_paranoid $level
	check paranoid-$level agrees paranoid-$level as_nobody
	gate paranoid-$level seccomp 'v["works"]' >/dev/null 2>&1 || check paranoid-$level-hint opens paranoid-$level own-programs as_nobody
done
restore

# A filter, as containers have it: refused, or hidden; a security module.
for error in 1 38; do
	filtered() { as_nobody ./no-perf-events $error "$@"; }
	check filtered-$error agrees filtered-$error filtered
	check filtered-$error-works-not gate filtered-$error seccomp 'v["works"] is False'
	check filtered-$error-seccomp gate filtered-$error seccomp 'g["state"] == "shut" and "--security-opt seccomp=" in g["hint"]'
	check filtered-$error-blames-nothing-else gate filtered-$error kernel '"own-programs" in g["hint"] and not any("sysctl" in o["hint"] for o in v["gates"] if o["name"] in ("kernel", "machine", "hardware", "rings"))'
	check filtered-$error-record-one-line [ "$(wc -l <"$TMP/filtered-$error.record")" = 1 ]
	check filtered-$error-record-hint grep -qE 'seccomp.*--cap-add PERFMON --security-opt seccomp=unconfined' "$TMP/filtered-$error.record"
done
# What a filter refuses us a daemon may do: then a recording works.
"$PERFWIND" daemon -v -s "@perfwind-doctor-$$" --config /dev/null --control-socket "$SOCKET" --hook-socket "$TMP/hook.sock" \
	2>"$TMP/daemon.err" &
DAEMON=$!
started $DAEMON
wait_for grep -q 'system calls are' "$TMP/daemon.err"
for error in 1 38; do
	filtered() { as_nobody ./no-perf-events $error "$@"; }
	doctor asked-$error filtered
	check asked-$error-status [ $STATUS = 0 ]
	check asked-$error-partly gate asked-$error own-programs 'v["works"] and g["state"] == "partly" and "daemon" in g["cost"]'
	check asked-$error-records filtered ./perfwind record -q --control-socket "$SOCKET" -o "$TMP/user/asked-$error.pftrace" -- true
done
kill $DAEMON
wait $DAEMON
module() { as_root ./no-perf-events 13 "$@"; }
check module agrees module module
check module-reported gate module own-programs 'g["state"] == "shut" and "ausearch" in g["hint"]'

# Yama, where the kernel has it: most that are not a distribution's have not, and then this gate is absent.
if [ ! -e /proc/sys/kernel/yama/ptrace_scope ]; then
	unable yama "this kernel was built without it"
elif put yama/ptrace_scope 1; then
	doctor yama as_nobody
	check yama-partly gate yama ptrace 'g["state"] == "partly" and "ptrace_scope = 1" in g["what"]'
	check yama-hint opens yama ptrace as_nobody
	put yama/ptrace_scope 2
	doctor yama2 as_nobody
	check yama-2 gate yama2 ptrace 'g["state"] == "shut"'
	restore
else
	skip yama "ptrace_scope cannot be changed here"
fi

# In a container: root there is no root, and its capabilities are not rights over the machine.
if as_nobody unshare -Urpf --mount-proc true 2>/dev/null; then
	put perf_event_paranoid 2
	inside() { as_nobody unshare -Urpf --mount-proc "$@"; }
	check inside-agrees agrees inside inside
	check inside-capabilities gate inside capabilities 'g["state"] == "shut" and "user namespace" in g["what"] and v["container"]'
	check inside-others gate inside others 'g["state"] == "shut"'
	check inside-reported grep -qx 'This is a container: .*host.' <<<"$(inside ./perfwind doctor)"
	restore
else
	skip inside "an ordinary user may make no user namespace"
fi
# debuginfod is named where it would be expected to help.
DEBUGINFOD_URLS=http://example.invalid as_root ./perfwind doctor --json >"$TMP/urls.json"
check debuginfod gate urls debuginfod '"DEBUGINFOD_URLS is set" in g["what"]'
check nothing-left [ -z "$(ls "$TMP/user" | grep -vE '^(perfwind|no-perf-events|.*\.pftrace)$')" ]

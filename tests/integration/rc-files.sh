#!/bin/bash
# rc-files.sh - the files that start the daemon: valid, hardened, and with none of the settings that would hide what is profiled.
. "$(dirname "$0")/lib"

root=$TMP/root
"${MAKE:-make}" -s --no-print-directory install O="$O" DESTDIR="$root" PREFIX=/usr >"$TMP/install.log" 2>&1
if command -v systemd-analyze >/dev/null 2>&1; then
	# What ours lean on: the system's own targets, and kill.
	mkdir -p "$root/usr/bin"
	cp "$(type -P kill)" "$root/usr/bin/"
	cp /lib/systemd/system/*.target /lib/systemd/system/*.slice "$root/usr/lib/systemd/system/" 2>/dev/null
	no_complaint() { ! systemd-analyze verify --man=no --root="$root" "$1" 2>&1 | grep -i perfwind; }
	for unit in perfwind.service perfwind-hook.socket perfwind-control.socket; do
		check "verify-$unit" no_complaint $unit
	done
	exposed() {
		systemd-analyze security --offline=1 rc/perfwind.service 2>/dev/null |
			awk '/Overall exposure/ { print; exit !($(NF - 2) <= 2.2) }'
	}
	check exposure-at-most-2.2 exposed
	# What our own list allows the unit does: what its list refuses is refused by ours too, which reports it with -v.
	within() {
		"$PYTHON" - rc/perfwind.service session/rights-calls.c <<-'PY'
			import re, subprocess, sys
			def group(name):
			    shown = subprocess.run(["systemd-analyze", "syscall-filter", name], capture_output=True, text=True, check=True).stdout
			    words = {w for line in shown.splitlines() for w in line.split("#")[0].split()} - {name}
			    return set().union(*({w} if w[0] != "@" else group(w) for w in words))
			calls = group("@default")
			for line in re.findall("^SystemCallFilter=(.*)", open(sys.argv[1]).read(), re.M):
			    named = set().union(*({w} if w[0] != "@" else group(w) for w in line.lstrip("~").split()))
			    calls = calls - named if line[0] == "~" else calls | named
			text = re.sub(r"of_(command|bpf|open|sanitizers)\[\] = .*?};", "", "".join(open(name).read() for name in sys.argv[2:]), flags=re.S)
			ours = set(re.findall(r"\bSYS_(\w+)", text)) | set(re.findall(r"\b44[46], /\* (landlock\w+)", text))
			print("refused by the unit only:", *sorted(ours - calls))
			sys.exit(len(ours) < 100 or bool(ours - calls))
		PY
	}
	check our-list-is-within-the-units within
else
	skip verify "systemd-analyze is not installed"
fi
nothing_hidden() {
	! grep -E '^(PrivateTmp|ProtectHome|ProtectKernelTunables|ProtectKernelLogs|ProtectProc|PrivateUsers|ProcSubset)=' rc/perfwind.service
}
check nothing-hidden nothing_hidden
check service-socket-is-roots grep -qx 'ExecStart=/usr/bin/perfwind daemon --socket /run/perfetto/traced-producer.sock' rc/perfwind.service
check one-killed-is-not-all grep -qx OOMPolicy=continue rc/perfwind.service
check sockets-agree grep -q "\"$(sed -n 's/^ListenStream=//p' rc/perfwind-hook.socket)\"" libc-hook/hook-proto.h
# Android's init: every keyword is one it knows (what is not is refused at boot).
known() {
	! grep -vE '^(#.*|$|service perfwind /system/bin/perfwind .*|on property:.*|    (#.*|class|disabled|socket|user|group|capabilities|task_profiles|shared_kallsyms|start|stop|setprop)( .*)?)$' \
		rc/perfwind.rc
}
check android-keywords known

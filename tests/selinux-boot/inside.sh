#!/bin/sh
# inside.sh - what tests/selinux-boot/boot-image.sh has its machine do once it is up: as root, unconfined, its lines on the console.
# Prints as the integration tests do: `ok NAME` or `not ok NAME: why`.
tests=/usr/lib/perfwind-test
out=/root/out
mkdir -p $out
check() {
	name=$1
	shift
	if "$@" >$out/check 2>&1; then echo "ok $name"; else
		tail -n 20 $out/check | cut -c 1-300 | sed 's/^/    /'
		echo "not ok $name: $*"
	fi
}
show() { sed "s/^/    $1: /"; }
# denials REGEX: what was refused so far, of what matches.
denials() { dmesg | grep 'avc: *denied' | grep -E -- "$1"; }
no_denials() { ! denials "$1"; }
named() { perfwind export --to folded -o - "$1" | grep -qE "$2"; }
# as_user COMMAND... : an ordinary user, unconfined.
as_user() { setpriv --reuid nobody --regid nogroup --clear-groups --inh-caps=-all --bounding-set=-all "$@"; }

echo # behind what the boot left on the line
check enforcing [ "$(getenforce)" = Enforcing ]
systemctl start perfwind.service # waits until it is ready
check daemon-runs systemctl is-active perfwind.service
getenforce | show getenforce
ps -eZ | grep -E 'perfwind|pw-' | show ps
check daemon-domain [ "$(ps -eZ | awk '$NF == "perfwind" { split($1, c, ":"); print c[3] }' | sort -u)" = perfwind_t ]
check sockets-labelled [ "$(ls -Z /run/perfwind | awk '{ split($1, c, ":"); print c[3] }' | sort -u)" = perfwind_runtime_t ]
check start-without-denials no_denials 'perfwind'

# Debian's kernel begins at 3, where it asks even a holder of CAP_PERFMON for more: reported, by both, with the hint.
if [ "$(cat /proc/sys/kernel/perf_event_paranoid)" = 3 ]; then
	perfwind record --daemon -a -d 1 -o $out/closed.pftrace 2>$out/closed
	check closed-at-3 grep -q 'even to CAP_PERFMON .*sysctl kernel.perf_event_paranoid=2' $out/closed
	as_user perfwind doctor >$out/doctor
	check doctor-at-3 grep -q '^shut *own-programs .*kernel.perf_event_paranoid = 3' $out/doctor
fi
sysctl -q -w kernel.perf_event_paranoid=2

# By consent: the daemon may neither ptrace nor read another's memory; the program hands it over.
perfwind run -- $tests/recursion 600 &
consents=$!
$tests/recursion 600 &
sleep 2
check record-machine perfwind record --daemon -a -d 5 -o $out/all.pftrace
perfwind report --by process --limit 6 $out/all.pftrace | show all
perfwind record --daemon --json -p $consents -d 5 -o $out/one.pftrace >$out/one.json
check record-consents [ $? = 0 ]
cat $out/one.json | show consents
check consented-names named $out/one.pftrace 'main;(recurse_even;recurse_odd;){20,}.*burn '
check kernel-names named $out/all.pftrace '_\[k\]'
# The live view, a trace config, a command, the other unwinders: each by asking.
check top-consents sh -c "perfwind top --daemon --once -i 3 -p $consents | grep -q ' burn  *recursion'"
cat >$out/config <<END
buffers { size_kb: 4096 } duration_ms: 3000
data_sources { config { name: "linux.perf" target_buffer: 0 perf_event_config {
timebase { frequency: 99 counter: SW_CPU_CLOCK timestamp_clock: PERF_CLOCK_MONOTONIC }
callstack_sampling { scope { target_pid: $consents } } } } }
END
check trace-consents perfwind trace --daemon -c $out/config -o $out/traced.pftrace
check traced-names named $out/traced.pftrace 'main;(recurse_even;recurse_odd;){20,}.*burn '
check command perfwind record --daemon -o $out/command.pftrace -- perfwind run -- $tests/recursion 5
check command-names named $out/command.pftrace 'main;(recurse_even;recurse_odd;){20,}.*burn '
for engine in libdw libunwind; do
	check $engine perfwind record --daemon --unwinder $engine -p $consents -d 3 -o $out/$engine.pftrace
	check $engine-names named $out/$engine.pftrace 'main;(recurse_even;recurse_odd;){20,}.*burn '
done
# What its helpers keep under SELinux is what they keep elsewhere.
ps -eZ | grep -E 'pw-' | show helpers
kill $consents

# Anyone may ask: their own, and no more.
cp $tests/recursion /tmp/recursion
as_user perfwind run -- /tmp/recursion 600 &
sleep 2
own=$(pgrep -u nobody recursion)
check user-own as_user perfwind record --daemon -p "$own" -d 5 -o /tmp/own.pftrace
check user-own-names named /tmp/own.pftrace 'main;(recurse_even;recurse_odd;){20,}.*burn '
as_user perfwind record --daemon -p 1 -d 1 -o /tmp/not.pftrace 2>$out/not
check user-not-others [ $? = 1 ]
check user-reported-why grep -q "process 1 is another user's" $out/not
as_user perfwind doctor >$out/doctor
check doctor-works [ $? = 0 ]
sysctl -q -w kernel.yama.ptrace_scope=1
as_user perfwind doctor | grep -A 2 ' ptrace ' | show doctor
check doctor-yama sh -c 'setpriv --reuid nobody --clear-groups --inh-caps=-all perfwind doctor | grep -q "^partly *ptrace *kernel.yama.ptrace_scope = 1"'
check used-without-denials no_denials 'perfwind'

# What the policy never allows, tried from the daemon's domain.
systemctl start perfwind-forbidden.service
status=$(systemctl show -p ExecMainStatus --value perfwind-forbidden.service)
check forbidden-is-refused [ $status = 0 ]
denials 'comm="forbidden"' | show refused
for what in tcp_socket shadow_t perfwind_exec_t execmem sys_ptrace perfwind_conf_t; do
	check "forbidden-$what" denials "$what .*comm=\"forbidden\"|comm=\"forbidden\".*$what"
done
echo "end of the tests"
sync
systemctl --force --force poweroff

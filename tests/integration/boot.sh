#!/bin/bash
# boot.sh - the daemon as a machine runs it: a systemd that was booted for it, our units as they are installed, users
# that ask, reload, restart, stop; then the Debian package, from installing to purging.
#
# The units are run as they are first.  Then with two changes that only show more: -v, and a system call that the unit
# refuses ends the daemon by SIGSYS instead of failing with EPERM.
if [ -z "${BOOTED:-}" ]; then
	exec "$(dirname "$0")/with-systemd" env BOOTED=1 "tests/integration/$(basename "$0")" "$@"
fi
. "$(dirname "$0")/lib"
need_perf
MAKE="${MAKE:-make} -s --no-print-directory O=$O"
export PERFWIND_NO_INSTALL=1 # there is no network here

log() { journalctl --no-pager -o cat -u perfwind.service; }
logged() { log | grep -qE -- "$1" && return 0; log | tail -n 20; return 1; }
is() { [ "$(systemctl is-active "$1")" = "$2" ] && return 0; systemctl --no-pager status "$1"; return 1; }
pid() { systemctl show -P MainPID perfwind.service; }
status_of() { awk -v key="$2:" '$1 == key { print $2 }' "/proc/$1/status"; }
# No restart, no bad end, no refused system call.
well() {
	[ "$(systemctl show -P Result perfwind.service)" = success ] && [ "$(systemctl show -P NRestarts perfwind.service)" = 0 ] &&
		! log | grep -E 'the filter refuses|status=31/SYS|Failed with|Sanitizer' && return 0
	systemctl --no-pager status perfwind.service
	return 1
}

useradd --no-create-home alice
useradd --no-create-home bob
mkdir "$TMP/bin" "$TMP/alice" "$TMP/bob" "$TMP/root"
cp "$PROGRAMS/recursion" "$PROGRAMS/threads" "$PROGRAMS/no-perf-events" "$PROGRAMS/restless" "$TMP/bin/"
chown alice "$TMP/alice"; chown bob "$TMP/bob"
# as USER [GROUP] -- COMMAND... : without any right.
as() {
	local user=$1 groups=--clear-groups
	[ "$2" = -- ] || { groups="--groups=$(getent group "$2" | cut -d : -f 3)"; shift; }
	shift 2
	setpriv --reuid "$user" --regid "$user" "$groups" --inh-caps=-all --bounding-set=-all "$@"
}
# asks NAME USER [GROUP] -- OPTIONS... : a recording by the daemon at its usual place.
asks() {
	local name=$1 user=$2 user_ids=("${@:2:2}") folder=$TMP/$2
	[ "$3" = -- ] && shift 3 || { user_ids+=(--); shift 4; }
	(cd "$folder" && as "${user_ids[@]}" /usr/bin/perfwind record --daemon --json -o "$name.pftrace" -d 0.5 "$@") \
		>"$TMP/$name.json" 2>"$TMP/$name.err"
	local status=$?
	[ ! -f "$folder/$name.pftrace" ] || cp "$folder/$name.pftrace" "$TMP/"
	return $status
}
denied() { # NAME REGEX USERS... -- OPTIONS...
	asks "$1" "${@:3}"
	[ $? = 1 ] && grep -qE -- "$2" "$TMP/$1.err" && return 0
	cat "$TMP/$1.err"
	return 1
}
runs_as() { # USER PROGRAM... : in the background; its pid in $!
	local user=$1
	shift
	setpriv --reuid "$user" --regid "$user" --clear-groups --inh-caps=-all --bounding-set=-all "$@" &
	started $!
}
runs_as alice "$TMP/bin/recursion" 6000; ALICES=$!
runs_as bob "$TMP/bin/threads" 6000; BOBS=$!
wait_for used $ALICES 20
wait_for used $BOBS 20
NAMED='^recursion;.*main;(recurse_even;recurse_odd;){20,}.*burn '

# ---- make install: asked by a socket, the daemon starts by itself
install_it() {
	$MAKE install PREFIX=/usr >"$TMP/install.log" 2>&1 && systemd-sysusers && systemd-tmpfiles --create perfwind.conf &&
		systemctl daemon-reload
}
check installs install_it
check user-is-made getent passwd perfwind
check group-is-made getent group perfwind
check sockets-start systemctl start perfwind-control.socket perfwind-hook.socket
check not-yet-started is perfwind.service inactive
asks first root -- -a -d 1
check starts-when-asked is perfwind.service active
check root-all has first "$NAMED"
check root-kernel has first '_\[k\]'
check root-consistent consistent first
PID=$(pid)
check own-user [ "$(status_of "$PID" Uid)" = "$(id -u perfwind)" ]
# PERFMON, KILL, DAC_READ_SEARCH, SYSLOG: bits 38, 5, 2, 34.
check four-rights [ "$(status_of "$PID" CapPrm) $(status_of "$PID" CapEff) $(status_of "$PID" CapBnd)" = \
	"0000004400000024 0000004400000024 0000004400000024" ]
check none-to-hand-on [ "$(status_of "$PID" CapInh) $(status_of "$PID" CapAmb)" = "0000000000000000 0000000000000000" ]
check no-new-privileges [ "$(status_of "$PID" NoNewPrivs) $(status_of "$PID" Seccomp)" = "1 2" ]
asks member bob perfwind -- -a -d 1
check member-all has member "$NAMED"
check member-kernel has member '_\[k\]'
asks own alice -- -a
check own-names has own "$NAMED"
check own-only hasnt own '^threads|_\[k\]'
check own-consistent consistent own
check others-denied denied others "process $BOBS is another user's" alice -- -p $BOBS
check unit-well well
# Restarted during a recording: what was recorded is a trace.
(asks cut alice -- -p $ALICES -d 60) &
asking=$!
started $asking
wait_for test -s "$TMP/alice/cut.pftrace"
check restarts systemctl restart perfwind.service
wait $asking
check restart-leaves-a-trace has cut "$NAMED"
check another-one [ "$(pid)" != "$PID" ]
asks again alice -- -p $ALICES
check restart-serves has again "$NAMED"
check stops systemctl stop perfwind.service perfwind-control.socket perfwind-hook.socket
check stopped is perfwind.service inactive
check stopped-well well

# ---- what a refused system call would show
mkdir -p /etc/systemd/system/perfwind.service.d
printf '[Service]\nExecStart=\nExecStart=/usr/bin/perfwind daemon -v\nSystemCallErrorNumber=kill\n' \
	>/etc/systemd/system/perfwind.service.d/tests.conf
systemctl daemon-reload
check strict-starts systemctl start perfwind.service
check strict-rights logged 'rights: perfmon,kill,dac_read_search,syslog; system calls are filtered'
asks strict root -- -a -d 1
check strict-names has strict "$NAMED"
# Consent, at the socket that systemd handed over: a process that cannot be read directly is asked, by its memory at least.
runs_as alice /usr/bin/perfwind run -- "$TMP/bin/recursion" 6000; HOOKED=$!
runs_as alice "$TMP/bin/no-perf-events" 1 /usr/bin/perfwind run -- "$TMP/bin/recursion" 6000; FILTERED=$!
wait_for used $HOOKED 20
wait_for used $FILTERED 20
check under-a-filter [ "$(status_of $FILTERED Seccomp)" = 2 ]
asks hooked bob perfwind -- -p $HOOKED --stack-bytes 1024
asks unhooked bob perfwind -- -p $ALICES --stack-bytes 1024
# Every process of the daemon: pw-files, pw-parse, pw-hook, pw-close, pw-memory.  What takes a target's word has no rights.
confined() {
	local pid name rights
	for pid in $(pid) $(pgrep -P "$(pid)") $(pgrep -P "$(pgrep -d, -P "$(pid)")"); do
		read -r name <"/proc/$pid/comm"
		rights=$(status_of "$pid" CapPrm)
		echo "$name: $rights, no_new_privs $(status_of "$pid" NoNewPrivs), seccomp $(status_of "$pid" Seccomp)"
		[ "$(status_of "$pid" NoNewPrivs) $(status_of "$pid" Seccomp)" = "1 2" ] || return 1
		case $name in pw-hook | pw-parse | pw-close | pw-memory) [ "$rights" = 0000000000000000 ] || return 1 ;; esac
	done
	pgrep -P "$(pid)" -x pw-hook
}
check helpers-confined confined
check consent-names has hooked "$NAMED"
check consent-asked logged "process $HOOKED .*: asked"
# Longer stacks than the copy go on in the memory, which only it can give.
check consent-whole json hooked 'v["stacks"]["whole"] > v["stacks"]["cut"]'
check without-consent-cut json unhooked 'v["stacks"]["whole"] < v["stacks"]["cut"]'
asks filtered bob perfwind -- -p $FILTERED
not_asked() { ! log | grep -E "process $1 .*: asked"; }
check filtered-is-not-asked not_asked $FILTERED
# Reload: permissions of users, and what may be asked, from now on.
printf 'own-processes = no\nconsent-under-seccomp = yes\n' >/etc/perfwind.conf
check reloads systemctl reload perfwind.service
check reload-is-reported logged 'settings were read again'
check reload-policy denied refused 'you may not record through the daemon' alice -- -p $ALICES
asks filtered-yes bob perfwind -- -p $FILTERED
check filtered-is-asked logged "process $FILTERED .*: asked"
check filtered-runs-on kill -0 $FILTERED
echo 'own-processes = perhaps' >/etc/perfwind.conf
systemctl reload perfwind.service
check reload-mistake logged '/etc/perfwind.conf:1: own-processes .*; the settings stay as they were'
check reload-mistake-stays denied refused-again 'you may not record through the daemon' alice -- -p $ALICES
rm /etc/perfwind.conf
check reloads-nothing systemctl reload perfwind.service
asks reloaded alice -- -p $ALICES
check reload-back has reloaded "$NAMED"
# Programs that come and go, each asked: none dies of it (consent.sh has the long run).
runs_as alice /usr/bin/perfwind run -- "$TMP/bin/restless" 4; restless=$!
asks stress root -- -a -d 4
check stress-asked [ "$(log | grep -c '): asked for its consent')" -ge 10 ]
check stress-names has stress '^restless;.*restless_leaf;burn '
wait $restless
check restless-runs-on [ $? = 0 ]
check strict-well well
check strict-stops systemctl stop perfwind.service perfwind-control.socket perfwind-hook.socket
check strict-stopped-well well
rm -r /etc/systemd/system/perfwind.service.d

$MAKE uninstall PREFIX=/usr >"$TMP/uninstall.log" 2>&1
systemctl daemon-reload
check uninstalled [ ! -e /usr/bin/perfwind ]

# ---- the package.  Not optimised: it is the packaging that is looked at.
command -v dh >/dev/null || { skip package "debhelper is not there"; exit 0; }
rm -f /usr/sbin/policy-rc.d # a container image's way to have nothing started
rm -f /var/lib/man-db/auto-update # nor need all manual pages be indexed for ours
export DEBIAN_FRONTEND=noninteractive
kill $BOBS $HOOKED $FILTERED
kill -STOP $ALICES # the compiler's time
DEB_CFLAGS_SET=-O0 DEB_BUILD_OPTIONS=noautodbgsym ${MAKE/ O=$O/ O=$TMP/deb} deb >"$TMP/deb.log" 2>&1
kill -CONT $ALICES
package=$(ls "$TMP"/deb/perfwind_*.deb)
check package-builds test -s "$package"
installs_package() { dpkg -i "$package" >"$TMP/dpkg.log" 2>&1; }
check package-installs installs_package
all_are() { [ "$(systemctl "$1" perfwind.service perfwind-hook.socket perfwind-control.socket | sort -u)" = "$2" ]; }
check package-is-disabled all_are is-enabled disabled
check package-is-not-started all_are is-active inactive
no_sockets() { [ -z "$(ls -A /run/perfwind)" ]; }
check package-no-sockets no_sockets
turn_on=$(sed -n 's/^perfwind: .* are off; to turn them on: //p' "$TMP/dpkg.log")
check package-names-command [ "$turn_on" = "systemctl enable --now perfwind" ]
check package-turned-on $turn_on
check package-enables all_are is-enabled enabled
check package-starts is perfwind.service active
asks packaged root -- -p $ALICES
check package-records has packaged "$NAMED"
PID=$(pid)
check package-again installs_package
is_quiet_again() { ! grep 'are off' "$TMP/dpkg.log"; }
check package-names-it-once is_quiet_again
check package-restarts [ "$(pid)" != "$PID" ]
check package-is-up is perfwind.service active
asks packaged-again alice -- -p $ALICES
check package-records-again has packaged-again "$NAMED"
check package-well well
dpkg -L perfwind >"$TMP/files"
# The settings are the machine's: kept over an upgrade that has others, over removing, and gone by purging.
conffile() { dpkg-query -W -f '${Conffiles}\n' perfwind | grep -q '^ /etc/perfwind.conf '; }
check package-settings conffile
echo 'own-processes = no' >>/etc/perfwind.conf
sed -i '/^own-processes/!d' /etc/perfwind.conf
kept() { [ "$(cat /etc/perfwind.conf)" = 'own-processes = no' ]; }
dpkg-deb -R "$package" "$TMP/next"
echo '# One more line.' >>"$TMP/next/etc/perfwind.conf"
sed -i 's/^Version: .*/&+next/' "$TMP/next/DEBIAN/control"
dpkg-deb -b "$TMP/next" "$TMP/next.deb" >"$TMP/next.log"
check package-upgrades dpkg -i --force-confdef --force-confold "$TMP/next.deb"
check upgrade-keeps-settings kept
check upgrade-obeys-settings denied upgraded 'you may not record through the daemon' alice -- -p $ALICES
check package-removes dpkg -r perfwind
check removed-keeps-settings kept
nothing_runs() { ! pgrep -u perfwind -a && [ -z "$(ls -A /run/perfwind)" ]; }
check removed-stops nothing_runs
nothing_left() {
	local file left=
	while read -r file; do [ -d "$file" ] || [ ! -e "$file" ] || left="$left $file"; done <"$TMP/files"
	left="$left $(find /etc /run /var/lib/systemd -name '*perfwind*' ! -path /run/perfwind)"
	[ -z "${left// /}" ] || { echo "left: $left"; return 1; }
}
check package-purges dpkg -P perfwind
check purged-leaves-nothing nothing_left
unknown() { ! dpkg -s perfwind; }
check purged-is-unknown unknown
systemctl daemon-reload
none_failed() { ! systemctl --no-legend --plain --failed | grep .; }
check none-failed none_failed

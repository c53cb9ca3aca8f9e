#!/bin/bash
# errors.sh - wrong input gets one clear line, the right exit status, and loses nothing.
. "$(dirname "$0")/lib"

# refuse NAME STATUS REGEX ARGUMENTS... : perfwind must fail with STATUS and one line that matches.
refuse() {
	local name=$1 status=$2 regex=$3 got
	shift 3
	timeout 20 "$PERFWIND" "$@" >"$TMP/out" 2>"$TMP/err"
	got=$?
	if [ $got != "$status" ]; then
		cat "$TMP/err"
		not_ok "$name" "status $got, not $status"
	elif ! grep -qE -- "$regex" "$TMP/err"; then
		cat "$TMP/err"
		not_ok "$name" "no line matches $regex"
	elif grep -qE 'Assertion|AddressSanitizer|Segmentation' "$TMP/err"; then
		cat "$TMP/err"
		not_ok "$name" "a crash"
	else
		ok "$name"
	fi
}

STOCK=$PWD/tests/data/stock-50hz.pftrace
cd "$TMP" || exit 1
refuse no-target 2 'record needs a target' record
refuse two-targets 2 'exclude each other' record -a -p 1
refuse top-no-target 2 'top needs a target' top
refuse top-two-targets 2 'exclude each other' top -a -p 1
refuse top-no-interval 2 '0.01 seconds' top -i 0 -a
refuse no-duration 2 'record: --duration 0: it must be more than 0 s' record -d 0 -- true
refuse stat-no-duration 2 'stat: --duration 0: it must be more than 0 s' stat -d 0 -- true
refuse top-dead-pid 1 'no process' top -p 4194303
refuse unknown-option 2 'frequency' record --frequenzy 10 -- true
refuse unknown-command 2 'record' recrod
refuse unknown-event 1 'cpu-clock' record -e cpu-clokc -- true
refuse unknown-tracepoint 1 'sched_switch|tracefs|no access' record -e sched:sched_swich -- true
refuse bad-pid 2 'not one' record -p 12x
refuse dead-pid 1 'no process' record -p 4194303
refuse bad-cpu-list 2 'list' record --cpu 0-x -a -d 0.1
refuse absent-cpu 1 'CPU 4000 does not exist' record --cpu 0,4000 -a -d 0.1
refuse odd-stack-bytes 2 'multiple of 8' record --stack-bytes 1001 -- true
refuse big-stack-bytes 2 '65528' record --stack-bytes 100000 -- true
refuse no-such-filter 1 'tracepoint|tracefs|no_such_field' record -e sched:sched_switch --filter 'no_such_field == 1' -- true
refuse unknown-follower 1 "unknown event 'nope'" record -e cpu-clock,nope -- true
refuse unknown-function 1 "no function 'nope'|no uprobe" record -e "uprobe:$PROGRAMS/recursion:nope" -- true
refuse unknown-engine 2 'native, libunwind, libdw' record --unwinder magic -- true
refuse both-halves 2 'exclude' record --user-only --kernel-only -- true
refuse two-on-stdout 2 'standard output' record --json -o - -- true
refuse both-rates 2 'exclude' record -F 10 -c 10 -- true
refuse filter-without-tracepoint 1 'tracepoint' record -e cpu-clock --filter 'x == 1' -- true
rate=$(cat /proc/sys/kernel/perf_event_max_sample_rate 2>/dev/null || echo 100000)
refuse rate-too-high 1 "$rate" record -F $((rate * 10)) -- true
mkdir -p dir
refuse output-is-directory 1 'directory' record -o dir -- true
refuse output-full 1 'No space left' record -o /dev/full -- true
check device-is-not-moved [ -c /dev/full ]
refuse output-unwritable 1 'cannot be written to no-such-dir/x.pftrace \(-o\): its folder does not exist' record -o no-such-dir/x.pftrace -- true

refuse no-daemon-with-recorder 1 'no daemon answers.*recorder-size' snapshot --daemon --control-socket "$TMP/none"
refuse no-such-event-listed 1 "no (other )?event has 'no-such'" list no-such

refuse import-unwritable 1 'cannot be written to no-such-dir/x.pftrace \(-o\): its folder does not exist' import -o no-such-dir/x.pftrace "${STOCK%/*}/x86-64/fp.data"

mkdir -p kept.pftrace.old
echo kept >kept.pftrace
refuse output-old-is-directory 1 'cannot be written to kept.pftrace \(-o\): .*FILE.old, which is a directory' record -o kept.pftrace -- true
check output-old-untouched grep -q kept kept.pftrace
if is_root && command -v setpriv >/dev/null; then
	mkdir -m 1777 sticky
	setpriv --reuid=65534 --regid=65534 --clear-groups sh -c 'ln -s /dev/null sticky/link; mkfifo sticky/fifo'
	refuse output-foreign-link 1 "another user's link or pipe" record -o sticky/link -- true
	refuse output-foreign-fifo 1 "another user's link or pipe" record -o sticky/fifo -- true
else
	skip output-foreign "needs root and setpriv"
fi

# What is printed into a full disk is missing: one message, and the status is 1.
unprinted() { # NAME ARGUMENTS...
	local name=$1 got
	shift
	timeout 60 "$PERFWIND" "$@" >/dev/full 2>"$TMP/err"
	got=$?
	[ $got = 1 ] && [ "$(grep -c 'No space left on device' "$TMP/err")" = 1 ] && { ok "unprinted-$name"; return; }
	cat "$TMP/err"
	not_ok "unprinted-$name" "status $got"
}
unprinted record record -q --json -o printed.pftrace -- true
unprinted top top --once -i 0.1 -- sleep 1
unprinted import import --json -o printed-import.pftrace "${STOCK%/*}/x86-64/fp.data"
unprinted losses losses "$STOCK"
unprinted losses-json losses --json "$STOCK"
unprinted report report "$STOCK"
unprinted tree report --tree "$STOCK"
for format in html folded pprof; do unprinted $format export --to $format -o - "$STOCK"; done
unprinted doctor doctor
unprinted doctor-json doctor --json
unprinted bash generate bash
unprinted zsh generate zsh
unprinted fish generate fish
unprinted help --help
unprinted help-record record --help
unprinted version --version
"$PERFWIND" losses --json "$STOCK" >&- 2>"$TMP/err"
check unprinted-closed [ "$? $(cat "$TMP/err")" = '1 perfwind: standard output: Bad file descriptor' ]

# The variables of tests are not for a program that runs with more rights than its user.
export PERFWIND_WITHOUT=nonsense
refuse variable-read 1 nonsense record -o variable.pftrace -- true
if is_root && ! findmnt -no OPTIONS -T "$TMP" | grep -qw nosuid; then
	cp "$PERFWIND" "$TMP/privileged"
	chown 65534 "$TMP/privileged"
	chmod 4755 "$TMP/privileged"
	"$TMP/privileged" record -o variable.pftrace -- true >"$TMP/out" 2>"$TMP/err"
	check variable-not-read [ "$(grep -c nonsense "$TMP/err")" = 0 ]
else
	skip variable-not-read "needs root, and programs that are set-user-ID"
fi
unset PERFWIND_WITHOUT

# Files that are not traces.
echo 'hello, this is text' >text
head -c 100000 /dev/urandom >noise
: >empty
head -c 64 "$PERFWIND" >elf
for kind in text noise empty elf dir missing; do
	refuse "report-$kind" 1 "$kind|[Nn]o such|directory|trace" report "$kind"
	refuse "export-$kind" 1 "$kind|[Nn]o such|directory|trace" export --to folded -o out "$kind"
done
# A trace of a stock service is not a foreign file.
check report-stock "$PERFWIND" report "$STOCK"
# Nor one that lacks its end: it never promised one.
stock_ends() { ! "$PERFWIND" report "$STOCK" 2>&1 | grep -E '^End |not whole' && "$PERFWIND" losses "$STOCK"; }
check stock-ends stock_ends
# A damaged file of which nothing is left.
head -c 300 "$STOCK" >beginning
for command in report 'export --to folded -o -'; do
	refuse "nothing-left-${command%% *}" 1 "^perfwind: ${command%% *}: beginning is damaged or cut off, and no sample is left in it\$" $command beginning
done
refuse export-unwritable 1 'No such file' export --to html -o no-such-dir/x.html "$STOCK"
refuse export-to-directory 1 'directory' export --to folded -o dir "$STOCK"
refuse export-unknown-format 2 'folded' export --to foldd text

# A daemon without rights reports which sockets it could not make, and goes on without.
if is_root && command -v setpriv >/dev/null; then
	cp "$PERFWIND" "$TMP/perfwind"
	setpriv --reuid=65534 --regid=65534 --clear-groups "$TMP/perfwind" daemon -s "$TMP/no-service" 2>"$TMP/plain.err" &
	plain=$!
	started $plain
	check daemon-without-control wait_for grep -qE '^perfwind: no recordings on request: /run/perfwind/control.sock: .*sudo perfwind daemon; or --control-socket' "$TMP/plain.err"
	check daemon-without-hook wait_for grep -qE '^perfwind: no process can opt in to profiling: .*--hook-socket' "$TMP/plain.err"
	check daemon-goes-on kill $plain
else
	skip daemon-without-sockets "needs root and setpriv"
fi

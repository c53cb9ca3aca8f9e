#!/bin/bash
# flight.sh - record --flight-recorder: the latest samples stay in memory; SIGUSR2 and `perfwind snapshot` write them to a file of
# their own while the recording goes on, its end writes the trace.
. "$(dirname "$0")/lib"
need_perf

# samples FILE : how many it has; its report and statistics find nothing wrong but a full ring of an ordinary user, which is 4 MiB.
samples() {
	"$PERFWIND" losses "$1" >"$TMP/stats" || { ! is_root && ! grep '^[a-z]' "$TMP/stats" | grep -qvE '^(name|perf_cpu_lost_records) '; } ||
		{ cat "$TMP/stats"; return 1; }
	counted "$1"
}
counted() {
	"$PERFWIND" report "$1" 2>&1 | sed -n 's/^Samples *\([0-9,]*\) over.*(of a flight recorder: the latest).*/\1/p' | tr -d ,
}
# fails STATUS COMMAND...
fails() { "${@:2}" >"$TMP/failed" 2>&1; [ $? = "$1" ] || { cat "$TMP/failed"; return 1; }; }
more_than() { [ "$(samples "$1")" -gt "$2" ] || { "$PERFWIND" report "$1" | head -n 12; return 1; }; }
has_name() { "$PERFWIND" report "$1" | grep -q 'burn.*recursion'; }
snapshots() { [ "$(grep -c 'snapshot: [0-9,]* samples' "$TMP/$1.err")" = "$2" ] || { cat "$TMP/$1.err"; return 1; }; }

"$PROGRAMS/recursion" 100 >/dev/null &
target=$!
started $target
"$PERFWIND" record --flight-recorder 1M -e cpu-clock -F 4000 -o "$TMP/one.pftrace" -p $target 2>"$TMP/one.err" &
recorder=$!
started $recorder
used_more() { used $target "$1"; }
before=$(cpu_ms $target)
wait_for used_more $((before + 1000))
check no-file-before [ ! -e "$TMP/one.pftrace" ]
# Two requests at once are one snapshot.
kill -STOP $recorder
kill -USR2 $recorder
kill -USR2 $recorder
kill -CONT $recorder
check first-snapshot wait_for snapshots one 1
check first-samples more_than "$TMP/one-1.pftrace" 100
check first-names has_name "$TMP/one-1.pftrace"
check mode [ "$(stat -c %a "$TMP/one-1.pftrace")" = 600 ]
wait_for used_more $((before + 2500))
kill -USR2 $recorder
check second-snapshot wait_for snapshots one 2
check second-has-more more_than "$TMP/one-2.pftrace" "$(samples "$TMP/one-1.pftrace")"
# Names that are taken are passed over, and a link is not followed.
for i in 3 4 5; do ln -s /nowhere "$TMP/one-$i.pftrace"; done
kill -USR2 $recorder
check links-are-passed-over wait_for snapshots one 3
check links-stay [ -L "$TMP/one-3.pftrace" ]
check number-six more_than "$TMP/one-6.pftrace" 100

# `perfwind snapshot`: a name of the recorder's or one of the client's, a part of the time, a program that gets the name.
snapshot() { "$PERFWIND" snapshot "$@" 2>"$TMP/snapshot.err" || { cat "$TMP/snapshot.err"; return 1; }; }
fewer_than() { [ "$(samples "$1")" -gt 0 ] && [ "$(samples "$1")" -lt "$2" ] || { cat "$TMP/snapshot.err"; return 1; }; }
check snapshot-next snapshot -p $recorder
check snapshot-next-is-seven more_than "$TMP/one-7.pftrace" 100
check snapshot-named grep -qE "(bytes|KiB|MiB), taken within [0-9.]* ms: $TMP/one-7.pftrace" "$TMP/snapshot.err"
echo old >"$TMP/mine.pftrace"
check snapshot-mine snapshot -p $recorder -o "$TMP/mine.pftrace" --last 500ms
check snapshot-last fewer_than "$TMP/mine.pftrace" "$(samples "$TMP/one-7.pftrace")"
check snapshot-last-names has_name "$TMP/mine.pftrace"
check snapshot-old [ "$(cat "$TMP/mine.pftrace.old")" = old ]
mkdir "$TMP/elsewhere"
printf '#!/bin/sh\n[ $# = 1 ] && [ -s "$1" ] && echo "$1" >"%s/executed"; exit 7\n' "$TMP" >"$TMP/upload"
chmod +x "$TMP/upload"
(cd "$TMP/elsewhere" && "$PERFWIND" snapshot -p $recorder --exec "$TMP/upload" 2>/dev/null)
check exec-status [ $? = 7 ]
check exec-name [ "$(cat "$TMP/executed")" = "$TMP/one-8.pftrace" ]
check exec-no-shell fails 127 "$PERFWIND" snapshot -p $recorder --exec "true;true"
check forms snapshot -p $recorder -o "$TMP/forms.pftrace" --str --bin
check forms-text grep -qE '^u recursion ' "$TMP/forms.str"
forms_records() { "$PROGRAMS/read-snapshot" <"$TMP/forms.bin" | grep -q '^perf .* comm=recursion$'; }
check forms-records forms_records
check exec-absent fails 127 "$PERFWIND" snapshot -p $recorder --exec /nowhere/at-all
check exec-absent-no-snapshot [ ! -e "$TMP/one-9.pftrace" ]
# Two clients at once: one snapshot; the file of the second one is not made.
asleep() { grep -q '^State:.S' /proc/$1/status; }
kill -STOP $recorder
"$PERFWIND" snapshot -p $recorder -o "$TMP/first.pftrace" 2>"$TMP/first.err" &
first=$!
wait_for asleep $first
"$PERFWIND" snapshot -p $recorder -o "$TMP/later.pftrace" 2>"$TMP/later.err" &
later=$!
wait_for asleep $later
kill -CONT $recorder
wait $first
check first-client [ $? = 0 ]
wait $later
check later-client [ $? = 0 ]
check one-for-both grep -q "in progress already: $TMP/first.pftrace" "$TMP/later.err"
check no-second-file [ ! -e "$TMP/later.pftrace" ]
check file-for-both more_than "$TMP/first.pftrace" 100
# Failures of the file; a process that is not a recorder; another user.
check full-device fails 1 "$PERFWIND" snapshot -p $recorder -o /dev/full
check after-full-device snapshot -p $recorder -o "$TMP/mine.pftrace"
check no-recorder fails 1 "$PERFWIND" snapshot -p $$
if [ "$(id -u)" = 0 ]; then
	cp "$PERFWIND" "$TMP/perfwind" && chmod 755 "$TMP" "$TMP/perfwind"
	check other-user fails 1 setpriv --reuid 65534 --clear-groups "$TMP/perfwind" snapshot -p $recorder
	check other-user-reason grep -q 'another user' "$TMP/failed"
	# A process of another user at this name, which accepts no connection after the first one.
	cat >"$TMP/listener.py" <<-'END'
		import os, socket, sys, time
		os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
		listener, first = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
		name = "\0perfwind-recorder-%d" % os.getpid()
		listener.bind(name)
		listener.listen(0)
		if sys.argv[2] == "full": first.connect(name)
		open(sys.argv[1], "w").close()
		time.sleep(600)
	END
	mkdir -m 777 "$TMP/ready"
	for kind in full free; do
		"$PYTHON" "$TMP/listener.py" "$TMP/ready/$kind" $kind &
		listener=$!
		started $listener
		wait_for [ -e "$TMP/ready/$kind" ]
		[ $kind = full ] && check full-listener fails 1 timeout 60 "$PERFWIND" snapshot -p $listener
		[ $kind = full ] && check full-listener-reason grep -q 'does not accept connections' "$TMP/failed"
		[ $kind = free ] && check exec-other-user fails 2 timeout 60 "$PERFWIND" snapshot -p $listener --exec true
		kill $listener
	done
fi
check arm-unarmed fails 1 "$PERFWIND" snapshot -p $recorder --arm 1s
check wrong-last fails 2 "$PERFWIND" snapshot -p $recorder --last 30x
kill -TERM $recorder
wait $recorder
check status [ $? = 0 ]
check end-samples more_than "$TMP/one.pftrace" "$(samples "$TMP/one-2.pftrace")"
check end-names has_name "$TMP/one.pftrace"

# More than the memory holds: the latest, whole, in a file of at most that size.
"$PERFWIND" record --json --plain --flight-recorder 1M --unwinder fp -e page-faults -c 1 -o "$TMP/full.pftrace" -- \
	"$PYTHON" -c 'import mmap
for i in range(40):
    m = mmap.mmap(-1, 1 << 22)
    for j in range(0, 1 << 22, 4096): m[j] = sum(range(2000)) & 1
    m.close()' >"$TMP/full.json" 2>"$TMP/full.err"
check full-status [ $? = 0 ]
kept=$("$PERFWIND" report "$TMP/full.pftrace" 2>/dev/null | sed -n 's/^Samples *\([0-9,]*\) over.*/\1/p' | tr -d ,)
check full-samples [ "$kept" -gt 1000 ]
check full-is-bounded [ "$(stat -c %s "$TMP/full.pftrace")" -le $((1 << 20)) ]
check full-overwrote json full 'v["lost"]["unwritten"] > 1000 and v["samples"] > 1000'

# timeout signals perfwind twice, which is one request; a second signal of another kind ends it at once: what the memory holds
# is written.
timeout -s INT 1 "$PERFWIND" record --flight-recorder 64M,10min -e cpu-clock -o "$TMP/timeout.pftrace" -p $target 2>"$TMP/timeout.err"
check timeout-samples more_than "$TMP/timeout.pftrace" 10
check timeout-ended-orderly grep -q '^perfwind:.*accounted\|samples' "$TMP/timeout.err"
check timeout-not-at-once fails 1 grep 'ended at once' "$TMP/timeout.err"
"$PERFWIND" record --flight-recorder 1M -e cpu-clock -o "$TMP/twice.pftrace" -p $target 2>"$TMP/twice.err" &
recorder=$!
started $recorder
# A flush has brought the samples into the memory.
holds() { "$PERFWIND" snapshot -q -p $recorder -o "$TMP/mine.pftrace" && [ "$(samples "$TMP/mine.pftrace")" -gt 20 ]; }
check twice-snapshot wait_for holds
kill -STOP $recorder
kill -INT $recorder
kill -TERM $recorder
kill -CONT $recorder
wait $recorder
check twice-status [ $? -gt 128 ]
check twice-reported grep -q 'ended at once: [0-9,]* samples' "$TMP/twice.err"
check twice-samples more_than "$TMP/twice.pftrace" 10

# Collectors: the counters of the machine, the table of tasks, and ends of tasks where the kernel reports them.
"$PERFWIND" record --flight-recorder 4M --collect tasks,system,addresses -e cpu-clock -o "$TMP/collected.pftrace" -p $target -d 2.2 2>"$TMP/collected.err"
check collected-status [ $? = 0 ]
"$PERFWIND" trace --dump "$TMP/collected.pftrace" >"$TMP/collected.txt"
check collected-system [ "$(grep -c '^  sys_stats' "$TMP/collected.txt")" -ge 1 ]
check collected-tasks grep -q "^      pid: $target$" "$TMP/collected.txt"
check collected-names has_name "$TMP/collected.pftrace"
# The two forms besides the trace: as text, and as records that are found by the head of the file.
"$PERFWIND" export -q --to str "$TMP/collected.pftrace"
check text-samples grep -qE '^u recursion -?[0-9]+ \[0x[0-9a-f]+\]$' "$TMP/collected.str"
check text-task grep -q "^comm:recursion pid:$target$" "$TMP/collected.str"
"$PERFWIND" export -q --to bin "$TMP/collected.pftrace"
read_records() { "$PROGRAMS/read-snapshot" <"$TMP/collected.bin" >"$TMP/collected.records"; }
check records-readable read_records
check records-samples [ "$(grep -c '^perf .* comm=recursion$' "$TMP/collected.records")" -gt 10 ]
check records-task grep -q "^task status=0 pid=$target comm=recursion utime=[1-9][0-9]* " "$TMP/collected.records"

# --armed: nothing is sampled before a request, and after its time; --arm elsewhere is an error.
"$PERFWIND" record --flight-recorder 1M --armed -e cpu-clock -o "$TMP/armed.pftrace" -p $target 2>"$TMP/armed.err" &
recorder=$!
started $recorder
check armed-ready wait_for "$PERFWIND" snapshot -q -p $recorder -o "$TMP/idle.pftrace"
wait_for used $target $(($(cpu_ms $target) + 300))
check armed-snapshot snapshot -p $recorder -o "$TMP/idle.pftrace"
check armed-is-idle grep -q 'snapshot: 0 samples' "$TMP/snapshot.err"
check armed-samples snapshot -p $recorder --arm 1s -o "$TMP/armed-1.pftrace"
check armed-has-samples more_than "$TMP/armed-1.pftrace" 10
check armed-names has_name "$TMP/armed-1.pftrace"
check armed-off wait_for grep -q 'off again' "$TMP/armed.err"
check armed-after snapshot -p $recorder -o "$TMP/armed-2.pftrace"
wait_for used $target $(($(cpu_ms $target) + 300))
check armed-later snapshot -p $recorder -o "$TMP/armed-3.pftrace"
check armed-stays-off [ "$(samples "$TMP/armed-2.pftrace")" = "$(samples "$TMP/armed-3.pftrace")" ]
kill -TERM $recorder
wait $recorder
check armed-end [ "$(samples "$TMP/armed.pftrace")" = "$(samples "$TMP/armed-3.pftrace")" ]

# The daemon's own flight recorder: snapshots for requesters that may record everything.
if [ "$(id -u)" = 0 ]; then
	printf 'recorder-size = 4M\nrecorder-rate = 200\nrecorder-collect = tasks,system\n' >"$TMP/daemon.conf"
	"$PERFWIND" daemon --config "$TMP/daemon.conf" --control-socket "$TMP/control" --hook-socket "$TMP/hook" --socket "$TMP/no-service" \
		2>"$TMP/daemon.err" &
	daemon=$!
	started $daemon
	of_daemon() { "$PERFWIND" snapshot --daemon --control-socket "$TMP/control" -o "$TMP/daemon.pftrace" "$@" 2>"$TMP/snapshot.err"; }
	has_target() { of_daemon && "$PERFWIND" report --pid $target "$TMP/daemon.pftrace" 2>/dev/null | grep -q 'burn.*recursion'; }
	check daemon-snapshot wait_for has_target
	check daemon-tasks eval '"$PERFWIND" trace --dump "$TMP/daemon.pftrace" | grep -q "^      pid: $target$"'
	check daemon-last of_daemon --last 10min
	check daemon-other-user fails 1 setpriv --reuid 65534 --clear-groups "$TMP/perfwind" snapshot --daemon --control-socket "$TMP/control" -o /dev/null
	check daemon-other-user-reason grep -q 'may not record everything' "$TMP/failed"
	check daemon-full-device fails 1 "$PERFWIND" snapshot --daemon --control-socket "$TMP/control" -o /dev/full
	check daemon-after-full wait_for of_daemon
	kill -TERM $daemon
	wait $daemon
	check daemon-status [ $? = 0 ]
	# recorder-cgroups: processes elsewhere are left out.
	echo 'recorder-cgroups = /no-such-cgroup' >>"$TMP/daemon.conf"
	"$PERFWIND" daemon --config "$TMP/daemon.conf" --control-socket "$TMP/control" --hook-socket "$TMP/hook" --socket "$TMP/no-service" \
		2>"$TMP/daemon.err" &
	daemon=$!
	started $daemon
	wait_for used $target $(($(cpu_ms $target) + 300))
	check daemon-cgroups wait_for of_daemon
	check daemon-cgroups-none [ "$(grep -c 'snapshot: 0 samples' "$TMP/snapshot.err")" = 1 ]
	kill -TERM $daemon
	wait $daemon
	check daemon-absent fails 1 "$PERFWIND" snapshot --daemon --control-socket "$TMP/control" -o "$TMP/absent.pftrace"
	check daemon-absent-file [ ! -e "$TMP/absent.pftrace" ]
fi

# All CPUs busy, the recorder in a memory cgroup at its limit, and a file that takes 1 MB/s: the snapshot is whole, the recorder
# goes on and is not killed.
group=
for at in /sys/fs/cgroup/memory/memory.limit_in_bytes:memory.usage_in_bytes /sys/fs/cgroup/memory.max:memory.current; do
	at_limit=${at%:*} name=perfwind-test-$$
	[ -z "$group" ] && mkdir "${at_limit%/*}/$name" 2>/dev/null || continue
	group=${at_limit%/*}/$name limit=${at_limit##*/} usage=${at##*:}
	[ -w "$group/$limit" ] || { rmdir "$group"; group=; }
done
if [ -z "$group" ]; then
	skip pressure "no memory cgroup can be made here"
else
	sh -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' - "$group" "$PERFWIND" record --flight-recorder 4M --plain -e cpu-clock -F 4000 \
		-o "$TMP/pressed.pftrace" -p $target 2>"$TMP/pressed.err" &
	recorder=$!
	started $recorder
	has_half() { "$PERFWIND" snapshot -q -p $recorder -o "$TMP/mine.pftrace" && [ "$(stat -c %s "$TMP/mine.pftrace")" -gt 300000 ]; }
	check pressure-ready wait_for has_half
	spinners=()
	for _ in $(seq $(($(nproc) * 2))); do
		sh -c 'while :; do :; done' &
		spinners+=($!)
		started $!
	done
	# Below the use, the kernel first takes back what it can.
	for _ in 1 2 3 4 5 6 7 8; do cat "$group/$usage" >"$group/$limit" && break; sleep 0.1; done 2>/dev/null
	slowly() { "$PYTHON" -c 'import os, sys, time
while True:
    data = os.read(0, 65536)
    if not data: break
    os.write(1, data); time.sleep(0.06)'; }
	"$PERFWIND" snapshot -p $recorder -o /dev/stdout 2>"$TMP/snapshot.err" | slowly >"$TMP/slow.pftrace"
	check pressure-snapshot [ "${PIPESTATUS[0]}" = 0 ]
	# Its rings may lose samples, as the CPUs are busy.
	check pressure-is-whole eval '[ "$(counted "$TMP/slow.pftrace")" -gt 1000 ]'
	check pressure-again snapshot -p $recorder -o "$TMP/mine.pftrace"
	check pressure-again-is-whole eval '[ "$(counted "$TMP/mine.pftrace")" -gt 1000 ]'
	kill "${spinners[@]}"
	kill -TERM $recorder
	wait $recorder
	check pressure-end [ $? = 0 ]
	wait_for rmdir "$group"
fi

# A full disk at the end: as of a plain recording.
check full-end fails 1 "$PERFWIND" record --flight-recorder 1M -e cpu-clock -o /dev/full -- true
check full-end-reason grep -q 'the trace cannot be written to /dev/full (-o): No space left on device; hint: -o FILE on another disk' "$TMP/failed"
check full-end-no-file grep -q '^  file  *[^ ]*, 0 bytes: nothing was written$' "$TMP/failed"

refuses() { ! "$PERFWIND" record "$@" -- true >"$TMP/refused" 2>&1 && grep -q 'flight-recorder' "$TMP/refused"; }
check refuses-standard-output refuses --flight-recorder 4M -o -
check refuses-a-size refuses --flight-recorder 4K
check refuses-a-time refuses --flight-recorder 4M,10
check refuses-a-collector refuses --flight-recorder 4M --collect tasks,flight-recorder
check refuses-armed-command refuses --flight-recorder 4M --armed
check refuses-two-events refuses --flight-recorder 4M -e cpu-clock -e page-faults
check refuses-max-size refuses --flight-recorder 4M --max-size 4M
kill $target

#!/bin/bash
# stall.sh - targets that try to stall the profiler: a file system that stops answering, FIFOs and endless files where
# files should be, a helper process that is killed.  The recording ends in time, others are recorded whole, and what did
# not answer is refused with its reason.
# Mounts are made in a namespace of their own and end with it.
if [ -z "${STALL_NAMESPACE:-}" ] && [ "$(id -u)" = 0 ]; then
	why=$(unshare --mount --propagation private true 2>&1) || { echo "no mount namespace here ($why)"; exit 77; }
	STALL_NAMESPACE=1 exec unshare --mount --propagation private "$0" "$@"
fi
. "$(dirname "$0")/lib"
need_perf
need_root
[ -c /dev/fuse ] || { echo "no /dev/fuse here"; exit 77; }

# A program with section headers and symbols behind a megabyte that is not read to run it.  Other recorders of the machine read
# it, too, before its server is silent: those parts are never answered (silent-fs.c).
head -c 1200000 /dev/zero >"$TMP/pad"
objcopy --add-section .pad="$TMP/pad" "$PROGRAMS/recursion-static" "$TMP/padded" 2>/dev/null
chmod 755 "$TMP/padded"

# The whole recording is bounded: what hangs is a failure of the test, not of the machine.
bounded() { timeout -k 1 60 "$@"; }
healthy() {
	"$PROGRAMS/tailcall" 60 &
	HEALTHY=$!
	started $HEALTHY
	wait_for used $HEALTHY 50
}

# silent NAME OPERATION... : a server that will not answer these, and the program that runs from it; pids in SERVER, TARGET.
silent() {
	local name=$1
	shift
	mkdir "$TMP/mnt-$name"
	"$PROGRAMS/silent-fs" "$TMP/mnt-$name" "$TMP/padded" "$@" >"$TMP/$name.mounted" &
	SERVER=$!
	started $SERVER
	wait_for test -s "$TMP/$name.mounted" || return 1
	"$TMP/mnt-$name/file" 60 &
	TARGET=$!
	started $TARGET
	wait_for used $TARGET 200
	kill -USR1 $SERVER
}
over() {
	# with its server a file system ends, and what waits for it
	kill -9 $SERVER $TARGET $HEALTHY
	wait $SERVER $TARGET $HEALTHY 2>/dev/null
	umount -l "$TMP/mnt-$1"
}

# Every sample of the healthy program is whole, and they are there.
healthy_is_whole() {
	has "$1" '^tailcall;' && hasnt "$1" '^tailcall.*\[(failed|cut)'
}
# The part of the CPU time that samples show: nothing was left out meanwhile.  Not in systemd-unit.sh: what runs outside its
# container is not seen in there, and counts.
no_gap() { [ -n "${RECORDS_BY_UNIT:-}" ] || json "$1" 'v["cpu_accounted"] is None or v["cpu_accounted"] > 0.9'; }

# refused NAME WORD AT_LEAST : as the verdict of the trace reports it; consented NAME AT_LEAST
verdict_has() {
	local n
	n=$("$PERFWIND" report "$TMP/$1.pftrace" | sed -nE "s/$2/\1/p" | tr -d ,)
	[ "${n:-0}" -ge "$3" ] && return 0
	"$PERFWIND" report "$TMP/$1.pftrace" | head -n 20
	return 1
}
refused() { verdict_has "$1" "^Refused.*$2 ([0-9,]*[0-9]).*" "$3"; }
consented() { verdict_has "$1" '^Consent +[0-9,]+ asked, ([0-9,]+) gave.*' "$2"; }

record_for() { # NAME SECONDS OPTIONS...
	local name=$1 seconds=$2
	shift 2
	bounded "$PERFWIND" record --json -o "$TMP/$name.pftrace" --duration "$seconds" "$@" >"$TMP/$name.json" 2>"$TMP/$name.err"
}

# The unit's daemon has the same deadlines: one call that is read by a helper process, one that close() makes.
operations="read getattr open flush statfs" kinds="fifo zero huge"
[ -z "${RECORDS_BY_UNIT:-}" ] || operations="read flush" kinds=fifo
for operation in $operations; do
	healthy
	silent $operation $operation
	# Of those that are refused: a call's deadline passes, and samples follow.
	case $operation in read | getattr | open) seconds=4 ;; *) seconds=2 ;; esac
	check "$operation: the recording ends" record_for $operation $seconds -a
	check "$operation: others are whole" healthy_is_whole $operation
	check "$operation: nothing was left out meanwhile" no_gap $operation
	check "$operation: consistent" consistent $operation
	case $operation in
	read | getattr | open)
		check "$operation: refused with its reason" json $operation 'v["stacks"]["failed"]["unresponsive"] > 0'
		check "$operation: the reason stands in its stacks" has $operation '\[failed: unresponsive\]'
		check "$operation: the verdict reports it" refused $operation calls 1
		check "$operation: reported" grep -q 'did not answer within a second' "$TMP/$operation.err"
		;;
	*) check "$operation: its stacks too" hasnt $operation 'unresponsive' ;;
	esac
	over $operation
done

# -p of the stuck program itself
if [ -z "${RECORDS_BY_UNIT:-}" ]; then
	healthy
	silent alone read
	check "-p: the recording ends" record_for alone 3 -p $TARGET
	over alone
fi

# What stands where a perf map should is not a file to read, or one without an end.
for kind in $kinds; do
	"$PROGRAMS/jit" 60 &
	TARGET=$!
	started $TARGET
	map=/tmp/perf-$TARGET.map
	healthy
	wait_for test -s $map
	rm -f $map
	case $kind in
	fifo) mkfifo $map ;;
	zero) ln -s /dev/zero $map ;;
	huge) truncate -s 1T $map ;;
	esac
	check "perf map, $kind: the recording ends" record_for map-$kind 2 -p $TARGET -p $HEALTHY
	check "perf map, $kind: others are whole" healthy_is_whole map-$kind
	check "perf map, $kind: the stacks are there, without that name" has map-$kind '^jit;.*main.*;jit_callback;burn'
	rm -f $map
	kill -9 $TARGET $HEALTHY
	wait $TARGET $HEALTHY 2>/dev/null
done

# A file system that is frozen: what would write there sleeps until it is thawed, reading goes on.
frozen() {
	truncate -s 16M "$TMP/frozen.img" && mkfs.ext4 -q "$TMP/frozen.img" && mkdir "$TMP/frozen" &&
		mount -o loop,strictatime "$TMP/frozen.img" "$TMP/frozen" && cp "$TMP/padded" "$TMP/frozen/file"
}
if [ -n "${RECORDS_BY_UNIT:-}" ]; then
	: # no loop devices in that container
elif ! command -v mkfs.ext4 >/dev/null || ! command -v fsfreeze >/dev/null; then
	skip frozen "mkfs.ext4 or fsfreeze is not there"
elif ! frozen >"$TMP/frozen.log" 2>&1; then
	skip frozen "no file system to freeze: $(tail -n 1 "$TMP/frozen.log")"
else
	healthy
	"$TMP/frozen/file" 60 &
	TARGET=$!
	started $TARGET
	wait_for used $TARGET 50
	if fsfreeze --freeze "$TMP/frozen" 2>"$TMP/frozen.log"; then
		trap 'fsfreeze --unfreeze "$TMP/frozen" 2>/dev/null; cleanup' EXIT
		check "frozen: the recording ends" record_for frozen 3 -a
		fsfreeze --unfreeze "$TMP/frozen"
		trap cleanup EXIT
		check "frozen: others are whole" healthy_is_whole frozen
		check "frozen: nothing was left out meanwhile" no_gap frozen
		check "frozen: it is read, as nothing is written" has frozen '^file;_start;.*main;(recurse_even;recurse_odd;){20,}.*burn '
		check "frozen: consistent" consistent frozen
	else
		skip frozen "it cannot be frozen: $(cat "$TMP/frozen.log")"
	fi
	kill -9 $TARGET $HEALTHY
	wait $TARGET $HEALTHY 2>/dev/null
	umount -l "$TMP/frozen"
fi

# Memory behind a userfaultfd without answers: stack beyond the copy, and next to code of its own.
"$PROGRAMS/unanswered" 60 >"$TMP/unanswered.ready" 2>"$TMP/unanswered.err" &
TARGET=$!
started $TARGET
wait_for used $TARGET 50
if [ -s "$TMP/unanswered.ready" ]; then
	healthy
	check "userfaultfd: the recording ends" record_for unanswered 4 -a
	check "userfaultfd: others are whole" healthy_is_whole unanswered
	check "userfaultfd: nothing was left out meanwhile" no_gap unanswered
	check "userfaultfd: what can be read of it is" has unanswered '^unanswered;.*descend;descend;descend;.*innermost;.*burn '
	check "userfaultfd: what cannot is not made up" json unanswered 'v["stacks"]["cut"] + failed > 0'
	check "userfaultfd: consistent" consistent unanswered
	check "userfaultfd: it runs on" kill -0 $TARGET
	kill -9 $HEALTHY
else
	skip userfaultfd "$(cat "$TMP/unanswered.err")"
fi
kill -9 $TARGET
wait $TARGET $HEALTHY 2>/dev/null

# As many mappings as a process can have (max_map_count): megabytes of text, within bounds of memory, and whole stacks.
small() { json "$1" 'v["self"]["peak_rss_kb"] < 200 << 10'; }
"$PROGRAMS/many-maps" 60 >"$TMP/many.n" &
TARGET=$!
started $TARGET
wait_for test -s "$TMP/many.n"
check "many mappings: they are" [ "$(cat "$TMP/many.n")" -gt 10000 ]
check "many mappings: the recording ends" record_for many 3 -p $TARGET
check "many mappings: whole stacks" json many 'total > 0 and v["stacks"]["whole"] >= 0.9 * total'
check "many mappings: names" has many '^many-maps;_start;.*main;among_many;burn '
check "many mappings: memory" small many
check "many mappings: consistent" consistent many
kill -9 $TARGET
wait $TARGET 2>/dev/null

# A FIFO at a program's path; the program itself runs on, deleted.
cp "$PROGRAMS/recursion" "$TMP/replaced"
"$TMP/replaced" 60 &
TARGET=$!
started $TARGET
wait_for used $TARGET 50
rm "$TMP/replaced"
mkfifo "$TMP/replaced"
healthy
check "FIFO at a path: the recording ends" record_for replaced 2 -p $TARGET -p $HEALTHY
check "FIFO at a path: others are whole" healthy_is_whole replaced
check "FIFO at a path: consistent" consistent replaced
kill -9 $TARGET $HEALTHY
wait $TARGET $HEALTHY 2>/dev/null

[ -z "${RECORDS_BY_UNIT:-}" ] || exit 0 # the rest checks the helpers of the recorder
# A helper process is killed: the samples after that are whole, and the loss is reported.
for name in pw-files pw-parse; do
	"$PERFWIND" record --json -o "$TMP/$name.pftrace" -a >"$TMP/$name.json" 2>"$TMP/$name.err" &
	RECORDER=$!
	started $RECORDER
	runs $name
	wait_for pgrep -P $RECORDER -x $name
	kill -9 $(pgrep -P $RECORDER -x $name)
	healthy
	wait_for used $HEALTHY 1000
	kill -INT $RECORDER
	wait $RECORDER
	check "$name killed: the recording ends well" json $name 'total > 0'
	check "$name killed: what came after is whole" healthy_is_whole $name
	check "$name killed: names too" has $name '^tailcall;.*main;'
	check "$name killed: reported" grep -q 'another one replaced it' "$TMP/$name.err"
	check "$name killed: consistent" consistent $name
	kill -9 $HEALTHY
done

# ---- by asking: a descriptor of a silent file comes with the request.  The daemon answers, and serves others.
ASKED=$TMP/asked
mkdir "$ASKED" "$TMP/mnt-output"
cp "$INTEGRATION"/control_{client,silent}.py "$ASKED/"
chmod -R a+rX "$TMP"
"$PROGRAMS/silent-fs" "$TMP/mnt-output" "$TMP/padded" flush >"$TMP/output.mounted" &
SERVER=$!
started $SERVER
wait_for test -s "$TMP/output.mounted"
"$PERFWIND" daemon -v -s "@perfwind-stall-$$" --config /dev/null --control-socket "$ASKED/control.sock" \
	--hook-socket "$ASKED/hook.sock" 2>"$TMP/daemon.err" &
DAEMON=$!
started $DAEMON
wait_for test -S "$ASKED/control.sock"
healthy
mkfifo "$TMP/go"
PYTHONDONTWRITEBYTECODE=1 setpriv --reuid 60001 --regid 60001 --clear-groups "$PYTHON" "$ASKED/control_silent.py" "$ASKED/control.sock" \
	$HEALTHY "$TMP/mnt-output/file" <"$TMP/go" >"$TMP/output.err" 2>&1 &
SENDER=$!
started $SENDER
exec 9>"$TMP/go"
wait_for grep -q open "$TMP/output.err"
kill -USR1 $SERVER
echo >&9
exec 9>&-
output_denied() { wait_for grep -q denied "$TMP/output.err" && return 0; cat "$TMP/output.err"; return 1; }
check "asked, flush: each is denied" output_denied
# Some are stuck for good, and what took their place is confined as they were.
replaced() { # NAME CAPABILITY...
	local name=$1 pid stuck= other=
	shift
	for pid in $(pgrep -P $DAEMON -x "$name"); do
		is_confined "$pid" "$@" || return 1
		# SIGKILL was sent to it.
		if grep -qE '^S(ig|hd)Pnd:.*[13579bdf]..$' "/proc/$pid/status"; then stuck=$pid; else other=$pid; fi
	done
	[ -n "$stuck" ] && [ -n "$other" ]
}
# The descriptor is closed by pw-close, which hangs; main does not.
closes_confined() { is_confined "$(pgrep -P $DAEMON -x pw-close | head -n 1)"; }
record_by_daemon() { record_for output 2 --daemon --control-socket "$ASKED/control.sock" -p $HEALTHY; }
check "asked, flush: others are served" record_by_daemon
check "asked, flush: others are whole" healthy_is_whole output
check "asked, flush: the process that closes is confined" closes_confined
OUTPUT_SERVER=$SERVER
silent files read
"$PERFWIND" record -q --daemon --control-socket "$ASKED/control.sock" -o "$TMP/files.pftrace" -a -d 60 &
ASKER=$!
started $ASKER
check "asked, read: what took its place is confined" wait_for replaced pw-parse
kill -INT $ASKER
wait $ASKER
kill -9 $SERVER $TARGET
wait $SERVER $TARGET 2>/dev/null
umount -l "$TMP/mnt-files"
SERVER=$OUTPUT_SERVER
kill $DAEMON
wait $DAEMON
check "asked, flush: the daemon ends" [ $? = 0 ]
kill -9 $SENDER $SERVER $HEALTHY
wait $SENDER $SERVER $HEALTHY 2>/dev/null
umount -l "$TMP/mnt-output"

# ---- by consent: a process that was asked sends descriptors of a silent file.  close() asks FLUSH, which nothing ends.
U=$TMP/u # the profiler is a user that may not read others' processes
mkdir "$U"
cp "$PERFWIND" "$O/libperfwind-hook.so" "$PROGRAMS"/{hook-forger,recursion,tailcall} "$U/"
cp "$PROGRAMS/recursion" "$U/late"
cp "$PROGRAMS/jit" "$U/own"
chmod 777 "$U"
chmod -R a+rX "$U"
paranoid=$(cat /proc/sys/kernel/perf_event_paranoid)
trap 'echo "$paranoid" >/proc/sys/kernel/perf_event_paranoid; cleanup' EXIT
echo -1 >/proc/sys/kernel/perf_event_paranoid
HOOK=$U/hook.sock
as_target() { exec setpriv --reuid 60001 --regid 60001 --clear-groups --inh-caps=-all --bounding-set=-all "$@"; }
as_profiler() {
	exec setpriv --reuid 60002 --regid 60002 --clear-groups --inh-caps=-all,+kill,+dac_read_search \
		--ambient-caps=-all,+kill,+dac_read_search --bounding-set=-all,+kill,+dac_read_search "$@"
}
# asked_for OPERATION : a recording of all CPUs, of which a target hangs the hook process if it can.
asked_for() {
	local name=asked-$1 i
	mkdir "$TMP/mnt-$name"
	"$PROGRAMS/silent-fs" "$TMP/mnt-$name" "$PROGRAMS/recursion" "$1" >"$TMP/$name.mounted" &
	SERVER=$!
	started $SERVER
	wait_for test -s "$TMP/$name.mounted" || return 1
	as_target "$U/hook-forger" 100 "$HOOK" "$TMP/mnt-$name/file" "$TMP/mnt-$name/file" &
	TARGET=$!
	started $TARGET
	wait_for used $TARGET 50
	kill -USR1 $SERVER
	as_profiler "$U/own" 100 & OWN=$!
	started $OWN
	as_profiler "$U/perfwind" record --json -v --hook-socket "$HOOK" -o "$U/$name.pftrace" -a >"$TMP/$name.json" \
		2>"$TMP/$name.err" &
	RECORDER=$!
	started $RECORDER
	wait_for test -S "$HOOK"
	as_target "$U/perfwind" run --hook-socket "$HOOK" -- "$U/recursion" 100 & GOOD=$!
	started $GOOD
	# and one that starts when the others have been asked, and what was to be lost is lost
	wait_for grep -q "process $TARGET .*: asked" "$TMP/$name.err"
	[ $1 != flush ] || wait_for grep -q "process $TARGET .*could not be handled" "$TMP/$name.err"
	as_target "$U/perfwind" run --hook-socket "$HOOK" -- "$U/late" 100 & LATE=$!
	started $LATE
	wait_for grep -q "process $LATE .*: asked" "$TMP/$name.err"
	wait_for used $LATE 2000
	kill -INT $RECORDER
	wait $RECORDER
	STATUS=$?
	cp "$U/$name.pftrace" "$TMP/"
}
asked_over() {
	kill -9 $SERVER $TARGET $OWN $GOOD $LATE
	wait $SERVER $TARGET $OWN $GOOD $LATE 2>/dev/null
	umount -l "$TMP/mnt-asked-$1"
}
STACK='_start;.*main;(recurse_even;recurse_odd;){20,}.*burn '
for operation in read getattr statfs flush; do
	name=asked-$operation
	asked_for $operation
	check "$name: the recording ends" [ $STATUS = 0 ]
	check "$name: a process that opts in is read" has $name "^recursion;$STACK"
	check "$name: a process that starts later too" has $name "^late;$STACK"
	check "$name: nothing was left out meanwhile" no_gap $name
	check "$name: consistent" consistent $name
	if [ $operation = flush ]; then
		check "$name: refused with its reason" grep -q "$TARGET .*cannot be asked: data from this process, or from another process" "$TMP/$name.err"
	else # closed, and reported with its kind
		check "$name: refused with its reason" refused $name answer-not-proc 1
	fi
	check "$name: the others' answers" consented $name 2
	check "$name: it runs on" kill -0 $TARGET
	asked_over $operation
done

# The many mappings of above, given.
cp "$PROGRAMS/many-maps" "$U/"
as_target "$U/perfwind" run --hook-socket "$HOOK" -- "$U/many-maps" 60 >"$TMP/given.n" &
TARGET=$!
started $TARGET
wait_for test -s "$TMP/given.n"
as_profiler "$U/perfwind" record --json -v --hook-socket "$HOOK" -o "$U/given.pftrace" -a -d 4 >"$TMP/given.json" 2>"$TMP/given.err" &
RECORDER=$!
started $RECORDER
wait $RECORDER
check "many mappings, by consent: the recording ends" [ $? = 0 ]
cp "$U/given.pftrace" "$TMP/"
check "many mappings, by consent: they are" [ "$(cat "$TMP/given.n")" -gt 10000 ]
check "many mappings, by consent: asked" grep -q "process $TARGET .*: asked" "$TMP/given.err"
check "many mappings, by consent: names" has given '^many-maps;_start;.*main;among_many;burn '
check "many mappings, by consent: memory" small given
check "many mappings, by consent: consistent" consistent given
kill -9 $TARGET
wait $TARGET 2>/dev/null

# ---- strangers: 10,000 connections to the hook socket during a recording by consent; none is trusted, no descriptor
# stays, and the answers of asked processes are accepted
cp "$INTEGRATION/hook_strangers.py" "$INTEGRATION/lingering.py" "$U/"
as_target "$U/perfwind" run --hook-socket "$HOOK" -- "$U/recursion" 100 & GOOD=$!
started $GOOD
wait_for used $GOOD 50
as_profiler "$U/perfwind" record --json -v --hook-socket "$HOOK" -o "$U/strangers.pftrace" -a >"$TMP/strangers.json" \
	2>"$TMP/strangers.err" &
RECORDER=$!
started $RECORDER
wait_for grep -q "process $GOOD .*: asked" "$TMP/strangers.err"
descriptors() { ls "/proc/$(pgrep -P $RECORDER -x pw-hook)/fd" | wc -l; }
wait_for used $GOOD 300
before=$(descriptors)
as_target "$PYTHON" "$U/hook_strangers.py" "$HOOK" >"$TMP/strangers.n" &
STRANGER=$!
started $STRANGER
wait_for test -s "$TMP/strangers.n"
as_target "$U/perfwind" run --hook-socket "$HOOK" -- "$U/late" 100 & LATE=$!
started $LATE
wait_for grep -q "process $LATE .*: asked" "$TMP/strangers.err"
wait_for used $LATE 500
no_more() { [ "$(descriptors)" -le $((before + 2)) ]; } # the way to pw-close
check "strangers: no descriptor stays" wait_for no_more
kill -INT $RECORDER
wait $RECORDER
check "strangers: the recording ends" [ $? = 0 ]
cp "$U/strangers.pftrace" "$TMP/"
check "strangers: counted, each" refused strangers answer-stranger "$(cat "$TMP/strangers.n")"
check "strangers: a process asked before is read" has strangers "^recursion;$STACK"
check "strangers: and one asked after them" has strangers "^late;$STACK"
check "strangers: consistent" consistent strangers
kill -9 $GOOD $LATE $STRANGER
wait $GOOD $LATE $STRANGER 2>/dev/null
: # their end, by a signal, is not this script's

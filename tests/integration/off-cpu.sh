#!/bin/bash
# off-cpu.sh - record --off-cpu and --wall: known waits (programs/waiting.c) within 2 %, by reason; all time of each thread within
# 0.5 %; stacks that an ordinary user's perfwind reads during the wait.
. "$(dirname "$0")/lib"
need_perf

# With tracefs wake-ups are known.  Where it is not mounted, a mount namespace of our own has it.
if [ "$(id -u)" = 0 ] && [ ! -e /sys/kernel/tracing/events ] && [ -z "${IN_NAMESPACE:-}" ] &&
	unshare -m sh -c 'mount -t tracefs none /sys/kernel/tracing' 2>/dev/null; then
	cleanup
	IN_NAMESPACE=1 exec unshare -m sh -c 'mount -t tracefs none /sys/kernel/tracing && exec "$@"' sh "$INTEGRATION/off-cpu.sh"
fi

# reasons FILE OPTION NAME : "reason ns" for the waits below a function (--function), or of a thread (--thread).
reasons() { "$PERFWIND" report --by reason "$2" "$3" --csv "$1" | "$PYTHON" -c '
import csv, sys
for row in csv.DictReader(sys.stdin): print(row["reason"].replace(" ", "-"), row["total"])'; }
# near FILE OUTPUT FUNCTION... : the waiting time below each is what the program measured.
near() {
	local file=$1 output=$2 function
	shift 2
	for function; do
		time_of "$output" "$function" 0.9 < <(reasons "$file" --function "$function") || return 1
	done
}
# time_of OUTPUT NAME SHARE : the blocked time of standard input (reasons) is what the program measured, within 2 %, and at least
# SHARE of it is for its reason.  Where wake-ups are not known, time without a CPU after them is part of the wait.
time_of() {
	awk -v output="$1" -v name="$2" -v share="$3" '
		BEGIN { while ((getline line < output) > 0) { split(line, f, " "); if (f[1] == name) { want = f[2]; ns = f[3]; delay = f[4] } } }
		$1 == want { own += $2 }
		$1 != "running" && $1 != "runnable" && $1 != "preempted" { sum += $2 }
		END {
			printf "%s: %.1f ms, %.1f of them for %s; measured %.1f ms, and %.1f ms without a CPU\n", name, sum / 1e6, own / 1e6, want, ns / 1e6, delay / 1e6
			exit !(ns > 0 && sum > 0.98 * ns && sum < 1.02 * (ns + delay) && own > share * sum)
		}'
}
# by_thread FILE OUTPUT : the waits for the disk, of which some may have no stack.
by_thread() { time_of "$2" wait_disk 0.5 < <(reasons "$1" --thread disk); }
# twins FILE OUTPUT : what two processes on one CPU did not get of it, as the kernel counted it.
twins() {
	"$PERFWIND" report --by reason --comm twin --csv "$1" | tr -d '"' | awk -F, -v output="$2" '
		BEGIN { while ((getline line < output) > 0) { split(line, f, " "); if (f[1] == "twin") ns = f[4] } }
		$1 == "preempted" { sum = $6 }
		END { printf "preempted: %.1f ms, measured %.1f ms\n", sum / 1e6, ns / 1e6; exit !(ns > 100e6 && sum > 0.98 * ns && sum < 1.02 * ns) }'
}
# waits_of USER FILE OUTPUT DISK : the checks of one recording.  DISK: near, or by_thread.
waits_of() {
	local disk
	check "$1-waits" near "$2" "$3" wait_sleep wait_futex wait_pipe
	disk=$(awk '$1 == "wait_disk" { print $3 }' "$3")
	if [ -z "$disk" ]; then
		skip "$1-disk" "files of this directory are in memory"
	elif [ "$4" = near ]; then
		check "$1-disk" near "$2" "$3" wait_disk
	elif [ "$disk" -lt 60000000 ]; then
		skip "$1-disk" "a read of 256 MiB takes less than 10 ms"
	else
		check "$1-disk" by_thread "$2" "$3"
	fi
	if grep -q '^twin ' "$3"; then
		check "$1-preempted" twins "$2" "$3"
	else
		skip "$1-preempted" "this kernel has no /proc/PID/schedstat"
	fi
}
# reason_sum FILE REASON : ns.
reason_sum() { "$PERFWIND" report --by reason --csv "$1" | tr -d '"' | awk -F, -v reason="$2" '$1 == reason { print $6 }'; }

# all_time NAME : the sum of each thread is the duration, within 0.5 %.
all_time() {
	"$PERFWIND" report --by thread --csv --limit 0 "$TMP/$1.pftrace" | "$PYTHON" -c '
import collections, csv, json, sys
duration = json.load(open(sys.argv[1]))["duration_s"]
threads = collections.Counter()
for row in csv.DictReader(sys.stdin):
    threads[row["tid"]] += int(row["total"]) / 1e9  # a row for each name that it had
sums = list(threads.values())
print(duration, sums)
sys.exit(not (len(sums) >= 4 and all(0.995 * duration < s < 1.005 * duration for s in sums)))' "$TMP/$1.json"
}

# often NAME MOST : 100,000 trips are about 200,000 waits, nearly all without a stack of their own; the shares are stated, and the
# report has all of the time.  MOST: samples a wait.
often() {
	json "$1" 'v["waits"]["n"] > 180000 and v["samples"] < '"$2"' * v["waits"]["n"]' || return 1
	json "$1" 'v["waits"]["thinned_s"] + v["waits"]["without_stack_s"] > 0.3 * v["waits"]["s"]' || return 1
	grep -E '^  waits    [0-9,]+, [0-9.]+ s of all threads; [0-9.]+ % of it under the stacks of other waits \(thinned\), [0-9.]+ % without a stack' "$TMP/$1.err" || return 1
	"$PERFWIND" report --by reason --csv "$TMP/$1.pftrace" | "$PYTHON" -c '
import csv, json, sys
waits = json.load(open(sys.argv[1]))["waits"]
total = sum(int(row["total"]) for row in csv.DictReader(sys.stdin)) / 1e9
print(total, waits)
sys.exit(abs(total - waits["s"] - waits["unknown_s"]) > 0.005 * total)' "$TMP/$1.json"
}

# ---- with the permission to profile the kernel: switches are sampled ----
if [ "$(id -u)" = 0 ]; then
	"$PERFWIND" record --off-cpu --json -o "$TMP/root.pftrace" -- "$PROGRAMS/waiting" 3 "$TMP/root.out" >"$TMP/root.json" 2>"$TMP/root.err"
	check root-status [ $? = 0 ]
	waits_of root "$TMP/root.pftrace" "$TMP/root.out" near
	check root-consistent consistent root
	check root-verdict grep -qE '^  waits    [0-9,]+, [0-9.]+ s of all threads; [0-9.]+ % of it' "$TMP/root.err"
	# Slices on the tracks of threads: slices of sleep last as long as the report's waits for it.
	slices() {
		"$PERFWIND" trace --dump "$TMP/root.pftrace" | awk -v want="$(reason_sum "$TMP/root.pftrace" sleep)" '
			/^ *timestamp:/ { at = $2 }
			/type: TYPE_SLICE_/ { type = $2 }
			/track_uuid:/ { track = $2; if (type == "TYPE_SLICE_END" && name[track] == "sleep") sum += at - begin[track] }
			/name: "/ { if (type == "TYPE_SLICE_BEGIN") { name[track] = $2; gsub("\"", "", name[track]); begin[track] = at; type = "" } }
			END { printf "slices: %d ns, report: %d ns\n", sum, want; exit !(want > 0 && sum > 0.98 * want && sum < 1.02 * want) }'
	}
	check root-slices slices
	check root-kernel-frames has root 'wait_sleep;.*nanosleep.*;\[sleep\] '

	# The waker of a wait: the thread that writes into the pipe, and a timer.  Its CPU is never idle: there are machines on
	# which the kernel runs no tracepoint for perf while the idle task of a CPU is the current task.
	cpu=$(taskset -cp $$ | sed 's/.*: *//; s/[-,].*//')
	taskset -c "$cpu" chrt -i 0 sh -c 'while :; do :; done' &
	busy=$!
	started $busy
	"$PERFWIND" record --off-cpu --wakers --json -o "$TMP/wakers.pftrace" -- taskset -c "$cpu" "$PROGRAMS/waiting" 3 "$TMP/wakers.out" >"$TMP/wakers.json" 2>"$TMP/wakers.err"
	check wakers-status [ $? = 0 ]
	kill $busy
	waits_of wakers "$TMP/wakers.pftrace" "$TMP/wakers.out" near
	check wakers-consistent consistent wakers
	if [ -e /sys/kernel/tracing/events ]; then
		check wakers-thread has wakers 'wait_pipe;.*;\[woken by waiting\];.*;writer;.*;\[pipe or socket\] '
		check wakers-interrupt has wakers 'wait_sleep;.*;\[woken by an interrupt\];.*;\[sleep\] '
	else
		check wakers-why grep -q '^perfwind: wakers are not recorded: .*; hint: ' "$TMP/wakers.err"
	fi

	# More than 200,000 switches a second: times by records of switches, stacks of one switch in many.
	"$PERFWIND" record --off-cpu --json -o "$TMP/often.pftrace" -- "$PROGRAMS/ping-pong" 100000 2>"$TMP/often.err" | tail -n 1 >"$TMP/often.json"
	check often often often 0.3

	# All time of each thread: running + runnable + blocked = wall time.
	"$PROGRAMS/threads" 60 &
	target=$!
	started $target
	wait_for used $target 20
	"$PERFWIND" record --wall --json -p $target -d 1 -o "$TMP/wall.pftrace" >"$TMP/wall.json" 2>"$TMP/wall.err"
	check wall-status [ $? = 0 ]
	check wall-all-time all_time wall
	check wall-runs has wall 'thread_main;thread_work;burn '
	kill $target
fi

# ---- an ordinary user: times from records of switches, stacks read during the wait ----
user=
if [ "$(id -u)" = 0 ] && id nobody >/dev/null 2>&1 && command -v setpriv >/dev/null; then
	mkdir "$TMP/user"
	cp "$PERFWIND" "$PROGRAMS/waiting" "$TMP/user/"
	chmod -R a+rX "$TMP"
	chown nobody "$TMP/user"
	paranoid=$(cat /proc/sys/kernel/perf_event_paranoid)
	trap 'echo $paranoid >/proc/sys/kernel/perf_event_paranoid; cleanup' EXIT
	[ "$paranoid" = 2 ] || echo 2 >/proc/sys/kernel/perf_event_paranoid
	user=as_nobody
elif [ "$(cat /proc/sys/kernel/perf_event_paranoid)" = 2 ]; then
	mkdir "$TMP/user"
	cp "$PERFWIND" "$PROGRAMS/waiting" "$TMP/user/"
	user="env -C $TMP/user"
else
	skip user "this user may profile the kernel"
fi
if [ -n "$user" ]; then
	$user ./perfwind record --no-daemon --off-cpu -o user.pftrace -- ./waiting 3 >"$TMP/user.out" 2>"$TMP/user.err"
	check user-status [ $? = 0 ]
	cp "$TMP/user/user.pftrace" "$TMP/"
	if [ "$(uname -m)" != x86_64 ]; then
		skip user-waits "stacks are read on x86-64 only"
	elif [ -e /proc/self/syscall ]; then
		waits_of user "$TMP/user.pftrace" "$TMP/user.out" by_thread
		check user-guessed sh -c "'$PERFWIND' report --tree '$TMP/user.pftrace' | grep -q 'wait_sleep ?'"
	else
		skip user-waits "this kernel has no /proc/PID/syscall"
	fi
	as_user_wakers() { $user ./perfwind record --no-daemon --off-cpu --wakers -o wakers.pftrace -- ./waiting 1 >"$TMP/wakers.out" 2>"$TMP/wakers.err"; }
	check user-wakers-status as_user_wakers
	check user-wakers-why grep -qE '^perfwind: wakers are not recorded: .*hint: ' "$TMP/wakers.err"
	cp "$PROGRAMS/threads" "$PROGRAMS/ping-pong" "$TMP/user/"
	$user ./perfwind record --no-daemon --off-cpu --json -o often.pftrace -- ./ping-pong 100000 2>"$TMP/user-often.err" | tail -n 1 >"$TMP/user-often.json"
	cp "$TMP/user/often.pftrace" "$TMP/user-often.pftrace"
	check user-often often user-often 0.01
	$user sh -c './threads 60 & while [ "$(ls /proc/$!/task | wc -l)" -lt 5 ]; do sleep 0.05; done
		./perfwind record --no-daemon --wall --json -p $! -d 1s -o wall.pftrace >wall.json 2>wall.err; kill $!'
	cp "$TMP/user/wall.pftrace" "$TMP/user-wall.pftrace" && cp "$TMP/user/wall.json" "$TMP/user-wall.json"
	check user-all-time all_time user-wall
	check user-reported grep -q 'switches cannot be sampled' "$TMP/user.err"
fi

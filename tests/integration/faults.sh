#!/bin/bash
# faults.sh - a recording under limits and interruptions: perfwind stopped by SIGSTOP, few open files, a rate that the kernel
# lowers, a /proc that hides processes, many threads and processes, little memory.  (CPUs that go offline and clock steps: make check-faults.)
. "$(dirname "$0")/lib"
need_perf

# While perfwind is stopped its rings fill: what is missing is what the kernel counted.
record_in_background stopped -F 10000 --stack-bytes 65528 --no-inline -- "$PROGRAMS/crowd" 4
pid=$!
command=$(pgrep -P $pid -x crowd)
kill -STOP $pid
sleep 5
wait_for used "$command" 1000
kill -CONT $pid
wait $pid
check stopped-ends [ $? = 0 ]
check stopped-lost json stopped 'v["lost"]["samples"] > 1000'
check stopped-nothing-uncounted json stopped \
	'3.9 <= (total + v["lost"]["samples"] + sum(n for why, n in v["skipped"].items() if why != "double")) / 10000 <= 4.1'

if [ "$(id -u)" = 0 ]; then
	few() { (ulimit -n 64 && record few -a -d 1); }
	check few-files few
	check few-files-samples json few 'total > 0'
fi

# while_busy NAME PID OPTIONS... : records until PID has used 0.3 s more of CPU time.
while_busy() {
	local name=$1 busy=$2
	shift 2
	record_in_background "$name" "$@"
	local recorder=$!
	wait_for test -s "$TMP/$name.pftrace"
	wait_for used "$busy" $(($(cpu_ms "$busy") + 300))
	kill -INT $recorder
	wait $recorder
}
"$PROGRAMS/crowd" 60 20000 >"$TMP/crowd.out" 2>/dev/null &
crowd=$!
started $crowd
if wait_for grep -q ready "$TMP/crowd.out"; then
	# Each thread takes two descriptors a CPU: root has them.
	if [ "$(id -u)" = 0 ]; then
		check threads while_busy threads $crowd -p $crowd
		check threads-stacks has threads 'main;crowd_work;burn'
		check threads-whole json threads 'v["stacks"]["whole"] > 0.99 * total'
	elif record threads -p $crowd -d 1; then
		check threads-whole json threads 'v["stacks"]["whole"] > 0.99 * total'
	else
		check threads-limit grep -qE 'too few file descriptors .*hint: (ulimit -Hn 16384.* or )?record the whole machine \(-a\)' "$TMP/threads.err"
	fi
else
	skip threads "20,000 threads cannot be started here"
fi
kill $crowd

# 2,000 processes that sleep next to one that works; processes that are started all the time.
cat >"$TMP/processes.py" <<'PY'
import os, signal, sys, time
children = []
for _ in range(2000):
    pid = os.fork()
    if pid == 0:
        signal.pause()
    children.append(pid)
print("ready", flush=True)
sys.stdin.read()
for pid in children:
    os.kill(pid, signal.SIGKILL)
PY
"$PYTHON" "$TMP/processes.py" < <(sleep 30) >"$TMP/processes.out" 2>/dev/null &
processes=$!
started $processes
"$PROGRAMS/crowd" 30 >/dev/null &
busy=$!
started $busy
if wait_for grep -q ready "$TMP/processes.out"; then
	check processes while_busy processes $busy -p $processes,$busy
	check processes-stacks has processes 'main;crowd_work;burn'
	check processes-whole json processes 'v["stacks"]["whole"] > 0.99 * total'
else
	skip processes "2,000 processes cannot be started here"
fi
kill -9 $(cat /proc/$processes/task/*/children)
kill -9 $processes $busy
cat >"$TMP/storm.sh" <<'SH'
for ((i = 0; i < 600; i++)); do /bin/true; (:); done
SH
check storm record storm -F 4000 -- bash "$TMP/storm.sh"
check storm-whole json storm 'total > 100 and v["stacks"]["whole"] > 0.97 * total'

# A library is loaded and unloaded all the time, by a process that does little else.
cat >"$TMP/dlopen.py" <<'PY'
import _ctypes, sys, time
n = 0
while time.process_time() < 1:
    _ctypes.dlclose(_ctypes.dlopen(sys.argv[1], 2))
    n += 1
print(n)
PY
library=$("$PYTHON" -c 'import _ctypes, os; print(os.path.dirname(_ctypes.__file__) + "/" + next(f for f in sorted(os.listdir(os.path.dirname(_ctypes.__file__))) if f.startswith("_lzma") or f.startswith("_bz2")))')
check dlopen-storm record dlopen --no-inline -- "$PYTHON" "$TMP/dlopen.py" "$library"
check dlopen-storm-is-one [ "$(head -n 1 "$TMP/dlopen.json")" -gt 100 ]
few=300 # four fifths of it in the kernel
[ "$(id -u)" = 0 ] || few=50
check dlopen-storm-whole json dlopen "total > $few and v['stacks']['whole'] > 0.97 * total"

rate=/proc/sys/kernel/perf_event_max_sample_rate
if [ -w $rate ] && [ "$(id -u)" = 0 ]; then
	before=$(cat $rate)
	restore() { echo "$before" >$rate; cleanup; }
	trap restore EXIT
	record_in_background lowered -F 4000 --no-inline -- "$PROGRAMS/crowd" 1
	pid=$!
	wait_for test -s "$TMP/lowered.pftrace"
	echo 500 >$rate
	wait $pid
	check lowered-ends [ $? = 0 ]
	echo "$before" >$rate
	trap cleanup EXIT
	check lowered-is-reported json lowered 'v["lost"]["throttled_s"] > 0 or total + v["lost"]["samples"] >= 3900'
else
	skip lowered "$rate can be changed by root only"
fi

# A memory cgroup: a recording fits, or refuses with what it needs.  Never is a process killed.
memory_cgroup() {
	local folder
	for folder in $(awk '$3 == "cgroup" && $4 ~ /(^|,)memory(,|$)/ || $3 == "cgroup2" { print $2 }' /proc/mounts); do
		mkdir "$folder/perfwind-memory.$$" 2>/dev/null || continue
		[ -e "$folder/perfwind-memory.$$/memory.limit_in_bytes" ] || [ -e "$folder/perfwind-memory.$$/memory.max" ] && echo "$folder/perfwind-memory.$$" && return 0
		rmdir "$folder/perfwind-memory.$$"
	done
	return 1
}
# in_memory MIB NAME OPTIONS... : record with so much of it.
in_memory() {
	local limit=$memory/memory.max
	[ -e "$limit" ] || limit=$memory/memory.limit_in_bytes
	echo "$1M" >"$limit"
	shift
	(echo "$BASHPID" >"$memory/cgroup.procs" && record "$@")
}
if [ "$(id -u)" = 0 ] && memory=$(memory_cgroup); then
	trap 'wait_for rmdir "$memory"; cleanup' EXIT
	check memory-command in_memory 60 memory-command -- "$PROGRAMS/crowd" 1
	check memory-command-whole json memory-command 'total > 500 and v["stacks"]["whole"] > 0.99 * total'
	"$PROGRAMS/crowd" 60 &
	started $!
	check memory-machine in_memory 140 memory-machine -a -d 5
	check memory-machine-stacks has memory-machine 'main;crowd_work;burn'
	status=0
	in_memory 60 memory-refused -a -d 5 || status=$?
	check memory-refused [ $status = 1 ]
	check memory-refused-reason grep -q 'the memory cgroup has [0-9]* MiB left, this recording needs 128 (hint: raise memory.max' "$TMP/memory-refused.err"
	# oom_kills : how many processes the kernel has killed there.
	oom_kills() { cat "$memory/memory.events" "$memory/memory.oom_control" 2>/dev/null | awk '$1 == "oom_kill" { print $2 }'; }
	# Another program fills the cgroup: the recording ends before the kernel kills it, or a helper.
	kills=$(oom_kills)
	cat >"$TMP/grows.py" <<'PY'
import os, sys, time
held = []
while len(held) < 200 and os.path.exists("/proc/" + sys.argv[1]):
    held.append(bytearray(b"x") * (1 << 20))
    time.sleep(0.02 if len(held) < 90 else 0.15)
time.sleep(60)
PY
	in_memory 160 memory-full -a -d 60 &
	recorder=$!
	wait_for test -s "$TMP/memory-full.pftrace"
	(echo "$BASHPID" >"$memory/cgroup.procs" && exec "$PYTHON" "$TMP/grows.py" $recorder) &
	grows=$!
	started $grows
	wait $recorder
	check memory-full-ends [ $? = 1 ]
	check memory-full-target-runs kill -0 $grows
	check memory-full-no-kill [ "$(oom_kills)" = "${kills:-none}" ]
	check memory-full-reason grep -q 'the memory cgroup has only [0-9]* MiB left, .*: the recording ends here (hint: raise memory.max' "$TMP/memory-full.err"
	check memory-full-is-readable json memory-full 'v["complete"] and total > 100'
	kill -9 $grows
	wait_for rmdir "$memory"
	trap cleanup EXIT
else
	skip memory "no memory cgroup can be made here"
fi

# Two processes that work all the time next to 50 that have a three hundredth of it each.  The unwinder's thread is stopped while the two
# use 0.45 s, again and again: their 1,800 samples fill the part of its queue of 2,048 that is theirs, and the rings have room for all.
cat >"$TMP/unwinder.py" <<'PY'
import ctypes, os
SEIZE, INTERRUPT, DETACH, WAIT_ALL = 0x4206, 0x4207, 17, 0x40000000
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
def ptrace(request, tid):
    if libc.ptrace(request, tid, None, None):
        raise OSError(ctypes.get_errno(), "ptrace")
def of(pid):
    tasks = f"/proc/{pid}/task"
    return next(int(tid) for tid in os.listdir(tasks) if open(f"{tasks}/{tid}/comm").read() == "pw-unwind\n")
def stop(tid):
    ptrace(SEIZE, tid)
    ptrace(INTERRUPT, tid)
    os.waitpid(tid, WAIT_ALL)
def go_on(tid):
    ptrace(DETACH, tid)
def used(pids): # seconds of CPU time
    return sum(sum(map(int, open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[11:13])) for pid in pids) / os.sysconf("SC_CLK_TCK")
PY
cat >"$TMP/fair.py" <<'PY'
import os, signal, subprocess, sys, time, unwinder
hogs = [subprocess.Popen(["nice", "-n", "5", *sys.argv[1:]], stdout=subprocess.DEVNULL).pid for _ in range(2)]
small = []
for _ in range(50):
    pid = os.fork()
    if pid == 0:
        while time.process_time() < 0.02:
            end = time.process_time() + 0.001
            while time.process_time() < end:
                pass
            time.sleep(0.3)
        os._exit(0)
    small.append(pid)
stopped = unwinder.of(os.getppid())
used = {}
def reap(pid, options):
    got, _, usage = os.wait4(pid, options)
    if got:
        used[pid] = usage.ru_utime + usage.ru_stime
    return got
def runs(pid):
    return pid not in used and not reap(pid, os.WNOHANG)
while any([runs(pid) for pid in small]):
    unwinder.stop(stopped)
    until, late = unwinder.used(hogs) + 0.45, time.monotonic() + 2
    while unwinder.used(hogs) < until and time.monotonic() < late:
        time.sleep(0.01)
    unwinder.go_on(stopped)
    time.sleep(0.2)
time.sleep(0.5)
for pid in hogs:
    os.kill(pid, signal.SIGTERM)
    reap(pid, 0)
print(*(f"{pid}={used[pid]}" for pid in hogs + small))
PY
# Samples of the hogs were left out rather than those of the others; weights are kept by process; what the kernel lost it took from all.
# (least: one process has 80 samples; a loss of some ms, which is 3 % of all, may be most of them.)
cat >"$TMP/fair-judge.py" <<'PY'
import json, sys
report, lines = json.load(open(sys.argv[1])), open(sys.argv[2]).read().splitlines()
verdict = json.loads(lines[-1])
used = {int(pid): float(s) for pid, s in (pair.split("=") for pair in lines[-2].split())}
weight, kept = {pid: 0.0 for pid in used}, {pid: 0 for pid in used}
for row in report["rows"]:
    if row["pid"] in used:
        weight[row["pid"]] += row["total"] / 1e9
        kept[row["pid"]] += row["total_samples"] / 4e3
hogs, small = list(used)[:-50], list(used)[-50:]
total = lambda of, pids: sum(of[pid] for pid in pids)
lost, clock = verdict["lost"]["samples"] / 4e3, report["weight"] / 1e9 / verdict["cpu_accounted"]
seen = total(weight, used) / (total(weight, used) + lost)
figures = dict(sum=verdict["cpu_accounted"] + lost / clock, seen=seen, small=total(weight, small) / total(used, small),
               least=min(weight[pid] / used[pid] for pid in small),
               kept_small=total(kept, small) / total(weight, small), kept_hogs=total(kept, hogs) / total(weight, hogs))
print(figures, verdict["skipped"], verdict["lost"])
# (A process of 20 ms uses a tenth of them in its start, its end and its switches, where the kernel counts nothing.)
checks = {"sum": 0.98 <= figures["sum"] <= 1.02, "small": figures["small"] >= 0.8 * seen, "each": figures["least"] >= 0.6 * seen, "kept": seen > 0.6,
          "thinned": verdict["skipped"].get("thinned", 0) > 0 and figures["kept_hogs"] < figures["kept_small"]}
sys.exit(not all(checks[name] for name in sys.argv[3:]))
PY
fair() { "$PYTHON" "$TMP/fair-judge.py" "$TMP/fair.report" "$TMP/fair.json" "$@"; }
# record_fair NAME PROGRAM CHECKS OPTIONS... : one of five recordings passes all CHECKS.  What the kernel loses while perfwind waits for a
# CPU, and what the stopped unwinder has no time for, is of any process, so one recording alone may be unfair by chance.
record_fair() {
	local name=$1 program=$2 checks=$3 try
	shift 3
	for try in 1 2 3 4 5; do
		check "$name-$try" record fair -F 4000 --no-inline "$@" -- "$PYTHON" "$TMP/fair.py" "$program" 100
		"$PERFWIND" report --by pid --json -n 0 "$TMP/fair.pftrace" >"$TMP/fair.report"
		# shellcheck disable=SC2086 # one check, one word
		fair $checks >/dev/null && break
	done
	for try in $checks; do
		check "$name-$try" fair "$try"
	done
}
# Two sessions of one daemon, of one user or of two: a process with deep stacks at 10 kHz, and 50 processes at 99 Hz.  The first
# session's unwinder is stopped, again and again, so its queue and its rings are full: the second session keeps its samples.
cat >"$TMP/two.py" <<'PY'
import atexit, os, subprocess, sys, time, unwinder
perfwind, daemon, control, folder, program = sys.argv[1:6]
hog_user, few_user = map(int, sys.argv[6:])
def record(name, rate, pids, uid):
    output = f"{folder}/{name}-{uid}/{name}.pftrace"
    if os.path.exists(output):
        os.unlink(output)
    asker = subprocess.Popen([perfwind, "record", "--daemon", "--control-socket", control, "--json", "-F", rate, "-p", ",".join(map(str, pids)),
                              "-o", output], user=uid, group=uid, extra_groups=[],
                             stdout=open(f"{folder}/{name}.json", "w"), stderr=open(f"{folder}/{name}.err", "w"))
    while asker.poll() is None and not (os.path.exists(output) and os.path.getsize(output)):
        time.sleep(0.01)
    return asker
# (Programs of their own: a process that has changed its user is not dumpable, so its user may not record it.)
few = """
import sys, time
print(flush=True)
sys.stdin.read()
end = time.process_time() + 0.06
while time.process_time() < end:
    sum(range(100000)) # of user code alone: about 2 ms
    time.sleep(0.1)
"""
go, gone = os.pipe()
small = [subprocess.Popen([sys.executable, "-S", "-c", few], user=few_user, group=few_user, extra_groups=[], stdin=go,
                          stdout=subprocess.PIPE) for _ in range(50)]
for each in small:
    each.stdout.readline()
hog = subprocess.Popen(["nice", "-n", "5", program, "600"], user=hog_user, group=hog_user, extra_groups=[], stdout=subprocess.DEVNULL)
atexit.register(hog.kill)
first = record("two-hog", "10000", [hog.pid], hog_user)
stopped = unwinder.of(daemon)
second = record("two-few", "99", [each.pid for each in small], few_user)
os.close(gone)
while second.poll() is None:
    unwinder.stop(stopped)
    until, late = unwinder.used([hog.pid]) + 0.3, time.monotonic() + 0.6
    while unwinder.used([hog.pid]) < until and time.monotonic() < late:
        time.sleep(0.01)
    unwinder.go_on(stopped)
    time.sleep(0.1)
hog.terminate()
hog.wait()
sys.exit(first.wait() or second.wait())
PY
# two_sessions HOG-UID FEW-UID : the files are those of the last run.
two_sessions() {
	local daemon status
	mkdir -p "$TMP/two-hog-$1" "$TMP/two-few-$2"
	chown "$1" "$TMP/two-hog-$1"
	chown "$2" "$TMP/two-few-$2"
	"$TMP/bin/perfwind" daemon -s "$TMP/none" --control-socket "$TMP/control" --hook-socket "$TMP/hook" 2>"$TMP/two-daemon.err" &
	daemon=$!
	started $daemon
	wait_for test -S "$TMP/control"
	"$PYTHON" "$TMP/two.py" "$TMP/bin/perfwind" $daemon "$TMP/control" "$TMP" "$TMP/bin/deep" "$@"
	status=$?
	kill $daemon
	wait $daemon
	"$PERFWIND" report --by pid --json -n 0 "$TMP/two-few-$2/two-few.pftrace" >"$TMP/two-few.report"
	return $status
}
# two NAME HOG-UID FEW-UID : the second session keeps its samples, in one of three runs: each of the 50 has the weight of 5, but for
# those that its end and its moves between CPUs cut off.
two() {
	local name=$1 try
	local kept="v['lost']['samples'] + sum(v['skipped'].values()) <= 0.05 * (v['samples'] + v['lost']['samples'] + sum(v['skipped'].values()))"
	local each='sum(row["total"] > 0.02e9 for row in json.load(open("'"$TMP"'/two-few.report"))["rows"]) >= 50'
	shift
	for try in 1 2 3; do
		check "$name-$try" two_sessions "$@"
		json two-few "$kept and $each" >/dev/null && break
	done
	check "$name-keeps" json two-few "$kept"
	check "$name-each" json two-few "$each"
	check "$name-hog" json two-hog 'v["lost"]["samples"] + sum(v["skipped"].values()) > 0'
}
if [ "$(id -u)" = 0 ]; then
	record_fair fair "$PROGRAMS/crowd" "sum kept small each thinned" --stack-bytes 8192
	# Hogs with stacks of 300 KB fill a ring while perfwind waits for a CPU: the kernel loses samples, and of each process alike.
	record_fair fair-deep "$PROGRAMS/deep" "sum small thinned"
	# A stack of 300 KB at each sample: copies that took longer than a period would make the kernel's timer skip periods.
	check fast-and-deep record fast-and-deep -F 4000 --no-inline -- "$PROGRAMS/deep" 5
	"$PERFWIND" report --json -n 0 "$TMP/fast-and-deep.pftrace" >"$TMP/fast-and-deep.report"
	check fast-and-deep-sum json fast-and-deep \
		'0.98 <= v["cpu_accounted"] + v["lost"]["samples"] / 4e3 / (json.load(open("'"$TMP"'/fast-and-deep.report"))["weight"] / 1e9 / v["cpu_accounted"]) <= 1.02'
	# (Programs and sockets that other users reach.)
	chmod 755 "$TMP"
	mkdir "$TMP/bin"
	cp "$PERFWIND" "$PROGRAMS/deep" "$TMP/bin/"
	two two-sessions 0 0
	two two-users 61002 61003
else
	skip fair "without the kernel's part weights are not CPU time"
fi

# An ordinary user with a /proc that shows own processes only, and with a tracefs: in a mount namespace of our own.
cat >"$TMP/hidden.sh" <<'SH'
event=events/sched/sched_switch
mkdir -p $event
mount -t tracefs nodev /sys/kernel/tracing && cp /sys/kernel/tracing/$event/id /sys/kernel/tracing/$event/format $event && chmod 644 $event/*
mount -t proc -o hidepid=2 proc /proc || exit
user="setpriv --reuid 65534 --regid 65534 --clear-groups"
plain="$user --inh-caps=-all --bounding-set=-all"
perfmon="$user --inh-caps=-all,+perfmon --ambient-caps=-all,+perfmon"
"$PROGRAMS/crowd" 60 >/dev/null &
other=$!
$plain "$PROGRAMS/crowd" 60 >/dev/null &
own=$!
$plain sh -c 'while :; do sleep 0.01; done' &
sleeps=$!
# The command is the stop-watch.
rec() {
	local name=$1
	shift
	"$@" -- "$PROGRAMS/crowd" 0.3 >"$name.json" 2>"$name.err"
	echo $? >"$name.status"
}
rec hidden $plain "$PERFWIND" record --json -o hidden.pftrace
rec hidden-own $plain "$PERFWIND" record --json -o hidden-own.pftrace -p $own
rec hidden-other $plain "$PERFWIND" record -o hidden-other.pftrace -p $other
if [ -e $event/id ]; then
	rec hidden-closed $plain "$PERFWIND" record -e sched:sched_switch -o hidden-closed.pftrace -p $sleeps
	rec hidden-root "$PERFWIND" record --json -e sched:sched_switch -o hidden-root.pftrace -p $sleeps
	# A tracefs that users can read: a copy, as its modes are one for the whole machine.
	mount --bind . /sys/kernel/tracing
	rec hidden-refused $plain "$PERFWIND" record -e sched:sched_switch -o hidden-refused.pftrace -p $sleeps
	rec hidden-event $perfmon "$PERFWIND" record --json -e sched:sched_switch -o hidden-event.pftrace -p $sleeps
fi
kill $other $own $sleeps
SH
hidden() { (cd "$TMP" && chmod 777 . && PROGRAMS=$PROGRAMS PERFWIND=$PERFWIND unshare -m bash hidden.sh 2>hidden.out) && [ "$(cat "$TMP/hidden.status")" = 0 ]; }
# refused_with NAME TEXT
refused_with() { [ "$(cat "$TMP/$1.status")" = 1 ] && grep -q "$2" "$TMP/$1.err"; }
if [ "$(id -u)" = 0 ] && unshare -m mount -t proc -o hidepid=2 proc /proc 2>/dev/null; then
	check hidden hidden
	check hidden-stacks has hidden 'main;crowd_work;burn'
	check hidden-own has hidden-own 'main;crowd_work;burn'
	check hidden-own-whole json hidden-own 'v["stacks"]["whole"] > 0.99 * total'
	check hidden-other refused_with hidden-other 'no permission to see process [0-9]*: .*(hidepid); hint: sudo perfwind record -p [0-9]*$'
	if [ -e "$TMP/hidden-event.status" ]; then
		check hidden-tracefs-closed refused_with hidden-closed 'tracefs or its events are closed to this user; hint: run as root'
		check hidden-tracepoint-refused refused_with hidden-refused 'tracepoints and probes are not permitted to this user'
		check hidden-tracepoint-root has hidden-root '^(sh|dash);.*wait.*;(__schedule|schedule)_\[k\]'
		check hidden-tracepoint has hidden-event '^(sh|dash);.*wait.*_\[k\]'
	else
		skip hidden-tracepoint "tracefs cannot be mounted here"
	fi
else
	skip hidden "no mount of /proc here"
fi

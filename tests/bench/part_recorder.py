"""part_recorder.py - the flight recorder: what it costs for how long, how soon a snapshot's cut and the first sample are made.

BENCH_SECONDS (120, quick 10) is the time of each own-cost row; BENCH_SNAPSHOTS (1000, quick 50) the number of timed requests.
Requests are made here, by the recorder's own protocol (cli/flight-protocol.h): starting a client takes longer than a cut.
CPU times of the recorder are CPU time of its processes, which load of others hardly changes.  With root and a memory cgroup
(version 1 or 2) snapshots are also taken with the recorder at its cgroup's limit.
"""
import array
import json
import os
import signal
import socket
import statistics
import struct
import subprocess
import time

import measure

TITLE = "record -a -F 49 --flight-recorder: own cost, cuts, snapshots under pressure, --armed, polls of watch"

PATH_MAX = 4096
REQUEST = struct.Struct("=IIQQQ4096s")
ANSWER = struct.Struct("@IiIQQQ4096s")
VERSION = 2


def number(name, usual, quick, setup):
    return int(os.environ.get(name, 0)) or (quick if setup.quick else usual)


def processes(pid):
    """@pid and its children (pw-parse, pw-snapshot ...)."""
    found = [pid]
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        for child in f.read().split():
            found += processes(int(child))
    return found


def cpu_seconds(pid):
    """Of the process and its living children, with what ended children of theirs used: from the scheduler, in ns."""
    ns = 0
    for process in processes(pid):
        for thread in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{thread}/schedstat") as f:
                ns += int(f.read().split()[0])
    return ns / 1e9


def rss_kb(pid):
    """Anonymous memory in use; pages that the helper processes share with the recorder count once."""
    kb = 0
    for process in processes(pid):
        try:
            with open(f"/proc/{process}/smaps_rollup") as f:
                kb += sum(int(line.split()[1]) for line in f if line.startswith("Pss_Anon:"))
        except (FileNotFoundError, ProcessLookupError):
            pass  # a helper that has just ended
    return kb


class Recorder:
    def __init__(self, setup, *options, before=()):
        self.setup = setup
        self.trace = setup.file("recorder.pftrace")
        self.log = open(setup.file("recorder.err"), "w+")
        self.process = subprocess.Popen([*before, setup.perfwind, "record", "--flight-recorder", "64M", "-e", "cpu-clock", "-F", "49",
                                         "--clock", "monotonic", "-o", self.trace, *options], stderr=self.log)
        self.pid = self.process.pid
        end = time.monotonic() + 60
        while time.monotonic() < end and self.process.poll() is None:
            try:
                if self.request(output=setup.file("first.pftrace"))["error"] == 0:
                    return
            except (ConnectionError, FileNotFoundError):
                pass
            time.sleep(0.1)
        self.log.seek(0)
        raise measure.BenchError("the recorder does not start: " + self.log.read())

    def request(self, output=None, arm_s=0.0, fd=None):
        """One request; its answer, and when it was made (CLOCK_MONOTONIC, s)."""
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.connect(f"\0perfwind-recorder-{self.pid}")
        own = fd if fd is not None else os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600) if output else -1
        at = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        data = REQUEST.pack(VERSION, own < 0, at, 0, int(arm_s * 1e9), (output or "pipe").encode())
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [own]))] if own >= 0 else []
        s.sendmsg([data], rights)
        if own >= 0 and fd is None:
            os.close(own)
        answer = b""
        while len(answer) < ANSWER.size:
            more = s.recv(ANSWER.size - len(answer))
            if not more:
                raise ConnectionError("no answer")
            answer += more
        s.close()
        version, error, joined, samples, size, cut_ns, _ = ANSWER.unpack(answer)
        assert version == VERSION
        return {"error": error, "joined": joined, "samples": samples, "bytes": size, "cut_ms": cut_ns / 1e6, "at": at}

    def end(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.log.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


def busy(setup, factor=2):
    return measure.Busy(["/bin/sh", "-c", " & ".join(["while :; do :; done"] * (setup.cpus * factor)) + "; wait"])


def percentiles(values):
    ordered = sorted(values)
    return {"median": statistics.median(ordered), "p99": ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)],
            "max": ordered[-1], "n": len(ordered)}


def show(p):
    return [f"{p['median']:.2f}", f"{p['p99']:.2f}", f"{p['max']:.2f}", f"{p['n']}"]


# ---- own cost

def forks():
    """Processes and threads that the machine has begun since it was started."""
    with open("/proc/stat") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("processes "))


def own_cost(setup, seconds, name):
    memory = []
    with Recorder(setup, "-a") as r:
        time.sleep(1 if setup.quick else 5)  # names and mappings of what runs are read at the beginning
        before = r.request(output=setup.file("before.pftrace"))
        cpu, at, begun = cpu_seconds(r.pid), time.monotonic(), forks()
        for i in range(11):
            time.sleep(max(at + seconds * i / 10 - time.monotonic(), 0))
            memory.append(rss_kb(r.pid))
        passed, used, begun = time.monotonic() - at, cpu_seconds(r.pid) - cpu, forks() - begun
        after = r.request(output=setup.file("after.pftrace"))
    plain = os.path.getsize(setup.file("after.pftrace")) - os.path.getsize(setup.file("before.pftrace"))
    samples = after["samples"] - before["samples"]
    held = max(after["bytes"] - before["bytes"], 1)
    day = 86400 / passed
    return {"name": name, "seconds": passed, "share": used / passed, "us_a_sample": used / max(samples, 1) * 1e6, "samples": samples,
            "forks_a_s": begun / passed, "rss_first_kb": memory[0], "rss_half_kb": memory[5], "rss_last_kb": memory[10],
            "rss_max_kb": max(memory), "bytes_a_sample": held / max(samples, 1), "bytes_a_s": held / passed,
            "cpu_s_a_day": used * day, "mib_a_day": plain * day / (1 << 20)}


def mib(kb):
    return f"{kb / 1024:.1f}"


def day_lines(r):
    """What 24 hours take if they go on like what was measured: rows for docs/benchmarks.md."""
    grown = (r["rss_last_kb"] - r["rss_half_kb"]) / 1024
    cost = f"| 24 hours, {r['name']}, calculated from {r['seconds']:.0f} s"
    return [
        f"{cost}: CPU | {r['cpu_s_a_day']:.0f} s ({r['share']:.2%} of a CPU, {r['us_a_sample']:.0f} us a sample, "
        f"{r['samples'] / r['seconds']:.0f} samples and {r['forks_a_s']:.0f} new processes a second) |",
        f"{cost}: memory | 64 MiB for samples, {mib(r['rss_max_kb'])} MiB anonymous at most ({grown:+.1f} MiB in the second half) |",
        f"{cost}: disk | nothing without a snapshot; a snapshot of 30 s {r['bytes_a_s'] * 30 / 1024:.0f} KiB, of everything 64 MiB at most, "
        f"which is {(64 << 20) / r['bytes_a_s'] / 3600:.1f} hours; all samples {r['mib_a_day']:.0f} MiB |"]


def own_costs(setup):
    seconds = number("BENCH_SECONDS", 120, 10, setup)
    rows = [own_cost(setup, seconds, "as the machine is")]
    with busy(setup, 1):
        rows.append(own_cost(setup, seconds, "all CPUs busy"))
    measure.table([
        ["-a -F 49", "time", "own CPU", "us a sample", "bytes a sample", "new processes a s", "anonymous memory, MiB: first, half, last, most"],
        *[[r["name"], f"{r['seconds']:.0f} s", f"{r['share']:.3%}", f"{r['us_a_sample']:.1f}", f"{r['bytes_a_sample']:.0f}",
           f"{r['forks_a_s']:.1f}", ", ".join(mib(r[f"rss_{k}_kb"]) for k in ("first", "half", "last", "max"))] for r in rows]])
    for r in rows:
        print("\n".join("  " + line for line in day_lines(r)))
    return rows


# ---- cuts

class SlowDisk:
    """A pipe with a reader that takes 64 KiB every 20 ms: some 3 MB/s."""

    def __init__(self):
        self.read_end, self.fd = os.pipe()
        self.child = os.fork()
        if not self.child:
            os.close(self.fd)
            while os.read(self.read_end, 65536):
                time.sleep(0.02)
            os._exit(0)
        os.close(self.read_end)

    def close(self):
        os.close(self.fd)
        os.waitpid(self.child, 0)


def time_cuts(recorder, n, slow=False):
    cuts, failed = [], 0
    for i in range(n):
        if slow:
            disk = SlowDisk()
            answer = recorder.request(fd=disk.fd)
            disk.close()
        else:
            answer = recorder.request(output=recorder.setup.file("cut.pftrace"))
        failed += answer["error"] != 0 or answer["joined"] != 0
        cuts.append(answer["cut_ms"])
        time.sleep(0.001 * (i % 7))
    return {**percentiles(cuts), "failed": failed}


def memory_cgroup():
    """A new memory cgroup: its folder and the file of its limit; None: none can be made."""
    for mount, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        folder = f"{mount}/perfwind-bench-{os.getpid()}"
        try:
            os.mkdir(folder)
        except OSError:
            continue
        if os.access(f"{folder}/{limit}", os.W_OK):
            return folder, limit
        os.rmdir(folder)
    return None


def usage_of(folder):
    for name in ("memory.usage_in_bytes", "memory.current"):
        if os.path.exists(f"{folder}/{name}"):
            with open(f"{folder}/{name}") as f:
                return int(f.read())
    raise OSError("the memory cgroup has no usage")


def kills_of(folder):
    for name in ("memory.oom_control", "memory.events"):
        if os.path.exists(f"{folder}/{name}"):
            with open(f"{folder}/{name}") as f:
                return sum(int(line.split()[1]) for line in f if line.startswith("oom_kill "))
    return 0


def at_the_limit(setup, n):
    """Snapshots with the recorder in a cgroup with a limit of what it uses, to a file and to a pipe."""
    group = memory_cgroup()
    if not group:
        return None
    folder, limit = group
    try:
        inside = ("/bin/sh", "-c", f'echo $$ >{folder}/cgroup.procs; exec "$@"', "-")
        with busy(setup), Recorder(setup, "-a", before=inside) as r:
            time.sleep(2)
            for _ in range(8):  # below the use, the kernel first takes back what it can
                try:
                    with open(f"{folder}/{limit}", "w") as f:
                        f.write(str(usage_of(folder)))
                    break
                except OSError:
                    time.sleep(0.2)
            result = time_cuts(r, n)
            alive = r.process.poll() is None
            return {**result, "alive": alive, "oom_kills": kills_of(folder), "limit_bytes": usage_of(folder)}
    finally:
        for _ in range(100):
            try:
                os.rmdir(folder)
                break
            except OSError:
                time.sleep(0.1)


def cuts(setup):
    n = number("BENCH_SNAPSHOTS", 1000, 50, setup)
    rows = {}
    with Recorder(setup, "-a") as r:
        rows["as the machine is"] = time_cuts(r, n)
        with busy(setup):
            rows["all CPUs busy, twice over"] = time_cuts(r, n)
            rows["... and a disk of 3 MB/s"] = time_cuts(r, max(n // 20, 5), slow=True)
    limited = at_the_limit(setup, n)
    if limited:
        rows["... and the memory cgroup at its limit"] = limited
    measure.table([["request to cut, ms", "median", "p99", "max", "n", "failed"],
                   *[[name, *show(p), f"{p['failed']}"] for name, p in rows.items()]])
    if limited:
        print(f"  at the limit of {limited['limit_bytes'] >> 20} MiB: {limited['oom_kills']} processes killed; the recorder "
              f"{'runs on' if limited['alive'] else 'was killed'}")
    else:
        print("  no memory cgroup can be made here (root)")
    return rows


# ---- armed

def sample_times(setup, trace):
    """Times of its samples, ns, from the packets as text."""
    text = subprocess.run([setup.perfwind, "trace", "--dump", trace], capture_output=True, text=True, check=True).stdout
    times = []
    for packet in text.split("\npacket {"):
        if "perf_sample {" not in packet or "producer_event" in packet or "sample_skipped_reason" in packet:
            continue
        for line in packet.splitlines():
            if line.startswith("  timestamp: "):
                times.append(int(line.split()[1]))
                break
    return times


def first_samples(setup, n):
    """ms from each request to the first sample."""
    waits = []
    with Recorder(setup, "-a", "--armed") as r:
        for _ in range(n):
            asked = r.request(arm_s=0.1)["at"]
            time.sleep(0.3)
            r.request(output=setup.file("armed.pftrace"))
            later = [t for t in sample_times(setup, setup.file("armed.pftrace")) if t >= asked]
            if later:
                waits.append((min(later) - asked) / 1e6)
    if not waits:
        raise measure.BenchError("--armed: no samples")
    return waits


def armed(setup):
    n = number("BENCH_ARMED", 30, 5, setup)
    rows = {"as the machine is": percentiles(first_samples(setup, n))}
    with busy(setup, 1):
        rows["all CPUs busy"] = percentiles(first_samples(setup, n))
    measure.table([["--armed: request to first sample, ms", "median", "p99", "max", "n"],
                   *[[name, *show(p)] for name, p in rows.items()]])
    return rows


# ---- polls of watch

THREADS = """import sys, threading
def spin():
    while True: pass
def rest():
    threading.Event().wait()
for i in range(29): threading.Thread(target=spin if i < 4 else rest, daemon=True).start()
spin()
"""


def polls(setup):
    """perfwind watch on a process of 30 threads, five of them with stacks: its own CPU time a poll, with and without."""
    seconds = number("BENCH_SECONDS", 120, 10, setup) / 4
    rows = {}
    with measure.Busy([setup.python, "-c", THREADS]) as target:
        for poll_ms in (10, 1000):
            rules = setup.file("rules")
            with open(rules, "w") as f:
                f.write(f"[watch]\nrecord = -p {target.pid} -F 49 -e cpu-clock\npoll = {poll_ms}ms\nbusy-poll = {poll_ms}ms\n"
                        f"[rule a]\nwhen = process-cpu\nprocess = {target.pid}\nabove = 100000\n"
                        f"[rule b]\nwhen = run-queue\nprocess = {target.pid}\nabove = 100000\n")
            os.chmod(rules, 0o600)
            p = subprocess.Popen([setup.perfwind, "watch", "-c", rules, "-d", setup.file("episodes")], stderr=subprocess.DEVNULL)
            time.sleep(2)
            with open(f"/proc/{p.pid}/schedstat") as f:
                watch = int(f.read().split()[0])
            everything = cpu_seconds(p.pid)
            time.sleep(seconds)
            with open(f"/proc/{p.pid}/schedstat") as f:
                watch = int(f.read().split()[0]) - watch
            rows[poll_ms] = {"watch_us_a_s": watch / 1e3 / seconds, "all_us_a_s": (cpu_seconds(p.pid) - everything) * 1e6 / seconds}
            p.send_signal(signal.SIGTERM)
            p.wait()
    # The recorder takes its samples whether there are polls or not: five stacks are five samples.
    a_poll = (rows[10]["watch_us_a_s"] - rows[1000]["watch_us_a_s"]) / 99
    recorder = rows[1000]["all_us_a_s"] - rows[1000]["watch_us_a_s"]
    stacks = recorder / (49 * min(5, setup.cpus)) * 5
    measure.table([["a poll of 30 threads (process-cpu and run-queue)", "us of CPU"],
                   ["values from /proc", f"{a_poll:.0f}"],
                   ["five stacks by the recorder", f"{stacks:.0f}"],
                   ["both", f"{a_poll + stacks:.0f}"]])
    return {"poll_us": a_poll, "five_stacks_us": stacks, "runs": {str(k): v for k, v in rows.items()}}


def measure_part(setup):
    only = os.environ.get("BENCH_ONLY", "").split()
    parts = {"cuts": cuts, "armed": armed, "polls": polls, "cost": own_costs}
    result = {}
    for name, part in parts.items():
        if not only or name in only:
            result[name] = part(setup)
    return json.loads(json.dumps(result))

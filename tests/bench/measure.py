"""measure.py - runs profilers and busy programs, and measures what they used.

CPU times are wait4()'s: user and system time of the process and all its threads from exec to exit.  perf's child
processes (none here) and the profiled program are not in it.
"""
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TICKS = os.sysconf("SC_CLK_TCK")


class BenchError(Exception):
    pass


class Setup:
    """What all parts need: programs, a scratch folder, how long to run."""

    def __init__(self, build, python, quick):
        self.perfwind = os.path.abspath(os.path.join(build, "perfwind"))
        self.build = os.path.abspath(build)
        self.python = python
        self.quick = quick
        self.cpus = len(os.sched_getaffinity(0))
        self.scratch = tempfile.TemporaryDirectory(prefix="bench-", dir=self.build)
        self.perf = find_perf()
        self.before = os.environ.get("BENCH_BEFORE")  # another build, which runs in turn with this one
        self.traced = None  # a folder with traced, traced_perf and perfetto: traced.py

    def file(self, name):
        return os.path.join(self.scratch.name, name)


def find_perf():
    for folder in os.environ["PATH"].split(":"):
        path = os.path.join(folder, "perf")
        # Ubuntu's perf may be a script that finds no binary for this kernel.
        if os.access(path, os.X_OK) and subprocess.run([path, "--version"], capture_output=True).returncode == 0:
            return path
    return None


# ---- the machine

def busy_ticks():
    """CPU ticks that were not idle, of all CPUs (/proc/stat)."""
    with open("/proc/stat") as f:
        n = [int(x) for x in f.readline().split()[1:9]]
    return sum(n) - n[3] - n[4]


class OtherLoad:
    """How many CPUs others kept busy before the bench began."""

    def __init__(self, seconds=1.0):
        before, at = busy_ticks(), time.monotonic()
        time.sleep(seconds)
        self.cpus = (busy_ticks() - before) / TICKS / (time.monotonic() - at)


# ---- figures

def spread(values):
    """median, smallest, largest."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "n": len(values)}


def show(s, unit="", digits=1):
    if s["n"] == 1:
        return f"{s['median']:.{digits}f}{unit}"
    return f"{s['median']:.{digits}f}{unit} ({s['min']:.{digits}f}-{s['max']:.{digits}f})"


def ratio(a, b):
    return a / b if b else float("inf")


GOALS = []  # of all parts: [figure, found, goal, verdict]


def goal(figure, found, wanted, met):
    """Notes a figure with its goal for the table at the end.  Returns its verdict."""
    verdict = "met" if met else "not met"
    GOALS.append([figure, found, wanted, verdict])
    return verdict


def goals(rows):
    """The same for rows [figure, found, goal, verdict]; rows without a goal are left out."""
    GOALS.extend(row for row in rows if row[3] in ("met", "not met"))


def table(rows):
    """Rows of strings, the first is the head; numbers to the right."""
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    for n, row in enumerate(rows):
        print("  " + "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))).rstrip())
        if n == 0:
            print("  " + "  ".join("-" * w for w in widths))
    sys.stdout.flush()


# ---- running

def start(argv, **kwargs):
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, **kwargs)


def reap(process):
    """Waits.  CPU seconds of the process alone, and its rusage."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime, usage


def cpu_of(pid):
    """User and system seconds so far of a process that runs (/proc/PID/schedstat is only the first thread's)."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def cpu_of_all(pid):
    """The same with its children, helper processes that have ended included."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        children = f.read().split()
    cpu = sum(int(x) for x in fields[11:15]) / TICKS
    for child in children:
        try:
            cpu += cpu_of_all(int(child))
        except OSError:
            pass  # it has ended: the next look finds it in its parent's sum
    return cpu


class Steady:
    """For attach(each=): CPU a second from START_S after the start to the end, without start and stop."""
    START_S = 2

    def __init__(self):
        self.begin = self.first = self.last = None

    def __call__(self, pid):
        now = time.monotonic()
        self.begin = self.begin or now
        if now - self.begin >= self.START_S:
            self.last = (now, cpu_of_all(pid))
            self.first = self.first or self.last

    def cpu_a_second(self):
        return (self.last[1] - self.first[1]) / (self.last[0] - self.first[0])


class Busy:
    """A busy program in a process group of its own; ended by its number."""

    def __init__(self, argv, settle=1.0, **kwargs):
        self.process = start(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, **kwargs)
        self.pid = self.process.pid
        time.sleep(settle)
        if self.process.poll() is not None:
            raise BenchError(f"{argv[0]} ended with status {self.process.returncode}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()


def python_work(setup):
    return Busy([setup.python, os.path.join(HERE, "work.py"), "0"])


def write_source(path, n, copies=4):
    """A C++ file as in real projects: containers, templates, strings.  Takes one to two seconds at -O2."""
    with open(path, "w") as f:
        f.write("#include <algorithm>\n#include <map>\n#include <memory>\n#include <regex>\n#include <string>\n"
                "#include <unordered_map>\n#include <vector>\n")
        for i in range(copies):
            f.write(f"""
template <class T> struct Node{i} {{ T value; std::vector<std::unique_ptr<Node{i}>> children; }};
template <class T, class F> void walk{i}(const Node{i}<T> &node, F f)
{{
	f(node.value);
	for (auto &c : node.children)
		walk{i}(*c, f);
}}
std::string run{n}_{i}(const std::vector<std::string> &words)
{{
	std::unordered_map<std::string, std::vector<int>> at;
	std::map<int, std::string, std::greater<int>> sorted;
	Node{i}<std::string> root;
	int k = {n};
	for (auto &w : words)
		at[std::regex_replace(w, std::regex("[aeiou]+"), "-")].push_back(k++);
	for (auto &[w, v] : at) {{
		std::sort(v.begin(), v.end(), [](int a, int b) {{ return a * {i + 3} % 97 < b * 7 % 89; }});
		sorted[v.front()] = w;
		root.children.push_back(std::make_unique<Node{i}<std::string>>(Node{i}<std::string>{{w, {{}}}}));
	}}
	std::string all;
	walk{i}(root, [&](const std::string &s) {{ all += s; }});
	return all + sorted.begin()->second;
}}
""")


def compile_work(setup):
    """A profiler that attaches to the shell sees the compilers that start from then on: each is short (some 100 ms)."""
    source = setup.file("work.cc")
    write_source(source, 0, 0)
    loop = f"while :; do g++ -std=c++17 -O0 -c -o {setup.file('work.o')} {source}; done"
    return Busy(["/bin/sh", "-c", loop])


def clang_work(setup):
    """One process that compiles a large file: deep stacks of large frames.  About 0.3 s of CPU a copy; it ends with the Busy."""
    source = setup.file("long.cc")
    write_source(source, 0, 250 if setup.quick else 500)
    return Busy(["clang++", "-std=c++17", "-O2", "-c", "-o", setup.file("long.o"), source])


class Run:
    """One run of a profiler."""

    def __init__(self, cpu, usage, samples, wall, json=None, stop_s=0.0):
        self.cpu, self.usage, self.samples, self.wall = cpu, usage, samples, wall
        self.json, self.stop_s = json, stop_s
        self.service_cpu = self.lost = None  # of a recording through a tracing service


def attach(argv, seconds, output, each=None, env=None):
    """Starts a profiler, stops it with SIGINT after @seconds, waits.  @each(pid) is called ten times a second."""
    at = time.monotonic()
    p = start(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    end = at + seconds
    while (left := end - time.monotonic()) > 0:
        if each:
            each(p.pid)
        time.sleep(min(0.1, left) if each else left)
    stop = time.monotonic()
    os.kill(p.pid, signal.SIGINT)  # send_signal() would reap a profiler that ended with its target: its usage were lost
    out, err = p.stdout.read(), p.stderr.read()
    cpu, usage = reap(p)
    done = time.monotonic()
    if p.returncode not in (0, -signal.SIGINT):
        raise BenchError(f"{' '.join(argv)}: status {p.returncode}: {err.strip().splitlines()[-1:]}")
    return Run(cpu, usage, 0, done - at, stop_s=done - stop), out, err


def perfwind(setup, target, seconds, hz, options=(), output=None, each=None, binary=None, env=None):
    output = output or setup.file("bench.pftrace")
    argv = [binary or setup.perfwind, "record", "-q", "--json", "-F", str(hz), "-o", output, *options, *target]
    run, out, _ = attach(argv, seconds, output, each, env)
    run.json = json.loads(out)
    run.samples = run.json["samples"]
    return run


def perf_record(setup, target, seconds, hz, call_graph, each=None):
    """perf's own CPU ends with its last look at the file for build ids, as it does for every user of it."""
    output = setup.file("perf.data")
    argv = [setup.perf, "record", "-e", "cpu-clock", "-F", str(hz), "--call-graph", call_graph, "-o", output, *target]
    run, _, err = attach(argv, seconds, output, each)
    found = re.search(r"\((\d+) samples\)", err)
    run.samples = int(found.group(1)) if found else 0
    run.bytes = os.path.getsize(output)
    os.unlink(output)
    return run

"""part_import.py - `perfwind import` against `perf script` on the same perf.data.

Both give each sample's whole stack with symbols and without inlined calls (--no-inline).  They run in turn, one pair
after the other, so that what else the machine does meets both; the ratio is that of each pair.
"""
import os
import shutil
import subprocess
import time

import measure
from part_unwind import CMAKE

TITLE = "perf.data: import to a symbolised trace against `perf script --no-inline >/dev/null`, same file"
SAMPLES = 11000
TRIES = 3
GOALS = {"": 20, " 64K": 10}  # times faster, wall clock, by the size of the copies
GOAL_MB = 100


def timed(argv):
    at = time.monotonic()
    p = measure.start(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    cpu, usage = measure.reap(p)
    if p.returncode:
        raise measure.BenchError(f"{' '.join(argv[:3])} ended with status {p.returncode}")
    return time.monotonic() - at, cpu, usage.ru_maxrss / 1024


def record(setup, name, command, graph):
    """About SAMPLES samples: the rate follows from how long the program runs."""
    data = setup.file(f"{name.replace(' ', '-')}.data")
    _, cpu, _ = timed(command)
    rate = max(100, min(8000, int(SAMPLES / cpu)))
    # without -N, as users do: perf keeps a copy of the kernel's symbols with it
    argv = [setup.perf, "--buildid-dir", setup.file("debug"), "record", "-q", "-e", "cpu-clock", "-F", str(rate), "--call-graph", graph, "-o", data, "--"]
    done = subprocess.run(argv + command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if done.returncode:
        raise measure.BenchError(f"perf record ended with status {done.returncode}")
    return data


def one(setup, name, command, graph):
    """The table's row of a recording and its figures."""
    data, trace = record(setup, name, command, graph), setup.file("import.pftrace")
    listed = subprocess.run([setup.perf, "script", "-F", "pid", "-i", data], capture_output=True, text=True).stdout
    samples = sum(1 for line in listed.splitlines() if line and not line[0].isspace() or line.strip().isdigit())
    ours, theirs, before = [], [], []
    for _ in range(3 if setup.quick else 7):
        ours.append(timed([setup.perfwind, "import", "-q", "--no-inline", "-o", trace, data]))
        if setup.before:
            before.append(timed([setup.before, "import", "-q", "--no-inline", "-o", trace, data]))
        theirs.append(timed([setup.perf, "script", "--no-inline", "-i", data]))
    wall = measure.spread([t[0] / o[0] for o, t in zip(ours, theirs)])
    cpu = measure.spread([t[1] / o[1] for o, t in zip(ours, theirs)])
    figures = [measure.spread([x[i] for x in runs]) for runs in (ours, theirs) for i in (0, 1)]
    size = os.path.getsize(data)
    row = ([name, str(samples), f"{size / 1e6:.0f}"] + [measure.show(f, digits=3) for f in figures] +
           [measure.show(wall), measure.show(cpu), f"{max(o[2] for o in ours):.0f}"])
    os.unlink(data)
    if before:
        print(f"  {name}: before: {measure.show(measure.spread([b[0] for b in before]), digits=3)} s, CPU "
              f"{measure.show(measure.spread([b[1] for b in before]), digits=3)} s, {max(b[2] for b in before):.0f} MB")
    return row, {"samples": samples, "wall_ratio": wall, "cpu_ratio": cpu, "import_mb": max(o[2] for o in ours), "import_s": figures[0],
                 "import_cpu_s": figures[1], "perf_script_s": figures[2], "perf_script_cpu_s": figures[3]}


def one_of(setup, name, command, graph):
    """The same, again where something of it ended badly, as an old perf does now and then on a new kernel (it aborts in
    util/build-id.c).  None: the reason is printed."""
    for attempt in range(TRIES):
        try:
            return one(setup, name, command, graph)
        except measure.BenchError as e:
            print(f"  {name}, attempt {attempt + 1} of {TRIES}: {e}")
    return None


def measure_part(setup):
    if not setup.perf:
        raise measure.BenchError("perf (linux-perf) is not installed")
    os.environ["PERF_BUILDID_DIR"] = setup.file("debug")
    source = setup.file("import.cc")
    measure.write_source(source, 0, 1 if setup.quick else 4)
    commands = [("g++", ["g++", "-std=c++17", "-O2", "-c", "-o", setup.file("import.o"), source]),
                ("python3", [setup.python, os.path.join(measure.HERE, "work.py"), "60" if setup.quick else "250"])]
    if shutil.which("clang++"):
        commands.append(("clang++", ["clang++", "-std=c++17", "-O2", "-c", "-o", setup.file("import.o"), source]))
    if shutil.which("cmake"):
        script = setup.file("import.cmake")
        with open(script, "w") as f:
            f.write(CMAKE)
        commands.append(("cmake", ["cmake", "-P", script]))
    rows = [["recording", "samples", "MB", "import s", "CPU s", "perf script s", "CPU s", "times faster", "of CPU", "MB held"]]
    result, verdicts = {}, []
    for copies, graph in (("", "dwarf"), (" 64K", "dwarf,65528")):
        for name, command in ((name + copies, command) for name, command in commands):
            measured = one_of(setup, name, command, graph)
            rows.append(measured[0] if measured else [name] + ["-"] * (len(rows[0]) - 1))
            if not measured:
                continue
            result[name] = measured[1]
            wall, held = measured[1]["wall_ratio"]["median"], measured[1]["import_mb"]
            faster = measure.goal(f"import, {name}: times faster than perf script --no-inline", f"{wall:.1f}", str(GOALS[copies]),
                                  wall >= GOALS[copies])
            small = measure.goal(f"import, {name}: memory", f"{held:.0f} MB", f"{GOAL_MB} MB", held <= GOAL_MB)
            verdicts.append(f"  goal: {name}: {GOALS[copies]} times faster: {wall:.1f} - {faster}; at most {GOAL_MB} MB: {held:.0f} - {small}")
    if not result:
        raise measure.BenchError("no recording could be measured")
    measure.table(rows)
    print("\n".join(verdicts))
    return result

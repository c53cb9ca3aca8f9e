"""part_runtimes.py - what a sample of each runtime costs the profiler itself: C next to Python, PHP, Ruby, Java and node, the functions
of which are read from the memory of the process: of the first three at the sample by the BPF program, and without it after the sample.

Attached in turn, each time for a short and for a long while, as in part_cost.py:
    quotient   CPU of the long run / its samples, start and end included
    more       what one more sample costs
"""
import os
import shutil
import subprocess

import measure

TITLE = "own CPU per sample by runtime, attached with -p to one busy process"
SOURCES = os.path.join(measure.HERE, "..", "programs")


def built(argv):
    if subprocess.run(argv, capture_output=True).returncode:
        raise measure.BenchError(f"cannot be built: {' '.join(argv)}")


def c_work(setup):
    program = setup.file("recursion")
    built(["cc", "-O2", "-g", "-o", program, os.path.join(SOURCES, "recursion.c")])
    return measure.Busy([program, "1000000"])


def java_work(setup):
    folder = setup.file("classes")
    built(["javac", "-d", folder, os.path.join(SOURCES, "runtimes", "Work.java")])
    return measure.Busy(["java", "-cp", folder, "Work", "all", "1000000"], settle=5.0)  # it compiles at first


def script_work(tool, name):
    return lambda _: measure.Busy([tool, os.path.join(SOURCES, "runtimes", name), "1000000"])


# name, program that it needs, its start, read without BPF too
WORKS = (("C", "cc", c_work, False), ("python3", None, measure.python_work, True), ("php", "php", script_work("php", "leaves.php"), True),
         ("ruby", "ruby", script_work("ruby", "leaves.rb"), True), ("java", "javac", java_work, False),
         ("node", "node", script_work("node", "work.js"), False))
LATE = dict(os.environ, PERFWIND_WITHOUT="bpf")


def measure_ways(setup, pid, ways, rounds, seconds):
    """The ways (name, environment) in turn, in each round."""
    found = {name: {"quotient": [], "more": [], "per_s": []} for name, _ in ways}
    for _ in range(rounds):
        for name, env in ways:
            short, long = (measure.perfwind(setup, ["-p", str(pid)], s, 999, env=env) for s in seconds)
            if long.samples <= short.samples:
                raise measure.BenchError(f"{name}: {short.samples} samples in {seconds[0]} s, {long.samples} in {seconds[1]} s")
            found[name]["quotient"].append(long.cpu / long.samples * 1e6)
            found[name]["more"].append((long.cpu - short.cpu) / (long.samples - short.samples) * 1e6)
            found[name]["per_s"].append(long.samples / seconds[1])
    return {name: {k: measure.spread(v) for k, v in f.items()} for name, f in found.items()}


def row(name, found, own):
    cells = [name]
    for key in ("quotient", "more"):
        cells += [measure.show(found[key]), f"{measure.ratio(found[key]['median'], own[key]['median']):.1f}"]
    return [*cells, f"{found['per_s']['median']:.0f}"]


def measure_part(setup):
    rounds, seconds = (1, (1, 5)) if setup.quick else (3, (2, 12))
    rows, result = [["runtime", "us/sample", "x", "us/more sample", "x", "samples/s"]], {}
    for name, tool, start, reads in WORKS:
        if tool and not shutil.which(tool):
            print(f"  left out: {name}: {tool} is not installed")
            continue
        ways = [(name, None)] + ([(f"{name} without BPF", LATE)] if reads else [])
        with start(setup) as busy:
            for way, found in measure_ways(setup, busy.pid, ways, rounds, seconds).items():
                result[way] = found
                rows.append(row(way, found, result.get("C", found)))
    print(f"\n  999 Hz, {rounds} rounds of {seconds[0]} and {seconds[1]} s")
    measure.table(rows)
    return result

"""part_runtimes.py - what a sample of each runtime costs the profiler itself: C next to Python, Java and node, the functions of which are
read from the memory of the process.

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


def node_work(_):
    return measure.Busy(["node", os.path.join(SOURCES, "runtimes", "work.js"), "1000000"])


WORKS = (("C", "cc", c_work), ("python3", None, measure.python_work), ("java", "javac", java_work), ("node", "node", node_work))


def measure_part(setup):
    rounds, seconds = (1, (1, 5)) if setup.quick else (3, (2, 12))
    rows, result = [["runtime", "us/sample", "x", "us/more sample", "x", "samples/s"]], {}
    for name, tool, start in WORKS:
        if tool and not shutil.which(tool):
            print(f"  left out: {name}: {tool} is not installed")
            continue
        found = {"quotient": [], "more": [], "per_s": []}
        with start(setup) as busy:
            for _ in range(rounds):
                short, long = (measure.perfwind(setup, ["-p", str(busy.pid)], s, 999, []) for s in seconds)
                if long.samples <= short.samples:
                    raise measure.BenchError(f"{name}: {short.samples} samples in {seconds[0]} s, {long.samples} in {seconds[1]} s")
                found["quotient"].append(long.cpu / long.samples * 1e6)
                found["more"].append((long.cpu - short.cpu) / (long.samples - short.samples) * 1e6)
                found["per_s"].append(long.samples / seconds[1])
        found = result[name] = {k: measure.spread(v) for k, v in found.items()}
        own = result.get("C", found)
        rows.append([name, measure.show(found["quotient"]), f"{measure.ratio(found['quotient']['median'], own['quotient']['median']):.1f}",
                     measure.show(found["more"]), f"{measure.ratio(found['more']['median'], own['more']['median']):.1f}",
                     f"{found['per_s']['median']:.0f}"])
    print(f"\n  999 Hz, {rounds} rounds of {seconds[0]} and {seconds[1]} s")
    measure.table(rows)
    return result

"""part_start.py - what `perfwind record -- /bin/true` costs, and what a second recording of a program costs less.

CPU time of perfwind, its helper processes and the command, by wait4().  The cache folder is of this run: the first
recording of each row finds it empty, the others find what the first one left.  BENCH_BEFORE=PERFWIND: another build
runs in turn with this one.
"""
import os
import subprocess
import time

import measure

TITLE = "a start: `record -- /bin/true`; the second recording of a program with debug information"
GOAL_CPU, GOAL_WALL = 15, 25  # ms, with a warm cache


def once(setup, binary, cache, argv):
    env = dict(os.environ, XDG_CACHE_HOME=cache)
    at = time.monotonic()
    process = measure.start([binary, *argv], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    cpu, _ = measure.reap(process)
    if process.returncode:
        raise measure.BenchError(f"{binary} record ended with status {process.returncode}")
    return cpu * 1e3, (time.monotonic() - at) * 1e3


def folder(setup, name):
    path = setup.file(name)
    os.makedirs(path, mode=0o700, exist_ok=True)
    return path


def starts(setup, rounds):
    out = setup.file("start.pftrace")
    variants = [("warm cache", setup.perfwind, lambda i: folder(setup, "warm"), []),
                ("empty cache", setup.perfwind, lambda i: folder(setup, f"empty-{i}"), []),
                ("--user-only", setup.perfwind, lambda i: folder(setup, "user"), ["--user-only"])]
    if os.environ.get("BENCH_BEFORE"):
        variants.append(("before", os.environ["BENCH_BEFORE"], lambda i: folder(setup, "before"), []))
    found = {name: [] for name, *_ in variants}
    once(setup, setup.perfwind, folder(setup, "warm"), ["record", "-o", out, "--", "/bin/true"])
    for i in range(rounds):
        for name, binary, cache, options in variants:
            found[name].append(once(setup, binary, cache(i), ["record", "-o", out, *options, "--", "/bin/true"]))
    rows, result = [["record -- /bin/true", "CPU ms: best", "median", "ms: best", "median", f"goal {GOAL_CPU}, {GOAL_WALL}"]], {}
    for name, runs in found.items():
        cpu, wall = (measure.spread([r[k] for r in runs]) for k in (0, 1))
        met = cpu["median"] <= GOAL_CPU and wall["median"] <= GOAL_WALL
        rows.append([name, f"{cpu['min']:.1f}", f"{cpu['median']:.1f}", f"{wall['min']:.1f}", f"{wall['median']:.1f}",
                     ("met" if met else "not met") if name == "warm cache" else ""])
        result[name] = {"cpu_ms": cpu, "wall_ms": wall}
    measure.table(rows)
    return result


def again(setup, rounds):
    """perfwind itself is a program with debug information."""
    trace, out = setup.file("start.pftrace"), setup.file("again.pftrace")
    command = ["sh", "-c", f"for i in $(seq {100 if setup.quick else 300}); do '{setup.perfwind}' report '{trace}'; done"]
    found = {"first recording": [], "second": [], "--no-inline": []}
    for i in range(rounds):
        cache = folder(setup, f"again-{i}")
        for name, options in (("first recording", []), ("second", []), ("--no-inline", ["--no-inline"])):
            used = once(setup, setup.perfwind, cache, ["record", "-o", out, *options, "--", *command])[0]
            alone = measure.start(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            found[name].append(used - measure.reap(alone)[0] * 1e3)
    rows, result = [["CPU without the command's, ms", "best", "median"]], {}
    for name, runs in found.items():
        result[name] = measure.spread(runs)
        rows.append([name, f"{result[name]['min']:.0f}", f"{result[name]['median']:.0f}"])
    measure.table(rows)
    return result


def measure_part(setup):
    return {"starts": starts(setup, 5 if setup.quick else 20), "again": again(setup, 2 if setup.quick else 5)}

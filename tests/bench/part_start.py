"""part_start.py - what `perfwind record -- /bin/true` costs, as root and as an ordinary user, next to `perf record`, and what a
second recording of a program costs less.

CPU time of perfwind, its helper processes and the command, by wait4().  The cache folder is of this run: the first
recording of each row finds it empty, the others find what the first one left.
"""
import os
import subprocess
import time

import measure

OTHER = 65534  # a user without privileges
TITLE = "a start: `record -- /bin/true`; the second recording of a program with debug information"
GOAL_CPU, GOAL_WALL = 15, 25  # ms, with a warm cache
WARM = 5  # recordings before: the few samples of each are at other places


def once(setup, binary, cache, argv, user=None):
    env = dict(os.environ, XDG_CACHE_HOME=cache)
    other = {"user": user, "group": user, "extra_groups": []} if user else {}
    at = time.monotonic()
    process = measure.start([binary, *argv], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **other)
    cpu, _ = measure.reap(process)
    if process.returncode:
        raise measure.BenchError(f"{binary} record ended with status {process.returncode}")
    return cpu * 1e3, (time.monotonic() - at) * 1e3


def folder(setup, name):
    path = setup.file(name)
    os.makedirs(path, mode=0o700, exist_ok=True)
    return path


def starts(setup, rounds):
    out = os.path.join(folder(setup, "warm"), "start.pftrace")
    variants = [("warm cache", setup.perfwind, lambda i: folder(setup, "warm"), [], out, None),
                ("empty cache", setup.perfwind, lambda i: folder(setup, f"empty-{i}"), [], out, None),
                ("--user-only", setup.perfwind, lambda i: folder(setup, "user"), ["--user-only"], out, None)]
    if os.geteuid() == 0:
        other = folder(setup, "other")
        os.chown(other, OTHER, OTHER)
        os.chmod(setup.scratch.name, 0o711)
        variants.append(("warm cache, ordinary user", setup.perfwind, lambda i: other, [], os.path.join(other, "start.pftrace"), OTHER))
    if setup.before:
        variants.append(("before", setup.before, lambda i: folder(setup, "before"), [], out, None))
    if setup.perf:
        variants += [(f"perf {graph}", setup.perf, lambda i: folder(setup, "warm"), ["-q", "-e", "cpu-clock", "-F", "999", "--call-graph", graph],
                      setup.file("start.data"), None) for graph in ("dwarf,65528", "dwarf,16384", "fp")]
    found = {name: [] for name, *_ in variants}
    for i in range(rounds + WARM):
        for name, binary, cache, options, output, user in variants:
            if i < WARM and not name.startswith("warm"):
                continue
            try:
                run = once(setup, binary, cache(i), ["record", "-o", output, *options, "--", "/bin/true"], user)
            except measure.BenchError:
                if not name.startswith("perf"):
                    raise
                continue  # perf 6.1 aborts now and then over processes that are gone
            if i >= WARM:
                found[name].append(run)
    found = {name: runs for name, runs in found.items() if runs}
    rows, result = [["record -- /bin/true", "CPU ms: best", "median", "ms: best", "median", f"goal {GOAL_CPU}, {GOAL_WALL}"]], {}
    for name, runs in found.items():
        cpu, wall = (measure.spread([r[k] for r in runs]) for k in (0, 1))
        met = cpu["median"] <= GOAL_CPU and wall["median"] <= GOAL_WALL
        if name.startswith("warm"):
            measure.goal(f"start, {name}: CPU", f"{cpu['median']:.1f} ms", f"{GOAL_CPU} ms", cpu["median"] <= GOAL_CPU)
            measure.goal(f"start, {name}: time", f"{wall['median']:.1f} ms", f"{GOAL_WALL} ms", wall["median"] <= GOAL_WALL)
        rows.append([name, f"{cpu['min']:.1f}", f"{cpu['median']:.1f}", f"{wall['min']:.1f}", f"{wall['median']:.1f}",
                     ("met" if met else "not met") if name.startswith("warm") else ""])
        result[name] = {"cpu_ms": cpu, "wall_ms": wall}
    measure.table(rows)
    return result


def again(setup, rounds):
    """perfwind itself is a program with debug information."""
    trace, out = os.path.join(folder(setup, "warm"), "start.pftrace"), setup.file("again.pftrace")
    command = ["sh", "-c", f"for i in $(seq {100 if setup.quick else 300}); do '{setup.perfwind}' report '{trace}'; done"]
    found = {"first recording": [], "second": [], "fifth": [], "--no-inline": []}
    for i in range(rounds):
        cache = folder(setup, f"again-{i}")
        for name, options in (("first recording", []), ("second", []), ("third", []), ("fourth", []), ("fifth", []),
                              ("--no-inline", ["--no-inline"])):
            used = once(setup, setup.perfwind, cache, ["record", "-o", out, *options, "--", *command])[0]
            if name not in found:
                continue  # samples at further places: the cache grows
            alone = measure.start(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            found[name].append(used - measure.reap(alone)[0] * 1e3)
    rows, result = [["CPU without the command's, ms", "best", "median"]], {}
    for name, runs in found.items():
        result[name] = measure.spread(runs)
        rows.append([name, f"{result[name]['min']:.0f}", f"{result[name]['median']:.0f}"])
    measure.table(rows)
    more = {name: result[name]["median"] - result["--no-inline"]["median"] for name in ("first recording", "second", "fifth")}
    print(f"  goal: a second recording costs nothing for lines and inlined calls: {more['second']:.0f} ms, the fifth {more['fifth']:.0f} ms, "
          f"the first {more['first recording']:.0f} ms")
    measure.goal("lines and inlined calls: a second recording of the same program, against the first",
                 f"{more['second']:.0f} of {more['first recording']:.0f} ms",
                 "nothing (a tenth)", more["second"] <= more["first recording"] / 10)
    return result


def measure_part(setup):
    return {"starts": starts(setup, 5 if setup.quick else 20), "again": again(setup, 2 if setup.quick else 5)}

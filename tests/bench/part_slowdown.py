"""part_slowdown.py - a fixed amount of work under no profiler, perfwind and perf record, in turn; the program itself
prints how long it took (wall and CPU), so that starting and ending the profiler does not count.  perfwind 65528: with copies of that
size, which do not adapt."""
import os
import subprocess

import measure

TITLE = "what the profiled program loses: a fixed amount of work"


def profilers(setup, hz):
    for name, fixed in (("perfwind", []), ("perfwind 65528", ["--stack-bytes", "65528"])):
        yield name, [setup.perfwind, "record", "-q", "-F", str(hz), *fixed, "-o", setup.file("s.pftrace"), "--"]
    if setup.before:
        yield "before", [setup.before, "record", "-q", "-F", str(hz), "-o", setup.file("s.pftrace"), "--"]
    if setup.perf:
        for graph in ("dwarf,65528", "dwarf,16384", "fp"):
            yield f"perf {graph}", [setup.perf, "record", "-q", "-e", "cpu-clock", "-F", str(hz), "--call-graph", graph,
                                    "-o", setup.file("s.data"), "--"]


def work(setup, prefix, rounds):
    p = subprocess.run([*prefix, setup.python, os.path.join(measure.HERE, "work.py"), str(rounds)],
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        wall, cpu = p.stdout.split()
    except ValueError:
        raise measure.BenchError(f"{' '.join(prefix)}: no answer from the program (status {p.returncode})") from None
    return float(wall), float(cpu)


def measure_part(setup):
    repeats = 2 if setup.quick else 7
    _, cpu = work(setup, [], 20)
    rounds = max(20, int(20 * (1 if setup.quick else 3) / cpu))
    cases = {("no profiler", 0): []}
    for hz in (99, 999, 4000):
        cases.update({(name, hz): prefix for name, prefix in profilers(setup, hz)})
    found = {case: [] for case in cases}
    for _ in range(repeats):
        for case, prefix in cases.items():
            found[case].append(work(setup, prefix, rounds))
    none = [measure.spread([x[i] for x in found[("no profiler", 0)]])["median"] for i in (0, 1)]
    rows, result = [["profiler", "Hz", "wall s", "more", "CPU s", "more"]], {}
    for (name, hz), times in found.items():
        wall, cpu = (measure.spread([x[i] for x in times]) for i in (0, 1))
        rows.append([name, str(hz or ""), measure.show(wall, digits=3), f"{wall['median'] / none[0] - 1:+.2%}",
                     measure.show(cpu, digits=3), f"{cpu['median'] / none[1] - 1:+.2%}"])
        result[f"{name} {hz}"] = {"wall": wall, "cpu": cpu, "slowdown": cpu["median"] / none[1] - 1}
    for hz in (99, 999, 4000):
        perf = result.get(f"perf dwarf,65528 {hz}")
        if perf:
            ours, theirs = result[f"perfwind {hz}"]["slowdown"], perf["slowdown"]
            measure.goal(f"slowdown of the target (CPU), {hz} Hz, against perf dwarf,65528", f"{ours:+.2%}; perf {theirs:+.2%}",
                         "below perf's", ours < theirs)
    print(f"  {rounds} rounds of work.py, medians of {repeats} (smallest-largest), interleaved")
    measure.table(rows)
    return result

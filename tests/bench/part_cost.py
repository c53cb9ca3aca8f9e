"""part_cost.py - what a sample costs the profiler itself, attached to one busy process.

Each profiler is attached in turn (ABCABC...), each time for a short and for a long while.  Two figures:
    quotient   CPU of the long run / its samples, start and end included
    more       (CPU long - CPU short) / (samples long - samples short): what one more sample costs
    fixed      CPU of a run without samples: long - samples * more
    switches context switches of the profiler's threads a second, without its start and end
"""
import shutil

import measure

TITLE = "own CPU per sample (user + system of the profiler's own threads), attached with -p to one busy process"
GOALS = {("python3", 999): 3, ("python3", 4000): 2, ("clang++", 999): 4, ("clang++", 4000): 2}  # us a further sample
TARGETS = {"perf dwarf,65528": 25, "perf dwarf,16384": 8}


def profilers(setup):
    yield "perfwind", lambda target, s, hz: measure.perfwind(setup, target, s, hz, ["--stack-bytes", "65528"])
    yield "perfwind, copies adapt", lambda target, s, hz: measure.perfwind(setup, target, s, hz)
    if setup.before:
        yield "before", lambda target, s, hz: measure.perfwind(setup, target, s, hz, ["--stack-bytes", "65528"], binary=setup.before)
    if setup.perf:
        for graph in ("dwarf,65528", "dwarf,16384", "fp"):
            yield f"perf {graph}", lambda target, s, hz, graph=graph: measure.perf_record(
                setup, [t for t in target if t != "--children"], s, hz, graph)


def one_round(setup, target, hz, seconds, found):
    for name, run in profilers(setup):
        try:
            short, long = run(target, seconds[0], hz), run(target, seconds[1], hz)
        except measure.BenchError as e:
            if name == "perfwind":
                raise
            print(f"  left out: {e}")  # perf 6.1 aborts now and then over processes that are gone
            continue
        if long.samples <= short.samples:
            print(f"  left out: {name} took {short.samples} samples in {seconds[0]} s, {long.samples} in {seconds[1]} s")
            continue
        f = found.setdefault(name, {"quotient": [], "more": [], "fixed": [], "per_s": [], "self": [], "polled": [],
                                    "bytes": [], "switches": []})
        more = (long.cpu - short.cpu) / (long.samples - short.samples)
        f["quotient"].append(long.cpu / long.samples * 1e6)
        f["more"].append(more * 1e6)
        f["fixed"].append((long.cpu - long.samples * more) * 1e3)
        f["per_s"].append(long.samples / seconds[1])
        switches = [r.usage.ru_nvcsw + r.usage.ru_nivcsw for r in (short, long)]
        f["switches"].append((switches[1] - switches[0]) / (seconds[1] - seconds[0]))
        f["polled"].append(long.polled_cpu / long.samples * 1e6)
        if long.json:
            f["self"].append(long.json["self"]["us_per_sample"])
        f["bytes"].append((long.json["bytes"] if long.json else long.bytes) / long.samples)


def print_goal(found, work, hz):
    goal = GOALS.get((work, hz))
    if goal:
        more = found["perfwind"]["more"]["median"]
        verdict = measure.goal(f"cost of a further sample, {work}, {hz} Hz, 64 KB copies", f"{more:.1f} us", f"{goal} us", more <= goal)
        print(f"  goal: {goal} us a further sample: {more:.1f} - {verdict}")


def print_rows(found, what):
    rows = [["profiler", "us/sample", "x", "us/more sample", "x", "fixed ms", "samples/s", "switches/s", "bytes/sample"]]
    own = found["perfwind"]
    for name, f in found.items():
        rows.append([name, measure.show(f["quotient"]), f"{f['quotient']['median'] / own['quotient']['median']:.1f}",
                     measure.show(f["more"]), f"{measure.ratio(f['more']['median'], own['more']['median']):.1f}",
                     f"{f['fixed']['median']:.0f}", f"{f['per_s']['median']:.0f}",
                     f"{f['switches']['median']:.0f}", f"{f['bytes']['median']:.0f}"])
    measure.table(rows)
    print(f"  perfwind by its own account (self.us_per_sample): {measure.show(own['self'])};"
          f" by /proc/PID/stat before the stop: {measure.show(own['polled'])}")
    for name, times in TARGETS.items():
        if name in found:
            got = {k: found[name][k]["median"] / own[k]["median"] for k in ("quotient", "more")}
            print(f"  asked for: 1/{times} of {name}: 1/{got['quotient']:.1f}, by one more sample 1/{got['more']:.1f}"
                  f" - {'reached' if got['quotient'] >= times else 'not reached'}")
            measure.goal(f"cost against {name}, {what}", f"1/{got['quotient']:.1f}", f"1/{times}", got["quotient"] >= times)


def measure_part(setup):
    rounds, seconds = (1, (1, 5)) if setup.quick else (3, (2, 12))
    result = {}
    if not setup.perf:
        print("  no perf here: perfwind alone")
    works = [("python3", measure.python_work, []), ("g++ loop", measure.compile_work, ["--children"])]
    if shutil.which("clang++"):
        works.insert(1, ("clang++", measure.clang_work, []))
    else:
        print("  no clang++ here: its goals are not measured")
    for work, start, extra in works:
        for hz in (999, 4000):
            found = {}
            with start(setup) as busy:
                target = ["-p", str(busy.pid), *extra]
                for _ in range(rounds):
                    one_round(setup, target, hz, seconds, found)
            if "perfwind" not in found:
                raise measure.BenchError("perfwind took no samples")
            found = {name: {k: measure.spread(v) for k, v in f.items() if v} for name, f in found.items()}
            print(f"\n  {work}, {hz} Hz, 64 KB copies, {rounds} rounds of {seconds[0]} and {seconds[1]} s")
            print_rows(found, f"{work}, {hz} Hz")
            print_goal(found, work, hz)
            result[f"{work} {hz}"] = found
    return result

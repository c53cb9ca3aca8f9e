"""part_cost.py - what a sample costs the profiler itself, attached to one busy process.

Each profiler is attached in turn (ABCABC...):
    quotient   CPU of the long run / its samples, start and end included
    steady     CPU from the third second to the stop / samples of that time: without start and end
    rest       CPU of the long run beyond that: start, first sight of modules, names and lines at the stop
    switches context switches of the profiler a second

With TRACED_PERF=DIR (traced.py) also traced_perf, and perfwind's daemon as the data source of the same service.
"""
import shutil

import measure
import traced

TITLE = "own CPU per sample (user + system of the profiler's own threads), attached with -p to one busy process"
GOALS = {("python3", 999): 3, ("python3", 4000): 2, ("clang++", 999): 4, ("clang++", 4000): 2}  # us a sample, steady
TARGETS = {"perf dwarf,65528": 25, "perf dwarf,16384": 8}
TRACED_ROWS = (("traced_perf", traced.traced_perf), ("perfwind daemon + traced", traced.perfwind_daemon))


def profilers(setup, target):
    yield "perfwind", lambda target, s, hz, each: measure.perfwind(setup, target, s, hz, ["--stack-bytes", "65528"], each=each)
    yield "perfwind, copies adapt", lambda target, s, hz, each: measure.perfwind(setup, target, s, hz, each=each)
    if setup.before:
        yield "before", lambda target, s, hz, each: measure.perfwind(setup, target, s, hz, ["--stack-bytes", "65528"], each=each,
                                                                     binary=setup.before)
    if setup.perf:
        for graph in ("dwarf,65528", "dwarf,16384", "fp"):
            yield f"perf {graph}", lambda target, s, hz, each, graph=graph: measure.perf_record(
                setup, [t for t in target if t != "--children"], s, hz, graph, each=each)
    if setup.traced and "--children" not in target:  # a scope has no children of a process
        for name, record in TRACED_ROWS:
            yield name, lambda target, s, hz, each, record=record: record(setup, int(target[1]), s, hz, each=each)


def one_round(setup, target, hz, seconds, found):
    for name, run in profilers(setup, target):
        steady = measure.Steady()
        try:
            r = run(target, seconds, hz, steady)
        except measure.BenchError as e:
            if name == "perfwind":
                raise
            print(f"  left out: {e}")  # perf 6.1 aborts now and then over processes that are gone
            continue
        if not r.samples:
            print(f"  left out: {name} took no samples")
            continue
        f = found.setdefault(name, {"quotient": [], "steady": [], "rest": [], "per_s": [], "self": [], "bytes": [], "switches": [],
                                    "lost": [], "service": []})
        per_s = r.samples / seconds
        f["quotient"].append(r.cpu / r.samples * 1e6)
        f["steady"].append(steady.cpu_a_second() / per_s * 1e6)
        f["rest"].append((r.cpu - steady.cpu_a_second() * seconds) * 1e3)
        f["per_s"].append(per_s)
        f["switches"].append((r.usage.ru_nvcsw + r.usage.ru_nivcsw) / seconds)
        if r.json:
            f["self"].append(r.json["self"]["us_per_sample"])
        if r.service_cpu is not None:
            f["service"].append(r.service_cpu / r.samples * 1e6)
            f["lost"].append(r.lost)
        f["bytes"].append((r.json["bytes"] if r.json else r.bytes) / r.samples)


def print_goal(found, work, hz):
    goal = GOALS.get((work, hz))
    if goal:
        cost = found["perfwind, copies adapt"]["steady"]["median"]
        verdict = measure.goal(f"steady state, a sample, {work}, {hz} Hz", f"{cost:.1f} us", f"{goal} us", cost <= goal)
        print(f"  goal: {goal} us a sample in the steady state: {cost:.1f} - {verdict}")


def print_rows(found, what):
    rows = [["profiler", "us/sample", "x", "steady us/sample", "x", "rest ms", "samples/s", "switches/s", "bytes/sample"]]
    own = found["perfwind"]
    for name, f in found.items():
        rows.append([name, measure.show(f["quotient"]), f"{f['quotient']['median'] / own['quotient']['median']:.1f}",
                     measure.show(f["steady"]), f"{measure.ratio(f['steady']['median'], own['steady']['median']):.1f}",
                     f"{f['rest']['median']:.0f}", f"{f['per_s']['median']:.0f}",
                     f"{f['switches']['median']:.0f}", f"{f['bytes']['median']:.0f}"])
    measure.table(rows)
    print(f"  perfwind by its own account (self.us_per_sample): {measure.show(own['self'])}")
    for name, _ in TRACED_ROWS:
        if name in found:
            print(f"  {name}: traced used {measure.show(found[name]['service'])} us a sample more; lost:"
                  f" {measure.show(found[name]['lost'], digits=0)}")
    for name, times in TARGETS.items():
        if name in found:
            got = {k: measure.ratio(found[name][k]["median"], own[k]["median"]) for k in ("quotient", "steady")}
            print(f"  asked for: 1/{times} of {name}: 1/{got['quotient']:.1f}, in the steady state 1/{got['steady']:.1f}"
                  f" - {'reached' if got['quotient'] >= times else 'not reached'}")
            measure.goal(f"cost against {name}, {what}", f"1/{got['quotient']:.1f}", f"1/{times}", got["quotient"] >= times)


def measure_part(setup):
    rounds, seconds = (1, 6) if setup.quick else (3, 12)
    result = {}
    if not setup.perf:
        print("  no perf here: perfwind alone")
    setup.traced = traced.find()
    if not setup.traced:
        print("  traced_perf is left out: TRACED_PERF=DIR names a folder with traced, traced_perf and perfetto")
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
            print(f"\n  {work}, {hz} Hz, 64 KB copies, {rounds} rounds of {seconds} s")
            print_rows(found, f"{work}, {hz} Hz")
            print_goal(found, work, hz)
            result[f"{work} {hz}"] = found
    return result

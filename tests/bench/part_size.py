"""part_size.py - bytes a sample in the file, and how long it takes from SIGINT to the whole, symbolised file."""
import measure

TITLE = "size of the trace; time from the stop (SIGINT) to a whole, symbolised file"


def measure_part(setup):
    seconds = 10 if setup.quick else 60
    rows, result = [["target", "samples", "bytes/sample", "file KB", "stop to end s", "without symbols"]], {}
    with measure.python_work(setup) as busy:
        cases = [("python3, 999 Hz", ["-p", str(busy.pid)], 999, seconds), ("the same, 3 s", ["-p", str(busy.pid)], 999, 3),
                 ("-a, 999 Hz, 5 s", ["-a"], 999, 5)]
        runs = [(name, measure.perfwind(setup, target, s, hz)) for name, target, hz, s in cases]
    with measure.compile_work(setup) as busy:
        runs.append(("g++ loop, 999 Hz", measure.perfwind(setup, ["-p", str(busy.pid), "--children"], min(seconds, 20), 999)))
    for name, run in runs:
        j = run.json
        rows.append([name, f"{j['samples']}", f"{j['bytes'] / max(j['samples'], 1):.1f}", f"{j['bytes'] / 1000:.0f}",
                     f"{run.stop_s:.2f}", str(len(j["modules_without_symbols"]))])
        result[name] = {"json": j, "stop_s": run.stop_s, "wall_s": run.wall}
    measure.table(rows)
    print("  asked for: under 60 bytes a sample (python3, 999 Hz, 60 s); symbolised within 2 s of the stop")
    return result

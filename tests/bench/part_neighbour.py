"""part_neighbour.py - what others notice of a perfwind that runs: wake-ups while its target sleeps, its share of a CPU
with --max-cpu, and perf record at the same time."""
import glob
import os
import subprocess
import time

import measure

TITLE = "a good neighbour: wake-ups, --max-cpu, perf record at the same time"
SLEEPER = "import signal, time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\nsignal.pause()"
GOAL_CPU = 0.01


def switches(pid):
    """Context switches so far of all threads of a process and of its helper processes."""
    pids = [pid]
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        with open(path) as f:
            pids += f.read().split()
    n = 0
    for path in [p for x in pids for p in glob.glob(f"/proc/{x}/task/*/status")]:
        with open(path) as f:
            n += sum(int(line.split()[1]) for line in f if "ctxt_switches" in line)
    return n


def wakeups(setup):
    seconds = 3 if setup.quick else 10
    with measure.Busy([setup.python, "-c", SLEEPER]) as target:
        found = []

        def look(pid):
            found.append((time.monotonic(), switches(pid)))

        measure.perfwind(setup, ["-p", str(target.pid)], seconds + 2, 999, each=look)
    late = [x for x in found if x[0] > found[0][0] + 2]
    return (late[-1][1] - late[0][1]) / (late[-1][0] - late[0][0])


def limited(setup, hz, options):
    """Share of a CPU, share of the samples that were kept, and weight over CPU time of the target."""
    seconds = 15 if setup.quick else 20
    used = []
    with measure.python_work(setup) as target:
        run = measure.perfwind(setup, ["-p", str(target.pid)], seconds, hz, options,
                               each=lambda pid: used.append((time.monotonic(), cpu_with_helpers(pid))))
    at, cpu = next(x for x in used if x[0] - used[0][0] >= 3)
    ten = [x for x in used if x[0] - at >= 10][0]
    thinned = run.json["skipped"].get("thinned", 0)
    return (ten[1] - cpu) / (ten[0] - at), run.json["samples"] / (run.json["samples"] + thinned), run.json["cpu_accounted"]


def cpu_with_helpers(pid):
    used = measure.cpu_of(pid)
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        with open(path) as f:
            for child in f.read().split():
                try:
                    used += measure.cpu_of(child)
                except OSError:
                    pass
    return used


def alongside(setup):
    """perf record while perfwind records the same target: its exit status, and how many samples it has."""
    data = setup.file("alongside.data")
    with measure.python_work(setup) as target:
        own = measure.start([setup.perfwind, "record", "-q", "-p", str(target.pid), "-o", setup.file("alongside.pftrace")],
                            stdout=subprocess.DEVNULL)
        time.sleep(0.5)
        done = subprocess.run([setup.perf, "record", "-q", "-e", "cpu-clock", "-F", "999", "--call-graph", "fp", "-o", data,
                               "-p", str(target.pid), "--", "sleep", "2"], capture_output=True, text=True)
        own.terminate()
        own.wait()
    os.unlink(data)
    return done.returncode


def measure_part(setup):
    goals = [["what", "found", "goal", ""]]
    result = {"wakeups_per_s": wakeups(setup)}
    goals.append(["wake-ups a second, target asleep", f"{result['wakeups_per_s']:.2f}", "0",
                  "met" if result["wakeups_per_s"] == 0 else "not met"])
    for hz in (999, 4000):
        for options in ([], ["--max-cpu", "1%"]):
            name = f"CPU over 10 s, {hz} Hz{' ' if options else ''}{' '.join(options)}"
            cpu, kept, seen = result[name] = limited(setup, hz, options)
            goals.append([name, f"{cpu:.2%}", f"{GOAL_CPU:.0%}" if options else "",
                          ("met" if cpu <= GOAL_CPU else "not met") if options else f"{kept:.0%} of the samples kept"])
            if options:
                goals.append(["  weight over CPU time of the target", f"{seen:.4f}", "0.99-1.01",
                              "met" if abs(seen - 1) <= 0.01 else "not met"])
                goals.append(["  samples kept", f"{kept:.0%}", "", ""])
    if setup.perf:
        result["perf_status"] = alongside(setup)
        goals.append(["perf record at the same time: exit status", str(result["perf_status"]), "0",
                      "met" if result["perf_status"] == 0 else "not met"])
    measure.table(goals)
    measure.goals([f"neighbour, {row[0].strip()}", *row[1:]] for row in goals)
    return result

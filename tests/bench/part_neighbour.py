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


def wakeups(setup, binary):
    seconds = 3 if setup.quick else 10
    with measure.Busy([setup.python, "-c", SLEEPER]) as target:
        found = []

        def look(pid):
            found.append((time.monotonic(), switches(pid)))

        measure.perfwind(setup, ["-p", str(target.pid)], seconds + 2, 999, each=look, binary=binary)
    late = [x for x in found if x[0] > found[0][0] + 2]
    return (late[-1][1] - late[0][1]) / (late[-1][0] - late[0][0])


def limited(setup, binary, hz, options):
    """Share of a CPU, share of the samples that were kept, and weight over CPU time of the target."""
    seconds = 15 if setup.quick else 20
    used = []
    with measure.python_work(setup) as target:
        run = measure.perfwind(setup, ["-p", str(target.pid)], seconds, hz, options,
                               each=lambda pid: used.append((time.monotonic(), cpu_with_helpers(pid))), binary=binary)
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


def alongside(setup, binary):
    """perf record while perfwind records the same target: its exit status, and how many samples it has."""
    data = setup.file("alongside.data")
    with measure.python_work(setup) as target:
        own = measure.start([binary, "record", "-q", "-p", str(target.pid), "-o", setup.file("alongside.pftrace")],
                            stdout=subprocess.DEVNULL)
        time.sleep(0.5)
        done = subprocess.run([setup.perf, "record", "-q", "-e", "cpu-clock", "-F", "999", "--call-graph", "fp", "-o", data,
                               "-p", str(target.pid), "--", "sleep", "2"], capture_output=True, text=True)
        own.terminate()
        own.wait()
    os.unlink(data)
    return done.returncode


def measure_part(setup):
    """A build before --max-cpu was there has the rows without it."""
    goals = [["what", "found", "before", "goal", ""]]
    builds = [setup.perfwind] + ([setup.before] if setup.before else [])
    result = {"wakeups_per_s": [wakeups(setup, binary) for binary in builds]}

    def row(what, found, show, goal="", verdict=""):
        goals.append([what, show(found[0]), show(found[1]) if len(found) > 1 else "", goal, verdict])

    found = result["wakeups_per_s"]
    row("wake-ups a second, target asleep", found, "{:.2f}".format, "0", "met" if found[0] == 0 else "not met")
    for hz in (999, 4000):
        name = f"CPU over 10 s, {hz} Hz"
        free = result[name] = [limited(setup, binary, hz, []) for binary in builds]
        row(name, [cpu for cpu, _, _ in free], "{:.2%}".format, "", f"{free[0][1]:.0%} of the samples kept")
        cpu, kept, seen = result[f"{name} --max-cpu 1%"] = limited(setup, setup.perfwind, hz, ["--max-cpu", "1%"])
        row(f"{name} --max-cpu 1%", [cpu], "{:.2%}".format, f"{GOAL_CPU:.0%}", "met" if cpu <= GOAL_CPU else "not met")
        row("  weight over CPU time of the target", [seen], "{:.4f}".format, "0.99-1.01", "met" if abs(seen - 1) <= 0.01 else "not met")
        row("  samples kept", [kept], "{:.0%}".format)
    if setup.perf:
        result["perf_status"] = [alongside(setup, binary) for binary in builds]
        row("perf record at the same time: exit status", result["perf_status"], str, "0", "met" if result["perf_status"][0] == 0 else "not met")
    measure.table(goals)
    measure.goals([f"neighbour, {what.strip()}", found, goal, verdict] for what, found, _, goal, verdict in goals)
    return result

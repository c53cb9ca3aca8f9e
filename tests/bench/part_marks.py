"""part_marks.py - what a mark costs the program that makes it (libperfwind-marks.so, perfwind-marks.h)."""
import os
import subprocess
import tempfile

import measure

TITLE = "what a mark costs a program"


def cost(setup, threads, marks):
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run([setup.perfwind, "record", "--no-daemon", "--marks", "--mark-categories", "1", "-o",
                              os.path.join(folder, "trace"), "--", os.path.join(setup.build, "tests/bench/marks-cost"),
                              str(threads), str(marks)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if run.returncode:
        raise measure.BenchError(f"marks-cost: status {run.returncode}: {run.stderr.strip()}")
    return list(map(float, run.stdout.split()))


def measure_part(setup):
    marks = 200000 if setup.quick else 1000000
    result = {threads: cost(setup, threads, marks) for threads in (1, 8)}
    measure.table([["", "ns a mark", "ns a mark of a category that is off"],
                   *([f"{threads} thread{'s' if threads > 1 else ''}", f"{on:.1f}", f"{off:.2f}"]
                     for threads, (on, off) in result.items())])
    print("  asked for: under 100 ns with 8 threads; off: a load and a branch")
    return {str(threads): {"on": on, "off": off} for threads, (on, off) in result.items()}

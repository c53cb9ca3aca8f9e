"""part_source.py - perfwind as a data source: own CPU a sample with kernel and user frames, one busy process in scope, and
what the rings lose at 4,000 Hz with the sizes that it chooses itself (bench-source: a session without a service behind it).

The figures to beat are of the reference's daemon on a machine of this kind: 77 us a sample at 1,000 Hz and 63 at 4,000
with large rings, 180 with its defaults, where it loses most."""
import json
import os
import subprocess

import measure

TITLE = "as a data source: own CPU a sample, one busy process"
REFERENCE_US = {1000: 77, 4000: 63}


def run(setup, pid, seconds, hz):
    done = subprocess.run([os.path.join(setup.build, "tests/bench/bench-source"), str(pid), str(seconds), str(hz)],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise measure.BenchError(f"bench-source: status {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def measure_part(setup):
    seconds = (2, 6) if setup.quick else (4, 16)
    found = {}
    rows = [["Hz", "samples", "all records", "lost", "whole %", "us a further record", "fixed ms", "to the reference's us a sample"]]
    with measure.python_work(setup) as busy:
        for hz in REFERENCE_US:
            short, long = (run(setup, busy.pid, s, hz) for s in seconds)
            records = [r["samples"] + r["skipped"] for r in (short, long)]
            cpu = [r["us_per_sample"] * r["samples"] / 1000 for r in (short, long)]
            if records[1] <= records[0] or not long["samples"]:
                raise measure.BenchError("no samples")
            more = (cpu[1] - cpu[0]) * 1000 / (records[1] - records[0])
            found[hz] = {"short": short, "long": long, "us_per_further_record": more}
            rows.append([str(hz), str(long["samples"]), str(records[1]), str(long["lost"]),
                         f"{100 * long['whole'] / long['samples']:.2f}", f"{more:.1f}",
                         f"{cpu[0] - more * records[0] / 1000:.0f}", f"1/{REFERENCE_US[hz] / more:.1f}"])
    measure.table(rows)
    return found

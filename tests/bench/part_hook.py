"""part_hook.py - what a request costs a process that opts in (libperfwind-hook.so): a program asks itself, with another
which takes the descriptors at once."""
import os
import subprocess

import measure

TITLE = "what consent costs a target: from signal to return, and afterwards"
FIELDS = ["sent", "answers", "slow", "median", "mean", "p99", "other", "before", "after"]


def ask(setup, rounds, loaded):
    name = f"@perfwind-bench-{os.getpid()}"
    prefix = [setup.perfwind, "run", "--hook-socket", name, "--"] if loaded else []
    run = subprocess.run([*prefix, os.path.join(setup.build, "tests/bench/hook-cost"), name, str(rounds)],
                         stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if run.returncode:
        raise measure.BenchError(f"hook-cost: status {run.returncode}: {run.stderr.strip()}")
    return dict(zip(FIELDS, map(int, run.stdout.split())))


def measure_part(setup):
    rounds = 2000 if setup.quick else 10000
    without, loaded = ask(setup, rounds, False), ask(setup, rounds, True)
    # Those that took as long as the hook waits for a full backlog may have been given up; all others are answered, once.
    if not loaded["sent"] - loaded["slow"] <= loaded["answers"] <= loaded["sent"] or not loaded["answers"]:
        raise measure.BenchError(f"{loaded['answers']} answers to {loaded['sent']} requests, of which {loaded['slow']} "
                                 "waited for long")
    if without["answers"]:
        raise measure.BenchError(f"{without['answers']} answers without the hook")
    rows = [["", "median us", "mean us", "99 % us"],
            ["a request", *(f"{loaded[x] / 1000:.1f}" for x in ("median", "mean", "p99"))],
            ["another signal", f"{loaded['other'] / 1000:.1f}", "", ""],
            ["a signal without the hook", f"{without['median'] / 1000:.1f}", "", ""]]
    measure.table(rows)
    print(f"  {loaded['sent']} requests, {loaded['answers']} answers, {loaded['slow']} waited for a full backlog; "
          "asked for: under 50 us")
    print(f"  a system call: {without['before']} ns without the hook, {loaded['before']} ns with it, "
          f"{loaded['after']} ns after the last request")
    return {"loaded": loaded, "without": without}

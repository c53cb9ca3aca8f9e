"""bench.py - tables of ratios, all measured in this run.  See run.sh.

A part is a module part_NAME.py with TITLE and measure(setup), which prints its tables and returns what it found for
the JSON.
"""
import argparse
import importlib
import json
import os
import platform
import sys

sys.dont_write_bytecode = True

import measure  # noqa: E402

PARTS = ["cost", "soak", "slowdown", "deep", "size", "start", "first", "unwind", "import", "hook", "marks", "source", "recorder", "neighbour", "runtimes"]


def arguments():
    p = argparse.ArgumentParser(prog="tests/bench/run.sh BUILD")
    p.add_argument("--build", required=True, help=argparse.SUPPRESS)
    p.add_argument("--python", required=True, help=argparse.SUPPRESS)
    p.add_argument("--json", metavar="FILE", help="all figures, for a program")
    p.add_argument("parts", nargs="*", metavar="PART", help=f"which: {' '.join(PARTS)} (default: all)")
    args = p.parse_args()
    unknown = [x for x in args.parts if x not in PARTS]
    if unknown:
        p.error(f"no part is called {unknown[0]}; there are: {' '.join(PARTS)}")
    return args


def main():
    args = arguments()
    setup = measure.Setup(args.build, args.python, os.environ.get("BENCH_QUICK", "") not in ("", "0"))
    load = measure.OtherLoad().cpus
    result = {"machine": {"cpus": setup.cpus, "kernel": platform.release(), "other_load_cpus": load, "quick": setup.quick}}
    print(f"perfwind bench: {setup.cpus} CPUs, Linux {platform.release()}, {load:.2f} CPUs busy with other things")
    if load > 0.1:
        print("  NOTE: the machine is not idle; times spread more, and costs per second weigh on fewer samples")
    failed = False
    for name in args.parts or PARTS:
        part = importlib.import_module(f"part_{name}")
        print(f"\n{name}: {part.TITLE}")
        try:
            result[name] = part.measure_part(setup)
        except (measure.BenchError, OSError, ValueError) as e:
            print(f"  FAILED: {e}")
            failed = True
    if measure.GOALS:
        print("\nall figures with a goal")
        measure.table([["figure", "found", "goal", ""], *measure.GOALS])
        result["goals"] = measure.GOALS
    if args.json:
        with open(args.json, "w") as f:
            json.dump(result, f, indent=1)
            f.write("\n")
    return failed


if __name__ == "__main__":
    sys.exit(main())
